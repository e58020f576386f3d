"""A result in a line, and whether settings extend it."""

import types

import pytest

from tests.support import run_files
from tf_transfer.training import results


@pytest.mark.parametrize(
    "changes, line",
    [
        (
            {"best_epoch": None, "stop_reason": "probe"},
            "rte last_1: test accuracy 0.5000 (probe); 1.0 s of training; "
            "1,000 of 2,000 parameters trained",
        ),
        (
            {
                "validation": {"accuracy": 0.25},
                "epochs_run": 3,
                "seconds_per_epoch": 0.26,
            },
            "rte last_1: validation accuracy 0.2500, test accuracy 0.5000 at "
            "epoch 1 of 3 (patience); 1.0 s of training, 0.3 s per epoch; "
            "1,000 of 2,000 parameters trained",
        ),
        (
            {"test": {"f1": 0.5}},
            "rte last_1: test accuracy nan at epoch 1 of 1 (patience); 1.0 s "
            "of training; 1,000 of 2,000 parameters trained",
        ),
    ],
)
def test_a_result_is_a_line(changes, line):
    sizes = {"trainable_parameters": 1000, "total_parameters": 2000}
    assert results.summarize(run_files.finished(**sizes, **changes)) == line


def settings_of(max_epochs, score_test=True):
    return types.SimpleNamespace(max_epochs=max_epochs, score_test=score_test)


@pytest.mark.parametrize(
    "reason, phases, extends",
    [
        ("max_epochs", [2], True),
        ("max_seconds", [2], True),
        ("patience", [2], False),
        ("max_epochs", [3], False),
        ("max_epochs", [3, 2], True),  # the last phase counts
        ("max_epochs", [2, 3], False),
        ("max_epochs", [], False),
        ("max_epochs", None, False),
    ],
)
def test_more_epochs_extend_a_run_that_was_not_stopped(reason, phases, extends):
    result = run_files.finished(stop_reason=reason)
    result["phases"] = phases and [run_files.phase(n) for n in phases]
    settings = settings_of(3)
    assert results.adds_epochs(settings, result) is extends
    line = "Extending a finished run to 3 epochs." if extends else ""
    assert results.describe_extension(settings, result) == line


@pytest.mark.parametrize(
    "asked, scored, extends",
    [
        (True, False, True),
        (True, True, False),
        (True, None, False),
        (False, False, False),
    ],
)
def test_a_test_that_was_not_scored_is_scored_by_an_extension(
    asked, scored, extends
):
    result = run_files.finished()
    if scored is not None:
        result["scores_test"] = scored
    line = results.describe_extension(settings_of(1, asked), result)
    assert line == (
        "Scoring the test with the weights of a finished run."
        if extends
        else ""
    )
