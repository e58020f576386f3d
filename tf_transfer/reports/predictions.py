"""What finished runs predicted, and what the majority baseline would score."""

import json
import os
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import numpy as np

from tf_transfer.data import cs224n
from tf_transfer.data import metrics
from tf_transfer.reports.reading import Record
from tf_transfer.training import records
from tf_transfer.utils import json_files

Result = TypeVar("Result")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]

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


class Predictions:
    """Reads labels and outputs of runs.

    Args:
        root: the folder that the records' paths start from.

    Attributes:
        damaged: paths of runs whose predictions could not be read.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.damaged: set[str] = set()

    def test(
        self, record: Record, split: str = "", kind: str = "test"
    ) -> Arrays | None:
        """(ids, labels, outputs) of a run's test set, or None.

        Outputs are the chosen label ids, or scores where there are no labels.

        Args:
            record: of the run.
            split: `mismatched_` for MNLI's other test set.
            kind: see `logits`.
        """
        arrays = self.logits(record, split, kind)
        if arrays is None:
            return None
        ids, labels, logits = arrays
        is_score = np.issubdtype(labels.dtype, np.floating)
        return ids, labels, logits[:, 0] if is_score else metrics.decide(logits)

    def logits(
        self, record: Record, split: str = "", kind: str = "test"
    ) -> Arrays | None:
        """(ids, labels, logits) of a run's test set, or None; see `test`.

        Args:
            record: of the run.
            split: see `test`.
            kind: `validation` for what validates.
        """

        def read(arrays: dict[str, np.ndarray]) -> Arrays | None:
            if f"{kind}_{split}ids" not in arrays:
                return None  # nothing was tested
            return (
                arrays[f"{kind}_{split}ids"],
                arrays[f"{kind}_{split}labels"],
                arrays[f"{kind}_{split}logits"],
            )

        return self._read(record, read)

    def validation_labels(
        self, record: Record, tasks: Iterable[str]
    ) -> dict[str, np.ndarray] | None:
        """Labels of each task of a run on several, or None."""
        return self._read(
            record,
            lambda arrays: {
                task: arrays[f"validation_{task}_labels"] for task in tasks
            },
        )

    def labels(self, record: Record) -> dict[str, np.ndarray] | None:
        """Labels of what a run was scored on, or None.

        That is its test set, or where there is none, what validates; a dict
        from what stands before the names of the metrics, such as `` or
        `mismatched_` or `sentiment_`.
        """
        return self._of_scored(record, "labels")

    def outputs(self, record: Record) -> dict[str, np.ndarray] | None:
        """Logits of what a run was scored on; see `labels`."""
        return self._of_scored(record, "logits")

    def _of_scored(
        self, record: Record, kind: str
    ) -> dict[str, np.ndarray] | None:
        split = "validation_" if record["test"] is None else "test_"

        def read(arrays: Any) -> dict[str, np.ndarray]:
            return {
                name.removeprefix(split).removesuffix(kind): arrays[name]
                for name in arrays.files
                if name.startswith(split) and name.endswith(kind)
            }

        return self._read(record, read)

    def _read(
        self, record: Record, read: Callable[[Any], Result]
    ) -> Result | None:
        """What a function returns for a run's arrays; without any, None."""
        folder = os.path.join(self.root, record["path"])
        directory = records.RunDirectory(folder, None)
        try:
            result = directory.result()
            if result is None or PREDICTIONS not in result["sha256"]:
                return None
            with np.load(directory.check_file(PREDICTIONS, result)) as arrays:
                return read(arrays)
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
            return None


# === What the majority baseline scores ===


class Answers:
    """What the majority baseline scores, and which runs give only one.

    The labels are read once for all runs on the same texts, split alike.

    Args:
        predictions: of the runs.
    """

    def __init__(self, predictions: Predictions) -> None:
        self._predictions = predictions
        self._labels: dict[str, dict[str, np.ndarray]] = {}
        self._majorities: dict[str, float] = {}

    def describe(self, record: Record) -> dict[str, Any]:
        """What a record is completed by.

        Returns:
            `majorities`: dict from the run's metrics to what the majority
            baseline scores, 0..1, of those that are known; `one_answer`:
            whether the run gives all examples the same label.
        """
        texts = _describe_texts(record)
        if texts not in self._labels:
            labels = self._predictions.labels(record)
            if labels is None:
                return {"majorities": {}, "one_answer": False}
            self._labels[texts] = labels
        labels = self._labels[texts]
        suffix = "token_f1"
        tagged = [
            name.removesuffix(suffix)
            for name in record["metrics"]
            if name.endswith(suffix)
        ]
        majorities = {}
        for name in record["metrics"]:
            key = f"{texts} {name}"
            if key not in self._majorities:
                score = _majority_of(name, labels, tagged)
                if score is None:
                    continue
                self._majorities[key] = score
            majorities[name] = self._majorities[key]
        if record["task"] == "cs224n":
            majorities["overall"] = cs224n.overall(majorities)
        return {
            "majorities": majorities,
            "one_answer": self._has_one_answer(record, labels),
        }

    def _has_one_answer(
        self, record: Record, labels: dict[str, np.ndarray]
    ) -> bool:
        """Whether each of a run's outputs chooses one label for all texts."""
        classes = {
            name: values
            for name, values in labels.items()
            if not np.issubdtype(values.dtype, np.floating) and len(values)
        }
        if not classes:
            return False
        if not record["folds"]:
            for name, values in classes.items():
                accuracy = record["metrics"].get(f"{name}accuracy")
                if accuracy is not None and values.ndim == 1:
                    counts = np.bincount(values - values.min()) / len(values)
                    if not np.isclose(counts, accuracy, atol=1e-6).any():
                        return False  # without a look at what it predicted
        outputs = self._predictions.outputs(record)
        return outputs is not None and all(
            name in outputs and _is_constant(outputs[name], values)
            for name, values in classes.items()
        )


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
        ],
        sort_keys=True,
    )


def _majority_of(
    name: str, labels: dict[str, np.ndarray], tagged: Sequence[str]
) -> float | None:
    """What the majority baseline scores in a metric; None if not known.

    Of tagged words that is the tag of no entity, which finds none.

    Args:
        name: of the metric.
        labels: by what stands before the names of their metrics.
        tagged: of these, the tasks that tag words.
    """
    for prefix in tagged:
        if name.startswith(prefix):
            if name != f"{prefix}accuracy":
                return 0.0
            if prefix in labels:
                return float(np.mean(labels[prefix] == OUTSIDE))
            return None
    for prefix, values in sorted(labels.items(), reverse=True):
        metric = name.removeprefix(prefix)
        if name.startswith(prefix) and metric in metrics.METRICS:
            return metrics.majority(metric, values) if len(values) else None
    return None


def _is_constant(logits: np.ndarray, labels: np.ndarray) -> bool:
    """Whether all examples get the same answer."""
    if labels.ndim == 2:
        return not np.ptp(metrics.decide_each(logits), axis=0).any()
    return np.ptp(metrics.decide(logits)) == 0
