"""Temperatures are those that the logits were multiplied by."""

import numpy as np
import pytest

from tf_transfer.data import metrics


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


def test_several_labels_have_one_temperature(rng):
    logits = rng.normal(size=(5000, 3)) * 2
    labels = (rng.random(logits.shape) < metrics.sigmoid(logits)) * 1
    fitted = metrics.fit_temperature(labels, 2 * logits)
    assert fitted == pytest.approx(2, rel=0.06)


def test_answers_without_errors_have_the_lowest_temperature():
    labels = np.array([0, 1, 1])
    logits = np.array([[-1.0], [2.0], [0.5]])
    low, _ = metrics.TEMPERATURES
    fitted = metrics.fit_temperature(labels, logits)
    assert fitted == pytest.approx(low, rel=0.01)
