"""The predictions of finished runs, and what depends on the scored texts."""

import base64
import hashlib
import os
from typing import TypedDict

import msgspec
import numpy as np

from tf_transfer.comparison import bootstrap
from tf_transfer.comparison.run_record import RunRecord
from tf_transfer.data import cs224n, metrics
from tf_transfer.training import records
from tf_transfer.training.checkpoint import Arrays
from tf_transfer.utils import json_files
from tf_transfer.utils.json_files import Record

PREDICTIONS = "predictions.npz"
RESAMPLES = 100
Resampled = TypedDict(
    "Resampled",
    {"texts": str, "resampled": str, "lead_error": float},
    total=False,
)
OUTSIDE = 0  # the tag of a word that is in no entity


def read_arrays(
    directory: records.RunDirectory, result: Record | None, kind: str
) -> Arrays:
    """The stored predictions of a run on a split; {} if it stored none.

    Args:
        directory: Of the run.
        result: The content of its `result.json`, if there is one.
        kind: `test` or `validation`.

    Returns:
        Dict of `ids`, `labels`, `logits`, of tagged words `starts`, and of
        texts in groups `groups`, each behind the prefix of its metrics, such
        as `mismatched_` or `sentiment_`, where there is one.

    Raises:
        Damaged, OSError, ValueError: They cannot be read.
    """
    if result is None or PREDICTIONS not in result["sha256"]:
        return {}
    arrays = directory.predictions(result)
    return {
        name.removeprefix(f"{kind}_"): array
        for name, array in arrays.items()
        if name.startswith(f"{kind}_")
    }


class Predictions:
    """Reads labels and outputs of runs, and what a report needs of them.

    Args:
        root: The folder that the records' paths start from.

    Attributes:
        damaged: Paths of runs whose predictions could not be read.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.damaged: set[str] = set()
        self._majorities: dict[str, dict[str, float]] = {}

    def describe_record(
        self, record: RunRecord, arrays: Arrays | None = None
    ) -> RunRecord:
        """A record, completed by what the run predicted.

        They describe its test split, or without one its validation split. The
        majority baseline is scored once for all runs with the same labels.

        Args:
            record: Of a run, or of an ensemble.
            arrays: What an ensemble predicts; a run has stored it.

        Returns:
            The record with `majorities`, of the metrics whose score is known,
            `one_answer`, and what `resample` returns.
        """
        if arrays is None:
            arrays = self.read_split(record, record.split)
        digest = hashlib.sha256(str(sorted(record.metrics)).encode())
        for labels in _pick(arrays, "labels").values():
            digest.update(labels.tobytes())
        texts = digest.hexdigest()
        if texts not in self._majorities:
            self._majorities[texts] = _score_majority(record, arrays)
        return msgspec.structs.replace(
            record,
            majorities=self._majorities[texts],
            one_answer=_has_one_answer(arrays),
            **resample(record, arrays),
        )

    def read_split(self, record: RunRecord, kind: str) -> Arrays:
        """See `read_arrays`; {} if there are none, or damaged ones."""
        directory = records.RunDirectory(
            os.path.join(self.root, record.path), None
        )
        try:
            return read_arrays(directory, directory.result(), kind)
        except (json_files.Damaged, OSError, ValueError):
            self.damaged.add(record.path)
            return {}


def _pick(arrays: Arrays, name: str) -> Arrays:
    """The `labels` or `logits` of each prefix, in the order of prefixes."""
    return {
        key.removesuffix(name): array
        for key, array in sorted(arrays.items())
        if key.endswith(name)
    }


def _score_majority(record: RunRecord, arrays: Arrays) -> dict[str, float]:
    """The score of the majority baseline by metric, where known.

    Of tagged words that is the tag of no entity, which finds none.
    """
    scores = {}
    # Every name begins with the empty prefix, the first: a longer one counts.
    for prefix, labels in _pick(arrays, "labels").items():
        is_tagged = f"{prefix}token_f1" in record.metrics
        for name in record.metrics:
            metric = name.removeprefix(prefix)
            if not len(labels) or not name.startswith(prefix):
                continue
            if is_tagged:
                scores[name] = 0.0
                if metric == "accuracy":
                    scores[name] = float(np.mean(labels == OUTSIDE))
            elif metric in metrics.METRICS:
                scores[name] = metrics.majority(metric, labels)
    if record.task == "cs224n" and scores:
        scores["overall"] = cs224n.overall(scores)
    return scores


def _has_one_answer(arrays: Arrays) -> bool:
    """Whether each output that chooses labels chooses the same for all."""
    logits = _pick(arrays, "logits")
    answers = [
        metrics.decide_each(logits[prefix])
        if labels.ndim == 2
        else metrics.decide(logits[prefix])
        for prefix, labels in _pick(arrays, "labels").items()
        if len(labels) and not np.issubdtype(labels.dtype, np.floating)
    ]
    return bool(answers) and not any(np.ptp(c, axis=0).any() for c in answers)


# === Scores on resampled texts ===


def resample(record: RunRecord, arrays: Arrays) -> Resampled:
    """The scores of a run, and its lead, on samples of its texts.

    Args:
        record: Of a run.
        arrays: What it predicted on its `split`, see `read_arrays`.

    Returns:
        `texts` (a hash of their ids, labels and groups), `resampled` (the score
        on each sample less the run's own, see `decode`) and `lead_error`
        (standard error over texts of the score less that of the majority
        baseline, in points); {} where a run has no predictions, or another
        kind of metric.
    """
    if not len(arrays.get("ids", ())) or record.folds:
        return {}
    is_tagging = "token_f1" in record.metrics
    if is_tagging or record.metric not in bootstrap.SCORES:
        return {}
    labels, logits = arrays["labels"], arrays["logits"]
    groups = arrays.get("groups")
    samples = bootstrap.draw(len(labels), RESAMPLES, groups)
    times = np.vstack([np.ones_like(arrays["ids"]), samples])
    ours, majority = (
        100 * bootstrap.score_samples(record.metric, labels, answers, times)
        for answers in (logits, bootstrap.answer_majority(labels, logits))
    )
    digest = hashlib.sha256(arrays["ids"].tobytes() + labels.tobytes())
    if groups is not None:
        digest.update(groups.tobytes())
    return {
        "texts": digest.hexdigest()[:16],
        "resampled": encode(ours[1:] - ours[0]),
        "lead_error": float(np.std(ours[1:] - majority[1:], ddof=1)),
    }


def encode(values: np.ndarray) -> str:
    """Points as text, of half precision."""
    return base64.b64encode(values.astype("<f2").tobytes()).decode()


def decode(text: str) -> np.ndarray:
    """Reverses `encode`: float64 [resamples]."""
    return np.frombuffer(base64.b64decode(text), "<f2").astype(float)
