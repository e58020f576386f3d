"""The three tasks of Stanford's CS224N default project.

From its files: `ids-sst-train.csv`, `quora-train.csv`, `sts-train.csv` and the
same with `dev`, tab-separated, quoted as CSV, a header first; the test files
have no labels. Or from GLUE's nearest: SST-2 in the place of SST-5 (two labels
of five), QQP (the same questions, divided otherwise, 364 thousand pairs), STS-B
(the same pairs, divided otherwise).
"""

import csv
import dataclasses
import hashlib
import math
import os
import sys

import numpy as np
from absl import logging

from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

_PAIR = ("sentence1", "sentence2")

# `folder` is the beginning of a file's name, the development files validate.
TASKS = {
    task.name: task
    for task in (
        tasks.Task(
            "sentiment",
            "ids-sst",
            ("sentence",),
            "sentiment",
            ("0", "1", "2", "3", "4"),
            "accuracy",
            "",
            (),
            also=("f1_macro",),
        ),
        tasks.Task(
            "paraphrase",
            "quora",
            _PAIR,
            "is_duplicate",
            ("0", "1"),
            "accuracy",
            "",
            (),
            also=("f1",),
        ),
        tasks.Task(
            "similarity",
            "sts",
            _PAIR,
            "similarity",
            None,
            "pearson",
            "",
            (),
            also=("spearman",),
        ),
    )
}
UNLABELLED = ("paraphrase",)  # files known to hold rows without a label

# GLUE's, by the names and with the scores of the project's.
NEAREST = {
    name: dataclasses.replace(
        tasks.GLUE[glue],
        name=name,
        metric=TASKS[name].metric,
        also=("f1",) if glue == "sst2" else TASKS[name].also,
    )
    for name, glue in (
        ("sentiment", "sst2"),
        ("paraphrase", "qqp"),
        ("similarity", "stsb"),
    )
}

# What the project's graders read: the file, its header, a label's form. The
# spelling is theirs.
SUBMISSIONS = {
    "sentiment": ("sst", "Predicted_Sentiment", "{:d}"),
    "paraphrase": ("para", "Predicted_Is_Paraphrase", "{:.1f}"),
    "similarity": ("sts", "Predicted_Similiary", "{:.6f}"),
}
HIDDEN = "test-student"  # ends the names of files without labels


def overall(metrics):
    """The mean of both accuracies and of r, brought into 0 to 1.

    Args:
        metrics: dict of all tasks' metrics.
    """
    return (
        metrics["sentiment_accuracy"]
        + metrics["paraphrase_accuracy"]
        + (metrics["similarity_pearson"] + 1) / 2
    ) / 3


@dataclasses.dataclass
class Rows:
    """The examples of a file, and what it calls them.

    Attributes:
        examples: `sources.Examples`.
        names: list of str. Their ids in the file, for a submission.
    """

    examples: sources.Examples
    names: list


def file_name(task, split):
    """Of a task's split."""
    return f"{task.folder}-{split}.csv"


def path_of(folder, task, split):
    """Where a task's split is.

    Raises:
        UserError: it is not there.
    """
    path = os.path.join(folder, file_name(task, split))
    if not os.path.isfile(path):
        raise UserError(
            f"{path}: no such file. Give --data the folder of the CS224N "
            "project's files: "
            + ", ".join(file_name(t, split) for t in TASKS.values())
            + "; or leave it out for GLUE's nearest sets."
        )
    return path


def open_source(data, cache_folder):
    """Where the texts come from.

    Args:
        data: a folder of the project's files, or one of GLUE's; `tfds`;
            `sample`.

    Returns:
        `Files` or `Nearest`.
    """
    if data in ("tfds", "sample") or os.path.isdir(
        os.path.join(data, NEAREST["sentiment"].folder)
    ):
        return Nearest(data, cache_folder)
    return Files(data)


