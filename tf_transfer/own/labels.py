"""The labels of a user's table: in a cell, and in a column.

A cell holds one label, a list, or text with a separator.
"""

import ast
import collections
import functools
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tf_transfer.data import card, tagged
from tf_transfer.data.columns import normalize_cell, Table
from tf_transfer.own.task_file import TaskFile
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_names

SMALLEST, LARGEST = 1e-30, 1e30  # deviation and size of scores, for float32
MOST_CLASSES = 1000  # a column with more different labels has no classes
# The values of a column of 0 and 1.
YES_NO = {"0": False, "1": True, "false": False, "true": True}

# What may separate the labels of a cell; of equals, the first is chosen.
SEPARATORS = ";|\n\t,；，、"
# NumPy writes a list of texts without commas.
_GAP = re.compile(r"""(['"])\s+(['"])""")


# === In a cell ===


def label_of(cell: Any) -> str:
    """A label as text; see `normalize_cell`.

    Raises:
        ValueError: The cell is neither a text nor a number.
    """
    if not isinstance(cell, str | int | float | None):
        raise ValueError(f"{cell!r:.60} is neither a text nor a number")
    return normalize_cell(cell)


def split_labels(cell: Any, separator: str) -> list[str]:
    """The labels in a cell.

    Args:
        cell: A list; or the text of one, as Python, NumPy or JSON write it; or
            text with a separator.
        separator: The text between two labels; empty for none.

    Raises:
        ValueError: A label is neither a text nor a number.
    """
    items = _read_list(cell)
    if isinstance(items, str) and separator:
        items = items.split(separator)
    if not isinstance(items, list | tuple | set):
        items = [items]
    return [*filter(None, map(label_of, items))]


def find_separator(cells: Iterable[Any], labels: Sequence[str]) -> str:
    """The separator whose labels recur most, on average; empty if none occurs.

    Args:
        cells: All cells of a column.
        labels: Labels that have no separator inside.
    """
    texts = [text for text in map(_read_list, cells) if isinstance(text, str)]

    def count_recurrence(separator: str) -> float:
        words = [w for text in texts for w in split_labels(text, separator)]
        return len(words) / max(len(set(words)), 1)

    candidates = [
        separator
        for separator in SEPARATORS
        if any(separator in text for text in texts)
        and not any(separator in label for label in labels)
    ]
    return max(candidates, key=count_recurrence, default="")


def _read_list(cell: Any) -> Any:
    """The list that a text stands for; any other cell as it is."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if not text.startswith(("[", "(", "{")):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            items = parse(_GAP.sub(r"\1, \2", text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(items, list | tuple | set):
            return items
    # A list without quotes, such as [a, b].
    return re.sub(r"^\[(.*)\]$", r"\1", text, flags=re.DOTALL)


# === In a column ===


def parse_labels(
    task_file: TaskFile, table: Table, separator: str
) -> list[Any]:
    """The label of each row: a word, a list of words, or a number.

    Args:
        task_file: The description of the task, which is not on entities.
        table: Rows of its files.
        separator: The text between the labels of a cell; empty for none.

    Raises:
        BadRows: Labels are invalid.
    """
    names = task_file.label
    if task_file.kind == "score":
        return table.scores(names[0])
    if task_file.kind == "classes":
        return table.convert(
            names[0], functools.partial(_parse_class, task_file)
        )
    if len(names) > 1:
        columns = [table.convert(name, _parse_yes_no) for name in names]
        return [[*itertools.compress(names, row)] for row in zip(*columns)]
    split = functools.partial(split_labels, separator=separator)
    return table.convert(names[0], split)


def _parse_class(task_file: TaskFile, cell: Any) -> str:
    label = label_of(cell)
    if not label:
        raise ValueError("is empty")
    is_label = not task_file.skip_bad_rows or label in (task_file.labels or ())
    if label.lower() in card.MISSING and not is_label:
        raise ValueError(f"{label!r} stands for no label")
    return label


def _parse_yes_no(cell: Any) -> bool:
    value = normalize_cell(cell).lower()
    if value not in YES_NO:
        raise ValueError(f"{cell!r:.60} is neither 0 nor 1")
    return YES_NO[value]


def find_labels(
    task_file: TaskFile, training_labels: list[Any]
) -> tuple[str, ...]:
    """The labels that training rows have, sorted; of entities their types.

    Args:
        task_file: The description of the task.
        training_labels: The label, labels or tags of each row.

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
    labels, least = training_labels, 2
    if task_file.kind == "labels":
        labels, least = [*itertools.chain(*training_labels)], 1
    rows, counts = len(training_labels), collections.Counter(labels)
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
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


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
