"""Temperatures, and weights of two models, are those of the true logits."""

import dataclasses

import numpy as np
import pytest

from tf_transfer.baselines import linear
from tf_transfer.data import metrics
from tf_transfer.data.task import Task


@pytest.fixture
def rng():
    """NumPy's, in place of the fixture of all tests."""
    return np.random.default_rng(0)


def draw(rng, units, examples=20_000):
    """Labels that come from the probabilities of the logits."""
    logits = rng.normal(size=(examples, units)) * 2
    if units == 1:
        probabilities = metrics.probabilities(logits)
        return (rng.random(examples) < probabilities[:, 1]) * 1, logits
    noise = rng.gumbel(size=logits.shape)
    return (logits + noise).argmax(axis=1), logits


@pytest.mark.parametrize("units", [1, 2, 4])
@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_logits_that_are_too_large_get_the_temperature_back(rng, units, factor):
    labels, logits = draw(rng, units)
    fitted = metrics.fit_temperature(labels, factor * logits)
    assert fitted == pytest.approx(factor, rel=0.06)
    before, after = (
        metrics.measure_calibration(labels, x)
        for x in (factor * logits, factor * logits / fitted)
    )
    assert after["expected_error"] < 0.02 < before["expected_error"]
    assert after["brier"] < before["brier"]


def test_errors_of_two_bins_do_not_cancel():
    """Half of the answers are right at 0.85, and all at 0.95."""
    confidence = np.array([0.85] * 2 + [0.95] * 2)
    logits = np.log(confidence / (1 - confidence))[:, None]
    measured = metrics.measure_calibration(np.array([1, 0, 1, 1]), logits)
    assert measured["expected_error"] == pytest.approx((0.35 + 0.05) / 2)


def test_the_brier_score_is_of_all_classes_and_of_each_label():
    shares = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    measured = metrics.measure_calibration(np.array([0, 1]), np.log(shares))
    squares = (shares - np.eye(3)[[0, 1]]) ** 2
    assert measured["brier"] == pytest.approx(squares.sum(axis=1).mean())

    labels = np.array([[1, 0, 0], [0, 1, 1]])
    logits = np.log(shares / (1 - shares))
    measured = metrics.measure_calibration(labels, logits)
    assert measured["brier"] == pytest.approx(((shares - labels) ** 2).mean())


def test_several_labels_have_one_temperature(rng):
    logits = rng.normal(size=(5000, 3)) * 2
    labels = (rng.random(logits.shape) < metrics.sigmoid(logits)) * 1
    fitted = metrics.fit_temperature(labels, 2 * logits)
    assert fitted == pytest.approx(2, rel=0.06)


def test_the_temperature_has_bounds():
    labels = np.array([0, 1, 1])
    logits = np.array([[-1.0], [2.0], [0.5]])  # no error
    fitted = metrics.fit_temperature(labels, logits)
    assert fitted == pytest.approx(0.05, rel=0.01)
    fitted = metrics.fit_temperature(1 - labels, logits)
    assert fitted == pytest.approx(20, rel=0.01)


# === Two models ===

CLASSES = Task("t", "", ("x",), "y", ("a", "b", "c"), "accuracy")
LABELS = Task("t", "", ("x",), "y", ("a", "b"), "f1_micro", kind="labels")
SCORES = Task(
    "t", "", ("x",), "y", None, "spearman", score_range=(0, 10)
).scaled()


def test_weights_are_those_of_the_sum_that_drew_the_labels(rng):
    first, second = rng.normal(size=(2, 20_000, 3))
    drawn = (first + 3 * second + rng.gumbel(size=first.shape)).argmax(axis=1)
    weights = metrics.fit_weights(CLASSES, drawn, [first, second])
    np.testing.assert_allclose(weights, [1, 3], rtol=0.06)

    first, second = first[:, :2], second[:, :2]
    chances = metrics.sigmoid(2 * first + second)
    drawn = (rng.random(chances.shape) < chances) * 1
    weights = metrics.fit_weights(LABELS, drawn, [first, second])
    np.testing.assert_allclose(weights, [2, 1], rtol=0.06)


def test_no_weight_is_negative(rng):
    first, second = rng.normal(size=(2, 5000, 3))
    drawn = (first - second + rng.gumbel(size=first.shape)).argmax(axis=1)
    weights = metrics.fit_weights(CLASSES, drawn, [first, second])
    assert weights[0] > 0.5 and weights[1] == 0


