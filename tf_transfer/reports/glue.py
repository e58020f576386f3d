"""Wang's tables and figures, from any runs of `tf_transfer.glue`.

The page has each approach's score against training everything; here is what
the paper tabulates beside it: both learning rates, every epoch, and what is
reached within a time. The tables are described in its `tables.toml`.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    choose,
    claims,
    frames,
    measures,
    plots,
    tables,
    wording,
)
from tf_transfer.reports.study import Study
from tf_transfer.utils import selection

# Of the paper's tables of scores and times after each epoch.
TABLE_NUMBERS = {
    "mnli": 2,
    "qqp": 3,
    "qnli": 4,
    "sst2": 5,
    "cola": 6,
    "stsb": 7,
    "mrpc": 8,
    "rte": 9,
}
QUARTERS = (0.25, 0.5, 0.75, 1.0)  # of the longest run


def table_number(study: Study, runs: pd.DataFrame) -> int | None:
    """The number of the paper's table that some runs fill, or None.

    Only runs with its settings, encoder and official data do.

    Args:
        study: theirs.
        runs: on one task.
    """
    if study.paper is None or claims.list_differences(runs, study.paper):
        return None
    return TABLE_NUMBERS.get(str(runs.task.iloc[0]))


def _divide(study: Study) -> list[tables.Part]:
    """A part for each task, which knows the number of the paper's table."""
    return [
        dataclasses.replace(
            part,
            words={
                **part.words,
                "number": f" (the paper's table {number})"
                if (number := table_number(study, part.runs))
                else "",
            },
        )
        for part in tables.divide_by_task(study)
    ]


# === Costs and rates ===


def _measure_saving(line: tables.Line) -> float:
    """Mean seconds that a row saves against training everything, or nan."""
    row = line.row
    if row is None or row.base is None or not row.share.is_known:
        return np.nan
    whole, mine = measures.Cells().measure(
        ("seconds", "seconds"), (row.base.runs, row.runs)
    )
    return float(whole.values.mean() - mine.values.mean())


def _find_published_saving(line: tables.Line) -> str:
    """The saving that the paper names for the task of a row at its settings."""
    first = line.runs.iloc[0]
    if first.cached or not table_number(line.part.study, line.runs):
        return ""
    saved = line.part.study.published.get("time_saved", {})
    return saved.get(first.task, {}).get(first.approach, "")


def _is_on_front(line: tables.Line) -> str:
    """`yes` where no row of the task surpasses both score and time."""
    known = [
        row
        for row in line.part.study.rows
        if line.row and row.task == line.row.task and not row.failed
        if row.score.is_known and row.seconds.is_known
    ]
    front = plots.find_front([(r.seconds.value, r.score.value) for r in known])
    is_on = any(r is line.row and is_on for r, is_on in zip(known, front))
    return "yes" * (is_on and len(known) > 1)


def _list_rates(part: tables.Part) -> Iterator[tables.Line]:
    """The groups of every approach that was run at several rates.

    `lower` is in percent how much lower a rate scores than the better one, over
    the seeds that all have; nothing where nothing validates.
    """
    for _, alike in part.runs.groupby(["text", "trains"], sort=False):
        validated, tested = (
            {r: [*zip(g.seed, g[name])] for r, g in alike.groupby("lr")}
            for name in ("validation", "score")
        )
        if len(validated) > 1:
            best = selection.best_on_validation(validated)
            means = pd.Series(selection.means_over_seeds(tested))
            lower = (100 - 100 * means / means[best]).map("{:.1f}".format)
            lower[best] = "better"
            lower *= int(alike.validation.notna().all())
            for line in tables.list_groups(
                dataclasses.replace(part, runs=alike)
            ):
                yield dataclasses.replace(
                    line, values={"lower": lower[line.runs.lr.iloc[0]]}
                )


# === Epochs, and fixed times ===


