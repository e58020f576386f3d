"""Temperatures and thresholds are those that a search by hand gives."""

import numpy as np
import pytest
import sklearn.metrics

from tf_transfer.data import calibration, metrics


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
    fitted = calibration.fit_temperature(labels, factor * logits)
    assert fitted == pytest.approx(factor, rel=0.06)
    before, after = (
        calibration.measure(labels, x)
        for x in (factor * logits, factor * logits / fitted)
    )
    assert after["expected_error"] < 0.02 < before["expected_error"]
    assert after["brier"] < before["brier"]


def test_several_labels_have_one_temperature(rng):
    logits = rng.normal(size=(5000, 3)) * 2
    labels = (rng.random(logits.shape) < metrics.sigmoid(logits)) * 1
    fitted = calibration.fit_temperature(labels, 2 * logits)
    assert fitted == pytest.approx(2, rel=0.06)


def test_answers_without_errors_have_the_lowest_temperature():
    labels = np.array([0, 1, 1])
    logits = np.array([[-1.0], [2.0], [0.5]])
    low, _ = calibration.TEMPERATURES
    fitted = calibration.fit_temperature(labels, logits)
    assert fitted == pytest.approx(low, rel=0.01)


def test_a_threshold_has_the_best_f1_of_all(rng):
    for _ in range(20):
        labels = rng.integers(0, 2, 30)
        labels[0] = 1
        probabilities = np.round(rng.uniform(0.06, 1, 30), 1)
        threshold, score = calibration.choose_threshold(labels, probabilities)
        scores = [
            sklearn.metrics.f1_score(
                labels, probabilities > other, zero_division=0.0
            )
            for other in np.arange(0.05, 1.1, 0.1)
        ]
        chosen = sklearn.metrics.f1_score(labels, probabilities > threshold)
        assert score == pytest.approx(max(scores)) == pytest.approx(chosen)


def test_of_equal_thresholds_the_one_nearest_to_one_half_is_chosen():
    labels = np.array([1, 0, 0, 1, 1, 0])
    probabilities = np.array([0.9, 0.6, 0.6, 0.6, 0.4, 0.2])
    threshold, score = calibration.choose_threshold(labels, probabilities)
    assert (threshold, score) == (pytest.approx(0.3), pytest.approx(0.75))
    # Without errors, any threshold between the two would do.
    threshold, score = calibration.choose_threshold(
        np.array([1, 0]), np.array([0.8, 0.1])
    )
    assert (threshold, score) == (pytest.approx(0.45), 1)
    # One of one, or two of four: both F1 are 2 / 3.
    labels = np.array([1, 0, 0, 1])
    threshold, score = calibration.choose_threshold(
        labels, np.array([0.9, 0.7, 0.6, 0.2])
    )
    assert (threshold, score) == (pytest.approx(0.8), pytest.approx(2 / 3))