class FilesOfTask(sources.OneTask):
    """The files of one of the project's tasks, by its name."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.task = TASKS[name]
        self.identity = f"cs224n {name} sha256:{_digest(folder, [self.task])}"

    def read(self, split):
        """`sources.Examples` of a split."""
        # Files and columns are found by the project's name, not by `task`'s.
        return read(self.folder, TASKS[self.name], split).examples


def _digest(folder, tasks):
    """A hash of the files of some tasks that have labels."""
    digest = hashlib.sha256()
    for task in tasks:
        for split in ("train", "dev"):
            path = path_of(folder, task, split)
            digest.update(bytes.fromhex(files.sha256(path)))
    return digest.hexdigest()


class Nearest:
    """GLUE's sets that are nearest to the project's.

    Attributes: as of `Files`.
    """

    tasks = NEAREST

    def __init__(self, data, cache_folder):
        self._sources = {
            name: sources.Source(task, data, cache_folder)
            for name, task in NEAREST.items()
        }
        self.identity = "; ".join(
            source.identity for source in self._sources.values()
        )

    def read(self, task, split):
        """The `Rows` of a task's split."""
        examples = self._sources[task.name].read(split)
        return Rows(examples, [str(row) for row in examples.ids])


class Files:
    """The project's files in a folder.

    Attributes:
        tasks: dict from name to `tasks.Task`.
        identity: str. A hash of all that train and validate.

    Raises:
        UserError: one is not there.
    """

    tasks = TASKS

    def __init__(self, folder):
        self.folder = folder
        self.identity = f"cs224n sha256:{_digest(folder, TASKS.values())}"

    def has(self, task, split):
        """Whether a task's split is there."""
        return os.path.isfile(os.path.join(self.folder, file_name(task, split)))

    def read(self, task, split):
        """The `Rows` of a task's split; see `read`."""
        return read(self.folder, task, split)


def read(folder, task, split):
    """The `Rows` of a task's split; labels are None where they are hidden.

    Raises:
        UserError: naming the file, the line and the column.
    """
    path = path_of(folder, task, split)
    is_hidden = split.startswith("test")
    texts, labels, names, unlabelled = [], [], [], []
    for line, row in _lines(path, task, is_hidden):
        for name in task.texts:
            if not row[name].strip():
                raise UserError(
                    f"{path}, line {line}, column {name!r}: is empty. Remove "
                    "the row."
                )
        if not is_hidden:
            word = row[task.label].strip()
            if not word and task.name in UNLABELLED:
                unlabelled.append(line)
                continue
            labels.append(
                _label(
                    task, word, f"{path}, line {line}, column {task.label!r}"
                )
            )
        texts.append([row[name].strip() for name in task.texts])
        names.append(row["id"])
    if not texts:
        raise UserError(f"{path}: holds no examples.")
    if unlabelled:
        logging.warning(
            "%s: left out %d rows without a label, the first in line %d.",
            path,
            len(unlabelled),
            unlabelled[0],
        )
    kind = np.float32 if task.labels is None else np.int64
    examples = sources.Examples(
        np.arange(len(texts)),
        [list(column) for column in zip(*texts)],
        None if is_hidden else np.asarray(labels, kind),
    )
    return Rows(examples, names)


def _lines(path, task, is_hidden):
    """Yields (line number, dict from column to cell)."""
    csv.field_size_limit(sys.maxsize)
    needed = ("id", *task.texts, *(() if is_hidden else (task.label,)))
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t")
        try:
            header = next(reader, [])
            for name in needed:
                if name not in header:
                    raise UserError(
                        f"{path}, line 1: has no column {name!r}; found "
                        f"{', '.join(map(repr, header[:8]))}. Is it a "
                        "tab-separated file of the CS224N project?"
                    )
            places = {name: header.index(name) for name in needed}
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise UserError(
                        f"{path}, line {reader.line_num}: has {len(cells)} "
                        f"columns, the header {len(header)}. Mend the line or "
                        "its quotes."
                    )
                yield (
                    reader.line_num,
                    {name: cells[place] for name, place in places.items()},
                )
        except (csv.Error, UnicodeDecodeError) as error:
            raise UserError(
                f"{path}, behind line {reader.line_num}: cannot be read "
                f"({error})."
            ) from None


def submission(task, names, values):
    """The lines of a file that the project's graders take.

    Args:
        names: the examples' ids in its files.
        values: label ids, or scores.
    """
    _, title, form = SUBMISSIONS[task]
    lines = [f"id \t {title} "]
    return lines + [f"{n} , {form.format(v)} " for n, v in zip(names, values)]


def _label(task, word, where):
    """A label's id or score; classes stand there as 3 or as 1.0."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if task.labels is None:
        low, high = tasks.SCORE_RANGE
        if not low <= value <= high:
            raise UserError(
                f"{where}: {word!r} is no score from {low:g} to {high:g}."
            )
        return value
    if value not in range(len(task.labels)):
        raise UserError(
            f"{where}: {word!r} is not one of {', '.join(task.labels)}."
        )
    return int(value)
