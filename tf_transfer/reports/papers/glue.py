"""Wang's tables and figures, from any runs of `tf_transfer.glue`.

The page compares each approach with training everything. The tables here add
what the paper tabulates: both learning rates, every epoch, and what is reached
within a time. `experiments/glue/tables.toml` describes them.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    claims,
    frames,
    measures,
    overview,
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


def _list_rates(part: tables.Part) -> Iterator[tables.Line]:
    """The groups of every approach that was run at several rates.

    `lower` is in percent how much lower a rate scores than the better one, over
    the seeds that all have; nothing where nothing validates.
    """
    for _, group in part.runs.groupby(["text", "trains"], sort=False):
        validated, tested = {}, {}
        for lr, runs in group.groupby("lr"):
            validated[lr] = [*zip(runs.seed, runs.validation)]
            tested[lr] = [*zip(runs.seed, runs.score)]
        if len(validated) < 2:
            continue
        best = selection.best_on_validation(validated)
        means = selection.means_over_seeds(tested)
        for line in tables.list_groups(tables.Part(part.study, group)):
            lr = line.runs.lr.iloc[0]
            lower = f"{100 - 100 * means[lr] / means[best]:.1f}"
            if group.validation.isna().any():
                lower = ""
            elif lr == best:
                lower = "better"
            yield dataclasses.replace(line, values={"lower": lower})


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
    points = {}
    for _, epoch in frames.epochs_frame(runs).groupby("epoch"):
        if epoch.test.count() == len(runs) == epoch.seconds.count():
            points[epoch.seconds.mean()] = epoch.test
    return points


def _list_budgets(part: tables.Part) -> Iterator[tables.Line]:
    """What each approach has reached within some times.

    The paper's times are multiples of an epoch of fine-tuning, since its
    seconds are those of another machine.
    """
    study = part.study
    timed = []
    for row in study.rows:
        if row.task == part.name and row.seconds.is_known and row.is_timed:
            timed.append(row)
    if len(timed) < 2:
        return
    published = _list_published_times(part, timed)
    longest = max(max(tables.seconds(row.runs)) for row in timed)
    budgets = [share * longest for share in QUARTERS]
    for budget in sorted({*budgets, *published}):
        words, gain = published.get(budget, ("", ""))
        scores, means = {}, {}
        for row in timed:
            reached = measures.measure_runs("score_within", row.runs, budget)
            if np.isnan(reached).any():  # none where one run has none
                reached = []
            scores[row.trains] = reached
            means[row.trains] = wording.mean(reached)
        best = np.fmax.reduce([*means.values()])
        values = {
            "within": f"{budget:,.0f} s{words}",
            "reached": scores,
            "best": ", ".join(n for n, mean in means.items() if mean == best),
            "published": gain,
        }
        yield tables.Line(part, values=values)


def _list_published_times(
    part: tables.Part, timed: Sequence[overview.Row]
) -> dict[float, tuple[str, str]]:
    """The paper's times in seconds, each in words and with its gain there.

    Args:
        part: of a task.
        timed: its rows; without the paper's settings there are no times.
    """
    study, task = part.study, part.runs.task.iloc[0]
    bases = [row.runs for row in timed if row.is_base]
    is_papers = any(table_number(study, row.runs) for row in timed)
    if not bases or not is_papers:
        return {}
    epoch = measures.epoch_seconds(bases[0])
    times = {}
    if epoch > 0:
        for at, gain in study.published.get("fixed_times", {}).get(task, ()):
            words = f", {at:g} epochs of everything"
            times[at * epoch] = words, wording.number(gain, 2, "+")
    return times


def _show_share_of_blocks(line: tables.Line) -> str:
    """The trained blocks in percent of all."""
    row = line.row
    if row and row.blocks is not None:
        return f"{100 * row.blocks / line.runs.blocks.iloc[0]:.3g}"
    return "100" if row and row.is_base else ""


def _show_saving(line: tables.Line) -> float | str:
    """The time that a row saves against training everything, in percent."""
    return 100 - line.row.share.value if line.row else ""


def _measure_others(line: tables.Line) -> dict[str, list[float]]:
    """Metrics other than the headline one."""
    first = line.runs.iloc[0]
    scores = {}
    for name in first.metrics:
        if name != first.metric:
            scores[name] = measures.measure_runs(name, line.runs)
    return scores


MEASURES: dict[str, tables.Measure] = {
    "saved_share": _show_saving,
    "share_of_blocks": _show_share_of_blocks,
    "other_metrics": _measure_others,
    "scores_and_seconds": _show_epochs,
    "scores_by_seconds": _measure_epochs,
}
ROWS = {"rates": _list_rates, "budgets": _list_budgets}
