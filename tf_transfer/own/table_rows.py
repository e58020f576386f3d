"""The rows of a task's tables: read, checked, and those that are skipped."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tf_transfer.data import groups as groups_lib, table_files, tagged
from tf_transfer.data.columns import (
    BadRow,
    BadRows,
    Cell,
    concatenate_tables,
    Table,
)
from tf_transfer.own import label_cells, labels as labels_lib
from tf_transfer.own.label_cells import LabelCells
from tf_transfer.own.task_file import TaskFile
from tf_transfer.utils import files, formatting, screen
from tf_transfer.utils.errors import UserError


class Rows(NamedTuple):
    """The rows of some files.

    Attributes:
        table: The cells, which know their file and line.
        texts: One or two columns, each a text per row.
        labels: The labels of each row: one of a class; or the tags of its
            words. Empty for a score.
        scores: The score of each row; empty for another kind of task.
        groups: int64 [rows]; see `task.Examples`.
        cells: How a cell holds several labels.
        ids: int64 [rows]. Their numbers in the files, from 0 on, those that
            are skipped counted; rising.
    """

    table: Table
    texts: list[list[str]]
    labels: list[list[str]]
    scores: list[float]
    groups: np.ndarray | None
    cells: LabelCells
    ids: np.ndarray


def read_rows(
    task_file: TaskFile, split: str, cells: LabelCells | None, folder: str
) -> Rows:
    """Reads the files of a split.

    Args:
        task_file: The description of the task, which labels texts.
        split: One of `SPLITS`.
        cells: How a cell holds several labels; None to find that out.
        folder: Gets a file of the rows that are skipped.

    Raises:
        UserError: Rows are invalid; the message has file and line.
    """
    paths = getattr(task_file, split).paths
    whole, bad = _read_files(task_file, paths)
    places = [*whole.places, *((row.path, row.number) for row in bad)]
    table = labels_lib.leave_out_ignored(task_file, whole)
    while len(table):
        try:
            rows = _parse_rows(task_file, table, cells)
            break
        except BadRows as error:  # others may be in another column
            bad += error.rows
            table = table.without(error.rows)
    bad.sort(key=lambda row: (paths.index(row.path), row.number))
    if bad and not (task_file.skip_bad_rows and len(table)):
        advice = f"{_name_skipping(task_file)} leaves them out."
        if task_file.skip_bad_rows or not len(table):
            advice = ""
        raise BadRows(bad, advice)
    if bad:
        _write_skipped(bad, folder, f"{task_file.name}-{split}-skipped.csv")
    if (
        task_file.has_label_cells
        and not rows.cells.names
        and all(len(labels) < 2 for labels in rows.labels)
    ):
        label_cells.notify(task_file, f"no cell of {split} has several labels")
    return rows._replace(ids=_number_rows(paths, table, places))


def read_sentences(task_file: TaskFile, split: str) -> Rows:
    """Reads the files of a split of a task on entities.

    Raises:
        UserError: A sentence is invalid; the message has file and line.
    """
    if task_file.skip_bad_rows:
        raise UserError(
            f"{_name_skipping(task_file)}: sentences stay. Leave it out."
        )
    [words], [tags] = task_file.texts, task_file.label
    others: dict[str, str | None] = {}
    if task_file.group:
        others[task_file.group] = task_file.name_column("group")
    table = concatenate_tables(
        [
            tagged.read_table(path, words, tags, others)
            for path in getattr(task_file, split).paths
        ]
    )
    return Rows(
        table,
        [[*map(" ".join, table.lists(words))]],
        table.lists(tags),
        [],
        _parse_groups(task_file, table),
        LabelCells(),
        np.arange(len(table)),
    )


def _name_skipping(task_file: TaskFile) -> str:
    return task_file.name_option("--skip_bad_rows", "skip_bad_rows = true")


def _read_files(
    task_file: TaskFile, paths: Sequence[str]
) -> tuple[Table, list[BadRow]]:
    """The rows of files, and those that are no rows of the table."""
    tables: list[Table] = []
    bad: list[BadRow] = []
    for path in paths:
        before = len(bad)
        table = table_files.read_table(
            path, task_file.list_columns(), task_file.encoding, bad_rows=bad
        )
        if not len(table) and len(bad) == before:
            raise UserError(f"{path}: holds no examples.")
        tables.append(table)
    return concatenate_tables(tables), bad


def _parse_rows(
    task_file: TaskFile, table: Table, cells: LabelCells | None
) -> Rows:
    """The texts, labels and groups of a table's rows, all without ids.

    Raises:
        BadRows: Cells are invalid.
    """
    texts = task_file.make_texts(table)
    if cells is None:
        cells = LabelCells()
        if task_file.has_label_cells:
            cells = label_cells.choose_label_cells(task_file, table)
    labels: list[list[str]] = []
    scores: list[float] = []
    if task_file.kind == "score":
        scores = table.scores(task_file.label[0])
    else:
        labels = labels_lib.parse_labels(task_file, table, cells)
    groups = _parse_groups(task_file, table)
    ids = np.zeros(0, np.int64)
    return Rows(table, texts, labels, scores, groups, cells, ids)


def _parse_groups(task_file: TaskFile, table: Table) -> np.ndarray | None:
    if not task_file.group:
        return None
    return groups_lib.parse_groups(table, task_file.group)


def _number_rows(
    paths: Sequence[str], table: Table, places: list[tuple[str, int]]
) -> np.ndarray:
    """int64 [rows]. The numbers of rows of a table among those of its files.

    Args:
        paths: The files.
        table: Some of their rows.
        places: The file and the line of all of their rows.
    """
    if table.places == places:
        return np.arange(len(table))
    in_order = sorted({*places}, key=lambda at: (paths.index(at[0]), at[1]))
    number_of = {line: number for number, line in enumerate(in_order)}
    return np.array([number_of[line] for line in table.places])


def _write_skipped(bad: Sequence[BadRow], folder: str, name: str) -> None:
    """Writes the bad rows into a file of a folder, and prints where."""
    target = os.path.join(folder, name)
    os.makedirs(folder or ".", exist_ok=True)
    columns: dict[str, Sequence[Cell]] = {
        name: [getattr(row, name) for row in bad]
        for name in ("path", "number", "column", "problem", "text")
    }
    files.write_atomically(target, table_files.write_table(columns, ".csv"))
    paths = ", ".join(dict.fromkeys(row.path for row in bad))
    screen.notify_once(
        f"{paths}: skipped {formatting.count(len(bad), 'row')}, written to "
        f"{target}."
    )
