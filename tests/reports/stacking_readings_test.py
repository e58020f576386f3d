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


@pytest.mark.parametrize("epochs, is_ours", [(5, True), (2, False)])
def test_another_first_phase_is_not_comparable(epochs, is_ours):
    both = [
        write("ner", {**settings, "lr": rate}, [86.0, 86.1, 86.2])
        for settings in (DENSE, stacked("bilstm", phase_one_epochs=epochs))
        for rate in (1e-5, 2e-5, 3e-5, 5e-5)
    ]
    [study] = collect(*both)
    verdict = judged(study)["entities_f1"]
    assert (verdict.word != "not comparable") == is_ours
    assert ("phase_one_epochs 2" in verdict.reason) != is_ours


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
