"""Finished runs: their intervals over texts and groups, and chance."""

import dataclasses
import math

import numpy as np
import pytest

from tf_transfer.comparison import decisions, finished_runs
from tf_transfer.comparison.estimates import Ranged
from tf_transfer.comparison.finished_runs import Scored
from tf_transfer.data import metrics

RECORD = {"metric": "accuracy", "test": {"accuracy": 0.5}}


# === Groups ===


def scored(labels, answers, metric="accuracy", groups=None):
    """Two classes, answered so."""
    logits = np.where(answers == 1, 1.0, -1.0)[:, None]
    record = {
        "metric": metric,
        "test": {metric: metrics.METRICS[metric](labels, logits)},
    }
    ids = np.arange(len(labels))
    return Scored("", record, "test", ids, labels, logits, groups=groups)


def half_wide(ranged):
    return (ranged.high - ranged.low) / 2


def test_groups_that_are_all_right_or_all_wrong_count_as_so_many_texts():
    """The error of a mean over 100 groups of 9 is that over 100 texts."""
    right = np.arange(100) < 80
    labels = np.ones(900, np.int64)
    answers, groups = right.repeat(9).astype(int), np.arange(100).repeat(9)
    one = scored(labels, answers, groups=groups)
    plain = 1.96 * 100 * math.sqrt(0.8 * 0.2 / 100)
    assert half_wide(one.ranged) == pytest.approx(plain, rel=0.1)
    alone = scored(labels, answers)
    assert half_wide(alone.ranged) == pytest.approx(plain / 3, rel=0.1)
    assert (one.drawn, alone.drawn) == ("groups of texts", "texts")


def test_a_difference_over_groups_has_their_freedom():
    labels, groups = np.ones(90, np.int64), np.arange(10).repeat(9)
    one = scored(labels, (groups < 8).astype(int), groups=groups)
    other = scored(labels, (groups < 6).astype(int), groups=groups)
    gap = one.minus(other)
    assert gap.estimate.freedom == 9
    assert gap.value == pytest.approx(20)
    # Two groups of ten differ: the error of a mean of 0 and 1.
    error = 100 * math.sqrt(0.2 * 0.8 / 10)
    assert gap.estimate.error == pytest.approx(error, rel=0.1)


def test_a_group_of_its_own_for_each_text_changes_no_sample():
    labels = np.random.default_rng(0).integers(0, 2, 50)
    answers = np.where(np.arange(50) % 4, labels, 1 - labels)
    one, other = (
        scored(labels, answers, "f1", groups)
        for groups in (None, np.arange(50) * 7)
    )
    np.testing.assert_array_equal(one.samples, other.samples)


# === Chance ===


def test_copies_of_a_wrong_answer_are_one_answer_below_chance():
    labels = np.arange(12) % 2
    wrong = scored(labels.repeat(20), 1 - labels.repeat(20))
    assert wrong.is_below_chance
    groups = np.arange(12).repeat(20) // 3
    assert not dataclasses.replace(wrong, groups=groups).is_below_chance


def test_less_than_the_majority_is_not_below_chance():
    """Balanced weights answer rare labels more often, and are right."""
    labels = (np.arange(200) < 20).astype(np.int64)
    answers = (np.arange(200) < 60).astype(np.int64)
    logits = np.where(answers == 1, 1.0, -1.0)[:, None]
    record = {**RECORD, "test": {"accuracy": 0.8}}
    run = Scored("here", record, "test", np.arange(200), labels, logits)
    assert run.score < run.majority and not run.is_below_chance


@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_in_the_reverse_order_are_below_chance(sign):
    labels = np.linspace(0.0, 5.0, 30)
    record = {**RECORD, "metric": "spearman", "test": {"spearman": 1}}
    run = Scored(
        "here", record, "test", np.arange(30), labels, sign * labels[:, None]
    )
    assert run.is_below_chance == (sign == -1)


def test_chance_alone_is_seldom_an_alarm():
    draw, alarms = np.random.default_rng(0), 0
    for _ in range(200):
        labels, answers = draw.integers(0, 3, (2, 100))
        record = {**RECORD, "test": {"accuracy": 0.3}}
        run = Scored(
            "here", record, "test", np.arange(100), labels, np.eye(3)[answers]
        )
        alarms += run.is_below_chance
    assert alarms <= 4


@pytest.mark.parametrize("positives, expected", [(150, 85.7), (50, 0.0)])
def test_f1_is_next_to_that_of_the_majority_baseline(positives, expected):
    labels = (np.arange(200) < positives).astype(np.int64)
    record = {**RECORD, "metric": "f1", "test": {"f1": 0.9}}
    logits = np.where(labels == 1, 1.0, -1.0)[:, None]
    run = Scored("here", record, "test", np.arange(200), labels, logits)
    assert run.majority == pytest.approx(expected, abs=0.05)


def test_folds_are_paired_also_where_they_are_few():
    row = decisions.Row(
        "ours",
        difference=Ranged(3.0),
        gains={"probe": Ranged(20.0, 15.0, 25.0)},
        scored="24 validation texts",
    )
    others = {"probe": {0: 60.0, 1: 40.0}, "best": {0: 90.0, 1: 80.0, 2: 70.0}}

    def compare(by_fold):
        return finished_runs.compare_folds(row, by_fold, others, "best")

    two = compare({0: 84.0, 1: 64.0})
    assert two.gains["probe"] == Ranged(24.0)  # over two folds, no interval
    assert two.difference == Ranged(-11.0)
    assert two.scored == "2 folds of 24 validation texts"
    three = compare({0: 84.0, 1: 64.0, 2: 65.0})
    assert three.difference.value == pytest.approx(-9)
    assert three.difference.has_interval
    assert compare({0: 84.0}) == row
