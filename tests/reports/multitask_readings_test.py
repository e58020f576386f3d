"""Claims on three tasks in another reading, on runs with known scores."""

import pytest

from tests.reports.multitask_report_test import (
    CLS,
    collect,
    HEAD,
    judged,
    MIXED,
    tables_of,
    write,
)

STATE = {**CLS, "pooling": "cls_state"}
ALL = {"train": "all"}


@pytest.mark.parametrize(
    "changes, clause",
    [
        ({}, ""),
        ({"targets": "truncated"}, "targets truncated (our reading: exact)"),
        ({"short_batches": "scaled"}, "short_batches scaled"),
    ],
)
def test_a_claim_on_cls_names_other_settings(changes, clause):
    [study] = collect(
        write({**CLS, **changes}, (52.6, 86.9, 81.1)),
        write({**CLS, **changes, **ALL}, (51.4, 85.5, 68.4)),
    )
    verdict = judged(study)["heads_first"]
    assert verdict.word == ("not comparable" if changes else "agrees")
    assert clause in verdict.reason


def test_tables_3_to_7_train_the_output_layers_first():
    [study] = collect(
        write({"pooling": "mean", **ALL}, (51.1, 88.2, 84.6)),
        write(
            {"pooling": "mean", **ALL, "layer_decay": 0.95}, (50, 88.2, 84.5)
        ),
    )
    verdict = judged(study)["decay_mean"]
    assert verdict.word == "not comparable"
    assert "train all (our reading: head_then_all)" in verdict.reason


def test_another_reading_of_a_row_is_shown_where_it_was_run():
    [study] = collect(write(STATE, (52, 86, 81)), write(MIXED, (51, 87, 84)))
    tables = tables_of(study)
    assert list(tables["table_2"].iloc[:, 0]) == [
        "output layers only",
        "everything, from original BERT",
        "everything, from trained output layers",
        "everything, from trained output layers; [CLS] without the pooler",
    ]
    assert list(tables["table_2"].n) == ["", "", "", 3]
    assert not tables["table_4"].iloc[:, 0].str.contains("without").any()


def test_output_layers_alone_are_compared_at_their_own_epochs():
    """Their 100 epochs are those of the other group's first phase."""
    [study] = collect(
        write({**CLS, "max_epochs": 2, "head_epochs": 100}, (52, 86, 81)),
        write({**CLS, **HEAD, "max_epochs": 100}, (40, 72, 39)),
    )
    verdict = judged(study)["both_over_heads"]
    assert verdict.runs == 3 and verdict.value > 10
    assert "max_epochs" in verdict.reason
