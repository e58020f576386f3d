"""Convex models of a probe and of TF-IDF, by scikit-learn: a kernel and a bias.

Dense features are standardised for the fit, which the weights then undo.
Classes: a logistic regression; several labels: one for each; a score: ridge
regression.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse

from tf_transfer.data.task import Task

NEVER = -1e4  # the logit of a label that no training text has
MAX_ITERATIONS = 500
TOLERANCE = 1e-4  # scikit-learn's
LEAST_VARIANCE = 1e-6  # of a direction, as a share of the largest
# scikit-learn recommends "newton-cholesky" from many rows a weight on.
ROWS_PER_WEIGHT = 10
MOST_WEIGHTS = 4000  # whose Hessian is small

# float32 [examples, width], dense or sparse.
Features: TypeAlias = "np.ndarray | scipy.sparse.csr_matrix"


@dataclasses.dataclass(frozen=True)
class Linear:
    """A fitted model.

    Attributes:
        kernel: float32 [width, units].
        bias: float32 [units].
    """

    kernel: np.ndarray
    bias: np.ndarray

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return self.kernel.size + self.bias.size

    def logits(self, features: Features) -> np.ndarray:
        """float32 [examples, units]."""
        logits: np.ndarray = features @ self.kernel + self.bias
        return logits

    def answer(self, task: Task, features: Features) -> np.ndarray:
        """The logits of a task; float64 of scores with a scale."""
        return restore_scale(task, self.logits(features))


def restore_scale(task: Task, logits: np.ndarray) -> np.ndarray:
    """Scores that were learned in `Task.score_scale`; else the logits."""
    if task.score_scale is None:
        return logits
    mean, deviation = task.score_scale
    return mean + deviation * logits.astype(np.float64)


def standardise(
    features: Features,
) -> tuple[Features, np.ndarray, np.ndarray]:
    """Standardised features, and the mean and standard deviation of each.

    That of a constant feature is 1. Sparse features stay as they are.

    Args:
        features: float32 [examples, width].

    Returns:
        float32 [examples, width], [width] and [width].
    """
    if scipy.sparse.issparse(features):
        width = features.shape[1]
        return features, np.zeros(width), np.ones(width)
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation = np.where(deviation > 1e-6, deviation, 1).astype(np.float32)
    return (features - mean) / deviation, mean, deviation


def fit(
    task: Task,
    features: Features,
    labels: np.ndarray,
    strength: float,
    is_balanced: bool = False,
) -> Linear:
    """Fits a model.

    Args:
        task: The task of the model; scores are learned in its `score_scale`.
        features: float32 [examples, width], dense or sparse.
        labels: See `task.Examples`.
        strength: C of scikit-learn's: the larger, the less regularised; of
            ridge regression, 1 / alpha.
        is_balanced: Whether all classes have the same weight.
    """
    [model] = fit_each(task, features, labels, [strength], is_balanced)
    return model


def fit_each(
    task: Task,
    features: Features,
    labels: np.ndarray,
    strengths: Sequence[float],
    is_balanced: bool,
    tolerance: float = TOLERANCE,
) -> list[Linear]:
    """Fits a model of each strength.

    Args:
        task: See `fit`.
        features: See `fit`.
        labels: See `fit`.
        is_balanced: See `fit`.
        strengths: Rising. Each fit begins where the one before ended, which
            saves half of the time.
        tolerance: Of the gradient.
    """
    scaled, mean, deviation = standardise(features)
    basis = None
    if len(strengths) > 1:  # for one, it would cost more than it saves
        scaled, basis = _rotate(scaled)
    if task.kind == "score":
        fits = [
            _fit_scores(task, scaled, labels, strength)
            for strength in strengths
        ]
    elif task.kind == "labels":
        by_label = [
            _fit_classes(scaled, column, 2, strengths, is_balanced, tolerance)
            for column in labels.T
        ]
        fits = [
            (np.concatenate(coefficients), np.concatenate(bias))
            for coefficients, bias in (zip(*fit) for fit in zip(*by_label))
        ]
    else:
        count = len(task.labels or ())
        fits = _fit_classes(
            scaled, labels, count, strengths, is_balanced, tolerance
        )
    models = []
    for coefficients, bias in fits:
        if basis is not None:
            coefficients = coefficients @ basis.T
        kernel = (coefficients / deviation).T
        models.append(
            Linear(
                kernel.astype(np.float32, order="C"),  # as safetensors has it
                (bias - mean @ kernel).astype(np.float32),
            )
        )
    return models


def _rotate(features: Features) -> tuple[Features, np.ndarray | None]:
    """As few features as there are examples, with the same inner products.

    A linear model depends on these alone, and is fitted faster.

    Args:
        features: float32 [examples, width].

    Returns:
        float32 [examples, rank], and the basis [width, rank]; or the features
        and None, if they are sparse, constant or not wider than their number.
    """
    is_sparse = scipy.sparse.issparse(features)
    if is_sparse or features.shape[1] <= len(features) or not features.any():
        return features, None
    values, vectors = np.linalg.eigh(features @ features.T)
    is_kept = values > LEAST_VARIANCE * values[-1]
    scales, vectors = np.sqrt(values[is_kept]), vectors[:, is_kept]
    return vectors * scales, features.T @ (vectors / scales)


def _fit_scores(
    task: Task, features: Features, labels: np.ndarray, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [1, width] and the bias of a ridge regression."""
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1 / strength)
    middle, unit = task.score_scale or (0.0, 1.0)
    # scikit-learn rounds labels to the float32 of the features.
    model.fit(features, (labels.astype(np.float64) - middle) / unit)
    return np.reshape(model.coef_, (1, -1)), np.reshape(model.intercept_, 1)


