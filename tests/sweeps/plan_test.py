"""Runs are done in turn, and those that share a feature cache together."""

import collections

import pytest

from tests.support import own_data, run_files, tweets_table
from tests.sweeps import fakes
from tests.sweeps.fakes import plan_sixteen
from tf_transfer.sweeps import grid as grid_lib, plan, states


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


def test_a_probe_comes_first_and_stores_what_others_read(tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "axes": [
            {"features": ["frozen"]},
            {"trainable_layers": ["all"]},
            {"trainable_layers": [2, 1], "frozen_prefix": ["cached"]},
        ],
    }
    todo = plan.order_runs(
        grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    )
    assert [run.settings.approach for run in todo] == [
        *("probe", "fine_tuning", "last_1", "last_2"),
    ]
    assert plan.list_lower_cuts(todo[0], todo) == "1,2"


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
    todo = plan.order_runs(
        grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    )
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


def test_sparse_baselines_share_the_workers_of_encoders(tmp_path):
    """A search alternates between them, and TensorFlow takes long to load."""
    grid = {
        "experiment": "tweets",
        "flags": {"data": tweets_table.write(tmp_path), "id_column": "number"},
        "axes": {"features": ["bert", "count", "tfidf"]},
    }
    encoder, *sparse = grid_lib.expand(
        "grid.json", grid_lib.Grid(**grid), str(tmp_path)
    )
    assert {plan.kind(run) for run in sparse} == {plan.kind(encoder)}


def alike(run):
    return run.axes["task"], run.axes["trainable_layers"]


def test_a_worker_continues_with_a_program_that_it_has(runs):
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


def test_runs_that_drop_blocks_share_no_cache(tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {
            "model": "tiny",
            "data": "sample",
            "frozen_prefix": "cached",
            "trainable_layers": 1,
        },
        "axes": {"keep_blocks": [1, 3]},
    }
    first, second = grid_lib.expand(
        "grid.json", grid_lib.Grid(**grid), str(tmp_path)
    )
    texts, other = map(plan.feature_cache, (first, second))
    assert texts[0] != other[0]
    assert plan.list_lower_cuts(second, [first]) == ""


def test_a_run_without_steps_has_the_name_of_one_replica(tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {
            "model": "tiny",
            "data": "sample",
            "strategy": "mirrored",
            "cpu_devices": 2,
            "features": "frozen",
        },
        "axes": {"task": ["rte"]},
    }
    [run] = grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    assert run.directory.path == run.experiment.find_run().path


def test_a_run_that_counts_its_own_epochs_is_seen_to_be_finished(tmp_path):
    grid = {
        "experiment": "train",
        "flags": {
            "task": own_data.write_task(tmp_path),
            "model": "tiny",
            "trainable_layers": 1,
        },
        "axes": {"seed": [0]},
    }
    [run] = grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    run_states = states.RunStates(str(tmp_path), [run])
    epochs = run.experiment.run_settings.max_epochs
    for ran, state in ((epochs - 1, "pending"), (epochs, "finished")):
        fakes.finish(
            run,
            phases=[run_files.phase(ran)],
            epochs_run=ran,
            stop_reason="max_epochs",
        )
        run_states = states.RunStates(str(tmp_path), [run])
        assert [*run_states.read_states().values()] == [state]


def test_a_run_with_a_long_path_has_a_name_that_a_file_can_have(tmp_path):
    grid = {
        "experiment": "glue",
        "folder": "ü" * 120,
        "flags": {"model": "tiny", "data": "sample"},
        "axes": {"task": ["rte"], "seed": [0, 1]},
    }
    runs = grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
    names = {run.name for run in runs}
    assert len(names) == 2
    assert max(len(f"{name}.json".encode()) for name in names) < 200
