"""Runs that share a feature cache stay together, in order and in shards."""

import pytest

from tests.support import tweets_table
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps import plan
from tf_transfer.utils.errors import UserError


@pytest.fixture
def runs(tmp_path):
    """Two tasks, two cuts, two seeds, live and cached."""
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "axes": {
            "seed": [0, 1],
            "frozen_prefix": ["live", "cached"],
            "task": ["rte", "sst2"],
            "trainable_layers": [1, 2],
        },
    }
    return grid_lib.expand("grid.json", grid, str(tmp_path))


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


def shards(runs, count, seconds):
    return [
        plan.choose_shard(runs, shard, count, seconds, lambda run: 5.0)
        for shard in range(1, count + 1)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_each_run_is_in_one_shard_and_no_feature_cache_in_two(runs, count):
    parts = shards(runs, count, lambda run: 1.0)
    names = [run.name for part in parts for run in part]
    assert sorted(names) == sorted(run.name for run in runs)
    caches = [set(map(plan.feature_cache, part)) - {None} for part in parts]
    assert sum(map(len, caches)) == len(set.union(*caches)) == 4


def test_shards_are_balanced_by_the_estimate(runs):
    def seconds(run):
        return 9.0 if run.axes["task"] == "sst2" else 1.0

    loads = [sum(map(seconds, part)) for part in shards(runs, 4, seconds)]
    assert max(loads) <= 1.3 * min(loads)


@pytest.mark.parametrize(
    "text", ["17/16", "0/16", "3", "a/b", "3/0", "1/2/3", "-1/4", "\u0663/16"]
)
def test_a_shard_that_there_is_not_is_an_error(text):
    with pytest.raises(UserError, match=r"--shard=.*such as 3/16"):
        plan.parse_shard(text)
    assert plan.parse_shard("16/16") == (16, 16)
