"""A feature cache without room, disk or engine, and what it reports."""

import errno
import itertools
import os
import types

import numpy as np
import pytest

from tests.feature_cache import small
from tests.feature_cache.small import attach, entries
from tests.utils.disks import fail
from tf_transfer.feature_cache import (
    engines,
    feature_cache as cache_lib,
    locks,
    vectors as vectors_lib,
)
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.utils import formatting, machine
from tf_transfer.utils.errors import Interrupted, UserError

pytestmark = pytest.mark.usefixtures("eager")
PREFIX = FrozenPrefix(0, "tokens", "float16")  # no block: little to trace
FEW = 6  # training texts, of which one is a test text
TEXTS = FEW + small.TEST - 1  # distinct ones


def parts():
    return small.splits(FEW)


def make_cache(folder, weights=None, **options):
    options = cache_lib.CacheOptions(str(folder), "tiny", **options)
    return cache_lib.FeatureCache(
        small.encoder(), small.OneDevice(), options, weights=weights
    )


def size_of(splits):
    """Bytes of all distinct texts: their values, and 22 for each row."""
    hashes = {}
    for split in splits.values():
        for start, length in zip(split.tokens.starts, split.tokens.lengths):
            ids = split.tokens.flat[start : start + length].tobytes()
            hashes[ids] = int(length) * 32 * 2 + 22
    return sum(hashes.values())


# === No room ===


def test_texts_without_room_are_reported_and_run_at_every_step(
    tmp_path, capsys
):
    limit = size_of(parts()) / 2
    found = attach(tmp_path, PREFIX, parts(), limit_gb=limit / 1e9)
    [stored] = [len(entry.vectors.rows) for entry in entries(tmp_path)]
    assert 0 < stored < len(parts()["train"]) + small.TEST
    states = found.states
    missing = sum(one is None for one in states)
    assert 0 < missing < len(states)
    begin, line, _ = capsys.readouterr().out.splitlines()
    assert begin.startswith(
        f"Feature cache: {len(states) - missing} of {len(states)} texts in "
    )
    assert ", built now by tensorflow in float32: " in begin
    assert line == (
        f"{missing} texts do not fit --cache_limit_gb "
        f"({formatting.size(limit)}): their frozen blocks run at every step."
    )


def test_a_cache_that_stores_nothing_does_not_show_its_size(tmp_path, capsys):
    repeated = small.split("train").take(np.zeros(1234, np.int64))
    attach(tmp_path, PREFIX, {"train": repeated}, limit_gb=0.0)
    begin, end = capsys.readouterr().out.splitlines()
    assert begin.startswith("Feature cache: 0 of 1,234 texts in ")
    assert end == (
        "1,234 texts do not fit --cache_limit_gb (0 bytes): their frozen "
        "blocks run at every step."
    )


@pytest.mark.parametrize("cls_from, vectors", [(0, 0), (1, 1)])
def test_texts_that_are_needed_and_have_no_room_are_an_error(
    cls_from, vectors, tmp_path
):
    """The message has the bytes that the missing texts would take.

    Below the top block, [CLS] has a vector of its own.
    """
    prefix = FrozenPrefix(2, "tokens", "float16", cls_from)
    size = formatting.size(size_of(parts()) + TEXTS * vectors * 32 * 2)
    with pytest.raises(UserError) as error:
        make_cache(tmp_path, limit_gb=0.0).attach(prefix, parts(), True)
    count = FEW + small.TEST
    assert str(error.value) == (
        f"--cache_limit_gb: the states of {count} texts ({size}) find no room "
        f"in {tmp_path}/prefix. Give a larger limit, or a cache folder on a "
        "larger disk."
    )
    assert attach(tmp_path, PREFIX, parts(), limit_gb=0.0).builds == []


def test_as_many_texts_are_stored_as_there_is_room_for(tmp_path):
    """The limit is a row less than all, and then all."""
    attach(tmp_path / "all", PREFIX, parts())
    [whole] = entries(tmp_path / "all")
    entry_bytes = os.path.getsize(whole.file("entry.json"))
    needed = size_of(parts()) + entry_bytes
    for spare, stored in ((0, TEXTS), (-1, TEXTS - 1)):
        folder = tmp_path / str(spare)
        attach(folder, PREFIX, parts(), limit_gb=(needed + spare) / 1e9)
        [entry] = entries(folder)
        assert len(entry.vectors.rows) == stored


