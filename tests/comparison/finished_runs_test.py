"""Finished runs: their intervals over texts and groups, and chance."""

import dataclasses
import math

import numpy as np
import pytest

from tests.comparison.scored_runs import answer_texts, score_run

# === Groups ===


def half_wide(ranged):
    return (ranged.high - ranged.low) / 2


def test_groups_that_are_all_right_or_all_wrong_count_as_one_text_each():
    """The error of a mean over 100 groups of 9 is that over 100 texts."""
    right = np.arange(100) < 80
    labels = np.ones(900, np.int64)
    answers, groups = right.repeat(9).astype(int), np.arange(100).repeat(9)
    one = answer_texts(labels, answers, groups=groups)
    plain = 1.96 * 100 * math.sqrt(0.8 * 0.2 / 100)
    assert half_wide(one.ranged) == pytest.approx(plain, rel=0.1)
    alone = answer_texts(labels, answers)
    assert half_wide(alone.ranged) == pytest.approx(plain / 3, rel=0.1)
    assert (one.drawn, alone.drawn) == ("groups of texts", "texts")


def test_a_difference_over_groups_has_their_freedom():
    labels, groups = np.ones(90, np.int64), np.arange(10).repeat(9)
    one = answer_texts(labels, (groups < 8).astype(int), groups=groups)
    other = answer_texts(labels, (groups < 6).astype(int), groups=groups)
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
        answer_texts(labels, answers, "f1", groups=groups)
        for groups in (None, np.arange(50) * 7)
    )
    np.testing.assert_array_equal(one.samples, other.samples)


# === Chance ===


def test_copies_of_a_wrong_answer_are_one_answer_below_chance():
    labels = np.arange(12) % 2
    wrong = answer_texts(labels.repeat(20), 1 - labels.repeat(20))
    assert wrong.is_below_chance
    groups = np.arange(12).repeat(20) // 3
    assert not dataclasses.replace(wrong, groups=groups).is_below_chance


def test_less_than_the_majority_is_not_below_chance():
    """Balanced weights answer rare labels more often, and are right."""
    labels = (np.arange(200) < 20).astype(np.int64)
    answers = (np.arange(200) < 60).astype(np.int64)
    run = answer_texts(labels, answers)
    assert run.score < run.majority and not run.is_below_chance


@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_in_the_reverse_order_are_below_chance(sign):
    labels = np.linspace(0.0, 5.0, 30)
    run = score_run(labels, sign * labels[:, None], "spearman")
    assert run.is_below_chance == (sign == -1)


def test_chance_alone_is_seldom_an_alarm():
    draw, alarms = np.random.default_rng(0), 0
    for _ in range(200):
        labels, answers = draw.integers(0, 3, (2, 100))
        alarms += score_run(labels, np.eye(3)[answers]).is_below_chance
    assert alarms <= 4


@pytest.mark.parametrize("positives, expected", [(150, 85.7), (50, 0.0)])
def test_f1_is_next_to_that_of_the_majority_baseline(positives, expected):
    labels = (np.arange(200) < positives).astype(np.int64)
    run = answer_texts(labels, labels, "f1")
    assert run.majority == pytest.approx(expected, abs=0.05)
