"""A user's tables as a source like any other.

Rows of the training files that are drawn for validation or test are stratified
by label. With `duplicates = "group"` no text is in two splits, and no value of
the column `group` is. A label with too few rows stays in the training set.
"""

import collections
import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_transfer.data import (
    entities,
    file_formats,
    groups as groups_lib,
    splits,
    table_files,
    tagged,
    texts as texts_lib,
)
from tf_transfer.data.columns import (
    BadRow,
    BadRows,
    concatenate_tables,
    normalize_cell,
    Table,
)
from tf_transfer.data.task import (
    choose_metrics,
    Examples,
    Sentences,
    Source,
    Task,
    TWO_CLASSES,
)
from tf_transfer.own import label_cells, labels as labels_lib
from tf_transfer.own.label_cells import LabelCells
from tf_transfer.own.task_file import is_task_file, SPLITS, TaskFile
from tf_transfer.utils import files, formatting, screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

MOST_SEARCHED = 1 << 25  # bytes of a file that is searched for groups
_TASKS: dict[tuple[str, ...], Task] = {}  # a search asks for each of its runs


class Rows(NamedTuple):
    """The rows of some files.

    Attributes:
        table: The cells, which know their file and line.
        texts: One or two columns, each a text per row.
        labels: The label of each row: a word, a list of words, a number; or
            the tags of its words.
        groups: int64 [rows]; see `task.Examples`.
        cells: How a cell holds several labels.
        ids: int64 [rows]. Their numbers in the files, from 0 on, those that
            are skipped counted; rising.
    """

    table: Table
    texts: list[list[str]]
    labels: list[Any]
    groups: np.ndarray | None
    cells: LabelCells
    ids: np.ndarray


