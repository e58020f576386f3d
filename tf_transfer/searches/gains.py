"""The score that a run is expected to reach: a Gaussian process.

The best validation score of a setting within its first epochs, in points, is

    m + (RISE + t) * d - RATE_LOSS * rate^2 + f
      + early * (h + g - EARLY_LOSS * (1 + depth))

d = 1 - 2^-depth goes from 0 (the head alone) towards 1: each doubling of the
trained blocks brings half of what the one before it brought. early is 1 for the
first EARLY_UPDATES of the weights, and then falls with one over the updates;
more trained blocks begin more slowly. f and h are Gaussian processes of depth,
rate and variant with the squared exponential kernel, of lengths LENGTHS:
doubling the trained blocks, and one step of the rate (counted from the
approach's usual one); approaches that differ in something else (pooling,
length, batch) correlate by SAME. So scores after few updates predict little of
scores after more updates. RISE, RATE_LOSS and EARLY_LOSS are usual values; t
and g, the differences of this task, are normal around zero. m is the mean of
the observed scores. The scale of f, h, t and g is their deviation, with
PRIOR_COUNT made-up observations. Scores more than WORST below the best count as
WORST below: how far a diverged run fell is no evidence about other runs.
Nothing is fitted, so the same records give the same answer.

The expected gain of a run is E[max(0, score - best)] under that normal, where
`best` is the highest mean among the runs there are, or the best baseline if it
is higher. The next run maximises the gain per second, at the number of epochs
that pays most.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

LENGTHS = (1.0, 1.5)
SAME = 0.7
PRIOR_COUNT = 4
PRIOR_DEVIATION = 5.0  # points
RISE = 8.0  # points
EARLY_LOSS = 3.0  # points
EARLY_UPDATES = 30
RATE_LOSS = 0.5  # points
WORST = 15.0  # points


@dataclasses.dataclass(frozen=True)
class Point:
    """The coordinates of a score in the model above.

    Attributes:
        depth: of the approach; see `space.Approach`.
        rate: steps from the approach's usual rate.
        updates: of the weights.
        variant: of the approach.
    """

    depth: float
    rate: float
    updates: int
    variant: int = 0

    @property
    def rise(self) -> float:
        """d of the equation above."""
        return 1 - 2.0**-self.depth

    @property
    def early(self) -> float:
        """1 while few updates are done, and less with more."""
        return min(1.0, EARLY_UPDATES / self.updates)


class Expectation:
    """Expected scores, given the observed scores.

    Args:
        points: of the observed scores.
        scores: in points.
        noise: standard deviation of a score from one seed to the next, in
            points.
        floor: score of the best baseline, in points; the expected score of
            the first run.

    Attributes:
        best: the highest mean score among the points, or the floor if that is
            higher.
    """

    def __init__(
        self,
        points: Sequence[Point],
        scores: Sequence[float],
        noise: float,
        floor: float,
    ) -> None:
        self._points = list(points)
        self._mean = floor
        values = np.asarray(scores, np.float64)
        count = len(values)
        if count:
            values = np.maximum(values, values.max() - WORST)
            values = values - _prior_means(points)
            self._mean = float(values.mean())
        spread = ((values - self._mean) ** 2).sum()
        self._variance = (PRIOR_COUNT * PRIOR_DEVIATION**2 + spread) / (
            PRIOR_COUNT + count
        )
        noises = (noise**2 + 1e-6) * np.eye(count)
        self._factor = np.linalg.cholesky(self._kernel(points, points) + noises)
        self._weights = self._solve(values - self._mean)
        means, _ = self.predict(points)
        self.best = float(means.max(initial=floor))

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
        same = one[:, None, 2] == other[None, :, 2]
        process = np.exp(-squared / 2) * np.where(same, 1.0, SAME)
        rises = one[:, None, 3] * other[None, :, 3]
        early = one[:, None, 4] * other[None, :, 4]
        return self._variance * (process + rises + early * (1 + process))

    def predict(self, points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the scores at some points."""
        prior = np.diag(self._kernel(points, points))
        cross = self._kernel(self._points, points)
        means = self._mean + _prior_means(points) + cross.T @ self._weights
        known = np.einsum("ij,ij->j", cross, self._solve(cross))
        return means, np.sqrt(np.maximum(prior - known, 1e-9))

    def gains(self, points: Sequence[Point]) -> list[float]:
        """Expected rises above the best, in points."""
        means, deviations = self.predict(points)
        z = (means - self.best) / deviations
        return (deviations * (norm.pdf(z) + z * norm.cdf(z))).tolist()


def _prior_means(points: Sequence[Point]) -> np.ndarray:
    """The usual scores at the points, apart from m of the equation above."""
    depth, rate, _, rise, early = _features(points).T
    return RISE * rise - EARLY_LOSS * (1 + depth) * early - RATE_LOSS * rate**2


def _features(points: Sequence[Point]) -> np.ndarray:
    return np.array(
        [(p.depth, p.rate, p.variant, p.rise, p.early) for p in points]
    ).reshape(-1, 5)
