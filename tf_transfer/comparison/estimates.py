"""Linear contrasts of cell means, with the components of their variance.

A cell is an approach on a task: its runs differ by seed alone. An estimate is a
contrast sum_i w_i mean_i of cells, or a smooth function of them with w_i its
gradient. The variance of a contrast is the sum of

    seeds   sum_i w_i^2 s_i^2 / n_i, of n_i runs with the variance s_i^2
    texts   the variance of sum_i w_i mean_i over resampled test texts, the same
            samples for all cells; less what seeds have counted already, the
            interaction of seeds and texts, sum_i w_i^2 v_i / n_i
    folds   (1 / J + n_test / n_train) s_d^2, of the contrast d in each of J
            folds (Nadeau and Bengio 2003, "Inference for the generalization
            error")

and its degrees of freedom are Satterthwaite's, V^2 / sum_k (V_k^2 / df_k).
"""

import collections
import dataclasses
import functools
import math
import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

LEVEL = 0.95
REALISTIC = 100  # seeds; larger numbers are not reported
FEWEST_SEEDS = 3  # or folds; of fewer, no interval is reported


@dataclasses.dataclass(frozen=True)
class Cell:
    """The values of an approach on a task.

    Attributes:
        values: float64 [runs], or [folds].
        task: Equal for the cells of a task.
        texts: Names the texts of `resampled`.
        resampled: float64 [runs, resamples], each run's value on samples of the
            texts, less its value; None where it is not known.
        texts_freedom: Degrees of freedom of a variance over `resampled`; None
            for the number of samples less 1.
        fold_share: Of folds, examples that test over those that train.
        is_trained: Whether a seed could change the values.
        in_turn: Of times, whether they were measured in turn with others.
        key: Equal cells have equal keys. A shared cell contributes its
            variance once.
    """

    values: np.ndarray = dataclasses.field(compare=False)
    task: Hashable = dataclasses.field(default=None, compare=False)
    texts: Hashable = dataclasses.field(default=None, compare=False)
    resampled: np.ndarray | None = dataclasses.field(
        default=None, compare=False
    )
    texts_freedom: float | None = dataclasses.field(default=None, compare=False)
    fold_share: float = dataclasses.field(default=0.0, compare=False)
    is_trained: bool = dataclasses.field(default=True, compare=False)
    in_turn: bool = dataclasses.field(default=False, compare=False)
    key: Hashable = dataclasses.field(default_factory=object)

    @property
    def variance(self) -> float:
        """The variance of one run over seeds."""
        if not self.is_trained or len(self.values) < 2:
            return 0.0
        return float(np.var(self.values, ddof=1))


@dataclasses.dataclass(frozen=True)
class Contrast:
    """A value, and how it changes with the mean of each cell."""

    value: float
    weights: Mapping[Cell, float]

    @classmethod
    def of(cls, cell: Cell) -> "Contrast":
        """The mean of a cell."""
        return cls(float(np.mean(cell.values)), {cell: 1.0})

    def __add__(self, other: "Contrast") -> "Contrast":
        weights = {
            cell: self.weights.get(cell, 0.0) + other.weights.get(cell, 0.0)
            for cell in {**self.weights, **other.weights}
        }
        return Contrast(self.value + other.value, weights)

    def __sub__(self, other: "Contrast") -> "Contrast":
        return self + other * -1

    def __mul__(self, factor: float) -> "Contrast":
        weights = {cell: factor * w for cell, w in self.weights.items()}
        return Contrast(factor * self.value, weights)

    def __truediv__(self, other: "Contrast") -> "Contrast":
        """The ratio, to the first order."""
        ratio = self.value / other.value
        change = (self - other * ratio) * (1 / other.value)
        return Contrast(ratio, change.weights)

    def estimate(self) -> "Estimate":
        """The value with its standard error."""
        weights = {c: w for c, w in self.weights.items() if w}
        parts = [*_seeds(weights), *_texts(weights), *_folds(weights)]
        parts = [part for part in parts if part.variance > 0]
        by_name: dict[str, float] = collections.defaultdict(float)
        for part in parts:
            by_name[part.name] += part.variance
        is_lucky = any(cell.is_trained for cell in weights)
        if not parts or (is_lucky and by_name.keys() == {"texts"}):
            # Where no run differs, the luck of training is not known.
            return Estimate(self.value, 0.0, math.nan)
        total = sum(part.variance for part in parts)
        squares = sum(part.variance**2 / part.freedom for part in parts)
        return Estimate(
            self.value,
            math.sqrt(total),
            total**2 / squares if squares else math.inf,
            {name: math.sqrt(v) for name, v in by_name.items()},
        )

    def ranged(self, logs: bool = False) -> "Ranged":
        """The value with its 95 % interval.

        It has none where a cell that is trained has one run. `logs` shows a
        difference of logarithms as a ratio in percent.
        """
        estimate = None
        low = high = math.nan
        if all(len(c.values) > 1 or not c.is_trained for c in self.weights):
            estimate = self.estimate()
            low, high = estimate.interval()
            if not estimate.error and any(
                cell.resampled is not None for cell in self.weights
            ):
                estimate = None  # equal on all samples: nothing is known
        ends = self.value, low, high
        if logs:
            ends = tuple(100 * np.exp(ends))
        return Ranged(*ends, estimate)


