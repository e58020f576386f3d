"""A published corpus: a folder with a file for each split."""

import os
from collections.abc import Iterable

import numpy as np

from tf_transfer.data.tables import Table, word_of
from tf_transfer.data.task import Examples, Source, Task
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError


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
        task: Has the labels, or the range of the scores.
        is_hidden: Whether the file has no labels.

    Raises:
        UserError: There are no rows, or a label is unknown; with the line.
    """
    if not len(table):
        raise UserError(f"{table.files[0][0]}: holds no examples.")
    labels = None
    if not is_hidden and task.labels is None:
        scores = table.scores(task.label, *(task.score_range or ()))
        labels = np.asarray(scores, np.float32)
    elif not is_hidden:
        numbers = {label: n for n, label in enumerate(task.labels or ())}
        cells = enumerate(map(word_of, table.columns[task.label]))
        labels = np.asarray(
            [table.number_of(r, task.label, w, numbers) for r, w in cells],
            np.int64,
        )
    return Examples(np.arange(len(table)), texts, labels)
