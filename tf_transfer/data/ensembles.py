"""Several models of one task as one: mean of probabilities, majority vote.

Pure functions over the outputs of finished runs for the same examples. Their
results can be used like logits: the highest of a row is the predicted label.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tf_transfer.data import metrics
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class Member:
    """The output of one run for the examples of a split.

    Attributes:
        name: What messages call it.
        data: The identity of its data.
        splits: The settings that split its data, by name.
        ids: int64 [examples].
        labels: int64 [examples].
        logits: float32 [examples, units]; one unit for two labels.
    """

    name: str
    data: str
    splits: Mapping[str, Any]
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray


def join(members: Sequence[Member]) -> np.ndarray:
    """The probabilities that the members give each class of each example.

    Args:
        members: Two or more.

    Returns:
        float64 [members, examples, classes].

    Raises:
        UserError: They do not have the same data, splits and labels.
    """
    for member in members[1:]:
        _check(members[0], member)
    return np.stack(
        [metrics.probabilities(member.logits) for member in members]
    )


def _check(first: Member, other: Member) -> None:
    """Raises `UserError`, naming both, where two must not be joined."""
    names = [n for n in first.splits if first.splits[n] != other.splits.get(n)]
    reasons = {
        "has other data": first.data != other.data,
        f"splits its data differently ({', '.join(names)})": bool(names),
        "was tested on other examples": not np.array_equal(
            first.ids, other.ids
        ),
        "has other labels": not np.array_equal(first.labels, other.labels),
        "has other classes": _classes(first) != _classes(other),
    }
    for reason, applies in reasons.items():
        if applies:
            raise UserError(
                f"{other.name}: {reason} than {first.name}. Only runs over the "
                "same data, splits and labels make an ensemble."
            )


def _classes(member: Member) -> int:
    return metrics.probabilities(member.logits).shape[1]


def mean(joined: np.ndarray) -> np.ndarray:
    """The mean of the members' probabilities.

    Args:
        joined: float64 [members, examples, classes]. See `join`.

    Returns:
        float64 [examples, classes].
    """
    return joined.mean(axis=0)


def vote(joined: np.ndarray) -> np.ndarray:
    """The number of members that choose each class.

    Half of the mean probability is added. That is less than a vote, so it
    decides only between classes with equally many.

    Args:
        joined: float64 [members, examples, classes]. See `join`.

    Returns:
        float64 [examples, classes].
    """
    choices = joined.argmax(axis=2)[:, :, None]
    votes = (choices == np.arange(joined.shape[2])).sum(axis=0)
    return votes + 0.5 * mean(joined)
