"""The bootstrap over test examples, against formulae and simple loops."""

import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from tf_transfer.reports import bootstrap


@pytest.mark.parametrize("metric", bootstrap.SCORES)
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
    found = bootstrap.SCORES[metric](
        labels, np.array([output]), times.astype(float)
    )
    expected = [one(labels[rows], output[rows]) for rows in drawn]
    np.testing.assert_allclose(found[:, 0], expected)


@pytest.mark.parametrize("metric", bootstrap.SCORES)
def test_a_constant_answer_scores_nothing_or_its_share(metric):
    labels, output = np.array([1.0, 1.0, 0.0]), np.zeros(3)
    found = bootstrap.SCORES[metric](
        labels, np.array([output]), np.ones((1, 3))
    )
    assert found[0, 0] == pytest.approx(1 / 3 if metric == "accuracy" else 0.0)


def compare(labels, ones, others, **options):
    sides = [
        bootstrap.resampled("accuracy", labels, side, **options)
        for side in (ones, others)
    ]
    return bootstrap.paired(*sides)


def test_the_bootstrap_finds_a_known_interval():
    """Paired differences of +1, 0 and -1: mean and spread are known."""
    labels = np.ones(400, int)
    right, wrong = np.ones(400, int), np.ones(400, int)
    right[:40] = 0  # 90 % right
    wrong[:120] = 0  # 70 %: wrong on 80 more
    found = compare(labels, [right], [wrong], count=4000)
    error = math.sqrt(0.2 * 0.8 / 400)
    assert found.low == pytest.approx(0.2 - 1.96 * error, abs=0.006)
    assert found.high == pytest.approx(0.2 + 1.96 * error, abs=0.006)
    assert found.p == 0


def test_the_bootstrap_is_paired_and_averages_seeds():
    labels = np.array([0, 1] * 50)
    same = compare(labels, [labels, 1 - labels], [1 - labels, labels])
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)


def test_the_bootstrap_draws_in_portions_of_any_size(monkeypatch):
    labels = np.array([0, 1, 1, 1] * 10)
    output = np.array([0, 1, 0, 1] * 10)
    whole = bootstrap.resampled("accuracy", labels, [output], count=64)
    monkeypatch.setattr(bootstrap, "_CHUNK_ENTRIES", 41)
    portions = bootstrap.resampled("accuracy", labels, [output], count=64)
    np.testing.assert_array_equal(whole, portions)
