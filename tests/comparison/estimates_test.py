"""Contrasts of cell means, against formulae and simulations."""

import math

import numpy as np
import pytest
import scipy.stats

from tf_transfer.comparison import estimates
from tf_transfer.comparison.estimates import Cell, Contrast


def cell(*values, **options):
    return Cell(np.array(values, float), **options)


def estimate(first, second):
    return (Contrast.of(first) - Contrast.of(second)).estimate()


def test_two_cells_of_their_own_give_welchs_test():
    ours, theirs = [80, 82, 85, 81], [70, 79, 71]
    found = estimate(cell(*ours), cell(*theirs))
    expected = scipy.stats.ttest_ind(ours, theirs, equal_var=False)
    assert found.value == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert found.freedom == pytest.approx(expected.df)
    assert 2 * found.p_above() == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx(expected.confidence_interval())


def test_a_cell_that_counts_twice_counts_its_luck_once():
    base, one, two = cell(70, 72, 74), cell(80, 80.1, 80), cell(90, 90.1, 90)
    mean = estimates.mean(
        [
            Contrast.of(one) - Contrast.of(base),
            Contrast.of(two) - Contrast.of(base),
        ]
    )
    error = math.sqrt(4 / 3 + 2 * (0.1**2 / 3) / 3 / 4)
    assert mean.estimate().error == pytest.approx(error, rel=1e-3)
    nothing = Contrast.of(base) - Contrast.of(base)
    assert nothing.estimate().error == 0


def test_a_ratio_is_that_of_the_delta_method():
    first, second = cell(40, 42, 44), cell(80, 80.5, 81)
    found = (Contrast.of(first) / Contrast.of(second)).estimate()
    assert found.value == pytest.approx(42 / 80.5)
    error = math.hypot(2 / 80.5, 42 / 80.5**2 * 0.5) / math.sqrt(3)
    assert found.error == pytest.approx(error)


def test_texts_are_paired():
    """What all approaches lose on a sample of the texts is no difference."""
    random = np.random.default_rng(0)
    shared = random.normal(0, 3, 100)
    resampled = np.tile(shared, (3, 1))
    alike = {"texts": "a", "resampled": resampled}
    found = estimate(cell(80, 81, 82, **alike), cell(70, 71, 72, **alike))
    assert found.parts == {"seeds": pytest.approx(math.sqrt(2 / 3))}
    alone = Contrast.of(cell(80, 81, 82, **alike)).estimate()
    assert alone.parts["texts"] == pytest.approx(shared.std(ddof=1))
    apart = cell(70, 71, 72, texts="b", resampled=resampled)
    found = estimate(cell(80, 81, 82, **alike), apart)
    assert found.parts["texts"] == pytest.approx(
        math.sqrt(2) * shared.std(ddof=1)
    )


def test_what_seeds_and_texts_make_together_counts_once():
    """Simulated: seeds and texts are crossed, and the error is right."""
    random = np.random.default_rng(1)
    texts, seeds, simulations = 200, 4, 400
    found = []
    for _ in range(simulations):
        points = (
            random.normal(0, 5, (seeds, 1))
            + random.normal(0, 40, (1, texts))
            + random.normal(0, 60, (seeds, texts))
        )
        drawn = random.integers(0, texts, (100, texts))
        values = points.mean(axis=1)
        resampled = points[:, drawn].mean(axis=2) - values[:, None]
        made = Cell(values, texts="a", resampled=resampled)
        found.append(Contrast.of(made).estimate().error ** 2)
    expected = 5**2 / seeds + 40**2 / texts + 60**2 / texts / seeds
    assert np.mean(found) == pytest.approx(expected, rel=0.1)


def test_folds_are_paired_and_overlap():
    """Nadeau and Bengio's variance of a difference."""
    ours, theirs = np.array([80, 82, 81, 85.0]), np.array([79, 81, 81, 83.0])
    found = estimate(
        Cell(ours, fold_share=1 / 3, is_trained=False),
        Cell(theirs, fold_share=1 / 3, is_trained=False),
    )
    spread = np.var(ours - theirs, ddof=1)
    assert found.error == pytest.approx(math.sqrt((1 / 4 + 1 / 3) * spread))
    assert (found.freedom, set(found.parts)) == (3, {"folds"})


def test_a_baseline_has_no_luck_of_seeds():
    texts = np.random.default_rng(0).normal(0, 1, (1, 100))
    one = cell(70, texts="a", resampled=texts, is_trained=False)
    found = estimate(cell(80, 81, 82), one)
    assert found.parts == {"seeds": pytest.approx(math.sqrt(1 / 3))}
    other = cell(60, texts="a", resampled=-texts, is_trained=False)
    found = estimate(one, other)
    assert found.parts == {"texts": pytest.approx(2 * texts.std(ddof=1))}


