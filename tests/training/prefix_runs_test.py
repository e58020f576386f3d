"""Runs on a cached prefix give the numbers of live runs, limit or not."""

import glob
import json
import os
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.training.conftest import assert_same
from tests.training.conftest import CACHED
from tests.training.conftest import entries
from tests.training.conftest import entry_files
from tests.training.conftest import measured
from tests.training.conftest import settings_of
from tf_transfer.data import batches
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.models import tiny
from tf_transfer.training import run as run_lib


def measured_once(folder, **changes):
    """What `run` returns, for a fixture that several tests read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", 2)
        return measured(settings_of(folder, **changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of which all of the prefix is cached."""
    return measured_once(tmp_path_factory.mktemp("whole"), **CACHED)


@pytest.fixture(scope="module")
def live_epoch(tmp_path_factory):
    """One epoch on a live prefix."""
    return measured_once(tmp_path_factory.mktemp("live"), max_epochs=1)


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
def test_half_precision_moves_the_losses_by_its_rounding_only(
    dtype, live_epoch, run
):
    cached = run(max_epochs=1, frozen_prefix="cached", cache_dtype=dtype)
    assert_same(cached, live_epoch, {"float16": 2e-4, "bfloat16": 2e-3}[dtype])


def test_dropout_is_off_in_the_frozen_blocks_and_on_above(whole, run):
    prefix_only = run(**CACHED, dropout=0.5)
    assert np.abs(np.subtract(whole[0], prefix_only[0])).max() > 1e-3
    # With nothing above but the head, no dropout of the encoder is left.
    none = {**CACHED, "trainable_layers": "0"}
    assert_same(run(**none, dropout=0.5), run(**none))


def test_cached_with_all_is_a_live_run(run, tmp_path):
    everything = {"trainable_layers": "all"}
    assert run(**everything)[2]["prefix_seconds"] is None
    assert run(**everything, **CACHED)[0] == []  # found as done
    assert not os.path.exists(tmp_path / "cache" / "prefix")


# === The limit and the disk ===


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trainable_layers": "0", "pooling": "mean", "jit_compile": True},
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


def test_a_deeper_cut_without_room_takes_the_same_way(run, build, tmp_path):
    half = {**CACHED, "cache_dtype": "float16", "max_epochs": 1}
    build(**half, trainable_layers="2")
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
    whole, run, monkeypatch, tmp_path, capsys
):
    def full(*arguments):
        raise store_lib.DiskFull

    monkeypatch.setattr(store_lib.Entry, "append", full)
    part = run(**CACHED, cache_dir=str(tmp_path / "other"), rerun=True)
    assert_same(part, whole)
    assert "the disk is full" in capsys.readouterr().out


# === Resume ===


def test_a_resumed_run_goes_on_from_the_prefix_it_began_with(
    run, build, work, monkeypatch, tmp_path
):
    """A shallower entry has come meanwhile: a new run would choose it."""
    half = {**CACHED, "cache_dtype": "float16", "max_epochs": 3}
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
    build(**half, trainable_layers="2")
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
