"""Statistics, against the formulae and against simple loops."""

import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from tf_transfer.reports import statistics


def test_a_mean_has_the_deviation_of_a_sample():
    found = statistics.mean_of([1.0, 2.0, 6.0])
    assert found == statistics.Mean(3.0, math.sqrt((4 + 1 + 9) / 2), 3)
    assert statistics.mean_of([5.0]) == statistics.Mean(5.0, None, 1)
    assert statistics.mean_of([None, 5.0]) == statistics.Mean(5.0, None, 1)
    assert statistics.mean_of([]) is None


def test_welch_is_the_formula():
    one, other = [80.0, 82.0, 84.0], [70.0, 71.0, 75.0, 76.0]
    # Variances 4 and 26/3 by hand: means 82 and 73.
    a, b = 4 / 3, (26 / 3) / 4
    t = 9 / math.sqrt(a + b)
    degrees = (a + b) ** 2 / (a**2 / 2 + b**2 / 3)
    found = statistics.welch(one, other)
    assert found.t == pytest.approx(t)
    assert found.degrees == pytest.approx(degrees)
    assert found.p == pytest.approx(2 * scipy.stats.t.sf(t, degrees))
    reach = scipy.stats.t.ppf(0.975, degrees) * math.sqrt(a + b)
    assert (found.low, found.high) == pytest.approx((9 - reach, 9 + reach))


@pytest.mark.parametrize(
    "one, other", [([1.0], [2.0, 3.0]), ([1.0, 1.0], [2.0, 2.0])]
)
def test_welch_says_nothing_of_single_values_and_of_no_spread(one, other):
    assert statistics.welch(one, other) is None


@pytest.mark.parametrize("metric", statistics.SCORES)
def test_each_metric_over_samples_is_that_of_a_loop(metric):
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 2, 40)
    output = np.where(generator.random(40) < 0.3, 1 - labels, labels)
    if metric in ("pearson", "spearman"):
        labels = generator.integers(0, 6, 40).astype(float)
        output = labels + generator.normal(0, 1, 40).round(1)
    drawn = generator.integers(0, 40, (5, 40))
    one = {
        "accuracy": sklearn.metrics.accuracy_score,
        "f1": sklearn.metrics.f1_score,
        "matthews": sklearn.metrics.matthews_corrcoef,
        "pearson": lambda a, b: scipy.stats.pearsonr(a, b).statistic,
        "spearman": lambda a, b: scipy.stats.spearmanr(a, b).statistic,
    }[metric]
    times = np.stack([np.bincount(rows, minlength=40) for rows in drawn])
    [found] = statistics.SCORES[metric](labels, [output], times.astype(float))
    expected = [one(labels[rows], output[rows]) for rows in drawn]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("metric", statistics.SCORES)
def test_a_constant_answer_scores_nothing_or_its_share(metric):
    labels, output = np.array([1.0, 1.0, 0.0]), np.zeros(3)
    [found] = statistics.SCORES[metric](labels, [output], np.ones((1, 3)))
    assert found == pytest.approx([1 / 3 if metric == "accuracy" else 0.0])


def bootstrap(labels, ones, others, **options):
    sides = [
        statistics.resampled("accuracy", labels, side, **options)
        for side in (ones, others)
    ]
    return statistics.paired(*sides)


def test_the_bootstrap_finds_a_known_interval():
    """Paired differences of +1, 0 and -1: mean and spread are known."""
    labels = np.ones(400, int)
    right, wrong = np.ones(400, int), np.ones(400, int)
    right[:40] = 0  # 90 % right
    wrong[:120] = 0  # 70 %: wrong on 80 more
    found = bootstrap(labels, [right], [wrong], count=4000)
    error = math.sqrt(0.2 * 0.8 / 400)
    assert found.low == pytest.approx(0.2 - 1.96 * error, abs=0.006)
    assert found.high == pytest.approx(0.2 + 1.96 * error, abs=0.006)
    assert found.p == 0


def test_the_bootstrap_is_paired_and_averages_seeds():
    labels = np.array([0, 1] * 50)
    same = bootstrap(labels, [labels, 1 - labels], [1 - labels, labels])
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)


def test_the_bootstrap_draws_in_portions_of_any_size(monkeypatch):
    labels = np.array([0, 1, 1, 1] * 10)
    output = np.array([0, 1, 0, 1] * 10)
    whole = statistics.resampled("accuracy", labels, [output], count=64)
    monkeypatch.setattr(statistics, "_CHUNK_ENTRIES", 41)
    portions = statistics.resampled("accuracy", labels, [output], count=64)
    np.testing.assert_array_equal(whole, portions)


def test_the_front_is_what_nothing_beats_in_both():
    points = [(10, 80), (5, 80), (5, 70), (20, 90), (30, 90), (1, 10)]
    assert statistics.pareto(points) == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]