def mean(contrasts: Sequence[Contrast]) -> Contrast:
    """The mean of several contrasts."""
    return functools.reduce(operator.add, contrasts) * (1 / len(contrasts))


def subtract(
    cells: Sequence[Cell], others: Sequence[Cell], logarithms: bool = False
) -> "Ranged":
    """The mean over tasks of a cell's value minus another's.

    Args:
        cells: The cell of each task.
        others: The cell of each task that is subtracted.
        logarithms: Whether the values are, and a ratio in percent is returned.

    Returns:
        `UNKNOWN` where a cell has no value, or two are of different texts.
    """
    contrasts = []
    for cell, other in zip(cells, others):
        texts = {cell.texts, other.texts} - {None}
        if not len(cell.values) or not len(other.values) or len(texts) > 1:
            return UNKNOWN
        contrasts.append(Contrast.of(cell) - Contrast.of(other))
    if not contrasts:
        return UNKNOWN
    return mean(contrasts).ranged(logarithms)


class Component(NamedTuple):
    """A component of a variance: its name and degrees of freedom."""

    name: str
    variance: float
    freedom: float


Weights = Mapping[Cell, float]


def _seeds(weights: Weights) -> Iterable[Component]:
    for cell, weight in weights.items():
        if not cell.fold_share:
            count = len(cell.values)
            variance = weight**2 * cell.variance / count
            yield Component("seeds", variance, count - 1)


def _texts(weights: Weights) -> Iterable[Component]:
    # A group alone would not be paired.
    unknown = {c.task for c in weights if c.resampled is None}
    by_texts = collections.defaultdict(list)
    freedoms: dict[Hashable, float | None] = {}
    for cell, weight in weights.items():
        if cell.resampled is not None and cell.task not in unknown:
            by_texts[cell.texts].append((cell.resampled, weight))
            freedoms[cell.texts] = cell.texts_freedom
    for texts, members in by_texts.items():
        total = sum(w * resampled.mean(axis=0) for resampled, w in members)
        counted = sum(w**2 * _interaction(r) / len(r) for r, w in members)
        variance = float(np.var(total, ddof=1)) - counted
        freedom = freedoms[texts]
        if freedom is None:
            freedom = np.size(total) - 1
        yield Component("texts", variance, freedom)


def _interaction(resampled: np.ndarray) -> float:
    """The variance of a run from the interaction of seeds and texts."""
    runs = len(resampled)
    if runs < 2:
        return 0.0
    alone = np.var(resampled, axis=1, ddof=1).mean()
    together = np.var(resampled.mean(axis=0), ddof=1)
    return max(0.0, float(alone - together) * runs / (runs - 1))


