"""Runs with `--frozen_prefix=cached`: the trainer and the cache together."""

import os

import numpy as np
import pytest

from tests.conftest import run_folder, tiny_settings
from tests.support import quick
from tests.support.run_files import epochs_of
from tf_transfer.glue import experiment as glue
from tf_transfer.models import tiny

CACHED = {"frozen_prefix": "cached", "cache_dtype": "float32"}


@pytest.fixture(autouse=True)
def two_blocks(monkeypatch):
    """A smaller `tiny`: most of the time of a run goes into tracing it."""
    monkeypatch.setattr(tiny, "BLOCKS", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of runs and their cache; the tests here go on from each other's."""
    return tmp_path_factory.mktemp("cached")


def settings_of(folder, **changes):
    """Three steps an epoch on 24 examples, one epoch, without dropout."""
    options = {
        "trainable_layers": "1",
        "max_length": 24,
        "max_train_examples": 24,
        "max_epochs": 1,
        "patience": 0,
        "dropout": 0.0,
        "head_dropout": 0.0,
        "cache_dir": str(folder / "cache"),
        **changes,
    }
    return tiny_settings(folder / "runs", **options)


def run(folder, **changes):
    """Result, losses of the epochs, and test logits."""
    settings = settings_of(folder, **changes)
    result = glue.run(settings).record
    path = run_folder(settings)
    logits = np.load(os.path.join(path, "predictions.npz"))["test_logits"]
    return result, [line["train_loss"] for line in epochs_of(path)], logits


def assert_same(one, other, tolerance=1e-5):
    """That losses and logits are the same."""
    np.testing.assert_allclose(one[1], other[1], atol=tolerance)
    np.testing.assert_allclose(one[2], other[2], atol=10 * tolerance)


@pytest.fixture(scope="module")
def cached(folder):
    """A run that builds its prefix."""
    with quick.eagerly(blocks=2):
        return run(folder, **CACHED)


def test_without_dropout_a_cached_run_gives_what_a_live_one_gives(
    cached, folder, eager
):
    live = run(folder)
    assert_same(cached, live)
    assert cached[0]["prefix_seconds"] > 0
    assert cached[0]["prefix_build_seconds"] > 0
    assert live[0]["prefix_seconds"] is None


@pytest.mark.slow  # trains whole runs
def test_without_room_and_with_another_seed_a_run_pays_nothing(
    cached, folder, eager
):
    elsewhere = str(folder / "elsewhere")
    options = {**CACHED, "cache_dir": elsewhere, "cache_limit_gb": 0.0}
    assert_same(run(folder, **options, rerun=True), cached, 3e-5)
    other = run(folder, **CACHED, seed=1)
    assert other[0]["prefix_seconds"] == 0
    # Its original cost is known all the same.
    assert 0 < other[0]["prefix_build_seconds"] <= cached[0]["prefix_seconds"]


@pytest.mark.slow
def test_what_was_stored_before_moves_last_bits_alone(folder):
    """Another run has stored a lower cut, and some texts in other batches."""
    changes = {"frozen_prefix": "cached", "trainable_layers": "0"}
    alone = run(folder, **changes, cache_dir=str(folder / "alone"))
    later = {"cache_dir": str(folder / "later"), "rerun": True}
    other = {"also_cache": "1", "max_train_examples": 12}
    run(folder, **{**changes, **other}, **later)
    again = run(folder, **changes, **later)
    assert_same(again, alone, 1e-4)


def test_a_resumed_run_continues_with_its_prefix(cached, folder, eager):
    resumed = run(folder, **CACHED, max_epochs=2)
    assert resumed[1][:1] == cached[1] and len(resumed[1]) == 2
    assert resumed[0]["prefix_seconds"] == cached[0]["prefix_seconds"]


# As a user's runs, these are traced.
@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jit_compile": "true"},
        {"trainable_layers": "0", "pooling": "mean", "jit_compile": "true"},
        {"task": "mnli"},
        {"pairs": "sbert"},
        {"pooling": "mean", "batching": "grouped"},
    ],
    ids=str,
)
def test_so_it_does_with_other_settings_with_and_without_room(
    changes, tmp_path
):
    live = run(tmp_path, **changes)
    assert_same(run(tmp_path, **CACHED, **changes), live)
    options = {"cache_dir": str(tmp_path / "empty"), "cache_limit_gb": 0.0}
    again = run(tmp_path, **CACHED, **changes, **options, rerun=True)
    assert_same(again, live, 3e-5)
