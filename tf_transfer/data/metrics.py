"""Metrics: pure functions over a whole split.

Each takes the labels, int64 or float32 [examples], and the logits, float
[examples, units], of every example of a split, and returns a float. Scores are
fractions (0.87, not 87). Where an example may have several labels, they are
int64 [examples, units] of 0 and 1, and each logit above 0 is one.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from tf_transfer.data import entities
from tf_transfer.data.task import Task

BINS = 10  # of the calibration error
SHARES = (1.0, 0.9, 0.8, 0.7, 0.5)  # of the texts that are answered
CERTAIN = 1e3  # a logit that no example gives
TEMPERATURES = (0.05, 20.0)  # without any error, the best one would be 0

Metric = Callable[[np.ndarray, np.ndarray], float]


def decide(logits: np.ndarray) -> np.ndarray:
    """Chooses the label id of the highest logit.

    Args:
        logits: float [examples, units]; one unit for two labels: its
            sigmoid is compared with one half.

    Returns:
        int64 [examples].
    """
    logits = np.asarray(logits)
    answers: np.ndarray = logits.argmax(axis=1)
    if logits.shape[1] == 1:
        answers = (logits[:, 0] > 0).astype(np.int64)
    return answers


def decide_each(logits: np.ndarray) -> np.ndarray:
    """Chooses every label whose sigmoid is above one half.

    Returns:
        int64 [examples, units] of 0 and 1.
    """
    return (np.asarray(logits) > 0).astype(np.int64)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The probability of each label by itself, float64."""
    values: np.ndarray = scipy.special.expit(np.asarray(logits, np.float64))
    return values


def clip_scores(task: Task, logits: np.ndarray) -> np.ndarray:
    """Floats [examples]. The scores of a task, clipped to its range."""
    low, high = task.score_range or (-np.inf, np.inf)
    clipped: np.ndarray = np.clip(logits[:, 0], low, high)
    return clipped


def probabilities(logits: np.ndarray) -> np.ndarray:
    """The probability of each class.

    Args:
        logits: float [examples, units]; one unit for two labels: its
            sigmoid is the probability of label 1.

    Returns:
        float64 [examples, classes].
    """
    logits = np.asarray(logits, np.float64)
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    values: np.ndarray = scipy.special.softmax(logits, axis=1)
    return values


def accuracy(labels: np.ndarray, logits: np.ndarray) -> float:
    """The fraction of right labels: Wang, formula 1."""
    return float(np.mean(decide(logits) == labels))


def f1(labels: np.ndarray, logits: np.ndarray) -> float:
    """F1 of label 1, Wang, formula 2; 0 where it is never right."""
    right, said, true = count_ones(labels, decide(logits))
    return float(divide(2.0 * right, true + said))


def f1_other(labels: np.ndarray, logits: np.ndarray) -> float:
    """F1 of label 0."""
    return f1(1 - np.asarray(labels), _negated(logits))


def f1_macro(labels: np.ndarray, logits: np.ndarray) -> float:
    """The mean of every label's F1."""
    return _average_f1(labels, logits, "macro")


def f1_micro(labels: np.ndarray, logits: np.ndarray) -> float:
    """F1 over all labels of all examples, each with the same weight."""
    return _average_f1(labels, logits, "micro")


def _average_f1(labels: np.ndarray, logits: np.ndarray, average: str) -> float:
    if np.ndim(labels) == 2:
        answers, labels = decide_each(logits), np.asarray(labels)
    else:
        answers = decide(logits)[:, None]
        every = np.union1d(labels, answers)
        labels = np.asarray(labels)[:, None] == every
        answers = answers == every
    right, said, true = count_ones(labels, answers)
    if average == "micro":
        right, said, true = right.sum(), said.sum(), true.sum()
    return float(np.mean(divide(2.0 * right, true + said)))


