"""How far probabilities can be trusted, and the temperature that helps.

A temperature T divides the logits, so that probabilities are those of the
validation labels on average: Guo et al., "On Calibration of Modern Neural
Networks" (2017), section 4.2. It changes no answer.
"""

import numpy as np
import scipy.optimize
import scipy.special

from tf_transfer.data import metrics

BINS = 10  # of the calibration error
TEMPERATURES = (0.05, 20.0)  # without any error, the best one would be 0


def measure(labels: np.ndarray, logits: np.ndarray) -> dict[str, float]:
    """The calibration of classes, or of several labels.

    Args:
        labels: int64 [examples], or [examples, labels] of 0 and 1.
        logits: float [examples, units].

    Returns:
        A dict:

        - `expected_error`: the mean difference of confidence and accuracy in
          `BINS` bins of equal width, weighted by their answers (Guo et al.,
          equation 3);
        - `brier`: the mean squared error of the probabilities, of classes
          summed over all of them.
    """
    several = labels.ndim == 2
    labels, logits = _as_classes(labels, logits)
    probabilities, rows = metrics.probabilities(logits), np.arange(len(labels))
    answers = metrics.decide(logits)
    confidence = probabilities[rows, answers]
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, (answers == labels) - confidence, BINS)
    squares = (probabilities**2).sum(axis=1)
    brier = float((squares - 2 * probabilities[rows, labels] + 1).mean())
    return {
        "expected_error": float(np.abs(gaps).sum() / max(len(bins), 1)),
        # Of a label's two classes one is counted: their errors are equal.
        "brier": brier / 2 if several else brier,
    }


def fit_temperature(labels: np.ndarray, logits: np.ndarray) -> float:
    """The temperature of the least negative log likelihood; see `measure`."""
    labels, logits = _as_classes(labels, logits)
    if logits.shape[1] == 1:
        logits = np.pad(logits, [(0, 0), (1, 0)])

    def loss(log_temperature: float) -> float:
        scaled = logits.astype(np.float64) / np.exp(log_temperature)
        log_probabilities = scipy.special.log_softmax(scaled, axis=1)
        return -float(log_probabilities[np.arange(len(labels)), labels].mean())

    fitted = scipy.optimize.minimize_scalar(
        loss, bounds=np.log(TEMPERATURES), method="bounded"
    )
    return float(np.exp(fitted.x))


def _as_classes(
    labels: np.ndarray, logits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Several labels as decisions between two classes, by one unit each."""
    if labels.ndim == 1:
        return labels, logits
    return labels.ravel(), logits.reshape(-1, 1)
