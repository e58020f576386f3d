"""The best value of an axis is chosen on validation, with one seed or more."""

import pathlib

import pytest

from tests.sweeps.fakes import finish
from tf_transfer.sweeps import grid as grid_lib, subset
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import UserError

# Of each approach and rate, on validation with seed 0.
SCORES = {
    ("1", "0.001"): 0.6,
    ("1", "0.002"): 0.7,
    ("2", "0.001"): 0.8,
    ("2", "0.002"): 0.5,
}


@pytest.fixture
def sweep(tmp_path):
    """A grid of two approaches, two rates and two seeds, and its states."""
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample", "task": "rte"},
        "axes": {
            "trainable_layers": [1, 2],
            "lr": [0.001, 0.002],
            "seed": [0, 1],
        },
    }
    runs = grid_lib.expand("grid.json", grid, str(tmp_path))
    return RunStates(str(tmp_path), runs)


def where(run):
    return run.axes["trainable_layers"], run.axes["lr"]


def do(run, score):
    validation = None if score is None else {"accuracy": score}
    finish(run, seed=run.settings.seed, validation=validation)


def do_first_seed(sweep, **scores):
    for run in sweep.runs:
        if run.axes["seed"] == "0":
            do(run, scores.get("score", SCORES[where(run)]))


def test_each_approach_keeps_its_best_rate_with_all_seeds(sweep):
    do_first_seed(sweep)
    found = subset.select_best("grid.json", sweep, "lr", sweep.runs)
    chosen = [(*where(run), run.axes["seed"]) for run in found]
    assert chosen == [
        ("1", "0.002", "0"),
        ("1", "0.002", "1"),
        ("2", "0.001", "0"),
        ("2", "0.001", "1"),
    ]
    # What more seeds say of the chosen one changes nothing.
    do(found[1], 0.1)
    assert subset.select_best("grid.json", sweep, "lr", sweep.runs) == found


def test_a_rate_that_fails_is_the_worst(sweep):
    for run in sweep.runs:
        if run.axes["seed"] == "0":
            if where(run) == ("1", "0.002"):
                log = pathlib.Path(sweep.log_file(run))
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_text("loss: nan")
                sweep.record_failure(run, 1, "diverged")
            else:
                do(run, SCORES[where(run)])
    found = subset.select_best("grid.json", sweep, "lr", sweep.runs)
    assert {where(run) for run in found} == {("1", "0.001"), ("2", "0.001")}


def test_what_is_not_wanted_need_not_be_done(sweep):
    few = [run for run in sweep.runs if run.axes["trainable_layers"] == "1"]
    for run in few:
        if run.axes["seed"] == "0":
            do(run, SCORES[where(run)])
    wanted = [run for run in few if run.axes["seed"] == "1"]
    [found] = subset.select_best("grid.json", sweep, "lr", wanted)
    assert (*where(found), found.axes["seed"]) == ("1", "0.002", "1")
    with pytest.raises(UserError) as raised:
        subset.select_best("grid.json", sweep, "lr", sweep.runs)
    assert "trainable_layers=2 lr=0.001 seed=0. Run" in str(raised.value)
    assert str(raised.value).endswith("--only=seed=0")


@pytest.mark.parametrize("axis", ["seed", "dropout"])
def test_what_is_no_axis_is_refused(sweep, axis):
    with pytest.raises(UserError, match="These are: trainable_layers, lr"):
        subset.select_best("grid.json", sweep, axis, sweep.runs)


def test_without_validation_nothing_can_be_chosen(sweep):
    do_first_seed(sweep, score=None)
    with pytest.raises(UserError, match="--best_of=lr.*no validation"):
        subset.select_best("grid.json", sweep, "lr", sweep.runs)