def _folds(weights: Weights) -> Iterable[Component]:
    members = [(c, w) for c, w in weights.items() if c.fold_share]
    if members:
        differences = sum(w * c.values for c, w in members)
        count = len(members[0][0].values)
        share = 1 / count + max(cell.fold_share for cell, _ in members)
        variance = share * float(np.var(differences, ddof=1))
        yield Component("folds", variance, count - 1)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value with its standard error and degrees of freedom.

    Attributes:
        error: 0 where no run of a cell differs from the others.
        freedom: Nan where `error` is 0.
        parts: Standard errors of `seeds`, `texts` and `folds`, of those that
            are known.
    """

    value: float
    error: float
    freedom: float
    parts: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Both ends of the confidence interval; nan where no error is known."""
        if not self.error:
            return math.nan, math.nan
        reach = self.error * scipy.stats.t.ppf((1 + level) / 2, self.freedom)
        return self.value - reach, self.value + reach

    def ranged(self) -> "Ranged":
        """The value with its 95 % interval."""
        return Ranged(self.value, *self.interval(), self)

    def p_above(self, bound: float = 0.0) -> float:
        """One-sided p-value of "it is not above the bound".

        It is 1 where no group varies, since chance is not known then.
        """
        if not self.error:
            return 1.0
        t = (self.value - bound) / self.error
        return float(scipy.stats.t.sf(t, self.freedom))

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "it is not below the bound"."""
        return Estimate(-self.value, self.error, self.freedom).p_above(-bound)

    def p_within(self, low: float, high: float) -> float:
        """p-value of two one-sided tests: it is not between two bounds.

        It is doubled, so that it is 5 % where the 95 % interval ends at one.
        """
        return min(1.0, 2 * max(self.p_above(low), self.p_below(high)))

    def p_outside(self, low: float, high: float) -> float:
        """p-value of "it is between two bounds", two-sided."""
        return min(1.0, 2 * min(self.p_above(high), self.p_below(low)))

    def seeds_needed(
        self, room: float, runs: int, level: float = LEVEL
    ) -> int | None:
        """About how many seeds would make the interval reach no further.

        Args:
            room: How far it may reach.
            runs: That the estimate is from.
            level: Of the interval.

        Returns:
            None if more than `REALISTIC` are needed: the other components of
            the variance do not shrink.
        """
        unknown = 0.0 if self.parts else self.error
        seeds = self.parts.get("seeds", unknown) ** 2
        if not seeds or room <= 0:
            return None
        for count in range(runs + 1, REALISTIC + 1):
            freedom = self.freedom * (count - 1) / max(runs - 1, 1)
            error = math.sqrt(seeds * runs / count + self.error**2 - seeds)
            if error * scipy.stats.t.ppf((1 + level) / 2, freedom) <= room:
                return count
        return None


@dataclasses.dataclass(frozen=True)
class Ranged:
    """A value with its 95 % interval; ends are nan where it has none.

    Attributes:
        estimate: What it is from; None where a cell that is trained has one
            run.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    estimate: Estimate | None = dataclasses.field(default=None, compare=False)

    @property
    def is_known(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def show(self, digits: int, sign: str = "", unit: str = "") -> str:
        """The value with its interval: `82.79 (81.20 to 84.38)`, or "".

        Args:
            digits: After the point.
            sign: `+` shows the sign of positive numbers.
            unit: After the value.
        """
        if not self.is_known:
            return ""
        form = f"{sign}z.{digits}f"
        text = f"{self.value:{form}}{unit}"
        if self.has_interval:
            text += f" ({self.low:{form}} to {self.high:{form}})"
        return text


UNKNOWN = Ranged()


def average(values: Sequence[float]) -> Ranged:
    """The mean of scores over seeds or folds, with an interval."""
    return Contrast.of(Cell(np.array(values))).ranged()


def partial_conjunction(p_values: Iterable[float], count: int) -> float:
    """p-value of "fewer than `count` of these effects exist".

    Bonferroni's of Benjamini and Heller (2008), "Screening for partial
    conjunction hypotheses": (m - count + 1) times the count-th smallest. With
    count = m it is the largest, with 1 Bonferroni's.
    """
    ordered = sorted(p_values)
    return min(1.0, (len(ordered) - count + 1) * ordered[count - 1])


def adjust_for_many(p_values: Sequence[float]) -> list[float]:
    """p-values after the correction of Holm (1979), in the same order.

    The k-th smallest of m is multiplied by m - k + 1, and is at least as large
    as the one before it.
    """
    values = np.asarray(p_values, float)
    order = np.argsort(values)
    weighted = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(weighted), 1.0)
    return adjusted.tolist()