def _fit_classes(
    features: Features,
    labels: np.ndarray,
    count: int,
    strengths: Sequence[float],
    is_balanced: bool,
    tolerance: float = TOLERANCE,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Coefficients [units, width] and biases; one unit of two labels."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classes = np.unique(labels)
    width = features.shape[1]
    if len(classes) == 1:  # of a fold
        bias = np.where(np.arange(count) == classes[0], 0.0, NEVER)
        bias = bias[1:] - bias[:1] if count == 2 else bias
        return [(np.zeros((len(bias), width)), bias) for _ in strengths]
    weights = width * (1 if len(classes) == 2 else len(classes))
    is_tall = features.shape[0] >= ROWS_PER_WEIGHT * weights
    solver = "lbfgs"
    if scipy.sparse.issparse(features):
        solver = "newton-cg"  # up to ten times as fast
    elif is_tall and weights <= MOST_WEIGHTS:
        solver = "newton-cholesky"
    model = LogisticRegression(
        tol=tolerance,
        max_iter=MAX_ITERATIONS,
        class_weight="balanced" if is_balanced else None,
        solver=solver,
        warm_start=True,
    )
    fits = []
    for strength in strengths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(C=strength).fit(features, labels)
        coefficients = spread(model.coef_, classes, count, 0.0)
        fits.append(
            (coefficients, spread(model.intercept_, classes, count, NEVER))
        )
    return fits


def spread(
    rows: np.ndarray, classes: np.ndarray, count: int, missing: float
) -> np.ndarray:
    """A row for each of a task's labels, those not trained on included.

    Args:
        rows: Float of a model: [1, ...] of two classes, or [classes, ...].
        classes: int [classes]. The labels that these are.
        count: Labels of the task.
        missing: Value of the rows of other labels.

    Returns:
        float [count, ...]; of two labels [1, ...].
    """
    if count == 2:
        return rows
    if len(classes) == 2:
        rows = np.concatenate([-rows, rows]) / 2
    spread_rows = np.full((count, *rows.shape[1:]), missing)
    spread_rows[classes] = rows
    return spread_rows


def fit_contrastive_head(
    task: Task, is_balanced: bool, vectors: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel [width, units] and bias of a regression with C = 1.

    Args:
        task: A task of classes.
        is_balanced: Whether all classes have the same weight.
        vectors: float32 [examples, width], of length 1; they stay as they are.
        labels: int64 [examples].
    """
    count = len(task.labels or ())
    [(coefficients, bias)] = _fit_classes(
        vectors, labels, count, [1.0], is_balanced
    )
    return coefficients.T, bias


def leave_one_out(
    task: Task,
    features: np.ndarray,
    labels: np.ndarray,
    penalties: Sequence[float],
) -> Iterator[np.ndarray]:
    """Held-out predictions of ridge regression, in closed form.

    It stands in for the model itself where many features are compared: one
    decomposition gives the prediction of every example by a model without it,
    for every penalty (Hastie et al., "The Elements of Statistical Learning",
    equation 7.64).

    Args:
        task: The task of the model.
        features: float32 [examples, width].
        labels: See `task.Examples`.
        penalties: Penalties of squared weights.

    Yields:
        float64 [examples, units], for each penalty.
    """
    targets = _targets(task, labels)
    scaled, _, _ = standardise(features)
    rows, width = scaled.shape
    if rows <= width:
        values, basis = np.linalg.eigh(scaled @ scaled.T)
        values = np.maximum(values, 0)
    else:
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        values = np.maximum(values, 1e-6)
        basis = scaled @ vectors / np.sqrt(values)
    centred = targets - targets.mean(axis=0)
    projected = basis.T @ centred
    for penalty in penalties:
        shrunk = values / (values + penalty)
        residuals = centred - basis @ (shrunk[:, None] * projected)
        leverage = (basis * basis) @ shrunk + 1 / rows
        residuals /= np.maximum(1 - leverage, 1e-3)[:, None]
        yield targets - residuals


def _targets(task: Task, labels: np.ndarray) -> np.ndarray:
    """The targets of ridge regression, float [examples, units]: -1 and 1."""
    if task.kind == "score":
        return labels[:, None].astype(np.float64)
    if task.kind != "labels" and task.units > 1:
        labels = np.eye(task.units)[labels]
    return 2.0 * labels.reshape(len(labels), -1) - 1