class TableSource(Source):
    """The texts of a task file, or of a table that flags describe.

    Args:
        task_file: The description of the task.
        split_seed: The seed of the rows that are drawn for validation and test.
        folder: Gets a file of the rows that are skipped.

    Attributes:
        task_file: The description of the task.
    """

    def __init__(
        self, task_file: TaskFile, split_seed: int = 0, folder: str = ""
    ) -> None:
        self.task_file = task_file
        self._folder = folder
        self._split_seed = split_seed
        has_ids = task_file.validation.ids or task_file.test.ids
        self._id_column = (task_file.id or "") if has_ids else ""
        self._read = functools.cache(self._read_split)

    @functools.cached_property
    def identity(self) -> str:  # type: ignore[override]
        """A hash of the files' contents, and of how they are read."""
        return self.task_file.identity

    @functools.cached_property
    def task(self) -> Task:  # type: ignore[override]
        """The task, with the labels of its training files.

        The same files are read once in a process.
        """
        key = repr(self.task_file), str(self._split_seed), self.identity
        if key not in _TASKS:
            _TASKS[key] = self._find_task()
        return _TASKS[key]

    def _find_task(self) -> Task:
        task_file = self.task_file
        labels = None if task_file.kind == "score" else self._list_labels()
        count = len(labels or ())
        if (
            task_file.kind == "classes"
            and task_file.metric in TWO_CLASSES
            and count != 2
        ):
            raise UserError(
                f"{task_file.path}: metric: {task_file.metric!r} needs two "
                f"labels, and there are {count}. Give 'f1_macro' or 'accuracy'."
            )
        metric, *also = choose_metrics(task_file.kind, task_file.metric, count)
        separator, scale = "", None
        if task_file.kind == "labels":
            separator = self._read("train").cells.separator
        if task_file.kind == "score":
            scores = np.asarray(self._read("train").labels, np.float64)
            scores = scores[self.drawn["train"]]
            scale = labels_lib.find_scale(task_file, scores)
        return Task(
            task_file.name,
            "",
            task_file.texts,
            task_file.label[0],
            labels,
            metric,
            also=tuple(also),
            development=("test",) if task_file.test else (),
            kind=task_file.kind,
            validation="validation" if task_file.validation else "",
            score_scale=scale,
            separator=separator,
        )

    def _list_labels(self) -> tuple[str, ...]:
        """The labels that are given, or that the training files have."""
        task_file, labels = self.task_file, self.task_file.labels
        if not labels and len(task_file.label) > 1:
            labels = task_file.label
        if not labels:
            rows = self._read("train")
            labels = rows.cells.names if any(rows.labels) else ()
            labels = labels or labels_lib.find_labels(task_file, rows.labels)
        is_tagging = task_file.kind == "entities"
        return entities.tag_names(labels) if is_tagging else labels

    def read(self, split: str) -> Examples | Sentences:
        """The examples of one of `SPLITS` that the task has.

        Raises:
            UserError: A row is invalid; the message has file and line.
        """
        if split == "train" or not getattr(self.task_file, split).paths:
            return self.read_all("train").take(self.drawn[split])
        return self.read_all(split)

    def read_all(self, split: str) -> Examples | Sentences:
        """All rows of the files of a split, including those drawn from it."""
        rows, labels = self._read(split), self.task.labels or ()
        if self.task.is_tagging:
            tagged.check_types(
                rows.table, rows.labels, entities.types_of(labels)
            )
            words = rows.table.columns[self.task_file.texts[0]]
            return Sentences(rows.ids, words, rows.labels, rows.groups)
        encoded = self._encode(rows, labels)
        return Examples(rows.ids, rows.texts, encoded, rows.groups)

    def group(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows; see `groups`."""
        return self.groups[np.searchsorted(self._read("train").ids, rows)]

    def forget(self) -> None:
        """Releases all texts; they are read again when needed."""
        self._read.cache_clear()

    # === Rows ===

    def _read_split(self, split: str) -> Rows:
        task_file, paths = self.task_file, getattr(self.task_file, split).paths
        skip = task_file.name_option("--skip_bad_rows", "skip_bad_rows = true")
        if task_file.kind == "entities":
            if task_file.skip_bad_rows:
                raise UserError(f"{skip}: sentences stay. Leave it out.")
            [words], [tags] = task_file.texts, task_file.label
            others: dict[str, str | None] = {}
            if task_file.group:
                others[task_file.group] = task_file.name_column("group")
            table = concatenate_tables(
                [tagged.read_table(path, words, tags, others) for path in paths]
            )
            texts = [[*map(" ".join, table.columns[words])]]
            groups = self._parse_groups(table)
            ids = np.arange(len(table))
            cells = LabelCells()
            return Rows(table, texts, table.columns[tags], groups, cells, ids)
        parts: list[Table] = []
        bad: list[BadRow] = []
        for path in paths:
            before = len(bad)
            table = table_files.read_table(
                path, self._columns(), task_file.encoding, bad_rows=bad
            )
            if not len(table) and len(bad) == before:
                raise UserError(f"{path}: holds no examples.")
            parts.append(table)
        whole = concatenate_tables(parts)
        table = labels_lib.leave_out_ignored(task_file, whole)
        while len(table):
            try:
                texts = self._prepare_texts(table)
                cells = self._find_label_cells(table, split)
                labels = labels_lib.parse_labels(task_file, table, cells)
                groups = self._parse_groups(table)
                places = [*whole.places, *((r.path, r.number) for r in bad)]
                ids = _number_rows(paths, table, places)
                rows = Rows(table, texts, labels, groups, cells, ids)
                break
            except BadRows as error:  # others may be in another column
                bad += error.rows
                table = table.without(error.rows)
        bad.sort(key=lambda row: (paths.index(row.path), row.number))
        if bad and not (task_file.skip_bad_rows and len(table)):
            advice = f"{skip} leaves them out."
            if task_file.skip_bad_rows or not len(table):
                advice = ""
            raise BadRows(bad, advice)
        if bad:
            self._write_skipped(bad, f"{task_file.name}-{split}-skipped.csv")
        if (
            task_file.has_label_cells
            and not rows.cells.names
            and all(len(row) < 2 for row in rows.labels)
        ):
            label_cells.notify(
                task_file, f"no cell of {split} has several labels"
            )
        return rows

    def _write_skipped(self, bad: Sequence[BadRow], name: str) -> None:
        """Writes the bad rows into a file of `folder`, and prints where."""
        target = os.path.join(self._folder, name)
        os.makedirs(self._folder or ".", exist_ok=True)
        columns: dict[str, Sequence[Any]] = {
            name: [getattr(row, name) for row in bad]
            for name in ("path", "number", "column", "problem", "text")
        }
        files.write_atomically(target, table_files.write_table(columns, ".csv"))
        paths = ", ".join(dict.fromkeys(columns["path"]))
        screen.notify_once(
            f"{paths}: skipped {formatting.count(len(bad), 'row')}, written to "
            f"{target}."
        )

    def _columns(self) -> dict[str, str | None]:
        """The columns that are read, with what the user gives to name each."""
        task_file = self.task_file
        columns: dict[str, str | None] = {
            **dict.fromkeys(task_file.texts, task_file.name_column("texts")),
            **dict.fromkeys(task_file.label, task_file.name_column("label")),
        }
        if self._id_column:
            flag = task_file.name_column("id") if task_file.id else None
            columns.setdefault(self._id_column, flag)
        if task_file.group:
            columns.setdefault(task_file.group, task_file.name_column("group"))
        return columns

    def _parse_groups(self, table: Table) -> np.ndarray | None:
        """int64 [rows]. The group of each row; see `task.Examples`."""
        column = self.task_file.group
        return groups_lib.parse_groups(table, column) if column else None

    def _prepare_texts(self, table: Table) -> list[list[str]]:
        return [table.texts(column) for column in self.task_file.texts]

    # === Labels ===

    def _find_label_cells(self, table: Table, split: str) -> LabelCells:
        """How a cell holds several labels; other splits are as `train`."""
        if not self.task_file.has_label_cells:
            return LabelCells()
        if split != "train":
            return self._read("train").cells
        return label_cells.choose_label_cells(self.task_file, table)

    def _encode(self, rows: Rows, names: Sequence[str]) -> np.ndarray:
        """The labels of rows as numbers, of all labels; see `Examples`."""
        kind, column = self.task_file.kind, self.task_file.label[0]
        if kind == "score":
            return np.asarray(rows.labels, np.float64)
        if kind == "entities":
            return np.zeros(len(rows.table), np.int64)  # sentences have none
        if kind == "classes":
            return rows.table.label_ids(column, rows.labels, names)
        return rows.table.label_sets(column, rows.labels, names)

    # === Splits ===

    @functools.cached_property
    def groups(self) -> np.ndarray:
        """int64 [rows of train]. Rows of one number are never split apart."""
        rows = self._read("train")
        numbers = np.arange(len(rows.table))
        if self.task_file.duplicates == "group":
            numbers = texts_lib.group_texts([*zip(*rows.texts)])
        if rows.groups is None:
            return numbers
        return groups_lib.merge_groups(numbers, rows.groups)

    @functools.cached_property
    def drawn(self) -> dict[str, np.ndarray]:
        """Rows of the training files by split, int64."""
        task_file = self.task_file
        # A score is scaled by what is drawn, so its task is not known yet.
        names = () if task_file.kind == "score" else self.task.labels or ()
        labels = self._encode(self._read("train"), names)
        rest = np.arange(len(labels))
        self._check_apart(
            self._read(split).table
            for split in SPLITS
            if getattr(task_file, split).paths
        )
        drawn: dict[str, np.ndarray] = {}
        # Rows with given ids first: they are not drawn for another split.
        origins = [
            ("test", task_file.test),
            ("validation", task_file.validation),
        ]
        for split, wanted in sorted(origins, key=lambda item: not item[1].ids):
            if not wanted or wanted.paths:
                continue
            if wanted.ids:
                name = f"--{split}_ids={wanted.ids}"
                if is_task_file(task_file.path):
                    name = f"{task_file.path}: {split}: {wanted.ids}"
                held = self._find_rows(wanted.ids, name)
                if not np.isin(self.groups[held], self.groups[rest]).all():
                    raise UserError(
                        f"{name}: has ids of test rows, or of texts like "
                        "theirs. Leave them out."
                    )
                table = self._read("train").table
                others = np.setdiff1d(np.arange(len(labels)), held)
                parts = [table.take(rows.tolist()) for rows in (others, held)]
                self._check_apart(parts)
            else:
                held = self._draw(labels, rest, wanted.fraction)
            drawn[split] = np.sort(held)
            rest = rest[~np.isin(self.groups[rest], self.groups[held])]
        rest = self._leave_out_held(rest)
        if not len(rest):
            raise UserError(
                f"{task_file.path}: leaves no rows to train on. Hold out fewer."
            )
        return {**drawn, "train": rest}

    def _leave_out_held(self, rows: np.ndarray) -> np.ndarray:
        """The rows whose texts are in no file for validation or test."""
        if self.task_file.duplicates == "keep":
            return rows
        held = {
            texts_lib.normalize(texts)
            for split in ("validation", "test")
            if getattr(self.task_file, split).paths
            for texts in zip(*self._read(split).texts)
        }
        texts = [*zip(*self._read("train").texts)]
        others = [r for r in rows if texts_lib.normalize(texts[r]) not in held]
        return np.array(others, np.int64)

    def _draw(
        self, labels: np.ndarray, rest: np.ndarray, fraction: float
    ) -> np.ndarray:
        """Draws a fraction of the remaining rows, whole groups."""
        _, held = splits.split_train_validation(
            labels[rest], fraction, self._split_seed, self.groups[rest]
        )
        is_held = np.isin(np.arange(len(rest)), held)
        if labels.dtype.kind == "i" and labels.ndim == 1:
            is_held &= np.isin(labels[rest], labels[rest[~is_held]])
        column = self.task_file.group
        if column and not is_held.any():
            raise UserError(
                f"{self.task_file.train.paths[0]}, column {cut(column)!r}: has "
                "too few groups to hold out one, with each label also in "
                "another. Give another "
                f"{self.task_file.name_column('group')}, or none."
            )
        return rest[is_held]

    def _check_apart(self, parts: Iterable[Table]) -> None:
        """Raises `UserError` if rows of one group are in several parts."""
        if self.task_file.group:
            flag = self.task_file.name_column("group")
            groups_lib.check_apart(parts, self.task_file.group, flag)

    def find_problems(self) -> list[str]:
        """Columns that look like groups, if none is given, as sentences."""
        task_file, path = self.task_file, self.task_file.train.paths[0]
        is_large = os.path.getsize(path) > MOST_SEARCHED
        if task_file.group or task_file.kind != "classes" or is_large:
            return []
        try:
            table = table_files.read_table(
                path,
                self._columns(),
                task_file.encoding,
                None,
                [],
                takes_all=True,
            )
        except UserError:  # of columns that the task does not read
            return []
        option = task_file.name_option("--group_column={}", 'group = "{}"')
        return groups_lib.find_columns(
            table.columns, task_file.label[0], option
        )

    def _find_rows(self, path: str, name: str) -> np.ndarray:
        """int64 [ids]. The training rows of the ids of a file, in its order.

        Args:
            path: The file.
            name: The name of the file in messages.

        Raises:
            UserError: The file cannot be read; or an id is not in the table,
                or there more than once.
        """
        ids = file_formats.read_ids(path, name)
        train = self._read("train").table
        row_ids = [str(line) for _, line in train.places]
        if self._id_column in train.columns:
            row_ids = [*map(normalize_cell, train.columns[self._id_column])]
        counts = collections.Counter(row_ids)
        paths = self.task_file.train.paths
        table = f"{paths[0]}, ..." if len(paths) > 1 else paths[0]
        missing = [word for word in ids if not counts[word]]
        if missing:
            raise UserError(
                f"{name}: {len(missing)} of its {len(ids)} ids are not in "
                f"{table}, such as {cut(missing[0])!r}. Is "
                f"{self.task_file.name_column('id')} right?"
            )
        several = [word for word in ids if counts[word] > 1]
        if several:
            raise UserError(
                f"{name}: {len(several)} of its {len(ids)} ids stand for "
                f"several rows of {table}, such as {cut(several[0])!r}. Give "
                "each row an id of its task_file."
            )
        row_of = {word: row for row, word in enumerate(row_ids)}
        return np.array([row_of[word] for word in ids])


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
