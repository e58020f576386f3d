"""What a run will need: from finished runs, or from its operations."""

import pytest

from tests.support import cs224n_runs, tweets_table
from tests.sweeps.fakes import finish
from tf_transfer.sweeps import estimate, grid as grid_lib
from tf_transfer.sweeps.states import RunStates


@pytest.fixture
def estimator():
    """On a machine of a thousand operations per second."""
    return estimate.Estimator(lambda precision: 1e3)


def plan_runs(tmp_path, experiment, axis, values, **flags):
    """Dict from a value of the axis to its run."""
    grid = {"experiment": experiment, "flags": flags, "axes": {axis: values}}
    runs = grid_lib.expand(
        "grid.json", grid, str(tmp_path / "runs"), str(tmp_path / "cache")
    )
    return {run.axes[axis]: run for run in runs}


def test_fewer_trained_blocks_take_less_time(tmp_path, estimator):
    runs = plan_runs(
        tmp_path,
        "glue",
        "trainable_layers",
        ["all", 2, 0],
        task="rte",
        data="sample",
        model="tiny",
        frozen_prefix="cached",
    )
    needs = {name: estimator.estimate(run) for name, run in runs.items()}
    assert needs["0"].seconds < needs["2"].seconds / 2
    assert needs["2"].seconds < needs["all"].seconds
    assert not needs["all"].builds
    # Of every token, or of [CLS] alone where no block trains.
    [tokens] = needs["2"].builds.values()
    [cls] = needs["0"].builds.values()
    assert cls.bytes < tokens.bytes / 5
    assert 0 < tokens.seconds < cls.seconds  # by the blocks that are run


def test_each_phase_counts_and_the_first_is_cached(tmp_path, estimator):
    cs224n_runs.write_all(tmp_path)
    runs = plan_runs(
        tmp_path,
        "multitask",
        "train",
        ["head", "all", "head_then_all"],
        data=str(tmp_path),
        model="tiny",
        frozen_prefix="cached",
        max_epochs=3,
    )
    needs = {name: estimator.estimate(run) for name, run in runs.items()}
    start = estimate.RUN_SECONDS
    seconds = {name: needs[name].seconds - start for name in needs}
    assert seconds["head_then_all"] == pytest.approx(
        seconds["head"] + seconds["all"]
    )
    assert needs["head"].seconds < needs["all"].seconds / 3
    assert not needs["all"].builds
    both = needs["head_then_all"].builds
    assert both == needs["head"].builds and len(both) == 3
    updates = needs["head"].updates
    assert updates % 3 == 0 and needs["all"].updates == updates > 0
    assert needs["head_then_all"].updates == 2 * updates
    # Of the mean of each text's tokens in float16: 10 sentences, 24 and 12
    # pairs to train on, and as many to evaluate on.
    hidden = 32
    assert (
        sum(build.bytes for build in both.values())
        == 2 * (10 + 48 + 24) * hidden * 2
    )


def test_a_run_is_prepared_with_settings_that_it_allows(tmp_path, estimator):
    """No block trains, nor the pooler: what trains everything refuses that."""
    runs = plan_runs(
        tmp_path,
        "tweets",
        "trainable_layers",
        [0],
        data=tweets_table.write(tmp_path),
        id_column="number",
        model="tiny",
    )
    needs = estimator.estimate(runs["0"])
    assert needs.seconds > estimate.RUN_SECONDS and not needs.builds


def test_a_run_takes_as_long_as_the_finished_runs_most_similar_to_it(tmp_path):
    axes = {"task": ["rte", "sst2"], "trainable_layers": ["all", 1]}
    runs = grid_lib.expand(
        "grid.json",
        {
            "experiment": "glue",
            "flags": {"model": "tiny", "data": "sample"},
            "axes": {**axes, "seed": [0, 1]},
        },
        str(tmp_path),
    )
    run_states = RunStates(str(tmp_path), runs)
    assert estimate.predict_durations(run_states, runs) == [None] * 8
    known = {("rte", "all", "0"): 100.0, ("rte", "1", "0"): 40.0}
    for run in runs:
        seconds = known.get(tuple(run.axes.values()))
        if seconds:
            finish(run)
            run_states.measured_seconds[run.name] = seconds
    predicted = {
        tuple(run.axes.values()): seconds
        for run, seconds in zip(
            runs, estimate.predict_durations(run_states, runs), strict=True
        )
    }
    assert predicted["rte", "all", "1"] == 100.0
    assert predicted["rte", "1", "1"] == 40.0
    assert predicted["sst2", "1", "0"] == 40.0  # of its approach, if not task


def test_a_run_of_another_approach_is_no_measure(tmp_path):
    runs = plan_runs(
        tmp_path,
        "glue",
        "trainable_layers",
        ["all", 1, 0],
        model="tiny",
        data="sample",
    )
    run_states = RunStates(str(tmp_path), list(runs.values()))
    finish(runs["0"])
    run_states.measured_seconds[runs["0"].name] = 60.0
    others = [runs["1"], runs["all"]]
    assert estimate.predict_durations(run_states, others) == [None, None]
