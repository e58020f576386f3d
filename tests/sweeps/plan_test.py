"""Runs that share a feature cache stay together."""

import pytest

from tests.support import tweets_table
from tests.sweeps.fakes import plan_sixteen
from tf_transfer.sweeps import grid as grid_lib, plan


@pytest.fixture
def runs(tmp_path):
    return plan_sixteen(tmp_path)


def test_runs_on_one_prefix_are_neighbours_the_lowest_cut_first(runs):
    runs = plan.order(runs)
    cached = [
        (run.axes["task"], run.axes["trainable_layers"])
        for run in runs
        if run.settings.runs_cached
    ]
    assert cached == [
        *[("rte", "2")] * 2,
        *[("rte", "1")] * 2,
        *[("sst2", "2")] * 2,
        *[("sst2", "1")] * 2,
    ]
    live = [run for run in runs if not run.settings.runs_cached]
    # Seeds share all; the approaches of a task its encoder and texts.
    assert [run.axes["seed"] for run in live] == ["0", "1"] * 4
    assert [run.axes["task"] for run in live] == ["rte"] * 4 + ["sst2"] * 4


def test_sparse_baselines_have_workers_of_their_own(tmp_path):
    grid = {
        "experiment": "tweets",
        "flags": {"data": tweets_table.write(tmp_path), "id_column": "number"},
        "axes": {"features": ["bert", "count", "tfidf"]},
    }
    encoder, *sparse = grid_lib.expand("grid.json", grid, str(tmp_path))
    assert plan.kind(encoder) != plan.kind(sparse[0]) == plan.kind(sparse[1])


def alike(run):
    return run.axes["task"], run.axes["trainable_layers"]


def test_a_worker_goes_on_with_what_shares_most(runs):
    todo = plan.order(runs)
    last = todo.pop(4)
    following = plan.choose(last, todo, [])
    assert alike(following) == alike(last)
    assert following.settings.runs_cached == last.settings.runs_cached


def test_a_new_worker_begins_where_no_other_is(runs):
    first, *todo = plan.order(runs)
    other = plan.choose(None, todo, [first])
    assert other.axes["task"] != first.axes["task"]


@pytest.mark.parametrize("prefix", ["live", "cached"])
def test_two_workers_trace_each_program_once(prefix, tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample", "frozen_prefix": prefix},
        "axes": {
            "batch_size": [1, 2, 4, 8],
            "trainable_layers": [1],
            "seed": [0, 1],
        },
    }
    todo = plan.order(grid_lib.expand("grid.json", grid, str(tmp_path)))
    last = [None, None]
    traced = []
    while todo:
        for worker in (0, 1):  # they take turns, as runs are alike
            others = [last[1 - worker]] if last[1 - worker] else []
            run = plan.choose(last[worker], todo, others)
            todo.remove(run)
            before = last[worker]
            if before is None or plan.sharing(run) != plan.sharing(before):
                traced.append(run.axes["batch_size"])
            last[worker] = run
    assert sorted(traced) == ["1", "2", "4", "8"]
