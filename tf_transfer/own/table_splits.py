"""Which rows of the training files train, validate and are tested."""

import collections
from collections.abc import Callable, Sequence

import numpy as np

from tf_transfer.data import (
    file_formats,
    groups as groups_lib,
    texts as texts_lib,
)
from tf_transfer.data.columns import normalize_cell, Table
from tf_transfer.own.table_rows import Rows
from tf_transfer.own.task_file import is_task_file, TaskFile
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

# Function from labels [rows], groups [rows] and a fraction to the rows that are
# held out.
Draw = Callable[[np.ndarray, np.ndarray, float], np.ndarray]


def group_rows(task_file: TaskFile, rows: Rows) -> np.ndarray:
    """int64 [rows]. Rows of one number are never split apart.

    They are of one group, or with `duplicates = "group"` of one text.
    """
    numbers = np.arange(len(rows.table))
    if task_file.duplicates == "group":
        numbers = texts_lib.group_texts([*zip(*rows.texts)])
    if rows.groups is None:
        return numbers
    return groups_lib.merge_groups(numbers, rows.groups)


def split_rows(
    task_file: TaskFile,
    train: Rows,
    others: Sequence[Rows],
    labels: np.ndarray,
    groups: np.ndarray,
    draw: Draw,
) -> dict[str, np.ndarray]:
    """Rows of the training files by split, int64.

    A split with files of its own has none of them.

    Args:
        task_file: The description of the task.
        train: The rows of the training files.
        others: Those of the other splits' files, where the training rows must
            not share their groups or texts.
        labels: Of `train`; see `task.Examples`.
        groups: Of `train`; see `group_rows`.
        draw: Draws a fraction.

    Raises:
        UserError: Splits share a group, an id is wrong, or no rows train.
    """
    _check_apart(task_file, [rows.table for rows in (train, *others)])
    rest = np.arange(len(labels))
    drawn: dict[str, np.ndarray] = {}
    # Rows with given ids first: they are not drawn for another split.
    origins = [("test", task_file.test), ("validation", task_file.validation)]
    for split, origin in sorted(origins, key=lambda item: not item[1].ids):
        if not origin or origin.paths:
            continue
        if origin.ids:
            held = _find_listed(task_file, split, train.table, groups, rest)
        else:
            held = rest[draw(labels[rest], groups[rest], origin.fraction)]
        drawn[split] = np.sort(held)
        rest = rest[~np.isin(groups[rest], groups[held])]
    if task_file.duplicates == "group":
        rest = _leave_out_texts(rest, train, others)
    if not len(rest):
        raise UserError(
            f"{task_file.path}: leaves no rows to train on. Hold out fewer."
        )
    return {**drawn, "train": rest}


def _find_listed(
    task_file: TaskFile,
    split: str,
    table: Table,
    groups: np.ndarray,
    rest: np.ndarray,
) -> np.ndarray:
    """int64 [ids]. The rows that a split's file of ids lists.

    Args:
        task_file: The description of the task.
        split: One of `SPLITS`.
        table: All rows of the training files.
        groups: The groups of all rows.
        rest: The rows that are in no split yet.
    """
    path = getattr(task_file, split).ids
    name = f"--{split}_ids={path}"
    if is_task_file(task_file.path):
        name = f"{task_file.path}: {split}: {path}"
    held = find_rows(task_file, table, path, name)
    if not np.isin(groups[held], groups[rest]).all():
        raise UserError(
            f"{name}: has ids of test rows, or of texts like theirs. Leave "
            "them out."
        )
    others = np.setdiff1d(np.arange(len(groups)), held)
    _check_apart(
        task_file, [table.take(rows.tolist()) for rows in (others, held)]
    )
    return held


def find_rows(
    task_file: TaskFile, table: Table, path: str, name: str
) -> np.ndarray:
    """int64 [ids]. The training rows of the ids of a file, in its order.

    Args:
        task_file: The description of the task.
        table: The rows of the training files.
        path: The file.
        name: The name of the file in messages.

    Raises:
        UserError: The file cannot be read; or an id is not in the table, or
            there more than once.
    """
    ids = file_formats.read_ids(path, name)
    row_ids = [str(line) for _, line in table.places]
    if task_file.id_column in table.columns:
        row_ids = [*map(normalize_cell, table.columns[task_file.id_column])]
    counts = collections.Counter(row_ids)
    paths = task_file.train.paths
    where = f"{paths[0]}, ..." if len(paths) > 1 else paths[0]
    missing = [word for word in ids if not counts[word]]
    if missing:
        raise UserError(
            f"{name}: {len(missing)} of its {len(ids)} ids are not in "
            f"{where}, such as {cut(missing[0])!r}. Is "
            f"{task_file.name_column('id')} right?"
        )
    several = [word for word in ids if counts[word] > 1]
    if several:
        raise UserError(
            f"{name}: {len(several)} of its {len(ids)} ids stand for "
            f"several rows of {where}, such as {cut(several[0])!r}. Give "
            "each row an id of its own."
        )
    row_of = {word: row for row, word in enumerate(row_ids)}
    return np.array([row_of[word] for word in ids])


def _leave_out_texts(
    rows: np.ndarray, train: Rows, others: Sequence[Rows]
) -> np.ndarray:
    """The rows whose texts no other split's files have."""
    held = {
        texts_lib.normalize(texts)
        for other in others
        for texts in zip(*other.texts)
    }
    texts = [*zip(*train.texts)]
    kept = [row for row in rows if texts_lib.normalize(texts[row]) not in held]
    return np.array(kept, np.int64)


def _check_apart(task_file: TaskFile, tables: Sequence[Table]) -> None:
    """Raises `UserError` if rows of one group are in several tables."""
    if task_file.group:
        flag = task_file.name_column("group")
        groups_lib.check_apart(tables, task_file.group, flag)
