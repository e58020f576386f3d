"""Runs on a cached prefix: the numbers of live runs, and nothing done twice."""

import glob
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tf_transfer import glue
from tf_transfer.data import batches
from tf_transfer.errors import Interrupted
from tf_transfer.errors import UserError
from tf_transfer.models import prefix as prefix_lib
from tf_transfer.models import tiny
from tf_transfer.training import prefix_cache
from tf_transfer.training import prefix_store
from tf_transfer.training import run as run_lib
from tests.conftest import run_folder
from tests.conftest import tiny_settings

# 24 examples in three steps.
OPTIONS = {
    "task": "rte",
    "trainable_layers": "1",
    "max_length": 24,
    "max_train_examples": 24,
    "max_epochs": 2,
    "patience": 0,
    "dropout": 0.0,
    "head_dropout": 0.0,
}
CACHED = {"frozen_prefix": "cached", "cache_dtype": "float32"}


@pytest.fixture(autouse=True)
def two_blocks(monkeypatch):
    """A smaller `tiny`: most of the time here goes into tracing it."""
    monkeypatch.setattr(tiny, "BLOCKS", 2)


@pytest.fixture
def losses(monkeypatch):
    """The loss of every step since it was last cleared."""
    found = []
    original = run_lib.Run._after_chunk

    def listen(self, bar, plan, stopper, chunk, *rest):
        found.extend(chunk.tolist())
        return original(self, bar, plan, stopper, chunk, *rest)

    monkeypatch.setattr(run_lib.Run, "_after_chunk", listen)
    return found


@pytest.fixture
def work(monkeypatch):
    """For each pass of a prefix over texts: its stops, and how many texts."""
    found = []
    original = prefix_cache.PrefixCache._outputs

    def listen(self, prefix, part):
        from_disk = part.states is not None and part.states.have.all()
        found.append((prefix.stops, len(part), from_disk))
        return original(self, prefix, part)

    monkeypatch.setattr(prefix_cache.PrefixCache, "_outputs", listen)
    return found


@pytest.fixture
def run(tmp_path, losses):
    """Runs with a cache of this test; returns losses, logits and result."""

    def run(**changes):
        losses.clear()
        settings = tiny_settings(
            tmp_path / "runs",
            **{**OPTIONS, "cache_dir": str(tmp_path / "cache"), **changes},
        )
        result = glue.run(settings)
        arrays = np.load(os.path.join(run_folder(settings), "predictions.npz"))
        return list(losses), arrays["test_logits"], result

    return run


def assert_same(one, other, tolerance=1e-5):
    np.testing.assert_allclose(one[0], other[0], atol=tolerance)
    np.testing.assert_allclose(one[1], other[1], atol=10 * tolerance)


def entry_files(tmp_path, name):
    return glob.glob(str(tmp_path / "cache" / "prefix" / "*" / name))


def entries(tmp_path):
    """The entries of this test's cache, with their rows."""
    found = prefix_store.Store(str(tmp_path / "cache")).entries()
    for entry in found:
        entry.load()
    return found


# === Faithful ===


@pytest.mark.parametrize(
    "changes",
    [
        {"trainable_layers": "0"},
        {"trainable_layers": "0", "pooling": "mean"},
        {"trainable_layers": "1"},
        {"trainable_layers": "1", "batch_size": 1, "max_train_examples": 8},
        {"trainable_layers": "2", "batching": "grouped"},
        {"trainable_layers": "1", "pooling": "mean"},
        {"trainable_layers": "all", "blocks": "1-1"},
        {"trainable_layers": "1", "jit_compile": True},
        {"task": "mnli", "trainable_layers": "1"},
    ],
    ids=str,
)
def test_without_dropout_losses_and_outputs_are_those_of_a_live_run(
    changes, run
):
    live, cached = run(**changes), run(**changes, **CACHED)
    assert len(live[0]) == len(cached[0]) >= 6
    assert_same(cached, live)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_moves_the_losses_by_its_rounding_only(dtype, run):
    live = run(max_epochs=1)
    cached = run(max_epochs=1, frozen_prefix="cached", cache_dtype=dtype)
    assert_same(cached, live, {"float16": 2e-4, "bfloat16": 2e-3}[dtype])


