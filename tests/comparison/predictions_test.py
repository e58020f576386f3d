"""What a report knows of a run's predictions."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tf_transfer.comparison import predictions


def write(labels, outputs):
    """What a run predicted for some texts, as `describe` takes it."""
    logits = np.where(outputs == 1, 1.0, -1.0)[:, None]
    return {"ids": np.arange(len(labels)), "labels": labels, "logits": logits}


RECORD = made_up.make_record(made_up.make_paper(), "rte", {}, 0, 90.0)


def test_the_spread_over_texts_is_that_of_the_formula():
    labels, outputs = np.ones(400, int), np.ones(400, int)
    outputs[:40] = 0  # 90 % right
    described = predictions.resample(RECORD, write(labels, outputs))
    spread = predictions.decode(described["resampled"])
    assert len(spread) == predictions.RESAMPLES
    expected = 100 * math.sqrt(0.9 * 0.1 / 400)
    assert spread.std() == pytest.approx(expected, rel=0.2)
    assert abs(spread.mean()) < 0.5 * expected


def test_all_runs_on_the_same_texts_have_the_same_samples():
    labels = np.array([0, 1] * 50)
    first, second, other = (
        predictions.resample(RECORD, write(labels, outputs))
        for outputs in (labels, 1 - labels, labels % 2)
    )
    assert first["texts"] == second["texts"] == other["texts"]
    half = np.arange(100) < 50
    one, both = (
        predictions.decode(
            predictions.resample(RECORD, write(labels, output))["resampled"]
        )
        for output in (np.where(half, labels, 1 - labels), labels)
    )
    opposite = predictions.decode(
        predictions.resample(
            RECORD, write(labels, np.where(half, 1 - labels, labels))
        )["resampled"]
    )
    np.testing.assert_allclose(one, -opposite, atol=0.02)
    assert not both.any()
    elsewhere = predictions.resample(RECORD, write(1 - labels, labels))
    assert elsewhere["texts"] != first["texts"]


@pytest.mark.parametrize(
    "change",
    [
        {"metric": "overall"},
        {"folds": [{}]},
        {"metrics": {"f1": 0.8, "token_f1": 0.9}, "metric": "f1"},
    ],
)
def test_what_is_not_scored_by_texts_has_none(change):
    labels = np.array([0, 1])
    assert not predictions.resample(
        replace(RECORD, **change), write(labels, labels)
    )


def test_the_report_resamples_groups_too():
    right = np.arange(100) < 80
    labels, groups = np.ones(900, np.int64), np.arange(100).repeat(9)
    arrays = write(labels, right.repeat(9).astype(int))
    alone, grouped = (
        predictions.resample(RECORD, {**arrays, **more})
        for more in ({}, {"groups": groups})
    )
    assert alone["texts"] != grouped["texts"]
    spread = [
        np.std(predictions.decode(one["resampled"])) for one in (alone, grouped)
    ]
    assert spread[1] > 2 * spread[0]
