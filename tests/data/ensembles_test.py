"""Ensembles of runs over the same examples."""

import dataclasses

import numpy as np
import pytest

from tf_transfer.data import ensembles, metrics
from tf_transfer.utils.errors import UserError


def member(outputs, name="one", **changes):
    logits = np.array(outputs, np.float32)
    count = len(logits)
    return dataclasses.replace(
        ensembles.Member(
            name,
            "yahoo 1",
            {"split_seed": 0},
            np.arange(count),
            np.zeros(count, np.int64),
            logits,
        ),
        **changes,
    )


def yes(*probabilities):
    """Logits of one unit."""
    p = np.array(probabilities)
    return np.log(p / (1 - p))[:, None]


def test_one_very_sure_member_turns_the_mean_but_not_the_vote():
    joined = ensembles.join(
        [member(yes(0.4)), member(yes(0.4)), member(yes(0.99))]
    )
    assert joined.shape == (3, 1, 2)
    np.testing.assert_allclose(
        ensembles.mean(joined), [[1 - 1.79 / 3, 1.79 / 3]], atol=1e-6
    )
    assert metrics.decide(ensembles.mean(joined)).tolist() == [1]
    assert metrics.decide(ensembles.vote(joined)).tolist() == [0]


def test_a_vote_without_majority_is_decided_by_the_mean():
    three = [
        member(np.log([[0.50, 0.40, 0.10]])),
        member(np.log([[0.10, 0.60, 0.30]])),
        member(np.log([[0.05, 0.35, 0.60]])),
    ]
    scores = ensembles.vote(ensembles.join(three))
    assert metrics.decide(scores).tolist() == [1]
    # Two votes stand above one, whatever the probabilities.
    four = [*three, member(np.log([[0.34, 0.33, 0.33]]))]
    scores = ensembles.vote(ensembles.join(four))
    assert metrics.decide(scores).tolist() == [0]


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"data": "yahoo 2"}, "other: has other data than one."),
        (
            {"splits": {"split_seed": 1}},
            r"splits its data differently \(split_seed\)",
        ),
        ({"ids": np.array([1, 0])}, "was tested on other examples"),
        ({"labels": np.array([0, 1])}, "has other labels"),
        ({"logits": np.zeros((2, 3))}, "has other classes"),
    ],
)
def test_runs_over_other_data_splits_or_labels_are_refused(changes, said):
    other = member(yes(0.5, 0.5), "other", **changes)
    with pytest.raises(UserError, match=said):
        ensembles.join([member(yes(0.5, 0.5)), other])