def test_dropout_is_off_in_the_frozen_blocks_and_on_above(run):
    quiet, prefix_only = run(**CACHED), run(**CACHED, dropout=0.5)
    assert np.abs(np.subtract(quiet[0], prefix_only[0])).max() > 1e-3
    # With nothing above but the head, no dropout of the encoder is left.
    none = {**CACHED, "trainable_layers": "0"}
    assert_same(run(**none, dropout=0.5), run(**none))


def test_cached_with_all_is_a_live_run(run, tmp_path):
    everything = {"trainable_layers": "all"}
    assert run(**everything)[2]["prefix_seconds"] is None
    assert run(**everything, **CACHED)[0] == []  # found as done
    assert not os.path.exists(tmp_path / "cache" / "prefix")


# === Nothing is done twice ===


def test_another_run_on_the_same_prefix_starts_at_once(run, work):
    whole = {**CACHED, "max_train_examples": 0, "max_epochs": 1}
    built = run(**whole)[2]
    assert len(work) == 1
    for changes in (
        {"seed": 1},
        {"split_seed": 1},
        {"lr": 1e-4},
        {"batch_size": 3, "batching": "grouped"},
        {"head_dropout": 0.3, "pooling": "mean"},
        {"max_train_examples": 16},
    ):
        again = run(**{**whole, **changes})[2]
        assert len(work) == 1, changes
        assert again["prefix_seconds"] == 0 < built["prefix_seconds"]
        original = again["prefix_build_seconds"]
        assert 0 < original <= built["prefix_seconds"]


def test_only_missing_rows_are_built_and_appended(run, work, tmp_path):
    run(**CACHED, max_train_examples=8, max_epochs=1)
    few = work.pop()[1]
    run(**CACHED, max_train_examples=24, max_epochs=1)
    [(stops, more, _)] = work
    [entry] = entries(tmp_path)
    assert stops == (1,) and 12 <= more <= 16  # but for texts seen before
    assert len(entry.rows) == few + more
    assert len(entry_files(tmp_path, "vectors.bin")) == 1
    assert len(entry_files(tmp_path, "rows-*.npz")) == 2


def test_a_text_that_stands_twice_is_stored_once(run, work, tmp_path):
    result = run(**CACHED, max_epochs=1)
    [file] = entry_files(tmp_path, "vectors.bin")
    [entry] = entries(tmp_path)
    assert len(entry.rows) == work[0][1] == len(entry.starts)
    assert os.path.getsize(file) == entry.lengths.sum() * entry.hidden * 4
    assert result[2]["prefix_build_seconds"] == pytest.approx(
        entry.seconds.sum()
    )


def test_what_shapes_the_content_has_an_entry_of_its_own(run, work, tmp_path):
    run(**CACHED, max_epochs=1)
    for number, changes in enumerate(
        (
            {"trainable_layers": "2"},
            {"cache_dtype": "float16"},
            {"precision": "mixed_bfloat16"},
        ),
        start=2,
    ):
        run(**{**CACHED, **changes}, max_epochs=1)
        assert len(work) == len(entries(tmp_path)) == number


def test_a_deeper_cut_is_computed_from_a_shallower_on_disk(run, work, tmp_path):
    half = {"frozen_prefix": "cached", "max_epochs": 1}
    run(**half, trainable_layers="2")
    run(**half, trainable_layers="1")
    run(**half, trainable_layers="0")
    assert [(stops, disk) for stops, _, disk in work] == [
        ((0,), False), ((0, 1), True), ((0, 1, 2), True),
    ]  # fmt: skip
    found = entries(tmp_path)
    keeps = {tuple(e.key["stops"]): e.key["keeps"] for e in found}
    assert keeps == {(0,): "tokens", (0, 1): "tokens", (0, 1, 2): "first"}
    # Its original cost holds that of what it went on from.
    cost = {len(e.key["stops"]): e.seconds.sum() for e in found}
    assert cost[1] < cost[2] < cost[3]


def test_a_shallower_cut_does_not_come_from_a_deeper(run, work):
    run(**CACHED, max_epochs=1)
    run(**CACHED, max_epochs=1, trainable_layers="2")
    assert [(stops, disk) for stops, _, disk in work] == [
        ((1,), False), ((0,), False),
    ]  # fmt: skip


