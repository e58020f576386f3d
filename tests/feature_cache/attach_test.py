"""A feature cache: nothing is done twice, nothing damaged is used."""

import dataclasses
import glob
import os
import shutil
import typing

import numpy as np
import pytest
import tensorflow as tf

from tests.feature_cache import small
from tests.feature_cache.small import attach, entries, PREFIX
from tests.support import quick
from tf_transfer.feature_cache import feature_cache as cache_lib
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import Interrupted, UserError

# Most of the time of a build goes into tracing it.
pytestmark = pytest.mark.usefixtures("eager")
TEXTS = small.TRAIN + small.TEST - 2  # distinct ones


def cut_at(cut, output="tokens", dtype="float16"):
    return FrozenPrefix(cut, output, dtype)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A cache of all texts, and what attaching them did."""
    folder = tmp_path_factory.mktemp("whole")
    with quick.eagerly(blocks=2):
        return folder, attach(folder)


# === Nothing is done twice ===


def test_what_is_stored_is_not_computed_again(whole):
    folder, built = whole
    assert built.builds == [TEXTS]
    parts = small.splits()
    fewer = {"test": parts["test"], "train": parts["train"].take(np.arange(8))}
    for again in (
        attach(folder),
        attach(folder, parts=fewer),
        # The same weights, loaded again under another name, other dropout.
        attach(folder, encoder_used=small.encoder(dropout=0.3), model="copy"),
        attach(folder, limit_gb=0.0),
    ):
        assert again.builds == []
        assert again.cost.paid == 0 < built.cost.paid
        assert 0 < again.cost.original <= built.cost.paid
    assert len(entries(folder)) == 1


class BatchRecorder(small.OneDevice):
    """Also records the texts of each batch, repetitions included."""

    sizes: typing.ClassVar = []

    def run(self, program, dataset):
        self.sizes += [len(batch["mask"]) for batch in dataset]
        yield from super().run(program, dataset)


def test_batches_of_a_build_are_larger_on_a_gpu(tmp_path, monkeypatch):
    """Another number of texts has another key, as has another GPU."""
    monkeypatch.setattr(small, "OneDevice", BatchRecorder)
    monkeypatch.setattr(BatchRecorder, "sizes", [])
    on_cpu = attach(tmp_path)
    assert set(BatchRecorder.sizes) == {32}
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: ["GPU:0"]
    )
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda device: {}
    )
    BatchRecorder.sizes.clear()
    on_gpu = attach(tmp_path)
    assert set(BatchRecorder.sizes) == {128}
    assert on_cpu.builds == on_gpu.builds == [TEXTS]
    assert len(entries(tmp_path)) == 2
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"]
    )
    assert attach(tmp_path).builds == []  # two of them read the same entry


def test_heads_that_read_tokens_share_their_prefix():
    encoder = small.encoder()
    trainable = small.freezing.parse("2", "", 2)
    for pooling in ("cls", "mean"):
        network = small.network(encoder, pooling)
        assert network.prefix("head", trainable, "float32") == PREFIX


def test_only_missing_rows_are_built_and_appended(tmp_path):
    [few] = attach(tmp_path, parts=small.splits(8)).builds
    [more] = attach(tmp_path).builds
    [entry] = entries(tmp_path)
    assert few == 8 + small.TEST - 2 and few + more == TEXTS
    assert len(entry.vectors.rows) == TEXTS
    assert len(glob.glob(entry.file("vectors.bin"))) == 1
    assert len(glob.glob(entry.file("rows-*.npz"))) == 2


def test_a_pass_that_writes_much_is_announced_and_the_total_shown(
    tmp_path, monkeypatch, capsys
):
    announcement = "Feature cache: this pass writes "
    attach(tmp_path, parts=small.splits(8))
    begin, _ = capsys.readouterr().out.splitlines()
    assert not begin.startswith(announcement)
    monkeypatch.setattr(cache_lib, "ANNOUNCED_BYTES", 100)
    attach(tmp_path, cut_at(1))
    begin, _, end = capsys.readouterr().out.splitlines()
    assert begin.startswith(announcement)
    total = formatting.size(sum(one.num_bytes for one in entries(tmp_path)))
    assert end == (
        f"Feature cache: {total} of all runs in {tmp_path}/prefix. "
        "python -m tf_transfer.cache lists it, and with --clear deletes it."
    )
    attach(tmp_path, cut_at(1))  # nothing is written
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_text_that_occurs_twice_is_stored_once(whole):
    folder, built = whole
    [entry] = entries(folder)
    assert len(entry.vectors.rows) == TEXTS == len(entry.vectors.table)
    size = entry.vectors.table["length"].sum() * entry.hidden * 4
    assert os.path.getsize(entry.vectors.path) == size
    assert built.cost.original == pytest.approx(
        entry.vectors.table["seconds"].sum()
    )
    starts = [built.splits[name].states.starts for name in ("train", "test")]
    assert starts[0][5:7].tolist() == starts[1][[1, 0]].tolist()


def test_what_shapes_the_content_has_an_entry_of_its_own(tmp_path):
    other = small.encoder(blocks=1)
    other.blocks[0].weights[0].assign_add(other.blocks[0].weights[0])
    for number, (prefix, options) in enumerate(
        (
            (PREFIX, {}),
            (cut_at(0), {}),
            (cut_at(1), {}),
            (cut_at(2, "cls"), {}),
            (cut_at(2, "mean"), {}),
            (PREFIX, {"engine_precision": "bfloat16"}),
            (cut_at(1), {"encoder_used": other}),
        ),
        start=1,
    ):
        assert attach(tmp_path, prefix, small.splits(1), **options).builds
        assert len(entries(tmp_path)) == number


def test_entries_of_an_older_version_are_left_alone(tmp_path):
    folder = tmp_path / "prefix" / "old"
    folder.mkdir(parents=True)
    key = {"stops": [1], "keeps": "tokens", "hidden": 32, "dtype": "float32"}
    files.write_json(str(folder / "entry.json"), {"model": "tiny", "key": key})
    assert attach(tmp_path, parts=small.splits(1)).prefix == PREFIX
    assert len(entries(tmp_path)) == 2


def test_one_pass_stores_every_cut(tmp_path):
    deep = cut_at(2, "cls")
    built = attach(tmp_path, deep, also=(1, 0, 2))
    assert built.builds == [TEXTS]
    assert {entry.key["cut"] for entry in entries(tmp_path)} == {0, 1, 2}
    for cut in (0, 1):
        again = attach(tmp_path, cut_at(cut))
        assert again.builds == []
        small.assert_same_states(
            again, attach(tmp_path / str(cut), cut_at(cut))
        )
    small.assert_same_states(built, attach(tmp_path / "alone", deep))
    assert attach(tmp_path, deep, also=(1,)).builds == []


def test_one_pass_adds_to_every_cut_what_that_lacks(tmp_path):
    attach(tmp_path, cut_at(1), small.splits(8))
    deep = attach(tmp_path, cut_at(2), small.splits(16), also=(1,))
    assert deep.builds == [16 + small.TEST - 2]
    counts = {e.key["cut"]: len(e.vectors.rows) for e in entries(tmp_path)}
    assert counts == {1: 16 + small.TEST - 2, 2: 16 + small.TEST - 2}
    # Each row once, also where its text had been stored before.
    assert all(len(e.vectors.table) == counts[1] for e in entries(tmp_path))


def test_the_cut_of_the_run_has_room_before_the_others(tmp_path):
    size = attach(tmp_path / "sized", cut_at(1))
    [entry] = entries(tmp_path / "sized")
    limit = 1.5 * entry.num_bytes / 1e9
    found = attach(tmp_path, cut_at(1), also=(0,), limit_gb=limit)
    small.assert_same_states(found, size)
    counts = {e.key["cut"]: len(e.vectors.rows) for e in entries(tmp_path)}
    assert counts[1] == TEXTS and 0 < counts[0] < TEXTS


def test_a_batch_has_no_ids_where_every_row_is_stored(whole):
    for split in whole[1].splits.values():
        plan = small.batches.plan_evaluation(split.lengths, 4)
        spec = small.batches.pipeline(split, plan, 0).element_spec
        assert set(spec) == {"mask", "labels", "weights", "states"}
        assert spec["states"].dtype == tf.float32


# === Damage ===


def flip_a_byte(file):
    with open(file, "r+b") as opened:
        opened.seek(300)
        byte = opened.read(1)[0]
        opened.seek(300)
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
def test_damage_is_found_reported_and_built_again(
    damage, name, whole, tmp_path, capsys
):
    folder, built = whole
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    [entry] = entries(tmp_path)
    damage(entry.file(name))
    capsys.readouterr()
    repaired = attach(tmp_path)
    small.assert_same_states(repaired, built)
    assert len(repaired.builds) == 1
    lost_silently = name.startswith("rows") and damage is os.remove
    reported = capsys.readouterr().out.count("damaged")
    assert reported == (0 if lost_silently else 1)
    assert attach(tmp_path).builds == []  # intact from now on
    assert "damaged" not in capsys.readouterr().out


def test_intact_texts_of_a_truncated_file_are_read(whole, tmp_path):
    folder, built = whole
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    [entry] = entries(tmp_path)
    train = small.split("train")
    row = np.flatnonzero(train.tokens.lengths > 16)[0]  # is stored first
    size = int(train.tokens.lengths[row]) * entry.vectors.vector_bytes
    os.truncate(entry.vectors.path, size)
    found = attach(tmp_path, parts={"train": train.take(np.array([row]))})
    assert found.builds == []
    np.testing.assert_array_equal(found.states[0], built.states[row])


class Killed(BaseException):
    """Nothing catches it, so the disk is left as by a kill."""


@pytest.mark.parametrize("count", [1, 3])
def test_a_build_that_is_killed_continues_with_the_next_segment(
    count, whole, monkeypatch, tmp_path
):
    """Killed before its first segment, and between two."""
    original, calls = files.write_atomically, []

    def write(path, content):
        if "rows-" in path:
            calls.append(path)
            if len(calls) == count:
                raise Killed
        original(path, content)

    monkeypatch.setattr(cache_lib, "SEGMENT_BYTES", 2000)
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", write)
        with pytest.raises(Killed):
            attach(tmp_path)
    again = attach(tmp_path)
    [built] = again.builds
    assert (built == TEXTS) == (count == 1) and built > 0
    small.assert_same_states(again, whole[1])


def test_a_signal_in_a_build_keeps_what_is_built_and_leaves(whole, tmp_path):
    answers = iter([False] * 4 + [True])
    with pytest.raises(Interrupted, match="the same command continues"):
        attach(tmp_path, is_stopped=lambda: next(answers))
    again = attach(tmp_path)
    small.assert_same_states(again, whole[1])
    assert again.builds == [TEXTS - 5]


@pytest.mark.parametrize("value", [1e5, np.nan])
def test_a_value_that_does_not_fit_names_the_example(value, tmp_path):
    class Overflowing(FrozenPrefix):
        """Puts the value into the states of longer texts."""

        def select(self, states, mask):
            x = tf.cast(super().select(states, mask), tf.float32)
            lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
            x = tf.where((lengths > 18)[:, None, None], value, x)
            return tf.cast(x, self.dtype)

    prefix = Overflowing(**dataclasses.asdict(cut_at(0)))
    with pytest.raises(UserError) as error:
        attach(tmp_path, prefix)
    assert str(error.value).startswith("--cache_dtype: ")
    lengths = small.split("train").tokens.lengths
    assert f"for train example {100 + lengths.argmax()} is" in str(error.value)
    assert "--cache_dtype=bfloat16" in str(error.value)