def test_where_no_run_differs_nothing_is_shown():
    found = estimate(cell(80, 80, 80), cell(70, 70, 70))
    assert (found.error, found.p_above()) == (0, 1)
    assert np.isnan(found.interval()).all()


def test_more_seeds_are_named_where_they_would_decide():
    found = estimate(cell(79, 80, 81), cell(78, 79, 80))
    assert found.seeds_needed(1.0, 3) == pytest.approx(10, abs=1)
    assert found.seeds_needed(0.01, 3) is None
    assert found.seeds_needed(-1.0, 3) is None
    random = np.random.default_rng(0)
    texts = {"texts": "a", "resampled": random.normal(0, 2, (3, 100))}
    limited = estimate(cell(79, 80, 81, **texts), cell(78, 79, 80))
    assert limited.seeds_needed(1.0, 3) is not None  # texts are not known
    contrast = Contrast.of(
        Cell(
            np.array([79.0, 80, 81]),
            texts="a",
            resampled=np.tile(random.normal(0, 2, 100), (3, 1)),
        )
    ).estimate()
    assert contrast.seeds_needed(1.0, 3) is None  # the test set is too small
    assert contrast.seeds_needed(6.0, 3) is not None


def test_the_first_number_of_seeds_that_decides_is_named():
    """The interval of a mean of n seeds reaches t s / sqrt(n)."""
    found = Contrast.of(cell(79, 80, 81)).estimate()
    for count in (4, 30, 100):
        reach = scipy.stats.t.ppf(0.975, count - 1) / math.sqrt(count)
        assert found.seeds_needed(reach * 1.0001, 3) == count
        after = None if count == 100 else count + 1
        assert found.seeds_needed(reach * 0.9999, 3) == after
    assert found.seeds_needed(0.0, 3) is None


def test_texts_have_as_many_degrees_of_freedom_as_samples():
    texts = np.random.default_rng(0).normal(0, 1, (1, 50))
    one = cell(70, texts="a", resampled=texts, is_trained=False)
    assert Contrast.of(one).estimate().freedom == pytest.approx(49)


def test_an_interval_needs_two_runs_of_what_trains():
    two, one = cell(79.0, 81.0), cell(70.0)
    texts = np.random.default_rng(0).normal(0, 1, (1, 50))
    fixed = cell(70, texts="a", resampled=texts, is_trained=False)
    assert Contrast.of(two).ranged().has_interval
    assert Contrast.of(fixed).ranged().has_interval
    assert not Contrast.of(one).ranged().has_interval
    assert not (Contrast.of(two) - Contrast.of(one)).ranged().has_interval


def test_a_difference_of_logarithms_is_shown_as_a_ratio():
    twice = cell(math.log(2) - 0.1, math.log(2) + 0.1)
    found = Contrast.of(twice).ranged(logs=True)
    reach = found.estimate.interval()[1] - math.log(2)
    assert found.value == pytest.approx(200)
    assert found.low == pytest.approx(200 * math.exp(-reach))
    assert found.high == pytest.approx(200 * math.exp(reach))


def test_a_value_is_shown_with_its_interval():
    ranged = estimates.Ranged(82.786, 81.2, 84.381)
    assert ranged.show(2) == "82.79 (81.20 to 84.38)"
    assert estimates.Ranged(0.04).show(1, "+", " s") == "+0.0 s"
    assert estimates.UNKNOWN.show(2) == ""


def test_an_effect_outside_of_all_bounds_is_not_within_them():
    found = estimate(cell(79, 80, 81), cell(78, 79, 80))
    assert found.p_within(-9, -8) == 1.0
    assert found.p_outside(1.0, 1.0) == 1.0


def test_some_of_several_effects_may_be_shown():
    p_values = [0.04, 0.001, 0.5]
    assert estimates.partial_conjunction(p_values, 1) == pytest.approx(0.003)
    assert estimates.partial_conjunction(p_values, 2) == pytest.approx(0.08)
    assert estimates.partial_conjunction(p_values, 3) == 0.5
    assert estimates.partial_conjunction([0.9, 0.9], 1) == 1.0


def test_holm_corrects_the_smallest_by_all():
    assert estimates.adjust_for_many([0.03, 0.01]) == [0.03, 0.02]
    assert estimates.adjust_for_many([0.01]) == [0.01]
    found = estimates.adjust_for_many([0.04, 0.01, 0.03])
    assert found == pytest.approx([0.06, 0.03, 0.06])
