"""Scores of runs on resampled test texts: how far they depend on the texts.

All runs on the same texts are scored on the same samples, so that what a
difference of theirs depends on is paired.
"""

import base64
import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.stats

from tf_transfer.data import metrics
from tf_transfer.reports.reading import Record

RESAMPLES = 100


def describe(
    record: Record, arrays: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """What a record has of its test texts, or where none are, validation ones.

    Args:
        record: of a run.
        arrays: what it predicted for them, see `predictions.read_arrays`.

    Returns:
        `texts` (a hash of their ids and labels), `resampled` (the score on
        each sample less the run's own, see `decode`) and `lead_error` (standard
        error over texts of the score less that of the majority baseline, in
        points); {} where a run has no predictions, or another kind of metric.
    """
    if not len(arrays.get("ids", ())) or record["folds"]:
        return {}
    is_tagging = "token_f1" in record["metrics"]
    if is_tagging or record["metric"] not in SCORES:
        return {}
    labels, logits = arrays["labels"], arrays["logits"]
    is_score = np.issubdtype(labels.dtype, np.floating)
    outputs = logits[:, 0] if is_score else metrics.decide(logits)
    times = np.vstack(
        [np.ones_like(arrays["ids"]), draw(len(labels), RESAMPLES)]
    )
    values, counts = np.unique(labels, return_counts=True)
    usual = np.full_like(outputs, values[counts.argmax()])
    both = np.stack([outputs, usual])
    scores = 100 * SCORES[record["metric"]](labels, both, times)
    digest = hashlib.sha256(arrays["ids"].tobytes() + labels.tobytes())
    return {
        "texts": digest.hexdigest()[:16],
        "resampled": encode(scores[1:, 0] - scores[0, 0]),
        "lead_error": float(np.std(scores[1:] @ [1, -1], ddof=1)),
    }


def encode(values: np.ndarray) -> str:
    """Points as text, of half precision."""
    return base64.b64encode(values.astype("<f2").tobytes()).decode()


def decode(text: str) -> np.ndarray:
    """Reverses `encode`: float64 [resamples]."""
    return np.frombuffer(base64.b64decode(text), "<f2").astype(float)


@functools.lru_cache(maxsize=2)
def draw(examples: int, resamples: int) -> np.ndarray:
    """How often each example is in each sample: int64 [resamples, examples].

    Samples are drawn with replacement.
    """
    share = np.full(examples, 1 / examples)
    return np.random.default_rng(0).multinomial(examples, share, resamples)


# === Metrics of many samples at once ===
#
# Each takes labels [examples], outputs [models, examples], and how often each
# example is in each sample, [samples, examples]; it returns [samples, models].


def _accuracy(
    labels: np.ndarray, outputs: np.ndarray, times: np.ndarray
) -> np.ndarray:
    return _count(times, outputs == labels) / len(labels)


def _f1(
    labels: np.ndarray, outputs: np.ndarray, times: np.ndarray
) -> np.ndarray:
    labels, outputs = labels == 1, outputs == 1
    hit = _count(times, outputs & labels)
    return _ratio(2 * hit, _count(times, outputs) + _count(times, labels))


def _matthews(
    labels: np.ndarray, outputs: np.ndarray, times: np.ndarray
) -> np.ndarray:
    labels, outputs = labels == 1, outputs == 1
    examples = len(labels)
    hit = _count(times, outputs & labels)
    chosen, true = _count(times, outputs), _count(times, labels)
    return _ratio(
        examples * hit - chosen * true,
        np.sqrt(chosen * true * (examples - chosen) * (examples - true)),
    )


def _count(times: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """How many examples of each sample are in a mask, [samples, models]."""
    return times.astype(float) @ np.atleast_2d(mask).T.astype(float)


def _pearson(
    labels: np.ndarray,
    outputs: np.ndarray,
    times: np.ndarray,
    prepare: Callable[[np.ndarray], np.ndarray] = np.asarray,
) -> np.ndarray:
    examples = np.arange(len(labels))
    rows = np.stack([examples.repeat(counts) for counts in times])
    first = _centre(prepare(labels[rows]))
    scores = []
    for values in outputs:
        other = _centre(prepare(values[rows]))
        scale = (first**2).sum(axis=1) * (other**2).sum(axis=1)
        scores.append(_ratio((first * other).sum(axis=1), np.sqrt(scale)))
    return np.stack(scores, axis=1)


def _centre(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=1, keepdims=True)


def _spearman(
    labels: np.ndarray, outputs: np.ndarray, times: np.ndarray
) -> np.ndarray:
    ranks = functools.partial(scipy.stats.rankdata, axis=1)
    return _pearson(labels, outputs, times, ranks)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, np.zeros_like(above), where=below > 1e-12)


SCORES: dict[
    str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
] = {
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
    "spearman": _spearman,
}