@pytest.mark.parametrize("output", ["tokens", "cls", "mean"])
def test_a_text_has_the_vectors_of_its_output(output, tmp_path):
    prefix = FrozenPrefix(1, output, "float32")
    found = attach(tmp_path, prefix, parts())
    lengths = np.concatenate(
        [split.tokens.lengths for split in parts().values()]
    )
    expected = lengths if output == "tokens" else np.ones(len(lengths))
    assert [len(one) for one in found.states] == expected.tolist()


# === No disk ===


def test_a_full_disk_is_the_reason_for_texts_that_are_not_stored(
    tmp_path, monkeypatch, capsys
):
    attach_key(tmp_path)
    monkeypatch.setattr(os, "fsync", fail(errno.ENOSPC))
    found = attach(tmp_path, PREFIX, parts())
    assert all(one is None for one in found.states)
    assert found.builds == [TEXTS] and found.cost.paid > 0
    printed = capsys.readouterr().out
    count = FEW + small.TEST
    assert f"{count} texts are not stored (" in printed
    assert "the disk is full): their frozen blocks run at ev" in printed


def test_a_read_only_cache_is_not_built(tmp_path, monkeypatch, capsys):
    attach_key(tmp_path)
    capsys.readouterr()

    def refuse(folder):
        raise vectors_lib.ReadOnly(f"{folder}: is read-only")

    monkeypatch.setattr(locks, "build_lock", refuse)
    found = attach(tmp_path, PREFIX, parts())
    assert (found.builds, found.cost.paid) == ([], 0.0)
    printed = capsys.readouterr().out
    assert "is read-only): their frozen blocks run" in printed
    assert "built now" not in printed


def attach_key(folder):
    """Makes the entry, without texts."""
    attach(folder, PREFIX, parts(), limit_gb=0.0)


def test_an_entry_that_is_damaged_is_built_again(tmp_path, capsys):
    attach(tmp_path, PREFIX, parts())
    [entry] = entries(tmp_path)
    with open(entry.file("entry.json"), "w") as file:
        file.write("{}")
    capsys.readouterr()
    again = attach(tmp_path, PREFIX, parts())
    line = capsys.readouterr().out.splitlines()[0]
    assert line == (
        f"{entry.folder}: entry.json is damaged or another entry's. Missing "
        "texts are computed again."
    )
    assert again.cost.paid > 0


def test_damaged_rows_and_lists_of_rows_are_counted(tmp_path, capsys):
    attach(tmp_path, PREFIX, small.splits(2))
    attach(tmp_path, PREFIX, parts())
    [entry] = entries(tmp_path)
    os.truncate(entry.file("rows-00001.npz"), 9)
    with open(entry.file("vectors.bin"), "r+b") as file:
        file.write(b"damaged")
    capsys.readouterr()
    attach(tmp_path, PREFIX, parts())
    line = capsys.readouterr().out.splitlines()[0]
    assert ": 1 rows and 1 lists of rows are damaged. Missing" in line


# === No engine ===


def test_tensorflow_takes_the_place_of_an_unusable_engine(
    tmp_path, monkeypatch, capsys
):
    def refuse(*arguments):
        raise engines.Unusable("OpenVINO cannot run them.")

    monkeypatch.setitem(machine.versions(), "openvino", "1")
    monkeypatch.setattr(engines, "run_openvino", refuse)
    found = attach(
        tmp_path,
        PREFIX,
        parts(),
        engine="openvino",
        engine_precision="bfloat16",
    )
    assert found.engine == ("tensorflow", "float32")
    assert found.builds == [TEXTS]
    printed = capsys.readouterr().out
    assert "OpenVINO cannot run them. TensorFlow runs the frozen" in printed
    engines_used = {
        entry.key["engine"].split()[0] for entry in entries(tmp_path)
    }
    assert engines_used == {"openvino", "tensorflow"}


# === The key ===


