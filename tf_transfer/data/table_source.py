"""A user's table as a source like any other: what trains and what is tested."""

import functools
import hashlib
import os

import numpy as np

from tf_transfer.data import heldout
from tf_transfer.data import sources
from tf_transfer.data import tables
from tf_transfer.data import tasks
from tf_transfer.utils.errors import UserError

METRICS = ("f1", "f1_other", "f1_macro", "f1_hart", "precision", "recall")


class TableSource(sources.OneTask):
    """The table as a task with a training set and a held-out set.

    Args:
        settings: `tweets.TweetsSettings`.

    Attributes:
        table: `tables.Table`.
        identity: str. Tells the table, and what is tested of it.
    """

    def __init__(self, settings):
        self.settings = settings
        self.table = _read_table(
            settings.data,
            _changed(settings.data),
            tables.Columns(
                settings.text_column,
                settings.label_column,
                settings.id_column,
                settings.keyword_column,
            ),
            settings.encoding,
            settings.clean == "basic",
        )
        digest = hashlib.sha256(self.table.identity.encode())
        for part in (settings.duplicates, *self._split()):
            digest.update(f"\n{part}".encode())
        self.identity = f"table sha256:{digest.hexdigest()}"

    def _split(self):
        """Everything that decides what is tested."""
        settings = self.settings
        if settings.is_sparse and settings.folds:
            flag = "row_order"
            yield f"{settings.folds} folds, {settings.fold_seed}"
        else:
            flag = "test_ids"
            if not settings.test_ids:
                yield f"{settings.test_fraction:g}, {settings.split_seed}"
        path = getattr(settings, flag)
        if path:
            ids = heldout.read_ids(path, flag)
            # A held-out set is a set; an order is an order.
            yield from sorted(ids) if flag == "test_ids" else ids

    @property
    def task(self):
        """A `tasks.Task`; F1 and its kin are those of the last label."""
        words = self.table.words
        metrics = METRICS if len(words) == 2 else ("f1_macro",)
        return tasks.Task(
            self.settings.task,
            "",
            (self.settings.text_column,),
            self.settings.label_column,
            words,
            "accuracy",
            "",
            (),
            also=metrics,
            development=("test",),
        )

    @functools.cached_property
    def groups(self):
        """A number for each row; rows of one stand on one side."""
        if self.settings.duplicates == "group":
            return tables.groups(self.table.texts)
        return np.arange(len(self.table))

    @functools.cached_property
    def rows(self):
        """Rows to train on, and to test."""
        settings, table = self.settings, self.table
        if settings.test_ids:
            tested = heldout.rows_of_ids(
                heldout.read_ids(settings.test_ids, "test_ids"),
                table.ids,
                settings.test_ids,
                "test_ids",
                settings.data,
            )
        else:
            tested = heldout.draw(
                table.labels,
                self.groups,
                settings.test_fraction,
                settings.split_seed,
            )
        train, tested = heldout.divide(tested, self.groups)
        heldout.check_labels(train, table.labels, table.words)
        return train, tested

    def keep_apart(self, rows, held):
        """Rows without those whose text is among the held ones."""
        return rows[~np.isin(self.groups[rows], self.groups[held])]

    def read(self, split):
        """`sources.Examples` of `train` or `test`."""
        rows = self.rows[0 if split == "train" else 1]
        return sources.Examples(
            rows,
            [[self.table.texts[row] for row in rows]],
            self.table.labels[rows],
        )

    def folds(self):
        """(rows to train on, rows to test) of each fold."""
        settings, order = self.settings, None
        if not settings.folds:
            return [self.rows]
        if settings.row_order:
            ids = heldout.read_ids(settings.row_order, "row_order")
            order = heldout.rows_of_ids(
                ids,
                self.table.ids,
                settings.row_order,
                "row_order",
                settings.data,
            )
            if len(order) < len(self.table):
                raise UserError(
                    f"--row_order={settings.row_order}: has {len(order)} ids, "
                    f"{settings.data} {len(self.table)}. Give all of them."
                )
        found = heldout.folds(
            self.groups, settings.folds, settings.fold_seed, order
        )
        for number, (train, tested) in enumerate(found, 1):
            heldout.check_fold(
                number,
                settings.folds,
                self.table.labels,
                train,
                tested,
                self.table.words,
            )
        return found


@functools.lru_cache(4)
def _read_table(path, changed, columns, encoding, clean):
    del changed  # but not the cache's key
    return tables.read(path, columns, encoding, clean)


def _changed(path):
    """When a file changed last; 0 where there is none."""
    return os.stat(path).st_mtime_ns if os.path.isfile(path) else 0
