"""The readings of claims on stacking, on runs with known scores."""

import pytest

from tests.reports.made_up_stacking import (
    alone,
    collect,
    DENSE,
    judged,
    stacked,
    write,
)


@pytest.mark.parametrize(
    "phase_one, reading",
    [
        ({"phase_one_epochs": 5, "phase_one_gap": 0.01}, ""),
        ({"phase_one_epochs": 2}, "phase_one_epochs=2, phase_one_gap=-1"),
        ({}, "phase_one_epochs=1, phase_one_gap=-1"),
    ],
)
def test_a_first_phase_of_a_few_epochs_has_three_readings(phase_one, reading):
    both = [
        write("ner", {**settings, "lr": rate}, [86.0, 86.1, 86.2])
        for settings in (DENSE, stacked("bilstm", **phase_one))
        for rate in (1e-5, 2e-5, 3e-5, 5e-5)
    ]
    [study] = collect(*both)
    assert judged(study)["entities_f1"].reading == reading


def test_groups_may_train_for_unequal_epochs_where_a_claim_says_so():
    """Fine-tuning for three epochs, and the head alone for nine."""
    longer = alone("bilstm", max_epochs=9)
    [study] = collect(
        write("ner", DENSE, [86.0, 86.1, 86.2]),
        write("ner", longer, [84.0, 84.1, 84.2]),
    )
    verdict = judged(study)["finetuned_over_stacked_entities"]
    assert verdict.value == pytest.approx(2.0)
    assert "max_epochs 9" in verdict.reason
