"""Wang's claims in the paper's own words, and in other readings."""

import pytest

from tests.reports.glue_claims_test import (
    judge,
    LOSSES,
    SMALL,
    write,
    write_tasks,
)


def test_scores_between_epochs_are_interpolated_and_ours_are_steps():
    """The paper tests "after each epoch" and plots curves."""
    records = [
        *write("mnli", "all", [80.0, 84.0, 83.0, 83.0], 100),
        *write("mnli", "4", [80.0, 82.0, 81.0, 81.0], 65),
    ]
    verdicts = judge(records)
    # At 126.3 s: 80 + 0.263 * 4, and 80 + 61.3 / 65 * 2.
    value = verdicts["fixed_mnli_50000"].value
    assert value == pytest.approx(61.3 / 65 * 2 - 0.263 * 4, abs=0.01)
    # At 378.8 s, on the last line, and after the last epoch.
    last, step = (
        verdicts[f"fixed_mnli_150000{name}"].value
        for name in ("", "_by_validation")
    )
    assert last == pytest.approx(81 - 83)
    assert step == pytest.approx(82 - 84)  # the best epochs


def test_the_stated_rates_and_the_stopping_point_come_first():
    """Ours, chosen on validation, is a reading of its own."""
    curves = {
        ("all", 2e-5): [70.0, 80.0, 76.0],
        ("all", 1e-3): [60.0, 60.0, 60.0],
        ("4", 2e-5): [70.0, 79.0, 78.0],
        ("4", 1e-3): [70.0, 78.0, 75.0],
    }
    records = [
        record
        for task in SMALL
        for (layers, lr), curve in curves.items()
        for record in write(task, layers, curve, lr=lr)
    ]
    for record in records:  # the second epoch is the best on validation
        record |= {n: record["epochs"][1][n] for n in ("validation", "test")}
    verdicts = judge(records)
    first = verdicts["score_small_last_4"]
    assert first.value == pytest.approx(75 - 76)
    ours = verdicts["score_small_last_4_by_validation"]
    assert ours.value == pytest.approx(79 - 80)
    assert ours.claim.text.endswith(
        "Our reading: rate and epoch are chosen on validation."
    )
    assert verdicts["score_small_last_4_as_bert"].reason.startswith("no runs")


def test_runs_with_bert_s_schedule_are_judged_as_that_reading():
    records = [
        record
        for task in SMALL
        for layers in ("all", "4")
        for record in write(task, layers, 80 + LOSSES[layers])
    ]
    for record in records:
        record["key"] |= {"schedule": "linear", "warmup_fraction": 0.1}
    verdicts = judge(records)
    assert verdicts["score_small_last_4_as_bert"].word == "agrees"
    first = verdicts["score_small_last_4"]
    assert first.word == "not comparable"
    assert "schedule linear (our reading: constant)" in first.reason


def test_a_run_that_the_limit_ended_has_no_score_at_the_stopping_point():
    verdicts = judge(write_tasks(SMALL, stop_reason="max_epochs"))
    first = verdicts["score_small_last_4"]
    assert first.word == "inconclusive"
    assert first.reason.startswith("the limit of epochs came before")
    assert verdicts["score_small_last_4_by_validation"].word == "agrees"


def test_saved_times_that_are_close_agree():
    """ "44.15% and 48.15%", close to 53.24 and 33.48 %."""
    shares = {"all": 1.0, "4": 0.6652, "3": 0.4676, "2": 0.5585, "1": 0.5185}
    records = [
        record
        for task in SMALL
        for layers, share in shares.items()
        for record in write(task, layers, 80, 100 * share)
    ]
    verdict = judge(records)["time_last_2_and_1"]
    assert verdict.word == "agrees"
    assert abs(verdict.value) < 5