def _show_epochs(line: tables.Line) -> dict[object, str]:
    """`68.00 ± 0.71 / 256 (1)` after each epoch: of one run of several."""
    timed = {*line.runs.path[line.runs.timed]}
    rows = frames.epochs_frame(line.runs).itertuples()
    cells = {}
    for number, epochs in sorted(choose.split(rows, lambda e: e.epoch).items()):
        scores = wording.known(epoch.test for epoch in epochs)
        seconds = wording.mean(e.seconds for e in epochs if e.path in timed)
        few = f" ({len(scores)})" * (len(scores) < len(line.runs))
        both = wording.spread(scores), wording.number(seconds, 0)
        text = " / ".join(filter(None, both)) + few
        cells[number] = text * bool(scores)
    return cells


def _measure_epochs(line: tables.Line) -> dict[float, pd.Series]:
    """Scores of the timed runs after the epochs that all ran, by seconds."""
    runs = line.runs[line.runs.timed]
    return {
        epoch.seconds.mean(): epoch.test
        for _, epoch in frames.epochs_frame(runs).groupby("epoch")
        if epoch.test.count() == len(runs) == epoch.seconds.count()
    }


def _list_budgets(part: tables.Part) -> Iterator[tables.Line]:
    """What each approach has reached within some times."""
    study = part.study
    timed = [
        row
        for row in study.rows
        if row.task == part.name and row.seconds.is_known
    ]
    if len(timed) < 2:
        return
    times = study.published.get("fixed_times", {})
    is_papers = any(table_number(study, row.runs) for row in timed)
    published = dict(times.get(part.runs.task.iloc[0], ())) if is_papers else {}
    longest = max(max(tables.seconds(row.runs)) for row in timed)
    asked = study.options.budgets or [q * longest for q in QUARTERS]
    for budget in sorted({*asked, *published}):
        measured = {
            row.trains: measures.measure_runs("score_within", row.runs, budget)
            for row in timed
        }  # none where one run has none
        scores = {
            n: [] if np.isnan(v).any() else v for n, v in measured.items()
        }
        means = pd.Series({name: wording.mean(v) for name, v in scores.items()})
        yield tables.Line(
            part,
            values={
                "within": f"{budget:,.0f} s",
                "reached": scores,
                "best": ", ".join(means.index[means == means.max()]),
                "published": wording.number(
                    published.get(budget, np.nan), 2, "+"
                ),
            },
        )


MEASURES: dict[str, tables.Measure] = {
    "saved": _measure_saving,
    "saved_share": lambda line: 100 - line.row.share.value if line.row else "",
    "published_saving": _find_published_saving,
    "on_front": _is_on_front,
    "share_of_blocks": lambda line: (
        f"{100 * line.row.blocks / line.runs.blocks.iloc[0]:.3g}"
        if line.row and line.row.blocks is not None
        else "100" * bool(line.row and line.row.is_base)
    ),
    "other_metrics": lambda line: {
        name: measures.measure_runs(name, line.runs)
        for name in line.runs.metrics.iloc[0]
        if name != line.runs.metric.iloc[0]
    },
    "scores_and_seconds": _show_epochs,
    "scores_by_seconds": _measure_epochs,
}
ROWS = {"rates": _list_rates, "budgets": _list_budgets}
PARTS = {"task": _divide}


# === What to know when reading ===


def notes(study: Study) -> list[str]:
    """What a reader must know of these tables, a sentence each."""
    numbers = {
        table_number(study, members)
        for _, members in study.runs.groupby(["task", "data_identity"])
    }
    notes = {
        "The numbers of the paper's tables 3, 4 and 9 are inferred from the "
        "order of its tasks.": bool(numbers & {3, 4, 9}),
        "Cached runs have no dropout in their frozen blocks. They are rows of "
        "their own, never averaged with live "
        "ones.": bool(study.runs.cached.any()),
    }
    return [
        *tables.select_notes(notes),
        *tables.explain_tables(study),
        "Settings on which the paper is silent, and what we chose: "
        "docs/glue.md.",
    ]
