"""The cells of a paper's tables that planned runs will fill.

The runs get made-up results, and the report makes its tables from these.
"""

import collections
import dataclasses
import json
import os
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tf_transfer.comparison import predictions
from tf_transfer.comparison.run_record import (
    Environment,
    Epoch,
    RunRecord,
    Setting,
)
from tf_transfer.config.settings import Settings
from tf_transfer.data import glue
from tf_transfer.models import loading
from tf_transfer.reports import claims, reading, study, tables
from tf_transfer.sweeps.grid import Planned
from tf_transfer.training.checkpoint import Arrays

METRICS = {  # the headline first; other experiments have GLUE's tasks
    "tweets": ("accuracy", "f1", "f1_hart"),
    "stacking": ("accuracy", "f1", "token_f1"),
    "multitask": (
        "overall",
        "sentiment_accuracy",
        "paraphrase_accuracy",
        "similarity_pearson",
    ),
}
EPOCHS = 10  # of every run
HERE = Environment(
    machine="here",
    processor=None,
    devices=None,
    threads=None,
    concurrent_runs=None,
    replicas=None,
    mixed=False,
)
SCORE = 0.4
RESULT = re.compile(r"\bhere\b|\bpublished\b|^n$")  # in a column's title

# Names of rows by the columns that they fill, and that they leave empty.
Cells = dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]]


class MadeUpPredictions(predictions.Predictions):
    """Two test texts of two classes, which every run classifies correctly."""

    def describe_record(
        self, record: RunRecord, arrays: Arrays | None = None
    ) -> RunRecord:
        return record

    def read_split(self, record: RunRecord, kind: str) -> Arrays:
        labels = np.arange(2)
        logits = labels[:, None] - 0.5
        return {"ids": labels, "labels": labels, "logits": logits}


# === Runs ===


def list_settings(run: Planned) -> dict[str, Setting]:
    """The settings of a planned run, as the record of the run has them.

    A user's table keeps the task's name, and nothing that a file decides.
    """
    settings = run.experiment.run_settings
    key: dict[str, Setting] = {**Settings.hashed(settings)}
    if not settings.is_sparse:
        key = reading.complete_key(key, dataclasses.asdict(settings))
    return {**key, "max_epochs": settings.max_epochs}


def make_record(paper: claims.Paper, run: Planned, number: int) -> RunRecord:
    """The record of a planned run with made-up results.

    Each has some 40 points, where the majority baseline has 0, and 100 s per
    epoch.

    Args:
        paper: The run's.
        run: See `Planned`.
        number: Of the run in the order of the sweep.
    """
    settings, name = run.experiment.run_settings, run.experiment.name
    score = SCORE + number % 3 / 1000  # seeds differ
    task = settings.task_name
    metrics = METRICS.get(name) or (glue.TASKS[task].metric,)
    if task == "mnli":  # its other development set
        metrics = (*metrics, "mismatched_accuracy")
    model = "" if settings.is_sparse else settings.model
    key = {
        **list_settings(run),
        "data_identity": task,
        "module": name,
    }
    if model:
        key["model_identity"] = model
    sizes = dict(paper.sizes.get(task, {}))
    if whole := sizes.pop("train_and_validation", 0):
        sizes["validation"] = round(whole * settings.validation_fraction)
        sizes["train"] = whole - sizes["validation"]
    size, folds = key.get("max_train_examples"), key.get("folds")
    if isinstance(size, int) and size:
        sizes["train"] = size
    if not (settings.is_sparse and isinstance(folds, int)):
        folds = 0
    blocks = 0
    if model:
        blocks = loading.read_shape(model, settings.keep_blocks).blocks
    parts = ("embeddings", "pooler", *(f"block {n + 1}" for n in range(blocks)))
    return RunRecord(
        path=f"{name}/{number}",
        experiment=name,
        task=task,
        data=settings.data,
        model=model,
        blocks=blocks,
        parts=dict.fromkeys(parts, 1),
        metric=metrics[0],
        approach=settings.approach,
        cached=False,
        lr=float(settings.lr or 0),
        seed=settings.seed,
        sizes=sizes,
        max_epochs=settings.max_epochs,
        key=json.loads(json.dumps(key, default=str)),
        timing_environment=HERE,
        commit=None,
        versions={},
        started=1000.0 * number,
        epochs=[
            Epoch(score, score, 100.0 * (epoch + 1)) for epoch in range(EPOCHS)
        ],
        passes=[],
        folds=[dict.fromkeys(metrics, score) for _ in range(folds)] or None,
        validation=score,
        test=score,
        metrics=dict.fromkeys(metrics, score),
        majorities=dict.fromkeys(metrics, 0.0),
        lead_error=1.0,
        one_answer=False,
        epochs_run=EPOCHS,
        stop_reason="patience" if settings.patience else "max_epochs",
        seconds=100.0 * EPOCHS,
        seconds_per_epoch=100.0,
        trace_seconds=0.0,
        prefix_seconds=None,
        prefix_build_seconds=None,
        memory=None,
        trainable_parameters=1,
        total_parameters=1,
    )


