"""Expected leads are posterior means; nothing trains."""

import math

import numpy as np
import pytest

from tf_transfer.searches import leads
from tf_transfer.searches.leads import expect_leads

PAIR = ["everything", "last 2"]


def test_one_lead_is_drawn_towards_the_usual_one():
    variance = leads.TASK**2 + leads.APPROACH**2 + leads.VARIANT**2
    noise = np.array([[9.0]])
    [expected] = expect_leads([6.0], noise, [1.0], ["last 1"])
    assert expected == pytest.approx(1 + 5 * variance / (variance + 9))


def test_a_lead_without_an_error_is_taken_as_it_is():
    [expected] = expect_leads([6.0], np.zeros((1, 1)), [1.0], ["last 1"])
    assert expected == pytest.approx(6.0)


def test_posterior_means_are_those_of_draws():
    """By regression on leads that are drawn from the model."""
    rng = np.random.default_rng(0)
    samples = 400_000
    noise = np.array([[1.0, 0.5, 0.0], [0.5, 25.0, 12.0], [0.0, 12.0, 9.0]])
    task = rng.normal(0, leads.TASK, (samples, 1))
    last, everything = rng.normal(0, leads.APPROACH, (2, samples))
    own = rng.normal(0, leads.VARIANT, (samples, 3))
    true = task + np.stack([last, everything, everything], axis=1) + own
    true += [0.0, 1.5, 1.5]
    seen = true + rng.multivariate_normal(np.zeros(3), noise, samples)
    inputs = np.column_stack([seen, np.ones(samples)])
    weights, *_ = np.linalg.lstsq(inputs, true)
    observed = [2.0, -1.0, 3.0]
    expected = expect_leads(
        observed,
        noise,
        [0.0, 1.5, 1.5],
        ["last 2", "everything", "everything"],
    )
    np.testing.assert_allclose(expected, [*observed, 1.0] @ weights, atol=0.05)


def test_leads_of_others_count_where_the_own_is_uncertain():
    noise = np.diag([25.0, 1.0])
    for lead in (5.0, -5.0):
        expected, _ = expect_leads([-1.0, lead], noise, [1.5, 0.0], PAIR)
        assert math.copysign(1, expected) == math.copysign(1, lead)


def test_who_loses_on_shared_texts_is_behind_however_uncertain_its_lead():
    """Both have the errors of the same texts, which cancel between them."""
    observed, usual = [-1.0, 2.0], [1.5, 0.0]
    apart = expect_leads(observed, np.diag([25.0, 25.0]), usual, PAIR)
    assert apart[0] > apart[1]
    shared = np.array([[25.0, 24.0], [24.0, 25.0]])
    first, second = expect_leads(observed, shared, usual, PAIR)
    assert first < second


def test_what_is_not_compared_is_last():
    noise = np.diag([0.0, 1.0])
    expected = expect_leads([math.nan, -9.0], noise, [0, 0], ["a", "b"])
    assert expected[0] == -math.inf < expected[1]
