"""The nine GLUE tasks, and their sources.

A task is a row: the columns of its texts in the official files, its labels and
its metrics. To add a task, add a row.

The headline metrics are those of BERT's own table: F1 for MRPC and QQP,
Spearman for STS-B, accuracy for the others, and Matthews for CoLA, which its
caption omits. The metrics of `also` are reported, too.

A split has the name of its official file: `train`, `dev` (MNLI: `dev_matched`,
`dev_mismatched`). Test labels are not public.
"""

import dataclasses
import functools
import os

import msgspec
import numpy as np
from absl import logging

from tf_transfer.data import delimited, table_files
from tf_transfer.data.columns import BadRow
from tf_transfer.data.corpora import (
    FolderSource,
    make_examples,
    TfdsRow,
    TfdsSource,
)
from tf_transfer.data.task import Examples, SCORE_RANGE, Source, Task
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

# GLUE does not host MRPC: TFDS makes it from these files of SentEval's.
MRPC_URL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
TFDS_NAMES = {
    "dev": "validation",
    "dev_matched": "validation_matched",
    "dev_mismatched": "validation_mismatched",
}
SAMPLE = os.path.join(os.path.dirname(__file__), "sample")

_ENTAILS = ("entailment", "not_entailment")
_YES_NO = ("0", "1")

TASKS = {
    task.name: task
    for task in (
        Task(
            name="cola",
            folder="CoLA",
            texts=("sentence",),
            label="label",
            labels=_YES_NO,
            metric="matthews",
            also=("accuracy",),
            header=("source", "label", "star", "sentence"),
        ),
        Task(
            name="sst2",
            folder="SST-2",
            texts=("sentence",),
            label="label",
            labels=_YES_NO,
            metric="accuracy",
        ),
        Task(
            name="mrpc",
            folder="MRPC",
            texts=("#1 String", "#2 String"),
            label="Quality",
            labels=_YES_NO,
            metric="f1",
            also=("accuracy",),
            tfds_texts=("sentence1", "sentence2"),
        ),
        Task(
            name="stsb",
            folder="STS-B",
            texts=("sentence1", "sentence2"),
            label="score",
            labels=None,
            score_range=SCORE_RANGE,
            metric="spearman",
            also=("pearson", "spearman_no_ties"),
        ),
        Task(
            name="qqp",
            folder="QQP",
            texts=("question1", "question2"),
            label="is_duplicate",
            labels=_YES_NO,
            metric="f1",
            also=("accuracy",),
            skip_broken=True,
        ),
        Task(
            name="mnli",
            folder="MNLI",
            texts=("sentence1", "sentence2"),
            label="gold_label",
            labels=("entailment", "neutral", "contradiction"),
            metric="accuracy",
            development=("dev_matched", "dev_mismatched"),
            tfds_texts=("premise", "hypothesis"),
        ),
        Task(
            name="qnli",
            folder="QNLI",
            texts=("question", "sentence"),
            label="label",
            labels=_ENTAILS,
            metric="accuracy",
        ),
        Task(
            name="rte",
            folder="RTE",
            texts=("sentence1", "sentence2"),
            label="label",
            labels=_ENTAILS,
            metric="accuracy",
        ),
        Task(
            name="wnli",
            folder="WNLI",
            texts=("sentence1", "sentence2"),
            label="label",
            labels=_YES_NO,
            metric="accuracy",
        ),
    )
}


def make_recorded_task(name: str, record: Record) -> Task:
    """The task of a finished run, whose texts may be gone.

    A task of GLUE also has the metrics that it reports.

    Args:
        name: The name of the task.
        record: The `Task.record` of the run.
    """
    task = msgspec.convert(
        {**record, "name": name, "folder": "", "label": ""}, Task
    )
    builtin = dataclasses.replace(
        TASKS.get(name, task).scored_by(task.metric),
        loss_head=task.loss_head,
        score_scale=task.score_scale,
    )
    return builtin if builtin.record == task.record else task


def open_source(task: Task, data: str, cache_folder: str) -> Source:
    """The source of a task of GLUE.

    Args:
        task: One of `TASKS`; a paper may give it another name.
        data: `tfds`, `sample`, `rotten_tomatoes`, or a folder in the layout
            of the official download.
        cache_folder: The folder where `rotten_tomatoes` is unpacked.

    Raises:
        UserError: The folder or a file is missing, or the data belong to
            another task.
    """
    if data == "tfds":
        config = task.folder.lower().replace("-", "")
        return TfdsSource(
            task,
            f"glue/{config}",
            "give --data=FOLDER with the official GLUE files, or --data=sample "
            "to try the command",
            MRPC_URL,
            TFDS_NAMES,
            functools.partial(_convert, task),
        )
    if data == "rotten_tomatoes":
        from tf_transfer.data import rotten_tomatoes

        return rotten_tomatoes.RottenTomatoesSource(task, cache_folder)
    root = SAMPLE if data == "sample" else data
    folder = os.path.join(root, task.folder)
    if not os.path.isdir(root):
        raise UserError(
            f"--data={data}: no such folder. Give `tfds`, `sample`, "
            "`rotten_tomatoes`, or a folder that holds "
            f"{task.folder}/train.tsv."
        )
    if not os.path.isdir(folder):
        raise UserError(
            f"--data={data}: has no folder {task.folder}, where the official "
            f"download keeps task {task.name}."
        )
    return FolderSource(
        task,
        folder,
        "{}.tsv",
        f"The official download has it; task {task.name} needs it.",
        task.folder,
        ("train", *task.development),
        lambda path, split: read_examples(path, task),
    )


def read_examples(path: str, task: Task) -> Examples:
    """Reads one official file.

    A byte-order mark may stand first.

    Args:
        path: The file.
        task: Names the columns and the labels.

    Raises:
        UserError: A row is invalid; the message has file, line and column.
    """
    dialect = dataclasses.replace(
        delimited.TSV, header=task.header, is_ragged=True
    )
    names = dict.fromkeys([*task.texts, task.label], "")
    short_rows: list[BadRow] | None = None
    if task.skip_broken:
        short_rows = []
    table = table_files.read_table(path, names, "", dialect, short_rows)
    if short_rows:
        count = len(short_rows)
        logging.warning(
            "%s: left out %d broken rows (too few cells).", path, count
        )
    # Cells of a TSV are texts; an empty one is allowed here.
    texts = [[*map(str, table.columns[name])] for name in task.texts]
    return make_examples(table, texts, task)


def _convert(task: Task, rows: list[TfdsRow], split: str) -> Examples:
    """The rows of a TFDS release in their official order."""
    rows.sort(key=lambda row: row["idx"])
    ids = [row["idx"] for row in rows]
    labels = [row["label"] for row in rows]
    texts = []
    for name in task.tfds_texts or task.texts:
        texts.append([row[name].decode("utf-8") for row in rows])
    dtype = np.float32 if task.labels is None else np.int64
    return Examples(np.asarray(ids, np.int64), texts, np.asarray(labels, dtype))
