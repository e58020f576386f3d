"""A published corpus: a folder with a file for each split."""

import os
from collections.abc import Iterable

import numpy as np

from tf_transfer.data.tables import Table
from tf_transfer.data.tables import word_of
from tf_transfer.data.task import Examples
from tf_transfer.data.task import SCORE_RANGE
from tf_transfer.data.task import Source
from tf_transfer.data.task import Task
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut


class FolderSource(Source):
    """The splits of a task in the files of a folder.

    Args:
        task: The task.
        folder: The folder of the files.
        pattern: The name of a split's file, with `{}` for the split.
        advice: What a user can do if a file is missing.
        title: The beginning of the identity; the rest is a hash.
        splits: The splits whose content is hashed.

    Raises:
        UserError: A file is missing.
    """

    def __init__(
        self,
        task: Task,
        folder: str,
        pattern: str,
        advice: str,
        title: str,
        splits: Iterable[str],
    ) -> None:
        self.task = task
        self._folder, self._pattern = folder, pattern
        self._advice = advice
        digest = files.combined_sha256(map(self.find_file, splits))
        self.identity = f"{title} sha256:{digest}"

    def has(self, split: str) -> bool:
        """Whether the file of a split exists."""
        return os.path.isfile(self._join(split))

    def find_file(self, split: str) -> str:
        """The path of a split.

        Raises:
            UserError: There is no such file.
        """
        path = self._join(split)
        if not self.has(split):
            raise UserError(f"{path}: no such file. {self._advice}")
        return path

    def _join(self, split: str) -> str:
        return os.path.join(self._folder, self._pattern.format(split))


def make_examples(
    table: Table, texts: list[list[str]], task: Task, is_hidden: bool
) -> Examples:
    """The rows of a table as examples.

    Args:
        table: Has the column `task.label`, unless labels are hidden.
        texts: The columns of the texts.
        task: The labels; or None, for scores within `SCORE_RANGE`.
        is_hidden: Whether the file has no labels.

    Raises:
        UserError: There are no rows, or a label is unknown; with the line.
    """
    if not len(table):
        raise UserError(f"{table.files[0][0]}: holds no examples.")
    labels = None
    if not is_hidden:
        parse = _parse_score if task.labels is None else _parse_class
        labels = np.asarray(
            [parse(table, row, task) for row in range(len(table))],
            task.label_dtype,
        )
    return Examples(np.arange(len(table)), texts, labels)


def _parse_class(table: Table, row: int, task: Task) -> int:
    assert task.labels is not None
    word = word_of(table.columns[task.label][row])
    if word not in task.labels:
        raise table.error(
            row,
            task.label,
            f"{cut(word)!r} is not one of {', '.join(task.labels)}.",
        )
    return task.labels.index(word)


def _parse_score(table: Table, row: int, task: Task) -> float:
    word = table.columns[task.label][row]
    low, high = SCORE_RANGE
    try:
        score = float(word)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise table.error(
            row,
            task.label,
            f"{cut(word)!r} is not a score from {low:g} to {high:g}.",
        )
    return score
