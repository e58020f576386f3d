"""The tables of "Finetune minBERT", with runs of `multitask`.

Published figures are in `experiments/multitask/published.json`. Its rows with
a `reading` are another reading of the row above them. All are in points.
"""

import functools
from collections.abc import Iterable

import numpy as np
import pandas as pd

from tf_transfer.comparison.run_record import Setting, Settings
from tf_transfer.reports import claims, tables
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table
from tf_transfer.utils.json_files import Record

TASK = "cs224n"
METRICS = {
    "overall": "overall",
    "sentiment_accuracy": "SST",
    "paraphrase_accuracy": "Quora",
    "similarity_pearson": "STS r",
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
OPTIONS: dict[str, tuple[Setting, str]] = {
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


def name_approach(approach: str, settings: Settings) -> str:
    """What trains, and how, but no rate: `everything; mean; decay 0.95`."""
    words = [_say(settings["train"]), _say(settings["pooling"])]
    for name, (usual, form) in OPTIONS.items():
        value = settings.get(name, usual)
        if value != usual:
            words.append(form.format(_say(value)))
    return "; ".join(words)


def list_tables(study: Study) -> list[Table]:
    """Tables 1 to 8; none without runs of the paper's three tasks."""
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
            "standard deviation over runs, whose number, rate and epochs stand "
            "next to it. Empty: not run"
        )
        frame = fill_table(study, table["rows"])
        made.append(Table(f"table_{number}", caption, frame))
    return made


def list_figures(study: Study) -> list[Figure]:
    """The paper has none."""
    return []


def table_1(study: Study, sizes: dict[str, int]) -> pd.DataFrame:
    """Numbers of examples; `sizes` are those of a run, by split and task."""
    lines = []
    for row in study.published["sizes"]:
        line = {"task": row["task"], "data": row["data"]}
        for split in ("train", "validation"):
            ours = sizes.get(f"{split}_{row['task']}")
            line |= tables.pair(split, row[split], ours)
        line["test, published"] = row["test"]
        lines.append(line)
    return pd.DataFrame(lines)


def fill_table(study: Study, rows: Iterable[Record]) -> pd.DataFrame:
    """A table of scores, from rows of `published.json`."""
    lines = []
    find = functools.partial(find_runs, study)
    for row, runs in tables.find_rows(rows, find):
        line = {**row["cells"], "runs here": describe_runs(runs)}
        scores = zip(METRICS.items(), row["figures"])
        for (metric, title), published in scores:
            theirs = tables.number(100 * published, 1)
            line |= tables.pair(title, theirs, tables.show(metric, runs))
        lines.append(line)
    return pd.DataFrame(lines)


def find_runs(study: Study, settings: Settings) -> pd.DataFrame:
    """The runs of a row: of the paper's settings in all that it leaves open.

    If there are none, those of other learning rates and epochs that differ
    from the paper in no other setting that it varies. Of several groups it is
    the one with the most epochs, at the smallest rate.
    """
    assert study.paper is not None
    usual = study.paper.settings
    names = usual.keys() & {*study.paper.varied} - {*AMOUNTS}
    loose = {name: usual[name] for name in names}
    runs = study.runs[study.runs.task == TASK]
    for shared in (usual, loose):
        wanted = {**shared, **settings}
        fits = [_has(values, wanted) for values in runs.settings]
        members = runs[np.array(fits, dtype=bool)]
        if len(members):
            epochs = members.settings.str["max_epochs"]
            longest = members[epochs == epochs.max()].sort_values("lr")
            return members[members.group == longest.group.iloc[0]]
    return runs.iloc[:0]


def describe_runs(runs: pd.DataFrame) -> str:
    """`3, lr 1e-05, 20 epochs`; nothing without runs."""
    if runs.empty:
        return ""
    first = runs.iloc[0]
    epochs = first.settings["max_epochs"]
    return f"{len(runs)}, lr {first.lr:g}, {epochs} epochs"


def _has(ours: Settings, wanted: Settings) -> bool:
    """Whether settings are as wanted; those that a run lacks are."""
    return all(claims.is_same(ours.get(n, v), v) for n, v in wanted.items())


def _say(value: Setting) -> str:
    return WORDS.get(str(value), str(claims.plain(value)))
