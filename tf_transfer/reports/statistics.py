"""Means, tests and intervals. Pure functions over numbers and arrays."""

import dataclasses
import warnings
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np

RESAMPLES = 1000
LEVEL = 0.05
_CHUNK_ENTRIES = 4_000_000  # drawn at a time


@dataclasses.dataclass(frozen=True)
class Mean:
    """Mean and standard deviation of n values; of one, no deviation."""

    mean: float
    deviation: float | None
    n: int


def mean_of(values: Iterable[float | None]) -> Mean | None:
    """Mean of the values that are not None; None where there are none."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    deviation = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Mean(float(np.mean(known)), deviation, len(known))


@dataclasses.dataclass(frozen=True)
class Welch:
    """Welch's t-test: t, degrees of freedom, two-sided p.

    Attributes:
        low, high: the 95 % interval of the difference of the means.
    """

    t: float
    degrees: float
    p: float
    low: float
    high: float


def welch(first: Sequence[float], second: Sequence[float]) -> Welch | None:
    """Welch's t-test of two samples.

    None where it says nothing: one sample has fewer than two values, or all
    values of each sample are equal.
    """
    if min(len(first), len(second)) < 2:
        return None
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return None
    import scipy.stats  # takes a second to load

    with warnings.catch_warnings():
        # One sample of equal values, as a constant answer's, is no trouble.
        warnings.simplefilter("ignore", RuntimeWarning)
        test = scipy.stats.ttest_ind(first, second, equal_var=False)
        interval = test.confidence_interval(1 - LEVEL)
    return Welch(
        float(test.statistic),
        float(test.df),
        float(test.pvalue),
        float(interval.low),
        float(interval.high),
    )


@dataclasses.dataclass(frozen=True)
class Paired:
    """A paired bootstrap over test examples, in the metric's own units.

    Attributes:
        low, high: the 95 % interval of the difference.
        p: two-sided; how often the difference has the other sign, twice.
    """

    low: float
    high: float
    p: float


def resampled(
    metric: str,
    labels: np.ndarray,
    outputs: Sequence[np.ndarray],
    seed: int = 0,
    count: int = RESAMPLES,
) -> np.ndarray:
    """The score on `count` samples of the test examples, with replacement.

    The samples depend on `seed` and the number of examples alone: models that
    are scored on the same test set are scored on the same samples.

    Args:
        metric: name of one of `SCORES`.
        labels: [examples].
        outputs: label ids of each seed's model, or scores for a correlation,
            [examples]. The score is the mean over seeds.
        seed: of the random numbers.
        count: how many samples are drawn.

    Returns:
        float64 [count].
    """
    generator = np.random.default_rng(seed)
    labels = np.asarray(labels)
    examples = len(labels)
    rows = max(1, _CHUNK_ENTRIES // examples)
    means = []
    for begin in range(0, count, rows):
        size = min(rows, count - begin)
        drawn = generator.integers(0, examples, (size, examples))
        drawn += examples * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * examples)
        times = times.reshape(size, examples).astype(np.float64)
        scores = SCORES[metric](labels, outputs, times)
        means.append(np.mean(scores, axis=0))
    return np.concatenate(means)


def paired(first: np.ndarray, second: np.ndarray) -> Paired:
    """Whether two models differ on more than these test examples.

    Args:
        first, second: what `resampled` returned for each.
    """
    difference = first - second
    low, high = np.quantile(difference, (LEVEL / 2, 1 - LEVEL / 2))
    p = 2 * min(np.mean(difference <= 0), np.mean(difference >= 0))
    return Paired(float(low), float(high), float(min(p, 1.0)))


# === Metrics of many samples at once ===
#
# Each takes labels and output [examples], and how often each example is in
# each sample, [samples, examples]. `SCORES` take a list of outputs.


def _accuracy(
    labels: np.ndarray, output: np.ndarray, times: np.ndarray
) -> np.ndarray:
    return times @ (labels == output) / len(labels)


def _confusion(
    labels: np.ndarray, output: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """True positives, false positives, false and true negatives."""
    labels, output = labels == 1, output == 1
    return (
        times @ (labels & output),
        times @ (~labels & output),
        times @ (labels & ~output),
        times @ (~labels & ~output),
    )


def _f1(
    labels: np.ndarray, output: np.ndarray, times: np.ndarray
) -> np.ndarray:
    hit, false, missed, _ = _confusion(labels, output, times)
    return _ratio(2 * hit, 2 * hit + false + missed)


def _matthews(
    labels: np.ndarray, output: np.ndarray, times: np.ndarray
) -> np.ndarray:
    hit, false, missed, right = _confusion(labels, output, times)
    return _ratio(
        hit * right - false * missed,
        np.sqrt(
            (hit + false) * (hit + missed) * (right + false) * (right + missed)
        ),
    )


def _pearson(
    labels: np.ndarray, output: np.ndarray, times: np.ndarray
) -> np.ndarray:
    return _correlation(labels[None], output[None], times)


def _spearman(
    labels: np.ndarray, outputs: Sequence[np.ndarray], times: np.ndarray
) -> list[np.ndarray]:
    ranks = _ranks(labels, times)
    return [
        _correlation(ranks, _ranks(output, times), times) for output in outputs
    ]


def _ranks(values: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The average rank of each example's value within each sample."""
    _, kind = np.unique(values, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    begins = np.flatnonzero(np.diff(kind[order], prepend=-1))
    equal = np.add.reduceat(times[:, order], begins, axis=1)
    below = np.cumsum(equal, axis=1) - equal
    return (below + (equal + 1) / 2)[:, kind]


def _correlation(
    first: np.ndarray, second: np.ndarray, times: np.ndarray
) -> np.ndarray:
    examples = times.shape[1]
    first = first - (times * first).sum(axis=1, keepdims=True) / examples
    second = second - (times * second).sum(axis=1, keepdims=True) / examples
    weighted = times * first
    return _ratio(
        (weighted * second).sum(axis=1),
        np.sqrt(
            (weighted * first).sum(axis=1)
            * (times * second * second).sum(axis=1)
        ),
    )


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    above = np.asarray(above, np.float64)
    return np.divide(above, below, np.zeros_like(above), where=below > 1e-12)


Score = Callable[
    [np.ndarray, Sequence[np.ndarray], np.ndarray], Sequence[np.ndarray]
]


def _for_every_output(
    score: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> Score:
    return lambda labels, outputs, times: [
        score(labels, output, times) for output in outputs
    ]


SCORES: dict[str, Score] = {
    "accuracy": _for_every_output(_accuracy),
    "f1": _for_every_output(_f1),
    "matthews": _for_every_output(_matthews),
    "pearson": _for_every_output(_pearson),
    "spearman": _spearman,
}


# === Choices among many ===


def pareto(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which points no other one surpasses in both cost and gain.

    Args:
        points: (cost, gain) of each; less cost and more gain are better.
    """
    return [
        not any(
            (c <= cost and g >= gain) and (c < cost or g > gain)
            for c, g in points
        )
        for cost, gain in points
    ]