# === The limit and the disk ===


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trainable_layers": "0", "pooling": "mean"},
        {"jit_compile": True},
        {"batch_size": 1, "max_train_examples": 8, "cache_dtype": "float16"},
    ],
    ids=str,
)
def test_numbers_do_not_depend_on_the_limit(
    changes, run, work, tmp_path, capsys
):
    changes = {**CACHED, **changes}
    whole = run(**changes)
    texts = work.pop()[1]
    half = os.path.getsize(entry_files(tmp_path, "vectors.bin")[0]) / 2e9
    for limit, least, most in ((half, 2, texts - 2), (0.0, 0, 0)):
        folder = str(tmp_path / f"cache-{limit}")
        capsys.readouterr()
        part = run(
            **changes, cache_dir=folder, cache_limit_gb=limit, rerun=True
        )
        assert_same(part, whole, 3e-5)
        built = sum(count for _, count, _ in work)
        work.clear()
        assert least <= built <= most
        said = re.search(r"(\d+) texts do not fit", capsys.readouterr().out)
        assert int(said[1]) >= texts - built  # one may stand twice


def test_a_deeper_cut_without_room_takes_the_same_way(run, tmp_path):
    half = {"frozen_prefix": "cached", "max_epochs": 1}
    run(**half, trainable_layers="2")
    whole = run(**half)
    [deep] = [
        os.path.dirname(file)
        for file in entry_files(tmp_path, "entry.json")
        if json.load(open(file))["key"]["stops"] == [0, 1]
    ]
    for file in glob.glob(f"{deep}/rows-*"):
        os.remove(file)
    size = sum(
        os.path.getsize(f) for f in entry_files(tmp_path, "*") if deep not in f
    )
    assert_same(run(**half, rerun=True, cache_limit_gb=size / 1e9), whole, 3e-5)


def test_a_full_disk_is_treated_like_the_limit(
    run, monkeypatch, tmp_path, capsys
):
    whole = run(**CACHED)

    def full(*arguments):
        raise prefix_store.DiskFull

    monkeypatch.setattr(prefix_store.Entry, "append", full)
    part = run(**CACHED, cache_dir=str(tmp_path / "other"), rerun=True)
    assert_same(part, whole)
    assert "the disk is full" in capsys.readouterr().out


# === Damage ===


def flip_a_byte(file):
    with open(file, "r+b") as opened:
        opened.seek(1000)
        byte = opened.read(1)[0]
        opened.seek(1000)
        opened.write(bytes([byte ^ 64]))


@pytest.mark.parametrize(
    "damage, name",
    [
        (flip_a_byte, "vectors.bin"),
        (lambda file: os.truncate(file, 3000), "vectors.bin"),
        (os.remove, "vectors.bin"),
        (flip_a_byte, "rows-00000.npz"),
        (os.remove, "rows-00000.npz"),
    ],
    ids=["flipped", "cut", "gone", "rows flipped", "rows gone"],
)
def test_damage_is_found_said_and_built_again(
    damage, name, run, work, tmp_path, capsys
):
    whole = run(**CACHED)
    [file] = entry_files(tmp_path, name)
    damage(file)
    work.clear()
    capsys.readouterr()
    again = run(**CACHED, rerun=True)
    assert_same(again, whole)
    assert len(work) == 1
    lost_silently = name.startswith("rows") and damage is os.remove
    said = capsys.readouterr().out.count("damaged")
    assert said == (0 if lost_silently else 1)
    run(**CACHED, seed=3)
    assert len(work) == 1  # whole from now on
    assert "damaged" not in capsys.readouterr().out


# A build that is killed: before its first segment, and between two.
VICTIM = """
import os, signal
from tests.conftest import tiny_settings
from tf_transfer import glue
from tf_transfer.models import tiny
from tf_transfer.training import prefix_cache, prefix_store

tiny.BLOCKS = 2
prefix_cache.SEGMENT_BYTES = 2000
original = prefix_store.checkpoint.write_atomically
calls = []

def deadly(path, content):
    if "rows-" in path:
        calls.append(path)
        if len(calls) == {count}:
            os.kill(os.getpid(), signal.SIGKILL)
    original(path, content)

prefix_store.checkpoint.write_atomically = deadly
glue.run(tiny_settings({out!r}, **{options!r}))
"""


