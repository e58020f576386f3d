"""What finished runs predicted, and what the majority baseline would score."""

import json
import os
import zipfile
import zlib
from typing import Any

import numpy as np

from tf_transfer.data import cs224n, metrics
from tf_transfer.reports import resampling
from tf_transfer.reports.reading import Record
from tf_transfer.training import records
from tf_transfer.utils import json_files

Arrays = dict[str, np.ndarray]

# Settings that say which examples train, validate and test.
SPLITTING = (
    "split_seed",
    "validation_fraction",
    "max_train_examples",
    "folds",
    "max_length",
)
PREDICTIONS = "predictions.npz"
OUTSIDE = 0  # the tag of a word that is in no entity


def read_arrays(
    directory: records.RunDirectory, result: dict[str, Any] | None, kind: str
) -> Arrays:
    """What a finished run stored of a split; {} if it stored nothing.

    Args:
        directory: of the run.
        result: what its `result.json` says, if there is one.
        kind: `test` or `validation`.

    Returns:
        Dict of `ids`, `labels`, `logits`, and of tagged words `starts`, each
        behind the prefix of its metrics, such as `mismatched_` or
        `sentiment_`, where there is one.

    Raises:
        Damaged, OSError, ValueError and others: they cannot be read.
    """
    if result is None or PREDICTIONS not in result["sha256"]:
        return {}
    with np.load(directory.check_file(PREDICTIONS, result)) as arrays:
        return {
            name.removeprefix(f"{kind}_"): arrays[name]
            for name in arrays.files
            if name.startswith(f"{kind}_")
        }


class Predictions:
    """Reads labels and outputs of runs, and what a report needs of them.

    Args:
        root: the folder that the records' paths start from.

    Attributes:
        damaged: paths of runs whose predictions could not be read.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.damaged: set[str] = set()
        self._majorities: dict[str, dict[str, float]] = {}

    def describe(
        self, record: Record, arrays: Arrays | None = None
    ) -> dict[str, Any]:
        """The fields that complete a record.

        They describe its test split, or without one its validation split. The
        majority baseline is scored once for all runs with the same splits.

        Args:
            record: of a run, or of an ensemble.
            arrays: what an ensemble predicts; a run has stored it.

        Returns:
            `majorities`: dict from the run's metrics to what the majority
            baseline scores, 0..1, of those that are known; `one_answer`:
            whether the run gives all examples the same label; and what
            `resampling.describe` returns.
        """
        kind = "validation" if record["test"] is None else "test"
        if arrays is None:
            arrays = self.read(record, kind)
        texts = _describe_texts(record)
        if arrays and texts not in self._majorities:
            self._majorities[texts] = _score_majority(record, arrays)
        return {
            "majorities": self._majorities.get(texts, {}),
            "one_answer": _has_one_answer(arrays),
            **resampling.describe(record, arrays),
        }

    def read(self, record: Record, kind: str) -> Arrays:
        """See `read_arrays`; {} if there are none, or damaged ones."""
        directory = records.RunDirectory(
            os.path.join(self.root, record["path"]), None
        )
        try:
            return read_arrays(directory, directory.result(), kind)
        except (
            json_files.Damaged,
            OSError,
            ValueError,
            KeyError,
            EOFError,
            zipfile.BadZipFile,
            zlib.error,
        ):
            self.damaged.add(record["path"])
            return {}


def _describe_texts(record: Record) -> str:
    """Equal for runs with the same examples in the same splits."""
    key = record["key"]
    return json.dumps(
        [
            record["experiment"],
            record["task"],
            key.get("data_identity"),
            [key.get(name) for name in SPLITTING],
            record["sizes"],
            sorted(record["metrics"]),
        ],
        sort_keys=True,
    )


def _pick(arrays: Arrays, name: str) -> Arrays:
    """The `labels` or `logits` of each prefix, in the order of prefixes."""
    return {
        key.removesuffix(name): array
        for key, array in sorted(arrays.items())
        if key.endswith(name)
    }


def _score_majority(record: Record, arrays: Arrays) -> dict[str, float]:
    """What the majority baseline scores in each metric that is known.

    Of tagged words that is the tag of no entity, which finds none.
    """
    scores = {}
    for name in record["metrics"]:
        # Every name begins with the empty prefix: a longer one counts.
        for prefix, labels in _pick(arrays, "labels").items():
            metric = name.removeprefix(prefix)
            if prefix + metric != name or not len(labels):
                continue
            if f"{prefix}token_f1" in record["metrics"]:
                scores[name] = float(
                    np.mean(metric == "accuracy" and labels == OUTSIDE)
                )
            elif metric in metrics.METRICS:
                scores[name] = metrics.majority(metric, labels)
    if record["task"] == "cs224n":
        scores["overall"] = cs224n.overall(scores)
    return scores


def _has_one_answer(arrays: Arrays) -> bool:
    """Whether each output that chooses labels chooses the same for all."""
    logits = _pick(arrays, "logits")
    chosen = [
        metrics.decide_each(logits[prefix])
        if labels.ndim == 2
        else metrics.decide(logits[prefix])
        for prefix, labels in _pick(arrays, "labels").items()
        if len(labels) and not np.issubdtype(labels.dtype, np.floating)
    ]
    return bool(chosen) and not any(np.ptp(c, axis=0).any() for c in chosen)
