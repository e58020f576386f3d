"""Differences of groups of runs, with intervals and p-values.

A group of runs that differ by seed alone has a mean with a standard error.
`uncertainties` carries these through differences, ratios and means over tasks,
and knows when two of them share a group; the degrees of freedom of the result
are Welch and Satterthwaite's:

    df = (sum c_i)^2 / sum (c_i^2 / (n_i - 1)),

where c_i is what group i adds to the variance. For two groups this is Welch's
t-test.
"""

import dataclasses
import math
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats
import uncertainties

LEVEL = 0.95


class Groups:
    """Means of groups, and how many runs each stands on.

    A group that is asked for twice is the same one: what depends on it twice
    does not count its luck twice.
    """

    def __init__(self) -> None:
        self._means: dict[Any, Any] = {}
        self._sizes: dict[Any, int] = {}

    def mean(self, name: Any, values: Sequence[float]) -> Any:
        """The mean of a group with its standard error.

        Args:
            name: of the group; hashable.
            values: of its runs, two or more.
        """
        if name not in self._means:
            error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
            mean: Any = float(np.mean(values))
            if error:  # equal values are a plain number
                mean = uncertainties.ufloat(mean, error)
                self._sizes[mean] = len(values)
            self._means[name] = mean
        return self._means[name]

    def estimate(self, value: Any) -> "Estimate":
        """What is known of a value made from means of this object."""
        if isinstance(value, float):
            return Estimate(value, 0.0, math.nan)
        parts = {
            variable: error**2
            for variable, error in value.error_components().items()
        }
        variance = sum(parts.values())
        if not variance:  # such as of a group less itself
            return Estimate(value.nominal_value, 0.0, math.nan)
        freedom = variance**2 / sum(
            part**2 / (self._sizes[variable] - 1)
            for variable, part in parts.items()
        )
        return Estimate(value.nominal_value, math.sqrt(variance), freedom)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value with its standard error and degrees of freedom.

    Attributes:
        error: 0 where all runs of every group gave the same.
        freedom: nan where `error` is 0.
    """

    value: float
    error: float
    freedom: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Both ends of the confidence interval."""
        if not self.error:
            return self.value, self.value
        reach = self.error * scipy.stats.t.ppf((1 + level) / 2, self.freedom)
        return self.value - reach, self.value + reach

    def p_above(self, bound: float = 0.0) -> float:
        """One-sided p-value of "it is not above the bound".

        It is 1 where no group varies, since then nothing is known of luck.
        """
        if not self.error:
            return 1.0
        t = (self.value - bound) / self.error
        return float(scipy.stats.t.sf(t, self.freedom))

    def p_below(self, bound: float = 0.0) -> float:
        """One-sided p-value of "it is not below the bound"."""
        return Estimate(-self.value, self.error, self.freedom).p_above(-bound)

    def p_within(self, margin: float) -> float:
        """p-value of two one-sided tests: it is outside of +- the margin."""
        return max(self.p_above(-margin), self.p_below(margin))

    def p_outside(self, margin: float) -> float:
        """p-value of "it is within +- the margin", on both sides."""
        return min(1.0, 2 * min(self.p_above(margin), self.p_below(-margin)))


def partial_conjunction(p_values: Iterable[float], count: int) -> float:
    """p-value of "fewer than `count` of these effects are there".

    Bonferroni's of Benjamini and Heller (2008), "Screening for partial
    conjunction hypotheses": (m - count + 1) times the count-th smallest. With
    count = m it is the largest, with 1 Bonferroni's.
    """
    ordered = sorted(p_values)
    return min(1.0, (len(ordered) - count + 1) * ordered[count - 1])


def spread_interval(groups: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """(pooled standard deviation, both ends of its 95 % interval).

    Args:
        groups: values of each group's runs, two or more, as if from normal
            distributions of one deviation.
    """
    arrays = [np.asarray(values) for values in groups]
    freedom = sum(len(values) - 1 for values in arrays)
    squares = sum(float(((v - v.mean()) ** 2).sum()) for v in arrays)
    tail = (1 - LEVEL) / 2
    low, high = (
        math.sqrt(squares / scipy.stats.chi2.ppf(share, freedom))
        for share in (1 - tail, tail)
    )
    return math.sqrt(squares / freedom), low, high


def p_of_maxima(first: np.ndarray, second: np.ndarray) -> float:
    """Permutation test: two-sided p-value of a difference of the maxima."""
    return float(
        scipy.stats.permutation_test(
            (first, second),
            lambda a, b, axis: np.max(a, axis=axis) - np.max(b, axis=axis),
            vectorized=True,
            n_resamples=9999,
            rng=np.random.default_rng(0),
        ).pvalue
    )
