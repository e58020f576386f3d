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
    """A search of two approaches' rates, and the runs that wait for it."""
    axes = {"trainable_layers": [1, 2], "lr": [0.001, 0.002]}
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample", "task": "rte"},
        "best_of": "lr",
        "search": {**axes, "seed": [0, 1]},
        "axes": {**axes, "seed": [2]},
    }
    runs = grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(tmp_path))
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


def choose(sweep):
    """What follows the search."""
    waiting = [run for run in sweep.runs if run.searched]
    searched = [run for run in sweep.runs if not run.searched]
    sweep.runs = searched
    try:
        return subset.select_best(sweep, waiting)
    finally:
        sweep.runs = [*searched, *waiting]


def test_each_approach_has_its_best_rate(sweep):
    do_first_seed(sweep)
    found = choose(sweep)
    selected = [(*where(run), run.axes["seed"]) for run in found]
    assert selected == [("1", "0.002", "2"), ("2", "0.001", "2")]
    # One more seed of one rate alone changes nothing.
    extra = next(run for run in sweep.runs if run.axes["seed"] == "1")
    do(extra, 0.9)
    assert choose(sweep) == found


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
    found = choose(sweep)
    assert {where(run) for run in found} == {("1", "0.001"), ("2", "0.001")}


def test_without_a_common_seed_nothing_can_be_chosen(sweep):
    seeds = {"0.001": "0", "0.002": "1"}
    for run in sweep.runs:
        if run.axes["seed"] == seeds[run.axes["lr"]]:
            do(run, 0.5)
    with pytest.raises(UserError, match="no seed is done with each lr of"):
        choose(sweep)


def test_without_validation_nothing_can_be_chosen(sweep):
    do_first_seed(sweep, score=None)
    with pytest.raises(UserError, match="search: .*no validation to choose lr"):
        choose(sweep)
