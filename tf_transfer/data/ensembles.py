"""Several models of one task as one: mean of probabilities, majority vote.

Pure functions over what finished runs put out for the same examples. What they
return is read like logits: the highest of a row is the answer.
"""

import dataclasses

import numpy as np

from tf_transfer.data import metrics
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class Member:
    """What one run put out for the examples of a split.

    Attributes:
        name: what messages call it.
        data: str. The identity of its data.
        splits: dict. The settings that part its data, by name.
        ids: int64 [examples].
        labels: int64 [examples].
        logits: float32 [examples, units]; one unit is a yes/no.
    """

    name: str
    data: str
    splits: dict
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray


def join(members):
    """The probabilities that the members give each class of each example.

    Args:
        members: list of `Member`, two or more.

    Returns:
        float64 [members, examples, classes].

    Raises:
        UserError: there are fewer, or they are not over the same data, splits
            and labels.
    """
    if len(members) < 2:
        raise UserError("An ensemble takes two runs or more.")
    for member in members[1:]:
        _check(members[0], member)
    return np.stack(
        [metrics.probabilities(member.logits) for member in members]
    )


def _check(first, other):
    """Raises `UserError`, naming both, where two may not be joined."""
    names = [n for n in first.splits if first.splits[n] != other.splits.get(n)]
    reasons = {
        "is over other data": first.data != other.data,
        f"parts its data otherwise ({', '.join(names)})": bool(names),
        "was tested on other examples": not np.array_equal(
            first.ids, other.ids
        ),
        "has other labels": not np.array_equal(first.labels, other.labels),
        "tells other classes apart": first.logits.shape != other.logits.shape,
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise UserError(
                f"{other.name}: {reason} than {first.name}. Only runs over the "
                "same data, splits and labels make an ensemble."
            )


def mean(joined):
    """The mean of the members' probabilities: float64 [examples, classes]."""
    return joined.mean(axis=0)


def vote(joined):
    """How many members choose each class: float64 [examples, classes].

    Half of the mean probability is added, less than any vote: it decides where
    classes have equally many.
    """
    choices = joined.argmax(axis=2)[:, :, None]
    votes = (choices == np.arange(joined.shape[2])).sum(axis=0)
    return votes + 0.5 * mean(joined)
