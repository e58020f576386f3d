"""Fixtures for cached prefixes: whole runs, and builds without training."""

import dataclasses
import glob
import os

import numpy as np
import pytest

from tests.conftest import run_folder
from tests.conftest import tiny_settings
from tf_transfer import glue
from tf_transfer import text_task
from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.feature_cache import cache as cache_lib
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.models import freezing
from tf_transfer.models import tiny
from tf_transfer.training import run as run_lib
from tf_transfer.training import strategy

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


@pytest.fixture
def two_blocks(monkeypatch):
    """A smaller `tiny`: most of the time here goes into tracing it."""
    monkeypatch.setattr(tiny, "BLOCKS", 2)


@pytest.fixture
def work(monkeypatch):
    """For each pass of a prefix over texts: its stops, and how many texts."""
    found = []
    original = cache_lib.PrefixCache._outputs

    def listen(self, prefix, part):
        from_disk = part.states is not None and part.states.have.all()
        found.append((prefix.stops, len(part), from_disk))
        return original(self, prefix, part)

    monkeypatch.setattr(cache_lib.PrefixCache, "_outputs", listen)
    return found


def measured(settings):
    """Runs; returns the loss of every step, the test logits, the result."""
    losses = []
    original = run_lib.Run._after_chunk

    def listen(self, bar, plan, stopper, chunk, *rest):
        losses.extend(chunk.tolist())
        return original(self, bar, plan, stopper, chunk, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_lib.Run, "_after_chunk", listen)
        result = glue.run(settings)
    arrays = np.load(os.path.join(run_folder(settings), "predictions.npz"))
    return losses, arrays["test_logits"], result


@pytest.fixture
def run(tmp_path, two_blocks):
    """Runs with a cache of this test; returns what `measured` does."""

    def run(**changes):
        return measured(settings_of(tmp_path, **changes))

    return run


@dataclasses.dataclass
class Built:
    """What a run would train from: its stored states, and what they cost.

    Attributes:
        states: for each text of every split its vectors, or None.
        cost: `cache_lib.Cost`.
    """

    states: list
    cost: cache_lib.Cost


@pytest.fixture
def build(tmp_path, two_blocks):
    """Attaches a cached prefix as a run does before it trains."""

    def build(**changes):
        settings = settings_of(tmp_path, **{**CACHED, **changes}).resolve()
        task = tasks.GLUE[settings.task]
        source = sources.Source(task, settings.data, settings.cache_folder)
        devices = strategy.set_up(settings)
        network, [phase], _ = text_task.prepare(settings, task, source, devices)
        freezing.freeze(network, phase.trainable)
        cache = cache_lib.PrefixCache(settings, devices, network)
        try:
            _, objective, cost = cache.attach(
                phase.objectives[0], phase.trainable
            )
            return Built(list(stored(objective)), cost)
        finally:
            cache.close()

    return build


def settings_of(tmp_path, **changes):
    """Settings of a small run with runs and cache below `tmp_path`."""
    return tiny_settings(
        tmp_path / "runs",
        **{**OPTIONS, "cache_dir": str(tmp_path / "cache"), **changes},
    )


def stored(objective):
    """Yields each text's stored vectors, training texts first, or None."""
    evaluated = [
        part for some in objective.evaluation.values() for _, part in some
    ]
    for part in (objective.train, *evaluated):
        vectors = part.states.vectors.numpy()
        for row, begin in enumerate(part.states.starts):
            count = 1 if part.states.is_pooled else part.tokens.lengths[row]
            is_here = part.states.have[row]
            yield vectors[begin : begin + count].copy() if is_here else None


def assert_same_states(one, other):
    """That two builds gave the same vectors for the same texts."""
    assert len(one.states) == len(other.states) > 0
    for here, there in zip(one.states, other.states):
        np.testing.assert_allclose(here, there, atol=1e-5)


def assert_same(one, other, tolerance=1e-5):
    """That two runs had the same losses and gave the same logits."""
    np.testing.assert_allclose(one[0], other[0], atol=tolerance)
    np.testing.assert_allclose(one[1], other[1], atol=10 * tolerance)


def entry_files(tmp_path, name):
    """Files of that name in this test's cache."""
    return glob.glob(str(tmp_path / "cache" / "prefix" / "*" / name))


def entries(tmp_path):
    """The entries of this test's cache, with their rows."""
    found = store_lib.Store(str(tmp_path / "cache")).entries()
    for entry in found:
        entry.load()
    return found
