"""A table with one held-out test set, or with folds, as Hart's tweets."""

import collections
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Sequence

import numpy as np

from tf_transfer.data import file_formats, texts as texts_lib
from tf_transfer.data.columns import normalize_cell, Table
from tf_transfer.data.task import Task
from tf_transfer.own import labels as labels_lib
from tf_transfer.own.table_source import TableSource
from tf_transfer.own.table_splits import find_rows
from tf_transfer.own.task_file import check_table, TaskFile
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

METRICS = ("f1", "f1_other", "f1_macro", "f1_hart", "precision", "recall")

Split = tuple[np.ndarray, np.ndarray]  # rows to train on, rows to test


@dataclasses.dataclass(frozen=True)
class HeldOutTable(TaskFile):
    """A table, and the flags that describe how it is read and split.

    Attributes:
        id: The column of the ids; None for `id`, if there is such a column;
            empty for the line numbers.
        keyword: A column that is put before the text; empty for none.
        is_cleaned: Whether links, mentions and HTML entities are replaced.
        folds: The number of folds of a cross-validation; 0 for one test set.
        fold_seed: The seed of the folds.
        row_order: File with all ids in the order that the folds are drawn
            on; empty for that of the table.
    """

    id: str | None = ""
    keyword: str = ""
    is_cleaned: bool = False
    folds: int = 0
    fold_seed: int = 0
    row_order: str = ""

    @property
    def id_column(self) -> str:
        """The column of the ids; `id`, if it is not given."""
        return "id" if self.id is None else self.id

    def list_columns(self) -> dict[str, str | None]:
        """The columns that are read; see `TaskFile`."""
        columns = super().list_columns()
        if self.keyword:
            columns[self.keyword] = "--keyword_column"
        return columns

    def make_texts(self, table: Table) -> list[list[str]]:
        """The texts, behind their keywords; see `TaskFile`."""
        [texts] = super().make_texts(table)
        keywords = [""] * len(texts)
        if self.keyword:
            keywords = [*map(normalize_cell, table.columns[self.keyword])]
        return [
            [
                texts_lib.make_text(text, keyword, self.is_cleaned)
                for text, keyword in zip(texts, keywords)
            ]
        ]


class HeldOutSource(TableSource):
    """The table as a task with a training set and a test set.

    Its classifier has to train and test on every label, so each needs two rows.
    F1, precision and recall are those of the last of two labels.

    Args:
        table: The table and its split.
        split_seed: The seed of the test rows.

    Raises:
        UserError: There is no such file.
    """

    task_file: HeldOutTable

    def __init__(
        self, table: HeldOutTable, split_seed: int = 0, folder: str = ""
    ) -> None:
        check_table(table.path)
        super().__init__(table, split_seed, folder)

    @functools.cached_property
    def identity(self) -> str:
        """A hash of the table, and of the test rows or folds."""
        table = self.task_file
        lines = _describe_reading(table) + _describe_split(
            table, self._split_seed
        )
        digest = hashlib.sha256("\n".join(lines).encode())
        return f"table sha256:{digest.hexdigest()}"

    def _find_task(self) -> Task:
        """The task, with the labels of the table.

        Raises:
            UserError: The labels cannot be used.
        """
        task = super()._find_task()
        counts = collections.Counter(
            itertools.chain(*self._read("train").labels)
        )
        once = [label for label in task.labels or () if counts[label] == 1]
        if once:
            raise labels_lib.column_error(
                self.task_file,
                f"has label {cut(once[0])!r} in one row only, which cannot be "
                "both trained on and tested. Remove the row, or fix its label.",
            )
        is_binary = len(task.labels or ()) == 2
        return dataclasses.replace(
            task, also=METRICS if is_binary else ("f1_macro",)
        )

    @property
    def labels(self) -> np.ndarray:
        """int64 [rows]. The labels of all rows."""
        return self._encode(self._read("train"), self.task.labels or ())

    @functools.cached_property
    def drawn(self) -> dict[str, np.ndarray]:
        """Sorted rows of `train` and `test`, int64.

        Raises:
            UserError: No row of a label is left to train on.
        """
        drawn = super().drawn
        check_labels(
            self.labels[drawn["train"]],
            self.task.labels or (),
            "--test_ids: leaves",
            "Leave more rows to train on.",
        )
        return drawn

    def _draw(
        self, labels: np.ndarray, groups: np.ndarray, fraction: float
    ) -> np.ndarray:
        """Draws the tested rows."""
        path, seed = self.task_file.path, self._split_seed
        return draw_test_rows(labels, groups, fraction, seed, path)

    def folds(self) -> list[Split]:
        """The rows to train on, and to test, of each fold.

        Raises:
            UserError: The folds cannot be made, or one lacks a label.
        """
        task_file = self.task_file
        if not task_file.folds:
            return [(self.drawn["train"], self.drawn["test"])]
        labels = self.labels
        order = np.arange(len(labels))
        if task_file.row_order:
            name = f"--row_order={task_file.row_order}"
            table = self._read("train").table
            order = find_rows(task_file, table, task_file.row_order, name)
            if len(order) < len(labels):
                raise UserError(
                    f"{name}: has {len(order)} ids, {task_file.path} "
                    f"{len(labels)}. Give all of them."
                )
        folds = make_folds(
            self.groups, task_file.folds, task_file.fold_seed, order
        )
        for number, fold in enumerate(folds, 1):
            for rows, verb in zip(fold, ("trains", "tests")):
                check_labels(
                    labels[rows],
                    self.task.labels or (),
                    f"--folds={task_file.folds}: fold {number} {verb} on",
                    "Give fewer folds, or another --fold_seed.",
                )
        return folds