def count_ones(
    labels: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often label 1 is answered rightly, is answered, and is there.

    Args:
        labels: 0 and 1, [examples] or [examples, units].
        answers: 0 and 1, of the same shape.

    Returns:
        Three times int64 [] or [units].
    """
    is_true, is_said = np.asarray(labels) == 1, np.asarray(answers) == 1
    return (
        np.count_nonzero(is_true & is_said, axis=0),
        np.count_nonzero(is_said, axis=0),
        np.count_nonzero(is_true, axis=0),
    )


def divide(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Their ratio; 0 where the whole is."""
    ratio: np.ndarray = part / np.maximum(whole, 1)
    return ratio


def exact_match(labels: np.ndarray, logits: np.ndarray) -> float:
    """The fraction of examples all of whose labels are right."""
    return float(np.mean((decide_each(logits) == labels).all(axis=1)))


def f1_hart(labels: np.ndarray, logits: np.ndarray) -> float:
    """F1 as Hart's script computes it.

    The harmonic mean of the recall of label 1 and of the precision of label 0:
    its stored predictions are those of label 0, and its script inverts them
    for the recall alone.
    """
    r = recall(labels, logits)
    p = precision(1 - np.asarray(labels), _negated(logits))
    return 2 * r * p / (r + p) if r + p else 0.0


def precision(labels: np.ndarray, logits: np.ndarray) -> float:
    """Precision of label 1; 0 where it is never chosen."""
    right, said, _ = count_ones(labels, decide(logits))
    return float(divide(right, said))


def recall(labels: np.ndarray, logits: np.ndarray) -> float:
    """Recall of label 1; 0 where there is none."""
    right, _, true = count_ones(labels, decide(logits))
    return float(divide(right, true))


def _negated(logits: np.ndarray) -> np.ndarray:
    """Logits of one unit that choose the other label, ties included."""
    return 0.5 - decide(logits)[:, None]


def matthews(labels: np.ndarray, logits: np.ndarray) -> float:
    """Matthews correlation; 0 where either array is constant."""
    answers = decide(logits)
    units = int(max(np.max(labels), np.max(answers))) + 1
    table = np.bincount(units * np.asarray(labels) + answers, None, units**2)
    table = table.reshape(units, units).astype(np.float64)
    true, said, count = table.sum(axis=1), table.sum(axis=0), table.sum()
    both = (count**2 - np.dot(said, said)) * (count**2 - np.dot(true, true))
    if both == 0:
        return 0.0
    covariance = np.trace(table) * count - np.dot(true, said)
    return float(covariance / np.sqrt(both))


def pearson(labels: np.ndarray, logits: np.ndarray) -> float:
    """Pearson's r; 0 where either array is constant."""
    return _correlation(scipy.stats.pearsonr, labels, logits)


def spearman(labels: np.ndarray, logits: np.ndarray) -> float:
    """Spearman's rho with the average rank of ties, as everybody uses it."""
    return _correlation(scipy.stats.spearmanr, labels, logits)


def spearman_no_ties(labels: np.ndarray, logits: np.ndarray) -> float:
    """Spearman's rho by Wang, formula 3: 1 - 6 sum(d^2) / (n (n^2 - 1)).

    It holds only where no two values are equal. Equal scores get their average
    rank here, so that the result does not depend on the order of the rows.
    """
    ranks = scipy.stats.rankdata(labels)
    difference = ranks - scipy.stats.rankdata(np.asarray(logits)[:, 0])
    n = len(ranks)
    if n < 2:
        return 0.0
    return float(1 - 6 * np.sum(difference**2) / (n * (n * n - 1)))


def _correlation(
    function: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    labels: np.ndarray,
    logits: np.ndarray,
) -> float:
    scores = np.asarray(logits, np.float64)[:, 0]
    if len(labels) < 2 or np.ptp(labels) == 0 or np.ptp(scores) == 0:
        return 0.0
    coefficient, _ = function(labels, scores)
    return float(coefficient)


METRICS: dict[str, Metric] = {
    function.__name__: function
    for function in (
        accuracy,
        exact_match,
        f1,
        f1_hart,
        f1_macro,
        f1_micro,
        f1_other,
        matthews,
        pearson,
        precision,
        recall,
        spearman,
        spearman_no_ties,
    )
}


def measure(
    names: Iterable[str], labels: np.ndarray, logits: np.ndarray
) -> dict[str, float]:
    """Computes the named metrics."""
    return {name: METRICS[name](labels, logits) for name in names}


def measure_task(
    task: Task,
    labels: np.ndarray,
    logits: np.ndarray,
    starts: np.ndarray | None = None,
) -> dict[str, float]:
    """The metrics of a task, the headline first.

    Args:
        task: The task.
        labels: See `task.Examples`; where words are labelled, int64 [words].
        logits: float [examples or words, units].
        starts: int64 [sentences]. Where words are labelled, each sentence's
            first word; then all scores of `entities.score` are returned.
    """
    if starts is None:
        return measure(task.metrics, labels, logits)
    scores = entities.score(
        entities.Tagged(labels, starts),
        entities.Tagged(logits.argmax(axis=1), starts),
        entities.types_of(task.labels or ()),
    )
    return {name: scores[name] for name in dict.fromkeys(task.metrics) | scores}


def majority(name: str, labels: np.ndarray) -> float:
    """The score of the majority baseline; 0 where the labels are numbers."""
    if np.issubdtype(labels.dtype, np.floating):
        return 0.0
    return METRICS[name](labels, majority_logits(labels))


def majority_logits(labels: np.ndarray) -> np.ndarray:
    """The logits of the majority baseline, float [examples, units].

    Args:
        labels: See `task.Examples`; no numbers.
    """
    if labels.ndim == 2:  # of each label by itself
        commonest = np.where(labels.mean(axis=0) > 0.5, 1.0, -1.0)
        return np.tile(commonest, (len(labels), 1))
    values, counts = np.unique(labels, return_counts=True)
    one_hot = np.eye(int(max(values.max(), 1)) + 1)[values[counts.argmax()]]
    return np.tile(one_hot, (len(labels), 1))


# === Calibration ===
#
# How far probabilities can be trusted. A temperature T divides the logits, so
# that probabilities are those of the validation labels on average: Guo et al.,
# "On Calibration of Modern Neural Networks" (2017), section 4.2. It changes no
# answer.


def measure_calibration(
    labels: np.ndarray, logits: np.ndarray
) -> dict[str, float]:
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
    shares, rows = probabilities(logits), np.arange(len(labels))
    answers = decide(logits)
    confidence = shares[rows, answers]
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, (answers == labels) - confidence, BINS)
    squares = (shares**2).sum(axis=1)
    brier = float((squares - 2 * shares[rows, labels] + 1).mean())
    return {
        "expected_error": float(np.abs(gaps).sum() / max(len(bins), 1)),
        # Of a label's two classes one is counted: their errors are equal.
        "brier": brier / 2 if several else brier,
    }


