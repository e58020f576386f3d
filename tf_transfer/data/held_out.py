"""A table with one held-out test set, or with folds, as Hart's tweets."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tf_transfer.data import tables
from tf_transfer.data import texts as texts_lib
from tf_transfer.data.table_source import read_ids, Rows, TableSource
from tf_transfer.data.tables import Table
from tf_transfer.data.task import Task
from tf_transfer.data.task_file import Part, TaskFile
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

METRICS = ("f1", "f1_other", "f1_macro", "f1_hart", "precision", "recall")

Split = tuple[np.ndarray, np.ndarray]  # rows to train on, rows to test


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """A CSV or TSV file, and the flags that say how it is read.

    Attributes:
        task: The name of the task.
        data: The file.
        text_column: The column of the texts.
        label_column: The column of the labels.
        id_column: The column of the ids; None for `id`, if there is such a
            column; empty for the line numbers.
        keyword_column: A column that is put before the text; empty for none.
        encoding: The encoding of the file.
        clean: `basic` replaces links, mentions and HTML entities; or `none`.
        duplicates: `group` keeps equal texts in one split; `keep` takes every
            row by itself.
        test_ids: File with the ids of the test rows; empty for a fraction.
        test_fraction: The fraction of test rows, drawn by `split_seed`.
        split_seed: The split seed.
        folds: The number of folds of a cross-validation; 0 for one test set.
        fold_seed: The seed of the folds.
        row_order: File with all ids in the order that the folds are drawn
            on; empty for that of the table.
    """

    task: str
    data: str
    text_column: str
    label_column: str
    id_column: str | None = ""
    keyword_column: str = ""
    encoding: str = "utf-8"
    clean: str = "none"
    duplicates: str = "keep"
    test_ids: str = ""
    test_fraction: float = 0.1
    split_seed: int = 0
    folds: int = 0
    fold_seed: int = 0
    row_order: str = ""


class HeldOutSource(TableSource):
    """The table as a task with a training set and a test set.

    Its classifier has to train and test on every label, so each needs two rows.
    F1, precision and recall are those of the last of two labels.

    Args:
        options: The table and its split.

    Raises:
        UserError: There is no such file.
    """

    def __init__(self, options: TableOptions) -> None:
        if not os.path.isfile(options.data):
            raise UserError(
                f"--data={options.data}: no such file. Give a CSV or TSV file "
                "whose first line names its columns."
            )
        super().__init__(
            TaskFile(
                options.data,
                options.task,
                (options.text_column,),
                (options.label_column,),
                Part(paths=(options.data,)),
                test=Part(fraction=options.test_fraction),
                duplicates=options.duplicates,
                encoding=options.encoding,
            ),
            options.split_seed,
        )
        self._options = options

    @functools.cached_property
    def identity(self) -> str:  # type: ignore[override]
        """A hash of the table, and of the test rows or folds."""
        options = self._options
        # The names of finished runs have this hash: the words stay.
        columns = (
            f"Columns(text={options.text_column!r}, "
            f"label={options.label_column!r}, id={options.id_column!r}, "
            f"keyword={options.keyword_column!r})"
        )
        table = (
            files.sha256(options.data),
            columns,
            tables.codec_of(options.encoding),
            options.clean == "basic",
        )
        lines = [" ".join(map(str, table)), *self._identify_split()]
        digest = hashlib.sha256("\n".join(lines).encode())
        return f"table sha256:{digest.hexdigest()}"

    def _identify_split(self) -> Iterator[str]:
        """Yields everything that decides which rows are tested."""
        options = self._options
        yield options.duplicates
        if options.folds:
            yield f"{options.folds} folds, {options.fold_seed}"
            if options.row_order:
                yield from read_ids(options.row_order, self._name("row_order"))
        elif options.test_ids:
            # Sorted: a held-out set has no order.
            ids = read_ids(options.test_ids, self._name("test_ids"))
            yield from sorted(ids)
        else:
            yield f"{options.test_fraction:g}, {options.split_seed}"

    @functools.cached_property
    def task(self) -> Task:  # type: ignore[override]
        """The task, with the labels of the table."""
        task = super().task
        is_binary = len(task.labels or ()) == 2
        return dataclasses.replace(
            task, also=METRICS if is_binary else ("f1_macro",)
        )

    @property
    def _labels(self) -> np.ndarray:
        """int64 [rows]."""
        return self._encode(self._read("train"), self.task.labels or ())

    @functools.cached_property
    def drawn(self) -> dict[str, np.ndarray]:
        """Sorted rows of `train` and `test`, int64.

        Rows with the text of a test row do not train, if equal texts are
        grouped.
        """
        options, labels = self._options, self._labels
        if options.test_ids:
            tested = np.sort(self._find("test_ids"))
        else:
            tested = draw_test_rows(
                labels, self.groups, options.test_fraction, options.split_seed
            )
        is_tested = np.isin(self.groups, self.groups[tested])
        train = np.flatnonzero(~is_tested)
        check_labels(
            labels[train],
            self.task.labels or (),
            "--test_ids: leaves",
            "Leave more rows to train on.",
        )
        return {"train": train, "test": tested}

    def folds(self) -> list[Split]:
        """The rows to train on, and to test, of each fold.

        Raises:
            UserError: The folds cannot be made, or one lacks a label.
        """
        options = self._options
        if not options.folds:
            return [(self.drawn["train"], self.drawn["test"])]
        labels = self._labels
        order = np.arange(len(labels))
        if options.row_order:
            order = self._find("row_order")
            if len(order) < len(labels):
                raise UserError(
                    f"{self._name('row_order')}: has {len(order)} ids, "
                    f"{options.data} {len(labels)}. Give all of them."
                )
        folds = make_folds(self.groups, options.folds, options.fold_seed, order)
        for number, fold in enumerate(folds, 1):
            for rows, verb in zip(fold, ("trains", "tests")):
                check_labels(
                    labels[rows],
                    self.task.labels or (),
                    f"--folds={options.folds}: fold {number} {verb} on",
                    "Give fewer folds, or another --fold_seed.",
                )
        return folds

    def _find(self, flag: str) -> np.ndarray:
        """The rows of the ids in the file of a flag."""
        path = getattr(self._options, flag)
        data = self._options.data
        return self._find_rows(path, self._name(flag), data, "--id_column")

    def _name(self, flag: str) -> str:
        return f"--{flag}={getattr(self._options, flag)}"

    # === Rows ===

    def _columns(self) -> dict[str, str | None]:
        options, columns = self._options, super()._columns()
        if options.keyword_column:
            columns.setdefault(options.keyword_column, "--keyword_column")
        if options.id_column is None:
            columns.setdefault("id", None)
        elif options.id_column:
            columns.setdefault(options.id_column, "--id_column")
        return columns

    def _prepare_texts(self, table: Table) -> list[list[str]]:
        options, [texts] = self._options, super()._prepare_texts(table)
        keywords: Iterable[str] = itertools.repeat("")
        if options.keyword_column:
            keywords = map(
                tables.word_of, table.columns[options.keyword_column]
            )
        return [
            [
                texts_lib.make_text(text, keyword, options.clean == "basic")
                for text, keyword in zip(texts, keywords)
            ]
        ]

    def _read_files(self, paths: Sequence[str]) -> Rows:
        rows = super()._read_files(paths)
        [(word, count)] = collections.Counter(
            self._row_ids(rows.table)
        ).most_common(1)
        if count > 1:
            column = self._options.id_column or "id"
            raise UserError(
                f"{self._options.data}, column {column!r}: has {cut(word)!r} "
                f"{count} times. Give another --id_column, or none: "
                "--id_column= numbers the lines."
            )
        # The labels are as the file has them, not as `word_of` unifies them.
        cells = rows.table.columns[self._options.label_column]
        labels = [sys.intern(str(cell).strip()) for cell in cells]
        return rows._replace(labels=labels)

    def _row_ids(self, table: Table) -> list[str]:
        """The ids of the rows; the line numbers if there is no column."""
        column = self._options.id_column
        column = "id" if column is None else column
        if column in table.columns:
            return [str(cell).strip() for cell in table.columns[column]]
        [(_, lines)] = table.files
        return [*map(str, lines)]

    def _check_counts(self, counts: collections.Counter[str]) -> None:
        once = [label for label, count in counts.items() if count == 1]
        if once:
            raise self._column_error(
                f"has label {cut(once[0])!r} in one row only, which cannot be "
                "both trained on and tested. Remove the row, or fix its label."
            )


def draw_test_rows(
    labels: np.ndarray, groups: np.ndarray, fraction: float, seed: int
) -> np.ndarray:
    """Draws whole groups to test, stratified by the label of their first row.

    Args:
        labels: int64 [rows].
        groups: int [rows]. A number for each row; rows of one group are all
            tested or all trained on.
        fraction: The fraction of the groups that is tested.
        seed: The split seed.

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
            f"--test_fraction={fraction:g}: cannot split the "
            f"{len(first_rows)} different texts so ({error}). Give another "
            "fraction, or --test_ids; with --duplicates=group, a label may "
            "have only one text."
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
            "texts."
        )
    kfold = sklearn.model_selection.KFold(
        count, shuffle=True, random_state=seed
    )
    folds = []
    for _, tested in kfold.split(units):
        is_tested = np.isin(groups[order], units[tested])
        folds.append((order[~is_tested], order[is_tested]))
    return folds


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
    present = set(np.unique(labels).tolist())
    for number, name in enumerate(names):
        if number not in present:
            raise UserError(
                f"{problem} no example of label {cut(name)!r}. {advice}"
            )
