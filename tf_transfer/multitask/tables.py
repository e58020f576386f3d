"""The tables of "Finetune minBERT", with runs of `multitask`.

Published figures are in `experiments/multitask/published.json`. Its rows with
a `reading` are another reading of the row above them. All are in points.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import claims, runs as runs_lib, tables
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table

TASK = "cs224n"
METRICS = {
    "overall": "overall",
    "sentiment_accuracy": "SST",
    "paraphrase_accuracy": "Quora",
    "similarity_pearson": "STS r",
}
TASKS = {
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
    "sentiment": "sentiment_accuracy",
}
AMOUNTS = ("lr", "max_epochs", "head_epochs")
WORDS = {
    "head": "output layers",
    "all": "everything",
    "head_then_all": "output layers, then everything",
    "cls": "[CLS]",
    "cls_state": "[CLS] without the pooler",
    "cls_for_sentiment": "[CLS] for sentiment",
    "cls_state_for_sentiment": "[CLS] without the pooler for sentiment",
    "in_turn": "in turn",
    "sum": "sum of losses",
    "pcgrad": "PCGrad",
}
# What else a name has, where it is not the usual value.
OPTIONS = {
    "pairs": ("sbert", "pairs {}"),
    "targets": ("exact", "targets {}"),
    "short_batches": ("mean", "short batches {}"),
    "layer_decay": (1, "decay {}"),
    "combine": ("in_turn", "{}"),
    "alpha": (None, "from size^{}"),
    "last_alpha": (None, "to size^{}"),
    "loss_weights": ("", "weights {}"),
    "head_combine": ("in_turn", "output layers {}"),
    "idle_heads": ("drift", "idle heads {}"),
}


def name_approach(approach: str, settings: claims.Settings) -> str:
    """What trains, and how, but no rate: `everything; mean; decay 0.95`."""
    words = [_say(settings["train"]), _say(settings["pooling"])]
    for name, (usual, form) in OPTIONS.items():
        value = settings.get(name, usual)
        if value != usual:
            words.append(form.format(_say(value)))
    return "; ".join(words)


def list_tables(study: Study) -> list[Table]:
    """Tables 1 to 8, then the tasks' effects on each other and our controls.

    There are none without runs of the paper's three tasks.
    """
    runs = study.runs[study.runs.task == TASK]
    if runs.empty:
        return []
    made = [
        Table(
            "table_1",
            "Table 1: numbers of examples. The paper counts header lines of "
            "STS. No run reads the test sets, whose labels are hidden",
            table_1(study, runs.sizes.iloc[0]),
        )
    ]
    for table in study.published["tables"]:
        number = table["number"]
        caption = (
            f"Table {number}: {table['caption']}. In points, here with the "
            "standard deviation over runs. Empty: not run"
        )
        frame = fill_table(study, table["rows"])
        made.append(Table(f"table_{number}", caption, frame))
    made += [
        Table(
            "forgetting",
            "Sections 4.1 and 4.4, which have no figures: change on dev during "
            "a pass over one task, in points. Mean over all passes but a "
            "phase's first; standard deviation over runs",
            list_changes(study),
        ),
        Table(
            "combinations",
            "Ours: ways to combine the tasks, and orders of the tasks, with "
            "the mean of the tokens, dev, in points",
            list_combinations(study),
        ),
    ]
    return [table for table in made if len(table.frame)]


def list_figures(study: Study) -> list[Figure]:
    """The paper has none."""
    return []


def table_1(study: Study, sizes: dict[str, int]) -> pd.DataFrame:
    """Numbers of examples; `sizes` are those of a run, by split and task."""
    lines = []
    for row in study.published["sizes"]:
        line = {"task": row["task"], "data": row["data"]}
        for split in ("train", "validation"):
            line[f"{split}, published"] = row[split]
            line[f"{split}, here"] = sizes.get(f"{split}_{row['task']}")
        line["test, published"] = row["test"]
        lines.append(line)
    return pd.DataFrame(lines)


def fill_table(study: Study, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """A table of scores; readings have a row where they were run.

    Args:
        study: theirs.
        rows: of `published.json`.
    """
    lines = []
    for row in rows:
        found = find_groups(study, row["settings"])
        if not found and "reading" not in row:
            found = [study.runs.iloc[:0]]
        for runs in found:
            line = _begin(row, runs)
            scores = zip(METRICS.items(), row["figures"])
            for (metric, title), published in scores:
                line[f"{title}, published"] = f"{100 * published:.1f}"
                line[f"{title}, here"] = show(metric, runs)
            lines.append(line)
    return pd.DataFrame(lines)


def list_changes(study: Study) -> pd.DataFrame:
    """Changes of each task's score in passes over one, of models of table 2."""
    lines = []
    for row in study.published["tables"][0]["rows"]:
        found = find_groups(study, row["settings"])
        for runs, task in itertools.product(found, TASKS):
            line = _begin(row, runs)
            line["a pass over"] = task
            for metric in TASKS.values():
                change = f"{runs_lib.PASS}{task}:{metric}"
                line[METRICS[metric]] = show(change, runs, "+")
            if line[METRICS[TASKS[task]]]:
                lines.append(line)
    return pd.DataFrame(lines)


def list_combinations(study: Study) -> pd.DataFrame:
    """Our controls that were run, with their scores."""
    wanted = [{"combine": name} for name in ("sum", "pcgrad", "sampled")]
    for order in itertools.permutations(TASKS):
        wanted.append({"order": ",".join(order)})
    lines = []
    for settings in wanted:
        [name] = settings.values()
        for runs in find_groups(study, settings):
            line = {"tasks": _say(name), "runs here": describe_runs(runs)}
            for metric, title in METRICS.items():
                line[title] = show(metric, runs)
            lines.append(line)
    return pd.DataFrame(lines)


def find_groups(study: Study, settings: claims.Settings) -> list[pd.DataFrame]:
    """The runs of a row: of the paper's settings in all that it leaves open.

    If there are none, the groups of other learning rates and epochs: those
    that differ from the paper in no other setting that it varies.
    """
    assert study.paper is not None
    usual = study.paper.settings
    names = usual.keys() & {*study.paper.varied} - {*AMOUNTS}
    loose = {name: usual[name] for name in names}
    runs = study.runs[study.runs.task == TASK]
    for known in (usual, loose):
        wanted = {**known, **settings}
        fits = [_has(values, wanted) for values in runs.settings]
        found = runs[np.array(fits, dtype=bool)]
        if len(found):
            return [members for _, members in found.groupby("group")]
    return []


def describe_runs(runs: pd.DataFrame) -> str:
    """`3, lr 1e-05, 20 epochs`; nothing without runs."""
    if runs.empty:
        return ""
    first = runs.iloc[0]
    epochs = first.settings["max_epochs"]
    return f"{len(runs)}, lr {first.lr:g}, {epochs} epochs"


def _begin(row: dict[str, Any], runs: pd.DataFrame) -> dict[str, Any]:
    """The first cells of a published row, with the runs that fill it."""
    return {**row["cells"], "runs here": describe_runs(runs)}


def show(metric: str, runs: pd.DataFrame, sign: str = "") -> str:
    """Mean and standard deviation of a measure over runs."""
    return tables.spread(runs_lib.measure_runs(metric, runs), sign=sign)


def _has(ours: claims.Settings, wanted: claims.Settings) -> bool:
    """Whether settings are as wanted; those that a run lacks are."""
    return all(claims.is_same(ours.get(n, v), v) for n, v in wanted.items())


def _say(value: Any) -> str:
    return WORDS.get(value, str(claims.plain(value)))