# === Tables ===


def describe_cells(folder: str, runs: Sequence[Planned]) -> str:
    """Names the cells that runs fill, and those that they leave empty.

    Args:
        folder: Of the paper, with its claims and published figures.
        runs: Those that its grids plan, in the order of the sweep.

    Returns:
        A line for each study, and below it a line for all rows of a table that
        fill the same columns. Nothing of a folder that is no paper's.
    """
    parent, folder_name = os.path.split(os.path.abspath(folder))
    module = study.module_of(folder_name)
    if module is None or runs[0].experiment.name != folder_name:
        return ""
    paper = claims.read_paper(os.path.join(folder, "claims.toml"))
    records = [make_record(paper, run, n) for n, run in enumerate(runs)]
    if hasattr(module, "ensembles"):
        records += module.ensembles(records, MadeUpPredictions(""))[0]
    lines = [
        "Cells that these runs fill, if they train: table | columns | rows",
        f"(made-up results of {EPOCHS} epochs are in place of theirs)",
    ]
    for found in study.collect({"runs": records}, parent):
        made = module.list_tables(found)
        if made:
            lines.append(found.title)
        for table in made:
            for (filled, empty), rows in find_cells(table).items():
                for what, columns in (("", filled), ("NOT FILLED: ", empty)):
                    if columns:
                        cells = f"{what}{', '.join(columns)}"
                        lines.append(
                            f"  {table.name} | {cells} | {'; '.join(rows)}"
                        )
    return "\n".join(lines)


def find_cells(table: tables.Table) -> Cells:
    """The rows of a table by the cells of runs that they fill, or do not.

    A cell next to a published value of the same title that is empty has
    nothing to show: only a filled one counts.
    """
    frame = table.frame
    names = _name_rows(frame)
    cells: Cells = collections.defaultdict(list)
    for name, (_, row) in zip(names, frame.iterrows()):
        filled, empty = [], []
        for column in table.columns_of_runs:
            title = re.sub(r",? ?here$", "", column) or column
            if not is_empty(row[column]):
                filled.append(title)
            elif not is_empty(row.get(f"{title}, published", "?")):
                empty.append(title)
        cells[tuple(filled), tuple(empty)].append(name)
    return cells


def _name_rows(frame: pd.DataFrame) -> list[str]:
    """Names of rows, of as many first columns as distinguish them."""
    names: list[str] = []
    columns = [c for c in frame.columns if not RESULT.search(c)]
    for width in range(1, len(columns) + 1):
        names = [
            ", ".join(str(value) for value in row if not is_empty(value))
            for row in frame[columns[:width]].itertuples(index=False)
        ]
        if len({*names}) == len(names):
            break
    return names


def is_empty(value: Setting) -> bool:
    """Whether a cell shows nothing, or a mark in place of a value."""
    return (
        value == "" or value is None or value != value or value in tables.NOTES
    )
