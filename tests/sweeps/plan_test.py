"""Runs are done in turn, and those that share a feature cache together."""

import collections

import pytest

from tests.support import tweets_table
from tests.sweeps.fakes import plan_sixteen
from tf_transfer.sweeps import grid as grid_lib, plan


@pytest.fixture
def runs(tmp_path):
    return plan_sixteen(tmp_path)


def test_a_round_has_one_seed_and_the_highest_cut_first(runs):
    """Every other round is in reverse order."""
    found = [
        (
            run.axes["task"],
            run.axes["seed"],
            run.axes["frozen_prefix"],
            run.axes["trainable_layers"],
        )
        for run in plan.order_runs(runs)
    ]
    first = [("live", "1"), ("live", "2"), ("cached", "1"), ("cached", "2")]
    assert found == [
        *(("rte", "0", *what) for what in first),
        *(("rte", "1", *what) for what in reversed(first)),
        *(("sst2", "0", *what) for what in first),
        *(("sst2", "1", *what) for what in reversed(first)),
    ]


def test_the_first_pass_stores_the_cuts_of_the_runs_that_follow(runs):
    todo = plan.order_runs(runs)
    cached = [run for run in todo if run.axes["frozen_prefix"] == "cached"]
    first, second, *_ = cached
    assert plan.list_lower_cuts(first, todo) == "2"
    assert plan.list_lower_cuts(second, todo) == ""  # has the lowest cut
    assert plan.list_lower_cuts(todo[0], todo) == ""  # runs live
    others = [run for run in todo if run.axes["task"] != first.axes["task"]]
    assert plan.list_lower_cuts(first, others) == ""  # of other texts


def test_groups_that_are_compared_are_timed_in_turn(tmp_path):
    """Their mean starts differ by less than a third of the span."""
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "axes": {"trainable_layers": ["all", 2, 1], "seed": [0, 1, 2]},
    }
    seconds = {"all": 10, "2": 6, "1": 4}
    starts, now = collections.defaultdict(list), 0
    todo = plan.order_runs(grid_lib.expand("grid.json", grid, str(tmp_path)))
    recent = []
    while todo:
        run = plan.choose_run(recent, todo, [])
        todo.remove(run)
        recent = [*recent, run][-4:]
        starts[run.axes["trainable_layers"]].append(now)
        now += seconds[run.axes["trainable_layers"]]
    means = [sum(of) / len(of) for of in starts.values()]
    every = sum(starts.values(), [])
    assert max(means) - min(means) < (max(every) - min(every)) / 3


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


def test_a_worker_goes_on_with_a_program_that_it_has(runs):
    """Of the round that is not yet done."""
    todo = plan.order_runs(runs)
    done = [todo.pop(0) for _ in range(4)]
    following = plan.choose_run(done, todo, [])
    assert alike(following) == alike(done[-1])
    assert following.settings.seed == 1
    assert plan.choose_run(done[:1], todo, []) == todo[3]


def test_a_new_worker_begins_where_no_other_is(runs):
    first, *todo = plan.order_runs(runs)
    other = plan.choose_run([], todo, [first])
    assert other.axes["task"] != first.axes["task"]
    assert other.settings.seed == 0
