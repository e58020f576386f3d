"""How many trained blocks are enough: operating points of a freezing study.

A study has scores for each number k of trained blocks, and for `all`, the model
that trains everything. The operating point at a quality q is the smallest k
whose mean score is at least q times the mean of `all`, as in the paper: "at
least 90% of the full model quality".
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

ALL: Literal["all"] = "all"
QUALITIES = (0.9, 0.95)
LEVEL = 0.95  # of an interval
AUTHORS_SHARE = 0.9  # of the best trial; see `authors_mean`
TIE = 1e-5  # of a score: what the rounding of equal scores may differ by
RESAMPLES = 2000

Mean = Callable[[Sequence[float]], float]
# A number of trained blocks or `all`, to the scores of its trials.
Trials = Mapping[int | str, Sequence[float]]


def plain_mean(scores: Sequence[float]) -> float:
    """The mean of all trials."""
    return float(np.mean(scores))


def authors_mean(scores: Sequence[float]) -> float:
    """The mean as the authors of "What Would Elsa Do?" took it.

    Their analysis leaves out trials that score 0, and those that are not above
    0.9 of the best trial; 0 where none is left.
    """
    threshold = AUTHORS_SHARE * (1 + TIE) * max(scores, default=0.0)
    kept = [score for score in scores if score > max(threshold, 0.0)]
    return plain_mean(kept or [0.0])


def keep_share(trials: Trials) -> float:
    """The percentage of the full score that is left if no block trains.

    nan without trials of both, or if the full model scores 0. By the authors'
    averaging.
    """
    full = authors_mean(trials.get(ALL, ()))
    if 0 not in trials or not full:
        return math.nan
    return 100 * authors_mean(trials[0]) / full


def operating_point(
    trials: Trials,
    quality: float,
    mean: Mean = plain_mean,
) -> int | None:
    """The fewest trained blocks that reach a quality, or None.

    Args:
        trials: Scores by number of trained blocks, and by `all`.
        quality: Share of the score of `all` that must be reached.
        mean: Mean of the trials.
    """
    threshold = quality * mean(trials[ALL])
    enough = (
        blocks
        for blocks, scores in trials.items()
        if isinstance(blocks, int) and mean(scores) >= threshold
    )
    return min(enough, default=None)


def interval(
    trials: Trials,
    quality: float,
    level: float = LEVEL,
) -> tuple[int | None, int | None]:
    """A bootstrap interval of `operating_point`.

    Args:
        trials: See `operating_point`; two or more for each number.
        quality: See `operating_point`.
        level: Confidence level.

    Returns:
        Its low and its high end; None stands for "never". Numbers that were
        not tried count as enough where the next larger one is.
    """
    numbers = sorted(blocks for blocks in trials if isinstance(blocks, int))
    random = np.random.default_rng(0)
    means = {
        blocks: random.choice(scores, (RESAMPLES, len(scores))).mean(axis=1)
        for blocks, scores in trials.items()
    }
    passes = np.stack([means[n] >= quality * means[ALL] for n in numbers])
    # The place of each sample's point among the numbers; never comes last.
    indices = np.where(passes.any(axis=0), passes.argmax(axis=0), len(numbers))
    tails = (1 - level) / 2, (1 + level) / 2
    low, high = np.quantile(indices, tails, method="inverted_cdf").astype(int)
    # Numbers that were not tried may be enough, down to the one below.
    lowest = [0, *(number + 1 for number in numbers[:-1]), None]
    return lowest[low], [*numbers, None][high]
