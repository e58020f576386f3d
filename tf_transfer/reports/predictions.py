"""What finished runs predicted, and what the commonest answer would score."""

import os
import zipfile
import zlib
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import TYPE_CHECKING
from typing import TypeVar

import numpy as np

from tf_transfer.data import metrics
from tf_transfer.reports.reading import Record

if TYPE_CHECKING:
    from tf_transfer.reports import studies

Result = TypeVar("Result")
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


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

    def test(self, record: Record, split: str = "") -> Arrays | None:
        """(ids, labels, outputs) of a run's test set, or None.

        Outputs are the chosen label ids, or scores where there are no labels.

        Args:
            record: of the run.
            split: `mismatched_` for MNLI's other test set.
        """
        arrays = self.logits(record, split)
        if arrays is None:
            return None
        ids, labels, logits = arrays
        is_score = np.issubdtype(labels.dtype, np.floating)
        return ids, labels, logits[:, 0] if is_score else metrics.decide(logits)

    def logits(self, record: Record, split: str = "") -> Arrays | None:
        """(ids, labels, logits) of a run's test set, or None; see `test`."""

        def read(arrays: dict[str, np.ndarray]) -> Arrays | None:
            if f"test_{split}ids" not in arrays:
                return None  # nothing was tested
            return (
                arrays[f"test_{split}ids"],
                arrays[f"test_{split}labels"],
                arrays[f"test_{split}logits"],
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

    def _read(
        self, record: Record, read: Callable[[Any], Result]
    ) -> Result | None:
        """What a function returns for a run's arrays; without any, None."""
        path = os.path.join(self.root, record["path"], "predictions.npz")
        try:
            with np.load(path) as arrays:
                return read(arrays)
        except FileNotFoundError:
            return None
        except (
            OSError,
            ValueError,
            KeyError,
            EOFError,
            zipfile.BadZipFile,
            zlib.error,
        ):
            self.damaged.add(record["path"])
            return None


def majority(metric: str, labels: np.ndarray) -> float:
    """What the commonest answer scores; 0 where the labels are numbers."""
    if np.issubdtype(labels.dtype, np.floating):
        return 0.0
    values, counts = np.unique(labels, return_counts=True)
    commonest = values[counts.argmax()]
    logits = np.eye(int(max(values.max(), 1)) + 1)[
        np.full(len(labels), commonest)
    ]
    return metrics.METRICS[metric](labels, logits)


def majority_facts(
    dataset: "studies.Dataset", predictions: Predictions
) -> dict[str, Any]:
    """The majority's score and the size of a test set, or {}.

    This is the `facts` of every section that has none of its own.
    """
    for record in dataset.records:
        test = predictions.test(record)
        if test is None:
            continue
        facts = {
            "majority": majority(dataset.metric, test[1]),
            "test": len(test[1]),
        }
        mismatched = predictions.test(record, "mismatched_")
        if mismatched is not None:
            facts["mismatched_majority"] = majority(
                dataset.metric, mismatched[1]
            )
        return facts
    return {}