def _describe_reading(table: HeldOutTable) -> list[str]:
    """The file and how it is read, for the identity of the data."""
    # The names of finished runs have this hash: the words stay.
    columns = (
        f"Columns(text={table.texts[0]!r}, label={table.label[0]!r}, "
        f"id={table.id!r}, keyword={table.keyword!r})"
    )
    codec = file_formats.codec_of(table.encoding)
    content = files.sha256(table.path)
    lines = [
        f"{content} {columns} {codec} {table.is_cleaned}",
        table.duplicates,
    ]
    if table.skip_bad_rows:
        lines.append("skip_bad_rows")
    if table.ignore_labels:
        lines.append(f"without {table.ignore_labels!r}")
    if table.group:
        lines.append(f"groups of {table.group!r}")
    return lines


def _describe_split(table: HeldOutTable, split_seed: int) -> list[str]:
    """The folds or the test rows, for the identity of the data."""
    if table.folds:
        lines = [f"{table.folds} folds, {table.fold_seed}"]
        if table.row_order:
            name = f"--row_order={table.row_order}"
            lines += file_formats.read_ids(table.row_order, name)
        return lines
    if table.test.ids:
        name = f"--test_ids={table.test.ids}"
        # Sorted: a held-out set has no order.
        return sorted(file_formats.read_ids(table.test.ids, name))
    return [f"{table.test.fraction:g}, {split_seed}"]


def draw_test_rows(
    labels: np.ndarray,
    groups: np.ndarray,
    fraction: float,
    seed: int,
    path: str = "",
) -> np.ndarray:
    """Draws whole groups to test, stratified by the label of their first row.

    Args:
        labels: int64 [rows].
        groups: int [rows]. A number for each row; rows of one group are all
            tested or all trained on.
        fraction: The fraction of the groups that is tested.
        seed: The split seed.
        path: The table, for messages.

    Returns:
        Sorted row numbers to test.

    Raises:
        UserError: There are too few groups for this split.
    """
    import sklearn.model_selection

    first_rows = np.unique(groups, return_index=True)[1]
    try:
        _, tested = sklearn.model_selection.train_test_split(
            groups[first_rows],
            test_size=fraction,
            random_state=seed,
            stratify=labels[first_rows],
        )
    except ValueError as error:
        raise UserError(
            f"{path}: cannot test {fraction:g} of its {len(first_rows)} "
            "different texts or groups, with each label in both splits "
            f"({error}). Give a larger table; tf_transfer.tweets takes another "
            "--test_fraction, or --test_ids. With --duplicates=group, a label "
            "may have only one text."
        ) from None
    return np.flatnonzero(np.isin(groups, tested))


def make_folds(
    groups: np.ndarray, count: int, seed: int, order: np.ndarray
) -> list[Split]:
    """Makes the folds of a cross-validation: each row is tested in one.

    Args:
        groups: int [rows]. A number for each row; rows of one group are in
            one fold.
        count: The number of folds.
        seed: The seed of the shuffle.
        order: int [rows]. Row numbers in the order that the folds are drawn
            on.

    Returns:
        For each fold the rows to train on, and the rows to test.

    Raises:
        UserError: There are not as many groups.
    """
    import sklearn.model_selection

    first = np.sort(np.unique(groups[order], return_index=True)[1])
    units = groups[order][first]
    if not 2 <= count <= len(units):
        raise UserError(
            f"--folds={count}: give 2 to {len(units)}, the number of different "
            "texts or groups."
        )
    kfold = sklearn.model_selection.KFold(
        count, shuffle=True, random_state=seed
    )
    masks = [
        np.isin(groups[order], units[tested])
        for _, tested in kfold.split(units)
    ]
    return [(order[~is_tested], order[is_tested]) for is_tested in masks]


def check_labels(
    labels: np.ndarray, names: Sequence[str], problem: str, advice: str
) -> None:
    """Raises `UserError` if there is no example of a label.

    Args:
        labels: int64 [examples].
        names: All labels.
        problem: The beginning of the message.
        advice: The end of the message.
    """
    missing = [n for number, n in enumerate(names) if number not in labels]
    if missing:
        raise UserError(
            f"{problem} no example of label {cut(missing[0])!r}. {advice}"
        )
