"""Candidates and a reference: differences, gains, leads and costs."""

import math

import numpy as np
import pytest

from tests.comparison.scored_runs import answer_first
from tf_transfer.comparison import compare, estimates
from tf_transfer.comparison.decisions import Row
from tf_transfer.comparison.estimates import Cell, Ranged, UNKNOWN

FOLDS = {
    "probe": {0: 60.0, 1: 40.0},
    "best": {0: 90.0, 1: 80.0, 2: 70.0},
}


def make_candidates(**runs):
    """Candidates by their names; those of `FOLDS` have their folds."""
    return [
        compare.make_candidate(name, run, [run], folds=FOLDS.get(name))
        for name, run in runs.items()
    ]


def compare_folds(by_fold):
    """The row of a candidate with these folds, compared with the best."""
    ours = compare.make_candidate("ours", answer_first(20, 24), folds=by_fold)
    probe = answer_first(12, 24, approach="probe")
    others = make_candidates(probe=probe, best=answer_first(21, 24))
    return compare.compare_runs([ours, *others], "best")[0]


def test_folds_are_paired_also_where_they_are_few():
    two = compare_folds({0: 84.0, 1: 64.0})
    assert two.gains["probe"] == Ranged(24.0)  # over two folds, no interval
    assert two.difference == Ranged(-11.0)
    assert two.scored == "2 folds of 24 test texts"
    three = compare_folds({0: 84.0, 1: 64.0, 2: 65.0})
    assert three.difference.value == pytest.approx(-9)
    assert three.difference.has_interval
    one = compare_folds({0: 84.0})  # the texts decide
    assert one.difference.value == pytest.approx(-100 / 24)
    assert one.scored == "24 test texts"


def test_the_luck_of_the_best_seed_counts_nowhere():
    run, other = answer_first(150), answer_first(160)
    lucky = compare.make_candidate("lucky", run, [run], luck=2.0)
    probe = answer_first(140, approach="probe")
    others = make_candidates(other=other, probe=probe)
    row = compare.compare_runs([lucky, *others], "other")[0]
    assert row.difference.value == pytest.approx(73 - 80)
    assert row.gains["probe"].value == pytest.approx(73 - 70)
    assert row.lead.value == pytest.approx(73 - 50)
    plain = compare.compare_runs(
        [*make_candidates(lucky=run), *others], "other"
    )[0]
    width = plain.difference.high - plain.difference.low
    assert row.difference.high - row.difference.low == pytest.approx(width)


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
