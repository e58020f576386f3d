"""A cached prefix: nothing is done twice, nothing damaged is used."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.training.conftest import assert_same_states
from tests.training.conftest import CACHED
from tests.training.conftest import entries
from tests.training.conftest import entry_files
from tests.training.conftest import OPTIONS
from tf_transfer.feature_cache import cache as cache_lib
from tf_transfer.feature_cache import prefix as prefix_lib
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError

# === Nothing is done twice ===


def test_another_run_on_the_same_prefix_starts_at_once(build, work):
    built = build(max_train_examples=0)
    assert len(work) == 1
    for changes in (
        {"seed": 1},
        {"split_seed": 1},
        {"lr": 1e-4},
        {"batch_size": 3, "batching": "grouped"},
        {"head_dropout": 0.3, "pooling": "mean"},
        {"max_train_examples": 16},
    ):
        again = build(**{"max_train_examples": 0, **changes})
        assert len(work) == 1, changes
        assert again.cost.paid == 0 < built.cost.paid
        assert 0 < again.cost.original <= built.cost.paid


def test_only_missing_rows_are_built_and_appended(build, work, tmp_path):
    build(max_train_examples=8)
    few = work.pop()[1]
    build(max_train_examples=24)
    [(stops, more, _)] = work
    [entry] = entries(tmp_path)
    assert stops == (1,) and 12 <= more <= 16  # but for texts seen before
    assert len(entry.rows) == few + more
    assert len(entry_files(tmp_path, "vectors.bin")) == 1
    assert len(entry_files(tmp_path, "rows-*.npz")) == 2


def test_a_text_that_stands_twice_is_stored_once(build, work, tmp_path):
    built = build()
    [file] = entry_files(tmp_path, "vectors.bin")
    [entry] = entries(tmp_path)
    assert len(entry.rows) == work[0][1] == len(entry.starts)
    assert os.path.getsize(file) == entry.lengths.sum() * entry.hidden * 4
    assert built.cost.original == pytest.approx(entry.seconds.sum())


def test_what_shapes_the_content_has_an_entry_of_its_own(build, work, tmp_path):
    build()
    for number, changes in enumerate(
        (
            {"trainable_layers": "2"},
            {"cache_dtype": "float16"},
            {"precision": "mixed_bfloat16"},
        ),
        start=2,
    ):
        build(**changes)
        assert len(work) == len(entries(tmp_path)) == number


def test_a_deeper_cut_is_computed_from_a_shallower_on_disk(
    build, work, tmp_path
):
    for layers in "210":
        build(trainable_layers=layers, cache_dtype="float16")
    assert [(stops, disk) for stops, _, disk in work] == [
        ((0,), False),
        ((0, 1), True),
        ((0, 1, 2), True),
    ]
    found = entries(tmp_path)
    keeps = {tuple(e.key["stops"]): e.key["keeps"] for e in found}
    assert keeps == {(0,): "tokens", (0, 1): "tokens", (0, 1, 2): "first"}
    # Its original cost holds that of what it went on from.
    cost = {len(e.key["stops"]): e.seconds.sum() for e in found}
    assert cost[1] < cost[2] < cost[3]


def test_a_shallower_cut_does_not_come_from_a_deeper(build, work):
    build()
    build(trainable_layers="2")
    assert [(stops, disk) for stops, _, disk in work] == [
        ((1,), False),
        ((0,), False),
    ]


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
    damage, name, build, work, tmp_path, capsys
):
    whole = build()
    [file] = entry_files(tmp_path, name)
    damage(file)
    work.clear()
    capsys.readouterr()
    assert_same_states(build(), whole)
    assert len(work) == 1
    lost_silently = name.startswith("rows") and damage is os.remove
    said = capsys.readouterr().out.count("damaged")
    assert said == (0 if lost_silently else 1)
    build()
    assert len(work) == 1  # whole from now on
    assert "damaged" not in capsys.readouterr().out


# A build that is killed: before its first segment, and between two.
VICTIM = """
import os, signal
from tests.conftest import tiny_settings
from tf_transfer import glue
from tf_transfer.models import tiny
from tf_transfer.training import prefix_rows, prefix_store

tiny.BLOCKS = 2
prefix_rows.SEGMENT_BYTES = 2000
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
    count, build, work, tmp_path
):
    whole = build(cache_dir=str(tmp_path / "other"))
    texts = work.pop()[1]
    options = {**OPTIONS, **CACHED, "cache_dir": str(tmp_path / "cache")}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            VICTIM.format(
                count=count, out=str(tmp_path / "killed"), options=options
            ),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    again = build()
    [(_, built, _)] = work
    assert (built == texts) == (count == 1) and built > 0
    assert_same_states(again, whole)


def test_a_signal_in_a_build_keeps_what_is_built_and_leaves(
    build, run, work, monkeypatch, tmp_path
):
    whole = build(cache_dir=str(tmp_path / "other"))
    texts = work.pop()[1]
    original, seen = cache_lib.PrefixCache._check, []

    def check(self, *arguments):
        seen.append(arguments)
        if len(seen) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(cache_lib.PrefixCache, "_check", check)
        with pytest.raises(Interrupted, match="the same command continues"):
            run(**CACHED)
    work.clear()
    assert_same_states(build(), whole)
    assert [count for _, count, _ in work] == [texts - 5]


@pytest.mark.parametrize("value", [1e5, np.nan])
def test_a_value_that_does_not_fit_names_the_example(value, build, monkeypatch):
    original = prefix_lib.Prefix.run

    def run_prefix(self, encoder, batch):
        x = tf.cast(original(self, encoder, batch), tf.float32)
        longest = tf.reduce_sum(tf.cast(batch["mask"], tf.int32), axis=1) > 20
        return tf.cast(tf.where(longest[:, None, None], value, x), self.dtype)

    monkeypatch.setattr(prefix_lib.Prefix, "run", run_prefix)
    with pytest.raises(UserError) as error:
        build(cache_dtype="float16")
    assert "--cache_dtype=float16" in str(error.value)
    assert "train example" in str(error.value)
    assert "--cache_dtype=bfloat16" in str(error.value)
