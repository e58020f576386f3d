"""A user's table as a source like any other, with a held-out test set."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterator

import numpy as np

from tf_transfer.data import heldout
from tf_transfer.data import tables
from tf_transfer.data.task import Examples
from tf_transfer.data.task import Source
from tf_transfer.data.task import Task
from tf_transfer.utils.errors import UserError

METRICS = ("f1", "f1_other", "f1_macro", "f1_hart", "precision", "recall")


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Which rows of a table are tested.

    Attributes:
        duplicates: `group` trains and tests no text on both sides; `keep`
            takes every row by itself.
        test_ids: File with the ids that are tested; empty for a fraction.
        test_fraction: The fraction that is tested, drawn by `split_seed`.
        split_seed: The split seed.
        folds: Folds of a cross-validation; 0 for one held-out set.
        fold_seed: Seed of the folds.
        row_order: File with all ids in the order that the folds are drawn
            on; empty for the table's.
    """

    duplicates: str = "keep"
    test_ids: str = ""
    test_fraction: float = 0.1
    split_seed: int = 0
    folds: int = 0
    fold_seed: int = 0
    row_order: str = ""

    def identify(self) -> Iterator[str]:
        """Yields everything that decides what is tested."""
        yield self.duplicates
        if self.folds:
            yield f"{self.folds} folds, {self.fold_seed}"
            if self.row_order:
                yield from _read_ids(self.row_order, "row_order")
        elif self.test_ids:
            # Sorted: a held-out set has no order.
            yield from sorted(_read_ids(self.test_ids, "test_ids"))
        else:
            yield f"{self.test_fraction:g}, {self.split_seed}"


class TableSource(Source):
    """The table as a task with a training set and a test set.

    Args:
        name: What the task is called.
        path: The CSV or TSV file.
        columns: Its columns.
        held_out: Which of its rows are tested.
        encoding: Of the file.
        clean: Whether links, mentions and HTML entities are replaced.

    Attributes:
        table: The whole table.
        task: Its labels and metrics; F1 and its kin are those of the last
            label.
        identity: A hash of the table, and of what is tested.

    Raises:
        UserError: The table or a file of ids cannot be read.
    """

    def __init__(
        self,
        name: str,
        path: str,
        columns: tables.Columns,
        held_out: HeldOut,
        encoding: str = "utf-8",
        clean: bool = False,
    ) -> None:
        self.held_out = held_out
        self.table = _read_table(
            path, _last_change(path), columns, encoding, clean
        )
        digest = hashlib.sha256(self.table.identity.encode())
        for line in held_out.identify():
            digest.update(f"\n{line}".encode())
        self.identity = f"table sha256:{digest.hexdigest()}"
        labels = self.table.label_names
        self.task = Task(
            name,
            "",
            (columns.text,),
            columns.label,
            labels,
            "accuracy",
            also=METRICS if len(labels) == 2 else ("f1_macro",),
            development=("test",),
        )

    @functools.cached_property
    def groups(self) -> np.ndarray:
        """int64 [rows]. Rows of the same number are never split apart."""
        if self.held_out.duplicates == "group":
            return tables.group_texts(self.table.texts)
        return np.arange(len(self.table))

    @functools.cached_property
    def rows(self) -> heldout.Split:
        """The rows to train on, and to test, of one held-out set."""
        table, held_out = self.table, self.held_out
        if held_out.test_ids:
            tested = self._find_rows(held_out.test_ids, "test_ids")
        else:
            tested = heldout.draw_test_rows(
                table.labels,
                self.groups,
                held_out.test_fraction,
                held_out.split_seed,
            )
        train, tested = heldout.split_train_test(tested, self.groups)
        heldout.check_labels(train, table.labels, table.label_names)
        return train, tested

    def group(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of rows; with --duplicates=group those of their texts."""
        return self.groups[rows]

    def read(self, split: str) -> Examples:
        """The examples of `train` or `test`."""
        rows = self.rows[0 if split == "train" else 1]
        return Examples(
            rows,
            [[self.table.texts[row] for row in rows]],
            self.table.labels[rows],
        )

    def folds(self) -> list[heldout.Split]:
        """The rows to train on, and to test, of each fold.

        Raises:
            UserError: The folds cannot be made, or one lacks a label.
        """
        table, held_out = self.table, self.held_out
        if not held_out.folds:
            return [self.rows]
        order = None
        if held_out.row_order:
            order = self._find_rows(held_out.row_order, "row_order")
            if len(order) < len(table):
                raise UserError(
                    f"--row_order={held_out.row_order}: has {len(order)} ids, "
                    f"{table.path} {len(table)}. Give all of them."
                )
        folds = heldout.make_folds(
            self.groups, held_out.folds, held_out.fold_seed, order
        )
        for number, (train, tested) in enumerate(folds, 1):
            heldout.check_fold(
                number,
                held_out.folds,
                table.labels,
                train,
                tested,
                table.label_names,
            )
        return folds

    def _find_rows(self, path: str, flag: str) -> np.ndarray:
        return heldout.find_rows(
            _read_ids(path, flag),
            self.table.ids,
            f"--{flag}={path}",
            self.table.path,
            "--id_column",
        )


def _read_ids(path: str, flag: str) -> list[str]:
    return heldout.read_ids(path, f"--{flag}={path}")


@functools.lru_cache(4)
def _read_table(
    path: str,
    changed: int,
    columns: tables.Columns,
    encoding: str,
    clean: bool,
) -> tables.Table:
    del changed  # but it is in the cache's key
    return tables.read(path, columns, encoding, clean)


def _last_change(path: str) -> int:
    """When a file was last changed, in ns; 0 where there is none."""
    return os.stat(path).st_mtime_ns if os.path.isfile(path) else 0
