"""How many trained blocks are enough: operating points of a freezing study.

A study has scores for each number k of trained blocks, and for `all`, the model
that trains everything. The operating point at a quality q is the smallest k
whose mean score is above q times the mean of `all`.
"""

import dataclasses

import numpy as np

from tf_transfer.utils.errors import UserError

ALL = "all"
QUALITIES = (0.9, 0.95)
LEVEL = 0.95  # of an interval
AUTHORS_SHARE = 0.9  # of the best trial; see `authors_mean`
TIE = 1e-5  # of a score: what the rounding of equal scores may differ by
RESAMPLES = 2000


def plain_mean(scores):
    """The mean of all trials."""
    return float(np.mean(scores))


def authors_mean(scores):
    """The mean as the authors of "What Would Elsa Do?" took it.

    Their analysis leaves out trials that score 0, and those that are not above
    0.9 of the best trial; 0 where none is left.
    """
    bar = AUTHORS_SHARE * (1 + TIE) * max(scores)
    kept = [score for score in scores if score > 0 and score > bar]
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


def bisect(candidates, passes):
    """The fewest trained blocks that pass, with few numbers tried, or None.

    Takes it that more trained blocks are never worse.

    Args:
        candidates: numbers of trained blocks, rising.
        passes: function from one of them to whether it keeps the quality.
    """
    fails, holds = -1, len(candidates)
    while holds - fails > 1:
        middle = (fails + holds) // 2
        if passes(candidates[middle]):
            holds = middle
        else:
            fails = middle
    return candidates[holds] if holds < len(candidates) else None


def untried_below(trials, point):
    """How many smaller numbers than the point were not tried, next to it.

    They lie between the point and the next smaller number that was tried; the
    fewest blocks that are enough may be one of them.
    """
    smaller = [b for b in trials if b != ALL and b < point]
    return point - 1 - max(smaller) if smaller else point


@dataclasses.dataclass(frozen=True)
class Interval:
    """Where an operating point lies, from trials drawn with replacement.

    Attributes:
        low, high: `level` of the samples; None stands for "never". Numbers
            that were not tried count as enough where the next larger one is.
        shares: dict from a number of blocks to how often it was the point.
    """

    low: int | None
    high: int | None
    shares: dict


def interval(
    trials, quality, mean=plain_mean, level=LEVEL, seed=0, count=RESAMPLES
):
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
    never = 1 + max((b for b in trials if b != ALL), default=0)
    highs = np.array([never if point is None else point for point in found])
    lows = np.array(
        [
            never if point is None else point - untried_below(trials, point)
            for point in found
        ]
    )
    tail = (1 - level) / 2
    ends = (
        np.quantile(lows, tail, method="inverted_cdf"),
        np.quantile(highs, 1 - tail, method="inverted_cdf"),
    )
    low, high = (None if end == never else int(end) for end in ends)
    values, counts = np.unique(highs, return_counts=True)
    shares = {
        None if value == never else int(value): float(n / count)
        for value, n in zip(values, counts)
    }
    return Interval(low, high, shares)


def parse_qualities(text):
    """The qualities that `--quality` asks for, such as `0.9,0.95`.

    Raises:
        UserError: one is outside (0, 1], or given twice.
    """
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 < q <= 1 for q in found):
        raise UserError(
            f"--quality={text}: give shares of the full score, above 0 and up "
            "to 1, such as 0.9 or 0.9,0.95."
        )
    if len(set(found)) < len(found):
        raise UserError(f"--quality={text}: has a share twice.")
    return found
