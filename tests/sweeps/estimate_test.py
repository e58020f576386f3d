"""What a run will need, from what trains in which phase."""

import json

import pytest

from tests import cs224n_runs
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import grid as grid_lib


@pytest.fixture
def counter():
    """A counter on a machine of a thousand operations a second."""
    found = estimate.Counter()
    found._measure = lambda precision: {"TensorFlow": 1e3}
    return found


def planned(tmp_path, module, axis, values, **flags):
    """Dict from a value of the axis to its run."""
    path = str(tmp_path / "grid.json")
    grid = {"module": module, "flags": flags, "axes": {axis: values}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(grid, file)
    runs = grid_lib.expand(
        path, grid_lib.read(path), str(tmp_path / "runs"), str(tmp_path / "c")
    )
    return {run.axes[axis]: run for run in runs}


def test_fewer_trained_blocks_take_less_time(tmp_path, counter):
    runs = planned(
        tmp_path,
        "glue",
        "trainable_layers",
        ["all", 2, 0],
        task="rte",
        data="sample",
        model="tiny",
        frozen_prefix="cached",
    )
    needed = {name: counter.rough(run) for name, run in runs.items()}
    assert needed["0"].seconds < needed["2"].seconds / 2
    assert needed["2"].seconds < needed["all"].seconds
    assert not needed["all"].caches
    # Of every token, or of [CLS] alone where no block trains.
    [tokens], [firsts] = (
        needed["2"].caches.values(),
        needed["0"].caches.values(),
    )
    assert firsts < tokens / 5


def test_each_phase_counts_and_the_first_is_cached(tmp_path, counter):
    cs224n_runs.write_all(tmp_path)
    runs = planned(
        tmp_path,
        "multitask",
        "train",
        ["head", "all", "head_then_all"],
        data=str(tmp_path),
        model="tiny",
        frozen_prefix="cached",
        max_epochs=3,
    )
    needed = {name: counter.rough(run) for name, run in runs.items()}
    start = estimate.START_SECONDS
    parts = needed["head"].seconds + needed["all"].seconds - 2 * start
    both = needed["head_then_all"]
    assert both.seconds - start == pytest.approx(parts)
    assert needed["head"].seconds < needed["all"].seconds / 3
    assert not needed["all"].caches
    assert both.caches == needed["head"].caches and len(both.caches) == 3
    # Of the mean of each text's tokens in float16: 10 sentences, 24 and 12
    # pairs to train on, and as many to evaluate on.
    hidden = 32
    assert sum(both.caches.values()) == 2 * (10 + 48 + 24) * hidden * 2
