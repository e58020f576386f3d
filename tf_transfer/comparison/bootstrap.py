"""The bootstrap: a metric on samples of the scored texts.

All runs on the same texts are scored on the same samples, so that the chance of
the texts cancels in their difference. Texts that are not independent, such as
those of one author, are drawn together: a cluster bootstrap.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import scipy.stats

from tf_transfer.data import entities, metrics


def draw(
    examples: int, resamples: int, groups: np.ndarray | None = None
) -> np.ndarray:
    """How often each example is in each sample: int64 [resamples, examples].

    Samples are drawn with replacement: examples, or all those of a group.
    """
    if groups is None:
        return _draw(examples, resamples)
    names, numbers = np.unique(groups, return_inverse=True)
    return _draw(len(names), resamples)[:, numbers]


@functools.lru_cache(maxsize=2)
def _draw(examples: int, resamples: int) -> np.ndarray:
    share = np.full(examples, 1 / examples)
    return np.random.default_rng(0).multinomial(examples, share, resamples)


def score_samples(
    metric: str,
    labels: np.ndarray,
    logits: np.ndarray,
    times: np.ndarray,
    starts: np.ndarray | None = None,
    types: Sequence[str] = (),
) -> np.ndarray:
    """The score on each sample, 0..1: float64 [samples].

    Args:
        metric: Its name.
        labels: See `task.Examples`; where words are labelled, int64 [words].
        logits: float [examples or words, units].
        times: int64 [samples, examples or sentences]; see `draw`.
        starts: int64 [sentences]: where words are labelled, each sentence's
            first word.
        types: Those of the entities, where words are labelled.
    """
    if starts is not None:
        counts = entities.count_by_sentence(
            entities.Tagged(labels, starts),
            entities.Tagged(logits.argmax(axis=1), starts),
            types,
        )[metric]
        right, whole = (times @ counts).T
        return np.asarray(right / np.maximum(whole, 1))
    if metric in SCORES and labels.ndim == 1:
        answers = logits[:, 0] if is_number(labels) else metrics.decide(logits)
        return SCORES[metric](labels, answers, times)
    measure, rows = metrics.METRICS[metric], np.arange(len(labels))
    scores = []
    for counts in times:
        drawn = rows.repeat(counts)
        scores.append(measure(labels[drawn], logits[drawn]))
    return np.array(scores)


def is_number(labels: np.ndarray) -> bool:
    """Whether labels are scores."""
    return np.issubdtype(labels.dtype, np.floating)


def answer_majority(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """The logits of the majority baseline, shaped as those of a model.

    Where labels are scores it answers the most frequent one.

    Args:
        labels: See `task.Examples`; no words.
        logits: Of a model.
    """
    if not is_number(labels):
        return metrics.majority_logits(labels)
    values, counts = np.unique(labels, return_counts=True)
    return np.full_like(logits, values[counts.argmax()])


# === Metrics of many samples at once ===
#
# Each takes labels [examples], answers [examples], and how often each example
# is in each sample, [samples, examples]; it returns float64 [samples].


def _accuracy(
    labels: np.ndarray, answers: np.ndarray, times: np.ndarray
) -> np.ndarray:
    return np.asarray(_count(times, answers == labels) / times.sum(axis=1))


def _f1(
    labels: np.ndarray, answers: np.ndarray, times: np.ndarray
) -> np.ndarray:
    labels, answers = labels == 1, answers == 1
    hit = _count(times, answers & labels)
    return _divide(2 * hit, _count(times, answers) + _count(times, labels))


def _matthews(
    labels: np.ndarray, answers: np.ndarray, times: np.ndarray
) -> np.ndarray:
    examples = times.sum(axis=1)
    covariance = examples * _count(times, answers == labels)
    chosen_pairs = true_pairs = examples.astype(float) ** 2
    for label in np.union1d(labels, answers):
        chosen = _count(times, answers == label)
        true = _count(times, labels == label)
        covariance = covariance - chosen * true
        chosen_pairs = chosen_pairs - chosen**2
        true_pairs = true_pairs - true**2
    return _divide(covariance, np.sqrt(chosen_pairs * true_pairs))


def _count(times: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """How many examples of each sample are in a mask: float64 [samples]."""
    return np.asarray(times.astype(float) @ mask.astype(float))


def _pearson(
    labels: np.ndarray,
    answers: np.ndarray,
    times: np.ndarray,
    prepare: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> np.ndarray:
    examples = np.arange(len(labels))
    scores = []
    for counts in times:
        rows = examples.repeat(counts)
        first, other = prepare(labels[rows]), prepare(answers[rows])
        first, other = first - first.mean(), other - other.mean()
        scale = (first**2).sum() * (other**2).sum()
        scores.append(_divide((first * other).sum(), np.sqrt(scale)))
    return np.array(scores)


def _spearman(
    labels: np.ndarray, answers: np.ndarray, times: np.ndarray
) -> np.ndarray:
    return _pearson(labels, answers, times, scipy.stats.rankdata)


def _divide(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Their ratio; 0 where the whole is."""
    zeros = np.zeros_like(part)
    return np.asarray(np.divide(part, whole, zeros, where=whole > 1e-12))


SCORES: dict[
    str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}
