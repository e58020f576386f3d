"""Wang's tables and figures, from any runs of `tf_transfer.glue`.

The page compares each approach with training everything. The tables here add
what the paper tabulates: both learning rates, every epoch, and what is reached
within a time. `experiments/glue/tables.toml` describes them.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    claims,
    frames,
    measures,
    tables,
    wording,
)
from tf_transfer.reports.study import Study
from tf_transfer.utils import selection

# The paper's tables of scores and times after each epoch, by task.
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


def label_runs(study: Study, runs: pd.DataFrame) -> pd.DataFrame:
    """Runs with `table`, the paper's table that those on a task fill."""
    table_of = dict.fromkeys(runs.text, "")
    for text, members in runs.groupby("text"):
        number = table_number(study, members)
        if number:
            table_of[text] = f" (the paper's table {number})"
    return runs.assign(table=runs.text.map(table_of))


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
    first, study = line.runs.iloc[0], line.part.study
    saved = study.published.get("time_saved", {}).get(first.task, {})
    is_papers = not first.cached and table_number(study, line.runs)
    return saved.get(first.approach, "") if is_papers else ""


def _list_rates(part: tables.Part) -> Iterator[tables.Line]:
    """The groups of every approach that was run at several rates.

    `lower` is in percent how much lower a rate scores than the better one, over
    the seeds that all have; nothing where nothing validates.
    """
    for _, group in part.runs.groupby(["text", "trains"], sort=False):
        validated, tested = (
            {r: [*zip(g.seed, g[name])] for r, g in group.groupby("lr")}
            for name in ("validation", "score")
        )
        if len(validated) > 1:
            best = selection.best_on_validation(validated)
            means = pd.Series(selection.means_over_seeds(tested))
            lower = (100 - 100 * means / means[best]).map("{:.1f}".format)
            lower[best] = "better"
            if not group.validation.notna().all():
                lower[:] = ""
            for line in tables.list_groups(
                dataclasses.replace(part, runs=group)
            ):
                yield dataclasses.replace(
                    line, values={"lower": lower[line.runs.lr.iloc[0]]}
                )


# === Epochs, and fixed times ===


def _show_epochs(line: tables.Line) -> dict[object, str]:
    """Score / seconds after each epoch, such as `68.00 ± 0.71 / 256`.

    `(1)` follows where only one of several runs has the epoch.
    """
    epochs = frames.epochs_frame(line.runs).dropna(subset="test")
    is_timed = epochs.path.isin(line.runs.path[line.runs.timed])
    epochs["seconds"] = epochs.seconds.where(is_timed)
    cells = {}
    for number, runs in epochs.groupby("epoch"):
        both = wording.spread(runs.test), wording.number(runs.seconds.mean(), 0)
        cells[number] = tables.join(*both, mark=" / ")
        if len(runs) < len(line.runs):
            cells[number] += f" ({len(runs)})"
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
    """What each approach has reached within some times.

    The paper's times are multiples of an epoch of fine-tuning, since its
    seconds are those of another machine.
    """
    study = part.study
    timed = [
        row
        for row in study.rows
        if row.task == part.name and row.seconds.is_known and row.is_timed
    ]
    if len(timed) < 2:
        return
    times = study.published.get("fixed_times", {})
    is_papers = any(table_number(study, row.runs) for row in timed)
    bases = [row.runs for row in timed if row.is_base and is_papers]
    epoch = measures.first_epoch(bases[0]) if bases else np.nan
    published = {
        at * epoch: (f", {at:g} epochs of everything", gain)
        for at, gain in times.get(part.runs.task.iloc[0], ())
        if epoch > 0
    }
    longest = max(max(tables.seconds(row.runs)) for row in timed)
    asked = study.options.budgets or [q * longest for q in QUARTERS]
    for budget in sorted({*asked, *published}):
        words, gain = published.get(budget, ("", np.nan))
        measured = {
            row.trains: measures.measure_runs("score_within", row.runs, budget)
            for row in timed
        }  # none where one run has none
        scores = {
            n: [] if np.isnan(v).any() else v for n, v in measured.items()
        }
        means = pd.Series(scores).map(wording.mean)
        yield tables.Line(
            part,
            values={
                "within": f"{budget:,.0f} s{words}",
                "reached": scores,
                "best": ", ".join(means.index[means == means.max()]),
                "published": wording.number(gain, 2, "+"),
            },
        )


def _show_share_of_blocks(line: tables.Line) -> str:
    """The trained blocks in percent of all."""
    row = line.row
    if row and row.blocks is not None:
        return f"{100 * row.blocks / line.runs.blocks.iloc[0]:.3g}"
    return "100" if row and row.is_base else ""


MEASURES: dict[str, tables.Measure] = {
    "saved": _measure_saving,
    "saved_share": lambda line: 100 - line.row.share.value if line.row else "",
    "published_saving": _find_published_saving,
    "share_of_blocks": _show_share_of_blocks,
    "other_metrics": lambda line: {
        name: measures.measure_runs(name, line.runs)
        for name in line.runs.metrics.iloc[0]
        if name != line.runs.metric.iloc[0]
    },
    "scores_and_seconds": _show_epochs,
    "scores_by_seconds": _measure_epochs,
}
ROWS = {"rates": _list_rates, "budgets": _list_budgets}
