"""Means, tests and intervals. Pure functions over numbers and arrays."""

import dataclasses
import warnings

import numpy as np
import scipy.stats

RESAMPLES = 1000
LEVEL = 0.05
_CHUNK_ENTRIES = 4_000_000  # drawn at a time


@dataclasses.dataclass(frozen=True)
class Mean:
    """Mean and standard deviation of n values; no deviation of one."""

    mean: float
    deviation: float | None
    n: int


def mean_of(values):
    """`Mean` of the values, or None where there are none."""
    values = [float(value) for value in values if value is not None]
    if not values:
        return None
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Mean(float(np.mean(values)), deviation, len(values))


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


def welch(one, other):
    """Welch's t-test of two samples, or None where it says nothing.

    That is with fewer than two values on a side, or no spread on both.
    """
    if min(len(one), len(other)) < 2:
        return None
    if np.ptp(one) == 0 and np.ptp(other) == 0:
        return None
    with warnings.catch_warnings():
        # One side without spread, as a constant answer's, is no trouble.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = scipy.stats.ttest_ind(one, other, equal_var=False)
        interval = found.confidence_interval(1 - LEVEL)
    return Welch(
        float(found.statistic),
        float(found.df),
        float(found.pvalue),
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


def resampled(metric, labels, outputs, seed=0, count=RESAMPLES):
    """The score on so many samples of the test examples, with replacement.

    The samples depend on `seed` and the number of examples alone: two sides
    that are scored on the same test set are scored on the same samples.

    Args:
        metric: name of one of `SCORES`.
        labels: [examples].
        outputs: a list (a seed each) of label ids, or of scores for a
            correlation, [examples]. Their scores are averaged.

    Returns:
        float64 [count].
    """
    generator = np.random.default_rng(seed)
    labels = np.asarray(labels)
    examples = len(labels)
    rows = max(1, _CHUNK_ENTRIES // examples)
    found = []
    for begin in range(0, count, rows):
        size = min(rows, count - begin)
        drawn = generator.integers(0, examples, (size, examples))
        drawn += examples * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * examples)
        times = times.reshape(size, examples).astype(np.float64)
        scores = SCORES[metric](labels, outputs, times)
        found.append(np.mean(scores, axis=0))
    return np.concatenate(found)


def paired(ones, others):
    """Whether two sides differ on more than these test examples.

    Args:
        ones, others: what `resampled` gave for each.

    Returns:
        `Paired`.
    """
    difference = ones - others
    low, high = np.quantile(difference, (LEVEL / 2, 1 - LEVEL / 2))
    p = 2 * min(np.mean(difference <= 0), np.mean(difference >= 0))
    return Paired(float(low), float(high), float(min(p, 1.0)))


# === Metrics of many samples at once ===
#
# Each takes labels and output [examples], and how often each example is in
# each sample, [samples, examples]. `SCORES` take a list of outputs.


def _accuracy(labels, output, times):
    return times @ (labels == output) / len(labels)


def _confusion(labels, output, times):
    labels, output = labels == 1, output == 1
    return (
        times @ (labels & output),
        times @ (~labels & output),
        times @ (labels & ~output),
        times @ (~labels & ~output),
    )


def _f1(labels, output, times):
    hit, false, missed, _ = _confusion(labels, output, times)
    return _ratio(2 * hit, 2 * hit + false + missed)


def _matthews(labels, output, times):
    hit, false, missed, right = _confusion(labels, output, times)
    return _ratio(
        hit * right - false * missed,
        np.sqrt(
            (hit + false) * (hit + missed) * (right + false) * (right + missed)
        ),
    )


def _pearson(labels, output, times):
    return _correlation(labels[None], output[None], times)


def _spearman(labels, outputs, times):
    ranks = _ranks(labels, times)
    return [
        _correlation(ranks, _ranks(output, times), times) for output in outputs
    ]


def _ranks(values, times):
    """The average rank of each example's value within each sample."""
    _, kind = np.unique(values, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    begins = np.flatnonzero(np.diff(kind[order], prepend=-1))
    equal = np.add.reduceat(times[:, order], begins, axis=1)
    below = np.cumsum(equal, axis=1) - equal
    return (below + (equal + 1) / 2)[:, kind]


def _correlation(one, other, times):
    one = one - (times * one).sum(axis=1, keepdims=True) / times.shape[1]
    other = other - (times * other).sum(axis=1, keepdims=True) / times.shape[1]
    weighted = times * one
    return _ratio(
        (weighted * other).sum(axis=1),
        np.sqrt(
            (weighted * one).sum(axis=1) * (times * other * other).sum(axis=1)
        ),
    )


def _ratio(above, below):
    above = np.asarray(above, np.float64)
    return np.divide(above, below, np.zeros_like(above), where=below > 1e-12)


def _each(score):
    return lambda labels, outputs, times: [
        score(labels, output, times) for output in outputs
    ]


SCORES = {
    "accuracy": _each(_accuracy),
    "f1": _each(_f1),
    "matthews": _each(_matthews),
    "pearson": _each(_pearson),
    "spearman": _spearman,
}


# === Choices among many ===


def pareto(points):
    """Which points no other beats in both: (cost, gain), less cost is better.

    Args:
        points: list of (cost, gain).

    Returns:
        A list of bools.
    """
    return [
        not any(
            (c <= cost and g >= gain) and (c < cost or g > gain)
            for c, g in points
        )
        for cost, gain in points
    ]
