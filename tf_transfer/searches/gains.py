"""What score a run may be expected to reach: a Gaussian process.

The best validation score of a setting within its first epochs, in points, is

    m + a * depth + (b + g) * log2 epochs + f(depth, rate, log2 epochs, variant)

f is a Gaussian process with the squared exponential kernel, of lengths
LENGTHS: doubling the trained blocks, one step of the rate (counted from the
approach's usual one), and a doubling of the epochs; approaches that differ in
something else (pooling, length, batch) correlate by SAME. a and b are
DEPTH_RISE and EPOCH_RISE: to train more, and longer, seldom makes worse. g, by
which this task differs in that (and the same for the depth), is normal around
zero. m is the mean of what was seen, and the scale of f its deviation, with
PRIOR_COUNT made-up observations; g's is a fixed share of it. Scores that are
more than WORST below the best count as that: how far a diverged run fell says
nothing of the others. Nothing is fitted, so the same records give the same
answer.

The expected gain of a run is E[max(0, score - best)] under that normal, where
`best` is the highest mean among the runs there are. What is next maximises it
by the second; a run that is continued is judged by the furthest rung that pays,
as one epoch of training everything may say little of eight.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

LENGTHS = (1.0, 1.5, 2.0)
SAME = 0.7
PRIOR_COUNT = 4
PRIOR_DEVIATION = 5.0  # points
DEPTH_RISE = 2.5  # points
EPOCH_RISE = 1.0
TRENDS = (0.3, 0.3)  # of the deviation: a doubling of blocks, of epochs
WORST = 15.0  # points


@dataclasses.dataclass(frozen=True)
class Point:
    """Where a score is, or may be.

    Attributes:
        depth: of the approach; see `space.Approach`.
        rate: steps from the approach's usual rate.
        epochs: how many.
        variant: of the approach.
    """

    depth: float
    rate: float
    epochs: int
    variant: int = 0


class Expectation:
    """Expected scores, given those seen.

    Args:
        points: of what was seen.
        scores: in points.
        noise: standard deviation of a score from one seed to the next, in
            points.
        floor: what is expected of a run before there is one, in points.

    Attributes:
        best: the highest mean score among the points; without any, the floor.
    """

    def __init__(
        self,
        points: Sequence[Point],
        scores: Sequence[float],
        noise: float,
        floor: float,
    ) -> None:
        values = np.asarray(scores, np.float64)
        if len(values):
            values = np.maximum(values, values.max() - WORST)
        count = len(values)
        values = values - _rises(points)
        self._mean = float(values.mean()) if count else floor
        spread = ((values - values.mean()) ** 2).sum() if count else 0.0
        self._variance = (PRIOR_COUNT * PRIOR_DEVIATION**2 + spread) / (
            PRIOR_COUNT + count
        )
        self._points = list(points)
        self.best = floor
        if count:
            inner = self._kernel(points, points)
            inner[np.diag_indices(count)] += noise**2 + 1e-6
            self._factor = np.linalg.cholesky(inner)
            self._weights = self._solve(values - self._mean)
            means, _ = self.predict(points)
            self.best = float(means.max())

    def _solve(self, right: np.ndarray) -> np.ndarray:
        half = np.linalg.solve(self._factor, right)
        return np.linalg.solve(self._factor.T, half)

    def _kernel(
        self, first: Sequence[Point], second: Sequence[Point]
    ) -> np.ndarray:
        """Covariances [first, second]."""
        one, other = _features(first), _features(second)
        squared = sum(
            ((one[:, None, i] - other[None, :, i]) / length) ** 2
            for i, length in enumerate(LENGTHS)
        )
        same = one[:, None, 3] == other[None, :, 3]
        process = np.exp(-squared / 2) * np.where(same, 1.0, SAME)
        trends = sum(
            share**2 * one[:, None, i] * other[None, :, i]
            for share, i in zip(TRENDS, (0, 2))
        )
        return self._variance * (process + trends)

    def predict(self, points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the scores at some points."""
        prior = np.diag(self._kernel(points, points))
        means = self._mean + _rises(points)
        if not self._points:
            return means, np.sqrt(prior)
        cross = self._kernel(self._points, points)
        means = means + cross.T @ self._weights
        known = np.einsum("ij,ij->j", cross, self._solve(cross))
        return means, np.sqrt(np.maximum(prior - known, 1e-9))

    def gains(self, points: Sequence[Point]) -> np.ndarray:
        """Expected rises above the best, in points."""
        means, deviations = self.predict(points)
        return np.array(
            [
                _expected_rise((mean - self.best) / deviation) * deviation
                for mean, deviation in zip(means, deviations)
            ]
        )


def _rises(points: Sequence[Point]) -> np.ndarray:
    return np.array(
        [
            DEPTH_RISE * p.depth + EPOCH_RISE * math.log2(p.epochs)
            for p in points
        ]
    )


def _features(points: Sequence[Point]) -> np.ndarray:
    return np.array(
        [(p.depth, p.rate, math.log2(p.epochs), p.variant) for p in points]
    )


def _expected_rise(z: float) -> float:
    """E[max(0, z + e)] of a standard normal e."""
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return z * 0.5 * (1 + math.erf(z / math.sqrt(2))) + density
