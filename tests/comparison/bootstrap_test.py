"""A metric on samples of texts, against simple loops."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from tf_transfer.comparison import bootstrap
from tf_transfer.data import metrics


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
    found = bootstrap.SCORES[metric](labels, output, times)
    expected = [one(labels[rows], output[rows]) for rows in drawn]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("metric", bootstrap.SCORES)
def test_a_constant_answer_scores_nothing_or_its_share(metric):
    labels, output = np.array([1.0, 1.0, 0.0]), np.zeros(3)
    found = bootstrap.SCORES[metric](labels, output, np.ones((1, 3), int))
    assert found[0] == pytest.approx(1 / 3 if metric == "accuracy" else 0.0)


# === Groups ===


@pytest.mark.parametrize("metric", bootstrap.SCORES)
def test_samples_of_groups_are_of_several_sizes(metric):
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 2, 40)
    output = np.where(generator.random(40) < 0.3, 1 - labels, labels)
    groups = np.minimum(np.arange(40) // 3, 8)
    times = bootstrap.draw(40, 5, groups)
    assert len({*times.sum(axis=1)}) > 1
    found = bootstrap.SCORES[metric](labels, output, times)
    for counts, score in zip(times, found):
        rows = np.arange(40).repeat(counts)
        once = np.ones((1, len(rows)), int)
        [expected] = bootstrap.SCORES[metric](labels[rows], output[rows], once)
        assert score == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "f1_macro", "matthews"])
def test_samples_of_several_classes_are_scored_as_the_whole_is(metric):
    generator = np.random.default_rng(3)
    labels, answers = generator.integers(0, 3, (2, 40))
    times, logits = bootstrap.draw(40, 5), np.eye(3)[answers]
    found = bootstrap.score_samples(metric, labels, logits, times)
    for counts, score in zip(times, found):
        rows = np.arange(40).repeat(counts)
        expected = metrics.METRICS[metric](labels[rows], logits[rows])
        assert score == pytest.approx(expected)
