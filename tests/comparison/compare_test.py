"""Candidates and a reference: differences, gains, leads and costs."""

import math

import numpy as np
import pytest

from tests.comparison.scored_runs import answer_first
from tf_transfer.comparison import compare, estimates
from tf_transfer.comparison.decisions import Row
from tf_transfer.comparison.estimates import Cell, Ranged, UNKNOWN
from tf_transfer.comparison.finished_runs import join


def make_candidates(**runs):
    """Candidates by their names."""
    return [
        compare.make_candidate(name, run, [run]) for name, run in runs.items()
    ]


def make_folds(name, right, approach="last_1"):
    """A candidate that answers so many of 24 texts right, by fold."""
    runs = {
        fold: answer_first(
            count, 24, ids=np.arange(24) + 24 * fold, approach=approach
        )
        for fold, count in right.items()
    }
    joined = join(tuple(runs.values()))
    return compare.make_candidate(name, joined, [joined], runs)


def test_candidates_are_compared_on_the_folds_of_both():
    ours = make_folds("ours", {0: 20, 1: 16})
    best = make_folds("best", {0: 21, 1: 19, 2: 10})
    probe = make_folds("probe", {1: 12, 2: 24}, "probe")
    row = compare.compare_runs([ours, best, probe], "best")[0]
    assert row.difference.value == pytest.approx(100 * -4 / 48)
    assert row.gains["probe"].value == pytest.approx(100 * 4 / 24)
    assert row.lead.value == pytest.approx(100 * (36 - 24) / 48)
    other = make_folds("other", {3: 20})
    assert compare.subtract(ours, other) == UNKNOWN


def test_joined_folds_are_scored_as_one():
    runs = tuple(
        answer_first(right, 24, ids=np.arange(24) + 24 * fold)
        for fold, right in enumerate((12, 18))
    )
    joined = join(runs)
    assert len(joined.ids) == 48 and joined.groups is None
    assert joined.score == pytest.approx(100 * 30 / 48)
    again = join((*runs, runs[0]))  # with another seed
    assert len(np.unique(again.groups)) == 48


def test_a_cost_is_a_share_of_the_reference_s():
    rows = compare.compare_runs(
        make_candidates(
            all=answer_first(190, seconds=40.0, trainable_parameters=200),
            last=answer_first(180, seconds=10.0, trainable_parameters=50),
        )
    )
    assert [row.is_reference for row in rows] == [True, False]
    assert [row.time.value for row in rows] == pytest.approx([100, 25])
    assert [row.weights for row in rows] == pytest.approx([100, 25])


def test_other_texts_are_not_compared():
    first, second = answer_first(20, 40), answer_first(20, 41)
    assert first.minus(second) == UNKNOWN
    assert first.minus(first) == Ranged(0.0)  # no sample differs


def test_tasks_without_a_value_leave_the_mean_unknown():
    known, none = Cell(np.array([1.0, 2.0])), Cell(np.array([]))
    row = Row("ours")
    ours = compare.Candidate(row, [known, none], [], [10, 20])
    base = compare.Candidate(Row("base"), [known, known], [], [20, 20])
    [found] = compare.compare([ours], base)
    assert found.difference == found.time == UNKNOWN
    assert found.weights == pytest.approx(75)
    assert not found.gains and not found.lead.is_known


def test_a_time_has_an_interval_where_it_was_measured_in_turn():
    def make(seconds, in_turn):
        cell = Cell(np.log(seconds), in_turn=in_turn)
        return compare.Candidate(Row(""), [], [cell], [1])

    base = make([100.0, 101.0, 102.0], True)
    for in_turn in (True, False):
        [row] = compare.compare([make([49.0, 50.0, 51.0], in_turn)], base)
        assert row.time.value == pytest.approx(49.5, abs=0.1)
        assert row.time.has_interval == in_turn


def test_runs_of_the_same_texts_have_the_freedom_of_a_fixed_model():
    gap = answer_first(150).minus(answer_first(160))
    assert gap.estimate.freedom == math.inf
    assert gap.estimate.parts.keys() == {"texts"}
    expected = 100 * math.sqrt(0.05 * 0.95 / 200)
    assert gap.estimate.error == pytest.approx(expected, rel=0.1)
    assert estimates.subtract([], []) == UNKNOWN
