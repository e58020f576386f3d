"""Expected leads are posterior means; nothing trains."""

import math

import numpy as np
import pytest

from tf_transfer.comparison.estimates import Estimate, Ranged, UNKNOWN
from tf_transfer.searches import leads
from tf_transfer.searches.leads import expect_leads


def observe(value, error):
    return Estimate(value, error, math.inf).ranged()


def test_one_lead_is_drawn_towards_the_usual_one():
    variance = leads.TASK**2 + leads.APPROACH**2 + leads.VARIANT**2
    [expected] = expect_leads([observe(6.0, 3.0)], [1.0], ["last 1"])
    assert expected == pytest.approx(1 + 5 * variance / (variance + 9))


def test_a_lead_without_an_error_is_taken_as_it_is():
    [expected] = expect_leads([Ranged(6.0)], [1.0], ["last 1"])
    assert expected == pytest.approx(6.0)


def test_posterior_means_are_those_of_draws():
    """By regression on leads that are drawn from the model."""
    rng = np.random.default_rng(0)
    draws, errors = 400_000, np.array([1.0, 5.0, 3.0])
    task = rng.normal(0, leads.TASK, (draws, 1))
    last, everything = rng.normal(0, leads.APPROACH, (2, draws))
    own = rng.normal(0, leads.VARIANT, (draws, 3))
    true = task + np.stack([last, everything, everything], axis=1) + own
    true += [0.0, 1.5, 1.5]
    seen = true + rng.normal(size=(draws, 3)) * errors
    inputs = np.column_stack([seen, np.ones(draws)])
    weights, *_ = np.linalg.lstsq(inputs, true)
    observed = [2.0, -1.0, 3.0]
    expected = expect_leads(
        [observe(*pair) for pair in zip(observed, errors)],
        [0.0, 1.5, 1.5],
        ["last 2", "everything", "everything"],
    )
    np.testing.assert_allclose(expected, [*observed, 1.0] @ weights, atol=0.05)


def test_leads_of_others_count_where_the_own_is_uncertain():
    own, names = observe(-1.0, 5.0), ["everything", "last 2"]
    for lead in (5.0, -5.0):
        expected, _ = expect_leads([own, observe(lead, 1.0)], [1.5, 0.0], names)
        assert math.copysign(1, expected) == math.copysign(1, lead)


def test_what_is_not_compared_is_last():
    expected = expect_leads([UNKNOWN, observe(-9.0, 1.0)], [0, 0], ["a", "b"])
    assert expected[0] == -math.inf < expected[1]
    assert expect_leads([], [], []) == []