def test_an_entry_has_all_that_shapes_its_rows(tmp_path):
    prefix = FrozenPrefix(1, "cls_blocks", "float32")
    attach(tmp_path, prefix, parts())
    [entry] = entries(tmp_path)
    encoder = small.encoder()
    assert entry.key == {
        "code": cache_lib.code_version(encoder),
        "weights": cache_lib.prefix_lib.hash_prefixes(encoder)[1],
        "cut": 1,
        "output": "cls_blocks",
        "dtype": "float32",
        "engine": f"tensorflow {machine.versions()['tensorflow']}",
        "precision": "float32",
        "hidden": prefix.width(encoder.hidden),
        "cls_from": prefix.cls_from,
    }
    assert len(entry.key["code"]) == 16 and entry.model == "tiny"


def test_given_hashes_of_weights_are_not_computed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_lib.prefix_lib, "hash_prefixes", fail(errno.EIO))
    cache = make_cache(tmp_path, ["a", "b", "c"])
    cache.attach(PREFIX, parts())
    cache.close()
    [entry] = entries(tmp_path)
    assert entry.key["weights"] == "a"


def test_an_entry_is_in_use_until_the_cache_is_closed(tmp_path):
    cache = make_cache(tmp_path)
    cache.attach(PREFIX, parts())
    [entry] = entries(tmp_path)
    assert not entry.remove()
    cache.close()
    assert entry.remove()


# === Segments ===


def count_segments(folder):
    [entry] = entries(folder)
    return len([n for n in os.listdir(entry.folder) if n.startswith("rows-")])


@pytest.mark.parametrize(
    "name, value, segments",
    [
        ("SEGMENT_BYTES", 10**9, 1),
        ("SEGMENT_BYTES", 1, TEXTS),
        ("SEGMENT_SECONDS", 10**9, 1),
        ("SEGMENT_SECONDS", -1, TEXTS),
    ],
)
def test_a_segment_is_stored_when_it_is_large_or_old(
    name, value, segments, tmp_path, monkeypatch
):
    monkeypatch.setattr(cache_lib, name, value)
    built = attach(tmp_path, PREFIX, parts())
    assert count_segments(tmp_path) == segments
    # The seconds of the segments are those of the pass.
    assert 0 < built.cost.original <= built.cost.paid


@pytest.mark.parametrize("spare, texts", [(0, 2), (1, 3)])
def test_a_segment_ends_with_the_text_that_fills_it(
    spare, texts, tmp_path, monkeypatch
):
    """With another text, if two lack a byte."""
    pooled = FrozenPrefix(1, "cls", "float16")
    size = 2 * small.encoder().hidden  # of each text
    monkeypatch.setattr(cache_lib, "SEGMENT_BYTES", 2 * size + spare)
    attach(tmp_path, pooled, parts())
    assert count_segments(tmp_path) == -(-TEXTS // texts)


def test_a_stop_stores_what_is_computed(tmp_path):
    with pytest.raises(Interrupted, match="the same command continues there"):
        attach(tmp_path, PREFIX, parts(), is_stopped=lambda: True)
    [entry] = entries(tmp_path)
    assert len(entry.vectors.rows) == 1
    lengths = [split.tokens.lengths.max() for split in parts().values()]
    assert entry.vectors.table["length"].tolist() == [max(lengths)]


def test_a_large_number_fits_another_dtype(tmp_path):
    class Huge(FrozenPrefix):
        def select(self, states, mask):
            return super().select(states, mask) * 0 + np.inf

    prefix = Huge(0, "tokens", "float32")
    with pytest.raises(UserError, match="weights may be damaged") as error:
        attach(tmp_path, prefix, parts(), dtype="float32")
    assert "too large for float32 (" in str(error.value)


def test_seconds_of_tracing_are_no_seconds_of_the_build(tmp_path, monkeypatch):
    clock = itertools.count()  # a second for each look
    monkeypatch.setattr(
        cache_lib, "time", types.SimpleNamespace(perf_counter=clock.__next__)
    )
    cache = make_cache(tmp_path)
    _, cost = cache.attach(PREFIX, parts())
    assert cost.traced == 1
    assert cost.paid + cost.traced == next(clock) - 1
    # The phase after it has built nothing.
    _, again = cache.attach(PREFIX, parts())
    assert (again.paid, again.traced) == (0, 0)
    assert again.original == pytest.approx(cost.original)
    cache.close()
