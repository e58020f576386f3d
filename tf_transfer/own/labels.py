"""The labels in the columns of a user's table; see also `label_cells`."""

import collections
import contextlib
import itertools
import math
from collections.abc import Sequence

import numpy as np

from tf_transfer.data import card, tagged
from tf_transfer.data.columns import (
    Cell,
    normalize_cell,
    parse_number,
    Table,
)
from tf_transfer.own.label_cells import (
    label_of,
    LabelCells,
    split_labels,
    YES_NO,
)
from tf_transfer.own.task_file import TaskFile
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_names

SMALLEST, LARGEST = 1e-30, 1e30  # limits of scores and their spread
MOST_CLASSES = 1000  # a column with more different labels has no classes


def parse_labels(
    task_file: TaskFile, table: Table, cells: LabelCells
) -> list[list[str]]:
    """The labels of each row: one of a class, and any number of several.

    Args:
        task_file: The description of the task, of classes or labels.
        table: Rows of its files.
        cells: How a cell holds several labels.

    Raises:
        BadRows: Labels are invalid.
    """
    names = task_file.label
    if task_file.kind == "classes":
        return table.convert(
            names[0], lambda cell: [_parse_class(task_file, cell)]
        )
    if len(names) > 1:
        columns = [table.convert(name, _parse_yes_no) for name in names]
        return [[*itertools.compress(names, row)] for row in zip(*columns)]
    return table.convert(names[0], cells.read)


def _parse_class(task_file: TaskFile, cell: Cell) -> str:
    label = label_of(cell)
    if not label:
        raise ValueError("is empty")
    is_label = not task_file.skip_bad_rows or label in (task_file.labels or ())
    if label.lower() in card.MISSING and not is_label:
        raise ValueError(f"{label!r} stands for no label")
    return label


def leave_out_ignored(task_file: TaskFile, table: Table) -> Table:
    """The rows without a label of `ignore_labels`; prints the others' number.

    Raises:
        UserError: No row is left.
    """
    ignored = task_file.ignore_labels
    if not ignored:
        return table
    columns = [table.columns[name] for name in task_file.label]
    labels = [_find_ignored(task_file, cells) for cells in zip(*columns)]
    counts = collections.Counter(labels)
    listed = ", ".join(f"{counts[one]:,} of {cut(one)!r}" for one in ignored)
    option = task_file.name_option("--ignore_labels", "ignore_labels")
    screen.notify_once(f"{table.path}: {option}: rows left out: {listed}.")
    if all(labels):
        raise UserError(f"{table.path}: {option} leaves no rows.")
    return table.take([row for row, one in enumerate(labels) if not one])


def _find_ignored(task_file: TaskFile, cells: Sequence[Cell]) -> str:
    """The label of a row that stands for none; empty where no label does."""
    labels = [*map(normalize_cell, cells)]
    if task_file.has_label_cells:
        with contextlib.suppress(ValueError):
            labels += split_labels(cells[0], task_file.separator or ";")
    ignored = [label for label in task_file.ignore_labels if label in labels]
    return ignored[0] if ignored else ""


def _parse_yes_no(cell: Cell) -> bool:
    value = normalize_cell(cell).lower()
    if value not in YES_NO:
        raise ValueError(f"{cell!r:.60} is neither 0 nor 1")
    return YES_NO[value]


def find_labels(
    task_file: TaskFile, training_labels: Sequence[list[str]]
) -> tuple[str, ...]:
    """The labels that training rows have, sorted; of entities their types.

    Args:
        task_file: The description of the task.
        training_labels: The labels or tags of each row.

    Raises:
        UserError: There are too few to learn, or too many for classes.
    """
    if task_file.kind == "entities":
        types = tagged.types_of(training_labels)
        if not types:
            raise UserError(
                f"{task_file.train.paths[0]}: tags no entity, so there is "
                "nothing to learn."
            )
        return types
    least = 1 if task_file.kind == "labels" else 2
    counts = collections.Counter(itertools.chain(*training_labels))
    rows = len(training_labels)
    other = f"Give another {task_file.name_column('label')}"
    if len(counts) < least:
        only = f"only the label {quote_names([*counts])}"
        raise column_error(
            task_file,
            f"has {only if counts else 'no labels'}, so there is nothing "
            f"to learn. {other}.",
        )
    if len(counts) > min(MOST_CLASSES, rows / 2):
        score = task_file.name_option("--kind=score", 'kind = "score"')
        raise column_error(
            task_file,
            f"has {len(counts)} different labels in {rows} rows, so it is "
            f"not a column of classes. {other}; or, for numbers, {score}.",
        )
    return tuple(sorted(counts, key=_by_value))


def _by_value(label: str) -> tuple[int, float, str]:
    """Sorts numbers by value, before all that are not numbers."""
    number = parse_number(label)
    return (1, 0.0, label) if math.isnan(number) else (0, number, label)


def find_scale(task_file: TaskFile, scores: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of the training scores.

    Scores may be stars, prices or years: in units of their standard
    deviation, one learning rate fits all of them.

    Args:
        task_file: The description of the task.
        scores: float64 [training rows].

    Raises:
        UserError: All are equal, or too small or large.
    """
    if scores.min() == scores.max():
        raise column_error(
            task_file,
            f"has only the value {scores[0]:g}, so there is nothing to "
            f"learn. Give another {task_file.name_column('label')}.",
        )
    if np.abs(scores).max() > LARGEST or scores.std() < SMALLEST:
        raise column_error(
            task_file,
            f"has scores from {scores.min():g} to {scores.max():g}, which "
            "is too small or too large to compute with. Give them in "
            "another unit.",
        )
    return float(scores.mean()), float(scores.std())


def column_error(task_file: TaskFile, problem: str) -> UserError:
    """The error that the column of the labels has a problem."""
    path, column = task_file.train.paths[0], task_file.label[0]
    return UserError(f"{path}, column {cut(column)!r}: {problem}")
