"""How many trained blocks are enough: operating points of a freezing study.

A study has scores for each number k of trained blocks, and for `all`, the model
that trains everything. The operating point at a quality q is the smallest k
whose mean score is above q times the mean of `all`.
"""

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Literal

import numpy as np

from tf_transfer.utils.errors import UserError

ALL: Literal["all"] = "all"
QUALITIES = (0.9, 0.95)
LEVEL = 0.95  # of an interval
AUTHORS_SHARE = 0.9  # of the best trial; see `authors_mean`
TIE = 1e-5  # of a score: what the rounding of equal scores may differ by
RESAMPLES = 2000

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
    kept = keep_as_authors(scores)
    return float(np.mean(kept)) if kept else 0.0


def keep_as_authors(scores: Sequence[float]) -> list[float]:
    """The trials that the authors' averaging keeps; see `authors_mean`."""
    threshold = AUTHORS_SHARE * (1 + TIE) * max(scores, default=0.0)
    return [score for score in scores if score > 0 and score > threshold]


def operating_point(
    trials: Trials,
    quality: float,
    mean: Callable[[Sequence[float]], float] = plain_mean,
) -> int | None:
    """The fewest trained blocks that reach a quality, or None.

    Args:
        trials: scores by number of trained blocks, and by `all`.
        quality: share of the score of `all` that must be exceeded.
        mean: mean of the trials.
    """
    threshold = quality * mean(trials[ALL])
    enough = [
        blocks
        for blocks, scores in trials.items()
        if isinstance(blocks, int) and mean(scores) > threshold
    ]
    return min(enough, default=None)


def bisect(
    candidates: Sequence[int], passes: Callable[[int], bool]
) -> int | None:
    """The fewest trained blocks that pass, with few numbers tried, or None.

    It assumes that more trained blocks are never worse.

    Args:
        candidates: numbers of trained blocks, rising.
        passes: whether a number of trained blocks reaches the quality.
    """
    failing, passing = -1, len(candidates)
    while passing - failing > 1:
        middle = (failing + passing) // 2
        if passes(candidates[middle]):
            passing = middle
        else:
            failing = middle
    return candidates[passing] if passing < len(candidates) else None


def untried_below(trials: Trials, point: int) -> int:
    """How many numbers just below the point were not tried.

    They lie between the point and the next smaller number that was tried; the
    fewest blocks that are enough may be one of them.
    """
    smaller = [n for n in trials if isinstance(n, int) and n < point]
    return point - 1 - max(smaller) if smaller else point


@dataclasses.dataclass(frozen=True)
class Interval:
    """Where an operating point lies, from trials drawn with replacement.

    Attributes:
        low, high: ends of the interval; None stands for "never". Numbers that
            were not tried count as enough where the next larger one is.
        shares: how often each number of blocks was the operating point.
    """

    low: int | None
    high: int | None
    shares: dict[int | None, float]


def interval(
    trials: Trials,
    quality: float,
    level: float = LEVEL,
    seed: int = 0,
    count: int = RESAMPLES,
) -> Interval:
    """A bootstrap interval of `operating_point`.

    Args:
        trials: see `operating_point`; two or more for each number.
        quality: see `operating_point`.
        level: confidence level.
        seed: of the random numbers.
        count: how many samples are drawn.

    Raises:
        ValueError: a number of blocks has a single trial.
    """
    if min(map(len, trials.values())) < 2:
        raise ValueError("an interval needs two trials of each")
    numbers = sorted(blocks for blocks in trials if isinstance(blocks, int))
    means = _resampled_means(trials, seed, count)
    passes = np.stack([means[n] > quality * means[ALL] for n in numbers])
    never = 1 + numbers[-1]
    highs = np.where(
        passes.any(axis=0), np.array(numbers)[passes.argmax(axis=0)], never
    )
    gaps = {n: untried_below(trials, n) for n in numbers} | {never: 0}
    lows = np.array([high - gaps[high] for high in highs.tolist()])
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


def _resampled_means(
    trials: Trials, seed: int, count: int
) -> dict[int | str, np.ndarray]:
    """Means of `count` samples, drawn with replacement: float64 [count].

    A sample takes as many trials of each number of blocks as there are.
    """
    sizes = [len(scores) for scores in trials.values()]
    drawn = np.random.default_rng(seed).integers(
        0, np.repeat(sizes, sizes), (count, sum(sizes))
    )
    pieces = np.split(drawn, np.cumsum(sizes)[:-1], axis=1)
    return {
        blocks: np.asarray(scores)[piece].mean(axis=1)
        for (blocks, scores), piece in zip(trials.items(), pieces)
    }


def parse_qualities(text: str) -> tuple[float, ...]:
    """The qualities that `--quality` asks for, such as `0.9,0.95`.

    Raises:
        UserError: one is outside (0, 1], or given twice.
    """
    try:
        qualities = tuple(float(word) for word in text.split(","))
    except ValueError:
        qualities = ()
    if not qualities or not all(0 < q <= 1 for q in qualities):
        raise UserError(
            f"--quality={text}: give shares of the full score, above 0 and up "
            "to 1, such as 0.9 or 0.9,0.95."
        )
    if len(set(qualities)) < len(qualities):
        raise UserError(f"--quality={text}: has a share twice.")
    return qualities
