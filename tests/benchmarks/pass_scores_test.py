"""Scores by the precision of the pass are paired and averaged rightly."""

import pytest

from benchmarks import pass_scores

TASKS = {
    "sst2": {
        "probe": {"float32": [80, 82], "bfloat16": [81, 82], "int8": [79, 81]},
        "last 1": {"float32": [84, 86], "bfloat16": [84, 86], "int8": [84, 86]},
        "last 2": {"float32": [88, 88], "bfloat16": [88, 88], "int8": [88, 88]},
    },
    "stsb": {
        "probe": {"float32": [70, 71], "bfloat16": [70, 70], "int8": [69, 70]},
        "last 1": {"float32": [72, 73], "bfloat16": [72, 73], "int8": [72, 73]},
        "last 2": {"float32": [74, 75], "bfloat16": [74, 75], "int8": [74, 75]},
    },
}


def test_differences_are_averaged_within_tasks_and_then_over_them():
    # Task means +0.5 and -0.5: mean 0, deviation 0.71; t(0.975, 1) = 12.71.
    estimate = pass_scores.estimate_difference(
        [*TASKS.values()], "bfloat16", ["probe"]
    )
    assert (estimate.value, estimate.freedom) == (0, 1)
    assert estimate.error == pytest.approx(0.5)
    assert estimate.interval() == pytest.approx((-6.353, 6.353), abs=1e-3)
    every = pass_scores.estimate_difference(
        [*TASKS.values()], "bfloat16", [*pass_scores.APPROACHES]
    )
    assert every.error == pytest.approx(0.5 / 3)


def test_a_mean_is_within_the_margin_where_its_interval_is():
    nearly = {
        name: {"probe": {"float32": [80, 81], "int8": [80 + shift, 81 + shift]}}
        for name, shift in (("a", 0.0), ("b", 0.02), ("c", 0.04))
    }
    estimate = pass_scores.estimate_difference(
        [*nearly.values()], "int8", ["probe"]
    )
    low, high = estimate.interval()
    assert -0.2 < low < high < 0.2
    assert estimate.p_within(-0.2, 0.2) < 0.05
    assert estimate.p_within(-0.05, 0.05) > 0.05


def test_the_tables_have_a_row_for_each_mean_and_task():
    measured = {
        "model": "minilm",
        "examples": 1000,
        "epochs": 3,
        "draws": 2,
        "processor": "a CPU",
        "openvino": "1",
        "nncf": "2",
        "tasks": {
            name: {
                "metric": "accuracy",
                "scores": scores,
                "errors": {"float32": 0.0, "bfloat16": 0.005, "int8": 0.02},
            }
            for name, scores in TASKS.items()
        },
    }
    table = pass_scores.make_table(measured)
    # t = 0.2 / 0.5 with one degree of freedom: p = 0.379, doubled.
    assert "| 0.5% | probe | +0.00 (-6.35 to +6.35) | 0.758 |" in table
    assert "| int8 | 2.0% | probe, last 1, last 2 |" in table
    assert "| probe | 81.00 ± 1.41 | +0.50 ± 0.71 | -1.00 ± 0.00 |" in table
    assert len(table.splitlines()) == 4 + 2 * 4 + 3 + 2 + 6
