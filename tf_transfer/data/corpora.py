"""Published corpora: a folder with a file for each split, or a TFDS release."""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TYPE_CHECKING

import numpy as np
from absl import logging

from tf_transfer.data.columns import normalize_cell, Table
from tf_transfer.data.task import Examples, Sentences, Source, Task
from tf_transfer.utils import files, servers
from tf_transfer.utils.errors import RunError, UserError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

# Of TensorFlow Datasets: values of NumPy by the names of the features.
TfdsRow = dict[str, Any]


class FolderSource(Source):
    """The splits of a task in the files of a folder.

    Args:
        task: The task.
        folder: The folder of the files.
        pattern: The name of a split's file, with `{}` for the split.
        advice: What a user can do if a file is missing.
        title: The beginning of the identity; the rest is a hash.
        splits: The splits whose content is hashed.
        read_file: Function (path, split) that reads a file.

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
        read_file: Callable[[str, str], Examples | Sentences],
    ) -> None:
        self.task = task
        self._folder, self._pattern = folder, pattern
        self._advice, self._read_file = advice, read_file
        digest = files.combined_sha256(map(self.find_file, splits))
        self.identity = f"{title} sha256:{digest}"

    def find_file(self, split: str) -> str:
        """The path of a split's file.

        Raises:
            UserError: There is no such file.
        """
        path = os.path.join(self._folder, self._pattern.format(split))
        if not os.path.isfile(path):
            raise UserError(f"{path}: no such file. {self._advice}")
        return path

    def read(self, split: str) -> Examples | Sentences:
        """The `Examples` of a split, or its `Sentences`."""
        return self._read_file(self.find_file(split), split)


class TfdsSource(Source):
    """A release of TensorFlow Datasets, fetched when it is first read.

    Args:
        task: The task.
        name: The name of the release in TFDS, such as `glue/rte`.
        instead: What a user without a network can do, as half a sentence.
        url: The address of the download, unless TFDS knows it.
        splits: Names of splits in TFDS, where they differ.
        convert: Function (rows, split) to `Examples` or `Sentences`; see
            `TfdsRow`.
    """

    def __init__(
        self,
        task: Task,
        name: str,
        instead: str,
        url: str,
        splits: Mapping[str, str],
        convert: Callable[[list[TfdsRow], str], Examples | Sentences],
    ) -> None:
        self.task = task
        self._name, self._instead, self._url = name, instead, url
        self._splits, self._convert = splits, convert
        self._builder = _find_release(name)
        self.identity = f"tfds {self._builder.info.full_name}"

    def read(self, split: str) -> Examples | Sentences:
        """The `Examples` of a split, or its `Sentences`.

        Raises:
            RunError: The release cannot be downloaded.
        """
        import tensorflow_datasets as tfds

        if not self._builder.is_prepared():
            self._prepare()
        name = self._splits.get(split, split)
        rows = list(tfds.as_numpy(self._builder.as_dataset(name)))
        return self._convert(rows, split)

    def _prepare(self) -> None:
        config = self._builder.builder_config
        url = getattr(config, "data_url", "") or self._url
        problem = servers.find_problem(url)
        if problem:  # within seconds; TFDS would try again for minutes
            raise RunError(
                f"--data=tfds: cannot reach {url} ({problem}).\nCheck the "
                f"network; or {self._instead}."
            )
        try:
            self._builder.download_and_prepare()
        except Exception as error:  # many libraries raise their own
            first = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise RunError(
                f"--data=tfds: could not prepare {self._name} ({first[:200]})."
                f"\nRun the command again, or {self._instead}."
            ) from error


@functools.cache  # a sweep asks for each of its runs
def _find_release(name: str) -> "DatasetBuilder":
    """The builder of a release in TFDS."""
    import tensorflow_datasets as tfds

    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # TFDS warns of an empty folder
    try:
        return tfds.builder(name)
    finally:
        logging.set_verbosity(verbosity)


def make_examples(table: Table, texts: list[list[str]], task: Task) -> Examples:
    """The rows of a table as examples.

    Args:
        table: Has the column `task.label`.
        texts: The columns of the texts.
        task: Has the labels, or the range of the scores.

    Raises:
        UserError: There are no rows, or a label is unknown; with the line.
    """
    if not len(table):
        raise UserError(f"{table.path}: holds no examples.")
    if task.labels is None:
        labels = np.asarray(
            table.scores(task.label, *(task.score_range or ())), np.float32
        )
    else:
        words = [*map(normalize_cell, table.columns[task.label])]
        labels = table.label_ids(task.label, words, task.labels or ())
    return Examples(np.arange(len(table)), texts, labels)
