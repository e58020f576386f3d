"""The three tasks of Stanford's CS224N default project.

Its files are `ids-sst-train.csv`, `quora-train.csv`, `sts-train.csv` and the
same with `dev`: tab-separated, quoted as CSV, with a header. The nearest sets
of GLUE can replace them: SST-2 for SST-5 (two labels instead of five), QQP
(the same questions, split differently, 364 thousand pairs), STS-B (the same
pairs, split differently).
"""

import dataclasses
import os
from collections.abc import Mapping

from absl import logging

from tf_transfer.data import delimited, glue, table_files
from tf_transfer.data.columns import Table
from tf_transfer.data.corpora import FolderSource, make_examples
from tf_transfer.data.task import Examples, SCORE_RANGE, Source, Task
from tf_transfer.utils import files

_PAIR = ("sentence1", "sentence2")
DIALECT = delimited.Dialect("\t", "lax")

# `folder` is the beginning of a file's name.
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

# GLUE's tasks with the names and the metrics of the project.
NEAREST = {
    "sentiment": dataclasses.replace(
        glue.TASKS["sst2"], name="sentiment", also=("f1",)
    ),
    "paraphrase": dataclasses.replace(
        glue.TASKS["qqp"], name="paraphrase", metric="accuracy", also=("f1",)
    ),
    "similarity": dataclasses.replace(
        glue.TASKS["stsb"],
        name="similarity",
        metric="pearson",
        also=("spearman",),
    ),
}


def overall(metrics: Mapping[str, float]) -> float:
    """The mean of both accuracies and of (r + 1) / 2.

    Args:
        metrics: The metrics of all tasks, each name behind that of its task.
    """
    return (
        metrics["sentiment_accuracy"]
        + metrics["paraphrase_accuracy"]
        + (metrics["similarity_pearson"] + 1) / 2
    ) / 3


def file_name(task: Task, split: str) -> str:
    """The name of the file of a task's split."""
    return f"{task.folder}-{split}.csv"


def open_project(folder: str, name: str) -> FolderSource:
    """The project's files of a task.

    Args:
        folder: The folder of the files.
        name: One of `TASKS`.

    Raises:
        UserError: A file is missing.
    """
    task = TASKS[name]
    names = ", ".join(file_name(one, "train") for one in TASKS.values())
    return FolderSource(
        task,
        folder,
        file_name(task, "{}"),
        f"Give --data the folder of the CS224N project's files: {names}, and "
        "the same with dev; or leave it out for GLUE's nearest sets.",
        f"cs224n {name}",
        ("train", "dev"),
        lambda path, split: read_examples(path, task),
    )


def open_source(name: str, data: str, cache_folder: str) -> Source:
    """The source of a task: the project's files, or GLUE's nearest set.

    Args:
        name: One of `TASKS`.
        data: See `open_all`.
        cache_folder: The folder where wheels are unpacked.
    """
    path = os.path.join(data, file_name(TASKS[name], "train"))
    if os.path.isfile(path):
        return open_project(data, name)
    return glue.open_source(NEAREST[name], data, cache_folder)


def open_all(data: str, cache_folder: str) -> tuple[dict[str, Source], str]:
    """The sources of all three tasks by name, and their identity.

    Args:
        data: A folder of the project's files, or of GLUE's; `tfds`; `sample`.
        cache_folder: The folder where wheels are unpacked.

    Raises:
        UserError: A file is missing.
    """
    sources: dict[str, Source] = {}
    glue_folder = os.path.join(data, NEAREST["sentiment"].folder)
    if data in ("tfds", "sample") or os.path.isdir(glue_folder):
        for name, task in NEAREST.items():
            sources[name] = glue.open_source(task, data, cache_folder)
        identities = [source.identity for source in sources.values()]
        return sources, "; ".join(identities)
    paths = []
    for name in TASKS:
        source = open_project(data, name)
        sources[name] = source
        paths += [source.find_file("train"), source.find_file("dev")]
    return sources, f"cs224n sha256:{files.combined_sha256(paths)}"


def read_examples(path: str, task: Task) -> Examples:
    """Reads the examples of a file.

    Args:
        path: The file.
        task: One of `TASKS`.

    Raises:
        UserError: A row is invalid; the message has file, line and column.
    """
    names = ["id", *task.texts, task.label]
    table = table_files.read_table(path, dict.fromkeys(names, ""), "", DIALECT)
    if task.name in UNLABELLED:
        table = _leave_out_unlabelled(table, task.label)
    texts = [[*map(str.strip, table.texts(name))] for name in task.texts]
    return make_examples(table, texts, task)


def _leave_out_unlabelled(table: Table, label: str) -> Table:
    labelled, missing = [], []
    for row, cell in enumerate(table.columns[label]):
        if str(cell).strip():
            labelled.append(row)
        else:
            missing.append(row)
    if missing:
        _, line = table.places[missing[0]]
        logging.warning(
            "%s: left out %d rows without a label, the first in line %d.",
            table.path,
            len(missing),
            line,
        )
    return table.take(labelled)