@dataclasses.dataclass(frozen=True)
class Coverage:
    """The accuracy if only the surest answers are given.

    Attributes:
        share: The share of the texts that are answered.
        confidence: The least probability of their answers.
        accuracy: The share of right answers among these.
    """

    share: float
    confidence: float
    accuracy: float


def measure_coverage(labels: np.ndarray, logits: np.ndarray) -> list[Coverage]:
    """Accuracy against the share of answered texts, for `SHARES` of them.

    Texts are answered where the probability of the answer, its confidence, is
    at least a threshold. Answers of equal confidence are given together, so a
    share may be larger than asked for.

    Args:
        labels: int64 [texts]. The right classes.
        logits: float [texts, units] of held-out texts.
    """
    if not len(labels):
        return []
    confidence = probabilities(logits).max(axis=1)
    is_right = decide(logits) == labels
    ranked = np.sort(confidence)[::-1]
    covered = []
    for share in SHARES:
        least = ranked[max(round(share * len(ranked)), 1) - 1]
        is_given = confidence >= least
        covered.append(
            Coverage(
                float(is_given.mean()),
                float(least),
                float(is_right[is_given].mean()),
            )
        )
    return covered


def fit_temperature(labels: np.ndarray, logits: np.ndarray) -> float:
    """The temperature of the least negative log likelihood.

    Args:
        labels: See `measure_calibration`.
        logits: See `measure_calibration`.
    """
    exact = logits.astype(np.float64)

    def loss(log_temperature: float) -> float:
        return _log_loss(labels, exact / np.exp(log_temperature))

    fitted = scipy.optimize.minimize_scalar(
        loss, bounds=np.log(TEMPERATURES), method="bounded"
    )
    return float(np.exp(fitted.x))


def fit_weights(
    task: Task, labels: np.ndarray, logits: Sequence[np.ndarray]
) -> np.ndarray:
    """The weights of a sum of two models' logits, float64 [2], none negative.

    Of classes and labels they have the least negative log likelihood; of
    scores, the least squared error of weights whose sum is 1. They are 1 and 0
    where nothing decides.

    Args:
        task: The task of both models.
        labels: See `Examples`.
        logits: float [examples, units] of each model; scores in their scale.
            Answers beyond `CERTAIN`, of a model that had no example of a label,
            are left out.
    """
    first, second = (one.astype(np.float64) for one in logits)
    if task.kind == "score":
        middle, unit = task.score_scale or (0.0, 1.0)
        targets = (labels[:, None].astype(np.float64) - middle) / unit
        gap = second - first
        share = np.sum(gap * (targets - first)) / max(np.sum(gap * gap), 1e-9)
        share = np.clip(share, 0, 1)
        return np.array([1 - share, share])

    answers, first = _as_classes(labels, first)
    _, second = _as_classes(labels, second)
    # The unit of each answer; two classes have one.
    units = answers if first.shape[1] > 1 else np.zeros_like(answers)
    rows = np.arange(len(answers))
    most = np.maximum(abs(first[rows, units]), abs(second[rows, units]))
    decides = most < CERTAIN

    def loss(weights: np.ndarray) -> float:
        summed = weights[0] * first + weights[1] * second
        return _log_loss(answers[decides], summed[decides])

    weights = np.zeros(2)
    if decides.any():
        bounds = [(0, None)] * 2
        weights = scipy.optimize.minimize(loss, [0.5, 0.5], bounds=bounds).x
    return weights if weights.any() else np.array([1.0, 0.0])


def _log_loss(labels: np.ndarray, logits: np.ndarray) -> float:
    """The mean negative log likelihood; see `measure_calibration`."""
    labels, logits = _as_classes(labels, logits)
    if logits.shape[1] == 1:
        logits = np.pad(logits, [(0, 0), (1, 0)])
    log_probabilities = scipy.special.log_softmax(logits, axis=1)
    return -float(log_probabilities[np.arange(len(labels)), labels].mean())


def _as_classes(
    labels: np.ndarray, logits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Several labels as decisions between two classes, by one unit each."""
    if labels.ndim == 1:
        return labels, logits
    return labels.ravel(), logits.reshape(-1, 1)
