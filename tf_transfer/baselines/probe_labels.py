"""Labels that a probe can be fitted to, and chosen by."""

import numpy as np

from tf_transfer.baselines.probe import FOLDS
from tf_transfer.data.task import Task
from tf_transfer.utils.errors import UserError

MOST_LABELS = 1000


def check_labels(
    task: Task, labels: np.ndarray, texts: int, where: str
) -> None:
    """Raises `UserError` for labels that nothing can be learned from.

    Args:
        task: The task.
        labels: The labels of the training texts or words; see `task.Examples`.
        texts: The number of training texts.
        where: The file or task that messages name.
    """
    start = f"{where}: --features=frozen"
    values, counts = np.unique(labels, return_counts=True, axis=0)
    if len(values) < 2:
        what = "score" if task.kind == "score" else "label"
        raise UserError(
            f"{start} has nothing to learn: all {texts:,} training texts have "
            f"the same {what}. Give texts with another one."
        )
    if task.labels is not None and len(task.labels) > MOST_LABELS:
        raise UserError(
            f"{start} fits up to {MOST_LABELS:,} labels, and here are "
            f"{len(task.labels):,}. Leave it out, or check that the column of "
            "the labels (--label_column) is the right one."
        )
    most = counts.max() if task.kind == "classes" else texts
    if most < FOLDS:
        raise UserError(
            f"{start} chooses by {FOLDS} folds, and no label has so many "
            "training texts. Give more labelled texts."
        )


def find_warnings(task: Task, labels: np.ndarray) -> list[str]:
    """Sentences about labels that make the choice of states unreliable."""
    counts = np.unique(labels, return_counts=True)[1]
    rare = int((counts < FOLDS).sum())
    if task.kind != "classes" or not rare:
        return []
    return [
        f"{task.name}: {rare} labels have fewer training texts than the "
        f"{FOLDS} folds by which the probe chooses its states."
    ]