@pytest.mark.parametrize("count", [1, 3])
def test_a_build_that_is_killed_goes_on_where_it_was(
    count, run, work, tmp_path
):
    whole = run(**CACHED, cache_dir=str(tmp_path / "other"))
    texts = work.pop()[1]
    options = {**OPTIONS, **CACHED, "cache_dir": str(tmp_path / "cache")}
    done = subprocess.run(
        [
            sys.executable, "-c",
            VICTIM.format(
                count=count, out=str(tmp_path / "killed"), options=options
            ),
        ],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    again = run(**CACHED, rerun=True)
    [(_, built, _)] = work
    assert (built == texts) == (count == 1) and built > 0
    assert_same(again, whole)


def test_a_signal_in_a_build_keeps_what_is_built_and_leaves(
    run, work, monkeypatch, tmp_path
):
    whole = run(**CACHED, cache_dir=str(tmp_path / "other"))
    texts = work.pop()[1]
    original, seen = prefix_cache.PrefixCache._check, []

    def check(self, *arguments):
        seen.append(arguments)
        if len(seen) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(prefix_cache.PrefixCache, "_check", check)
        with pytest.raises(Interrupted, match="the same command continues"):
            run(**CACHED, rerun=True)
    work.clear()
    again = run(**CACHED, rerun=True)
    assert [count for _, count, _ in work] == [texts - 5]
    assert_same(again, whole)


def test_a_finished_run_holds_nothing(run, tmp_path):
    run(**CACHED, max_epochs=1)
    [entry] = entries(tmp_path)
    assert entry.drop()


@pytest.mark.parametrize("value", [1e5, np.nan])
def test_a_value_that_does_not_fit_names_the_example(
    value, run, monkeypatch, tmp_path
):
    original = prefix_lib.Prefix.run

    def run_prefix(self, encoder, batch):
        x = tf.cast(original(self, encoder, batch), tf.float32)
        longest = tf.reduce_sum(tf.cast(batch["mask"], tf.int32), axis=1) > 20
        return tf.cast(tf.where(longest[:, None, None], value, x), self.dtype)

    monkeypatch.setattr(prefix_lib.Prefix, "run", run_prefix)
    with pytest.raises(UserError) as error:
        run(frozen_prefix="cached")
    assert "--cache_dtype=float16" in str(error.value)
    assert "train example" in str(error.value)
    assert "--cache_dtype=bfloat16" in str(error.value)


# === Resume ===


def test_a_resumed_run_goes_on_from_the_prefix_it_began_with(
    run, work, monkeypatch, tmp_path
):
    """A shallower entry has come meanwhile: a new run would choose it."""
    half = {"frozen_prefix": "cached", "max_epochs": 3}
    whole = run(**half, cache_dir=str(tmp_path / "other"))
    work.clear()
    original = run_lib.Run._end_epoch

    def interrupt(self, *arguments):
        original(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_lib.Run, "_end_epoch", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(**half, rerun=True)
    for entry in entries(tmp_path):
        assert entry.drop()  # what was interrupted uses nothing any more
    run(**half, trainable_layers="2")
    work.clear()
    resumed = run(**half, rerun=True)
    assert [stops for stops, _, _ in work] == [(1,)]
    np.testing.assert_allclose(resumed[0], whole[0][3:], atol=1e-5)
    assert resumed[2]["prefix_seconds"] > 0


# === Batches ===


def test_a_batch_has_no_ids_where_every_row_is_stored(monkeypatch, run):
    seen = []
    original = batches.pipeline

    def listen(part, *arguments, **options):
        dataset = original(part, *arguments, **options)
        if part.states is not None:
            seen.append(dataset.element_spec)
        return dataset

    monkeypatch.setattr(batches, "pipeline", listen)
    run(frozen_prefix="cached", max_epochs=1)
    assert seen
    for spec in seen:
        assert set(spec) == {"mask", "labels", "weights", "states"}
        assert spec["states"].dtype == tf.float16
