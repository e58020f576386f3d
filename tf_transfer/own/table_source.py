"""A user's tables as a source like any other.

Rows of the training files that are drawn for validation or test are stratified
by label. With `duplicates = "group"` no text is in two splits, and no value of
the column `group` is. A label with too few rows stays in the training set.
"""

import functools
import os
from collections.abc import Sequence

import numpy as np

from tf_transfer.data import (
    entities,
    groups as groups_lib,
    splits,
    table_files,
    tagged,
)
from tf_transfer.data.task import (
    choose_metrics,
    Examples,
    Sentences,
    Source,
    Task,
    TWO_CLASSES,
)
from tf_transfer.own import labels as labels_lib, table_rows, table_splits
from tf_transfer.own.table_rows import Rows
from tf_transfer.own.task_file import TaskFile
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

MOST_SEARCHED = 1 << 25  # bytes of a file that is searched for groups
_TASKS: dict[tuple[str, ...], Task] = {}  # a search asks for each of its runs


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
        self._read = functools.cache(self._read_split)

    @functools.cached_property
    def identity(self) -> str:
        """A hash of the files' contents, and of how they are read."""
        return self.task_file.identity

    @functools.cached_property
    def task(self) -> Task:
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
            scores = np.asarray(self._read("train").scores, np.float64)
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
        if self._is_drawn(split):
            return self.read_all("train").take(self.drawn[split])
        return self.read_all(split)

    def _is_drawn(self, split: str) -> bool:
        """Whether the texts of a split are in the training files."""
        return split == "train" or not getattr(self.task_file, split).paths

    def locate(self, split: str, ids: np.ndarray) -> list[tuple[str, int]]:
        """The file and the line of texts; in Parquet and Excel the number.

        Args:
            split: The split that `read` returned the texts for.
            ids: int64 [texts]. Their ids.
        """
        rows = self._read("train" if self._is_drawn(split) else split)
        numbers = np.searchsorted(rows.ids, ids)
        return [rows.table.places[number] for number in numbers]

    def read_all(self, split: str) -> Examples | Sentences:
        """All rows of the files of a split, including those drawn from it."""
        rows, labels = self._read(split), self.task.labels or ()
        if self.task.is_tagging:
            tagged.check_types(
                rows.table, rows.labels, entities.types_of(labels)
            )
            words = rows.table.lists(self.task_file.texts[0])
            return Sentences(rows.ids, words, rows.labels, rows.groups)
        encoded = self._encode(rows, labels)
        return Examples(rows.ids, rows.texts, encoded, rows.groups)

    def group(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows; see `groups`."""
        return self.groups[np.searchsorted(self._read("train").ids, rows)]

    def drop_texts(self) -> None:
        """Releases all texts; they are read again when needed."""
        self._read.cache_clear()

    def _read_split(self, split: str) -> Rows:
        task_file, cells = self.task_file, None
        if task_file.kind == "entities":
            return table_rows.read_sentences(task_file, split)
        if task_file.has_label_cells and split != "train":
            cells = self._read("train").cells  # as in all splits
        return table_rows.read_rows(task_file, split, cells, self._folder)

    def _encode(self, rows: Rows, names: Sequence[str]) -> np.ndarray:
        """The labels of rows as numbers, of all labels; see `Examples`."""
        kind, column = self.task_file.kind, self.task_file.label[0]
        if kind == "score":
            return np.asarray(rows.scores, np.float64)
        if kind == "entities":
            return np.zeros(len(rows.table), np.int64)  # sentences have none
        if kind == "classes":
            words = [label for [label] in rows.labels]
            return rows.table.label_ids(column, words, names)
        return rows.table.label_sets(column, rows.labels, names)

    def find_problems(self) -> list[str]:
        """A sentence on a column that may name groups which splits share."""
        task_file, path = self.task_file, self.task_file.train.paths[0]
        draws_rows = not (task_file.validation.paths and task_file.test.paths)
        is_large = os.path.getsize(path) > MOST_SEARCHED
        if (
            task_file.group
            or task_file.kind == "entities"
            or not draws_rows
            or is_large
        ):
            return []
        known = task_file.list_columns()
        try:
            table = table_files.read_table(
                path, known, task_file.encoding, None, [], takes_all=True
            )
        except UserError:  # of columns that the task does not read
            return []
        column = groups_lib.find_column(
            {n: cells for n, cells in table.columns.items() if n not in known}
        )
        if not column:
            return []
        option = task_file.name_option(
            f"--group_column={column}", f'group = "{column}"'
        )
        return [
            f"column {cut(column)!r} has few values, and splits share them. If "
            f"it names authors, patients or documents, {option} keeps each in "
            "one split."
        ]

    # === Splits ===

    @functools.cached_property
    def groups(self) -> np.ndarray:
        """int64 [rows of train]; see `table_splits.group_rows`."""
        return table_splits.group_rows(self.task_file, self._read("train"))

    @functools.cached_property
    def drawn(self) -> dict[str, np.ndarray]:
        """Rows of the training files by split, int64; see `split_rows`."""
        task_file, train = self.task_file, self._read("train")
        # The drawn texts scale a score, so its task is not known yet.
        names = () if task_file.kind == "score" else self.task.labels or ()
        labels = self._encode(train, names)
        others = []
        if task_file.group or task_file.duplicates == "group":
            for split in ("validation", "test"):
                if getattr(task_file, split).paths:
                    others.append(self._read(split))
        return table_splits.split_rows(
            task_file, train, others, labels, self.groups, self._draw
        )

    def _draw(
        self, labels: np.ndarray, groups: np.ndarray, fraction: float
    ) -> np.ndarray:
        """Draws a fraction of some rows, whole groups; see `Draw`."""
        _, held = splits.split_train_validation(
            labels, fraction, self._split_seed, groups
        )
        is_held = np.isin(np.arange(len(labels)), held)
        if labels.dtype.kind == "i" and labels.ndim == 1:
            is_held &= np.isin(labels, labels[~is_held])
        column = self.task_file.group
        if column and not is_held.any():
            raise UserError(
                f"{self.task_file.train.paths[0]}, column {cut(column)!r}: has "
                "too few groups to hold out one, with each label also in "
                "another. Give another "
                f"{self.task_file.name_column('group')}, or none."
            )
        return np.flatnonzero(is_held)
