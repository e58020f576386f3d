"""The examples of training, validation and samples, each drawn by a seed."""

import math

import numpy as np

from tf_transfer.data.task import Examples, Sentences, Task, Texts
from tf_transfer.utils.formatting import cut

# The name of a fixed sample of the training set among the validation splits.
TRAINING_SAMPLE = "train"

NOTHING_SCORED = (
    "Nothing to score: no validation or test texts. Give "
    "--validation_fraction=0.1."
)


def split_train_validation(
    labels: np.ndarray,
    fraction: float,
    seed: int,
    groups: np.ndarray | None = None,
    fold: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Splits a training set, stratified by label.

    Args:
        labels: int64 or float32 [examples]. Label ids, or scores, which are
            stratified by fifths; or int64 [examples, labels] of 0 and 1.
        fraction: The fraction of validation examples, from 0 to 1.
        seed: The split seed, which is the same for every seed of a run.
        groups: int64 [examples]. Rows of one number stay together; the label
            of the first stratifies, and the fraction is one of groups.
        fold: Which of the disjoint parts of that fraction validates; the last
            may be smaller.

    Returns:
        Sorted row numbers to train on, and to validate on, int64.
    """
    if not fraction:
        rows = np.arange(len(labels))
        return rows, rows[:0]
    if groups is not None:
        _, first = np.unique(groups, return_index=True)
        first_rows = np.sort(first)
        _, held = split_train_validation(
            labels[first_rows], fraction, seed, fold=fold
        )
        held_groups = groups[first_rows[held]]
        is_held = np.isin(groups, held_groups)
        return np.flatnonzero(~is_held), np.flatnonzero(is_held)
    order = _stratified_order(labels, seed)
    count = count_held(len(labels), fraction)
    part = slice(fold * count, (fold + 1) * count)
    return np.sort(np.delete(order, part)), np.sort(order[part])


def count_folds(
    count: int, fraction: float, groups: np.ndarray | None = None
) -> int:
    """The number of disjoint parts of a fraction, which cover all examples.

    Args:
        count: The number of examples.
        fraction: The fraction of validation examples, above 0.
        groups: int64 [examples]; see `split_train_validation`.
    """
    if groups is not None:
        count = len(np.unique(groups))
    return math.ceil(count / count_held(count, fraction))


def count_held(count: int, fraction: float) -> int:
    """The number of a fraction of some examples or groups."""
    # Rounded up for validation: 7,695 of CoLA's 8,551 train at a tenth.
    held = count - int(count * (1 - fraction) + 1e-6)
    return min(max(held, 1), count - 1) if fraction > 0 else held


def choose_subset(labels: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Chooses examples, stratified by label and nested.

    With the same labels and seed, a smaller subset is contained in a larger.

    Args:
        labels: int64 or float32 [examples]. Label ids or scores.
        size: The size of the subset; 0 takes all.
        seed: The split seed.

    Returns:
        Sorted row numbers, int64 [size].
    """
    if not size or size >= len(labels):
        return np.arange(len(labels))
    return np.sort(_stratified_order(labels, seed)[:size])


def draw_sample(count: int, size: int, seed: int) -> np.ndarray:
    """Draws at most `size` of `count` rows, the same for a seed.

    Returns:
        Sorted row numbers, int64 [min(size, count)].
    """
    rng = np.random.default_rng([seed, 17])
    return np.sort(rng.permutation(count)[:size])


def join_names(*names: str) -> str:
    """The name of a split or metric, such as `test_mismatched`."""
    return "_".join(filter(None, names))


def flatten(texts: Texts) -> dict[str, Examples | Sentences]:
    """The splits of `RunData.read`, such as `train`, `test_mismatched`."""
    flat = {}
    for kind, named in texts.items():
        for name, some in named.items():
            flat[join_names(kind, name)] = some
    return flat


def find_warnings(task: Task, texts: Texts) -> list[str]:
    """Reasons why the scores of a classifier mean little, one sentence each.

    Args:
        task: Has the classes.
        texts: `train` and `test`, by split name: `Examples`, or sentences
            whose words have `tags`.
    """
    if task.labels is None:
        return []
    train = texts["train"][""].targets(task)[0]
    warnings = []
    if len(_classes_of(train)) == 1:
        warnings.append(f"all {len(train)} training labels are of one class.")
    if len(train) < task.units:
        warnings.append(
            f"has {len(train)} training labels, fewer than the {task.units} "
            "outputs of its head."
        )
    count = len(task.labels)
    for examples in texts["test"].values():
        labels = examples.targets(task)[0]
        lacking = sorted({*range(count)} - _classes_of(labels))
        if lacking:
            names = ", ".join(cut(task.labels[label]) for label in lacking[:5])
            warnings.append(
                f"a test set of {len(labels)} labels lacks {len(lacking)} of "
                f"{count} classes ({names})."
            )
    return [f"{task.name}: {warning}" for warning in warnings]


def _classes_of(labels: np.ndarray) -> set[int]:
    """The classes among some labels; or columns, of several labels at once."""
    if labels.ndim == 2:
        return {*np.flatnonzero(labels.any(axis=0)).tolist()}
    return {*np.unique(labels).tolist()}


def _stratified_order(labels: np.ndarray, seed: int) -> np.ndarray:
    """A permutation whose beginnings all have the classes in proportion.

    Row i of a class with n members is ranked by (i + u) / n, with u drawn
    once per class, so the classes interleave evenly.
    """
    rng = np.random.default_rng([seed, 7])
    labels = np.asarray(labels)
    if labels.ndim == 2:  # the same set of labels is one class
        labels = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    if labels.dtype.kind == "f":
        ranks = labels.argsort(kind="stable").argsort(kind="stable")
        labels = ranks * 5 // max(len(ranks), 1)
    key = np.empty(len(labels))
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        count = len(members)
        key[members] = (np.arange(count) + rng.random()) / count
    return key.argsort(kind="stable")