def test_labels_that_a_fold_lacks_decide_no_weight(rng):
    """Their logits are those of `linear.NEVER`, in both models."""
    labels, first = draw(rng, 3, 600)
    second = rng.normal(size=first.shape)
    expected = metrics.fit_weights(CLASSES, labels, [first, second])
    wide = [np.pad(z, [(0, 50), (0, 1)]) for z in (first, second)]
    for logits in wide:
        logits[:, 3] = linear.NEVER
    task = Task("t", "", ("x",), "y", tuple("abcd"), "accuracy")
    rare = np.concatenate([labels, np.full(50, 3)])
    weights = metrics.fit_weights(task, rare, wide)
    np.testing.assert_allclose(weights, expected, atol=1e-3)

    # Two classes may have two units.
    two = [z[:, [0, 3]] for z in wide]
    rare = np.array([0] * 600 + [1] * 50)
    weights = metrics.fit_weights(task, rare, two)
    np.testing.assert_allclose(
        weights,
        metrics.fit_weights(task, rare[:600], [z[:600] for z in two]),
        atol=1e-3,
    )

    # Of several labels, one column of some texts.
    labels = (first > 0) * 1
    expected = metrics.fit_weights(LABELS, labels, [first, second])
    wide = [np.pad(z, [(0, 0), (0, 1)]) for z in (first, second)]
    for logits in wide:
        logits[:, 3] = linear.NEVER
    labels = np.pad(labels, [(0, 0), (0, 1)], constant_values=1)
    weights = metrics.fit_weights(LABELS, labels, wide)
    np.testing.assert_allclose(weights, expected, atol=1e-3)


def test_states_alone_count_where_nothing_decides(rng):
    never = np.full((5, 1), linear.NEVER)
    weights = metrics.fit_weights(CLASSES, np.ones(5, int), [never, never])
    assert weights.tolist() == [1, 0]
    # Both are wrong, so that no weight at all would have the least loss.
    logits = rng.normal(size=(400, 1))
    labels = (logits[:, 0] < 0) * 1
    weights = metrics.fit_weights(CLASSES, labels, [logits, logits])
    assert weights.tolist() == [1, 0]


def test_weights_of_scores_have_the_sum_1_in_the_scale_of_the_task(rng):
    middle, unit = SCORES.score_scale
    first, second, noise = rng.normal(size=(3, 5000, 1))
    scaled = 0.3 * first + 0.7 * second + 0.1 * noise
    labels = (middle + unit * scaled[:, 0]).astype(np.float32)
    weights = metrics.fit_weights(SCORES, labels, [first, second])
    np.testing.assert_allclose(weights, [0.3, 0.7], atol=0.02)
    # The unit of the scores does not matter, and neither does their number.
    task = dataclasses.replace(SCORES, score_scale=None)
    few = 1e-2 * first[:20], 1e-2 * second[:20]
    labels = (0.3 * few[0] + 0.7 * few[1])[:, 0]
    weights = metrics.fit_weights(task, labels, few)
    np.testing.assert_allclose(weights, [0.3, 0.7], rtol=1e-6)
    for better, other in ((first, -first), (first, first)):
        labels = (middle + unit * 2 * better[:, 0]).astype(np.float32)
        weights = metrics.fit_weights(SCORES, labels, [better, other])
        np.testing.assert_array_equal(weights, [1, 0])


def test_the_surest_answers_are_given_first():
    confidence = np.array(
        [0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.6, 0.6]
    )
    logits = np.log(confidence / (1 - confidence))[:, None]
    labels = np.array([1, 1, 1, 1, 0, 1, 1, 0, 0, 0])
    covered = metrics.measure_coverage(labels, logits)
    assert [line.share for line in covered] == [1, 1, 1, 0.7, 0.5]  # ties
    assert [line.accuracy for line in covered[2:]] == pytest.approx(
        [6 / 10, 6 / 7, 4 / 5]
    )
    assert [line.confidence for line in covered[2:]] == pytest.approx(
        [0.6, 0.65, 0.75]
    )
    assert metrics.measure_coverage(labels[:0], logits[:0]) == []


def test_answers_of_calibrated_logits_cover_as_much(rng):
    labels, logits = draw(rng, 4, 500)
    before = metrics.measure_coverage(labels, logits)
    after = metrics.measure_coverage(labels, logits / 2)
    assert [line.share for line in after] == [line.share for line in before]
    assert all(a.confidence < b.confidence for a, b in zip(after, before))
