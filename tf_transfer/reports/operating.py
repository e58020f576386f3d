"""How many trained blocks are enough: operating points of a freezing study.

A study has scores for each number k of trained blocks, and for `all`, the model
that trains everything. The operating point at a quality q is the smallest k
whose mean score is above q times the mean of `all`.
"""

import dataclasses

import numpy as np

ALL = "all"
AUTHORS_SHARE = 0.9  # of the best trial; see `authors_mean`
RESAMPLES = 2000


def plain_mean(scores):
    """The mean of all trials."""
    return float(np.mean(scores))


def authors_mean(scores):
    """The mean as the authors of "What Would Elsa Do?" took it.

    Their analysis leaves out trials that score 0, and those that are not above
    0.9 of the best trial; 0 where none is left.
    """
    kept = [s for s in scores if s > 0 and s > AUTHORS_SHARE * max(scores)]
    return float(np.mean(kept)) if kept else 0.0


def operating_point(trials, quality, mean=plain_mean):
    """The fewest trained blocks that keep a quality, or None.

    Args:
        trials: dict from numbers of trained blocks, and `all`, to lists of
            scores.
        quality: share of the score of `all` that is to be passed.
        mean: function from trials to their mean.
    """
    bar = quality * mean(trials[ALL])
    enough = [
        blocks
        for blocks, scores in trials.items()
        if blocks != ALL and mean(scores) > bar
    ]
    return min(enough, default=None)


@dataclasses.dataclass(frozen=True)
class Interval:
    """Where an operating point lies, from trials drawn with replacement.

    Attributes:
        low, high: 95 % of the samples; None stands for "never".
        shares: dict from a number of blocks to how often it was the point.
    """

    low: int | None
    high: int | None
    shares: dict


def interval(trials, quality, mean=plain_mean, seed=0, count=RESAMPLES):
    """A bootstrap interval of `operating_point`; it needs two trials a cell.

    Raises:
        ValueError: a cell has one trial.
    """
    if min(map(len, trials.values())) < 2:
        raise ValueError("an interval needs two trials of each")
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        drawn = {
            blocks: list(generator.choice(scores, len(scores)))
            for blocks, scores in trials.items()
        }
        found.append(operating_point(drawn, quality, mean))
    never = 1 + max(b for b in trials if b != ALL)
    numbers = np.array([never if point is None else point for point in found])
    ends = np.quantile(numbers, (0.025, 0.975), method="inverted_cdf")
    low, high = (None if end == never else int(end) for end in ends)
    values, counts = np.unique(numbers, return_counts=True)
    shares = {
        None if value == never else int(value): float(n / count)
        for value, n in zip(values, counts)
    }
    return Interval(low, high, shares)
