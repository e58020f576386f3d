"""Wang's tables and figures, from any runs of `tf_transfer.glue`.

The page has each approach's score against training everything; here is what
the paper tabulates beside it: both learning rates, every epoch, and what is
reached within a time.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import brief
from tf_transfer.reports import cells
from tf_transfer.reports import claims
from tf_transfer.reports import details
from tf_transfer.reports import measures
from tf_transfer.reports import plots
from tf_transfer.reports.cells import spread
from tf_transfer.reports.overview import Row
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table
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
MARKERS = {"fine_tuning": "o", "last_1": "s", "last_2": "^", "last_3": "D"}


def tables(study: Study) -> list[Table]:
    """Beside the overview: costs, rates, epochs, fixed times."""
    rows = study.rows
    runs = details.label_runs(study.runs)
    made = [
        _tabulate_costs(rows),
        _tabulate_savings(study, rows),
        _tabulate_front(rows),
        _tabulate_rates(runs),
        *_tabulate_fixed_times(study, rows),
        *_tabulate_epochs(study, runs),
        _tabulate_other_metrics(runs),
    ]
    return [table for table in made if len(table.frame)]


# === Scores and costs at the stopping point ===


def _tabulate_costs(rows: Sequence[Row]) -> Table:
    frame = pd.DataFrame(
        [
            {
                "task": row.task,
                "trains": row.trains,
                "lr": f"{row.lr:g}",
                "epochs": f"{row.runs.epochs_run.mean():.1f}"
                + (" (limit)" if brief.is_cut_off(row) else ""),
                "s per epoch": spread(row.runs.seconds_per_epoch, 1),
                "of its epoch, %": brief.ranged(row.epoch_share, 1),
                "time, s": spread(_timed(row).seconds, 1),
                "prefix, s": spread(
                    [
                        r["prefix_build_seconds"] or np.nan
                        for r in row.runs.record
                    ],
                    1,
                ),
                "trained parameters": _count(row.runs.trainable_parameters),
                "of all, %": _number(row.trained),
                "of the blocks, %": _share_of_blocks(row),
            }
            for row in rows
        ]
    )
    return Table(
        "costs",
        "Cost of each approach at the rate that is best on validation, mean ± "
        "standard deviation over timed runs. An epoch is compared with one of "
        "training everything. Time is to the stopping point; `limit`: some "
        "runs were ended by `--max_epochs`. The prefix is what building the "
        "cache took, whoever built it. The paper has 8.33 % to 25 % of the "
        "parameters trained, which is 1 and 3 of 12 blocks",
        details.drop_empty_columns(frame),
    )


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f}"


def _share_of_blocks(row: Row) -> str:
    if row.blocks is None:
        return "100" if row.is_base else ""
    return f"{100 * row.blocks / row.runs.blocks.iloc[0]:.3g}"


def _tabulate_savings(study: Study, rows: Sequence[Row]) -> Table:
    """Seconds that each approach saves to the stopping point."""
    published = study.published.get("time_saved", {})
    lines = []
    for row in rows:
        if row.base is None or row.is_base or not row.share.is_known:
            continue
        mine, whole = (
            cell.values.mean()
            for cell in measures.Cells().measure(
                ("seconds", "seconds"), (row.runs, row.base.runs)
            )
        )
        theirs = ""
        if table_number(study, row.runs) and not row.cached:
            theirs = published.get(row.runs.task.iloc[0], {}).get(
                row.approach, ""
            )
        lines.append(
            {
                "task": row.task,
                "trains": row.trains,
                "everything, s": f"{whole:,.1f}",
                "time, s": f"{mine:,.1f}",
                "saved, s": f"{whole - mine:,.1f}",
                "saved, %": f"{100 - row.share.value:.2f}",
                "published": theirs,
            }
        )
    return Table(
        "savings",
        "Training time to the stopping point that is saved against training "
        "everything, means of timed runs. Published are the savings that the "
        "paper names for a task alone",
        details.drop_empty_columns(pd.DataFrame(lines)),
    )


def _count(numbers: pd.Series) -> str:
    """A number of which all runs have the same; nothing if not known."""
    known = numbers.dropna()
    return f"{known.iloc[0]:,.0f}" if len(known) else ""


def _timed(row: Row) -> pd.DataFrame:
    return row.runs[row.runs.timed]


def _tabulate_front(rows: Sequence[Row]) -> Table:
    """What no other approach surpasses in both score and time."""
    frame = pd.DataFrame(
        [
            {
                "task": row.task,
                "trains": row.trains,
                "lr": f"{row.lr:g}",
                "time, s": spread(_timed(row).seconds, 1),
                "score": spread(row.runs.score),
                "n": row.n,
            }
            for row in _find_front(rows)
        ]
    )
    return Table(
        "front",
        "Worth its time: what nothing else surpasses in both mean score and "
        "mean time to the stopping point (not tested)",
        frame,
    )


def _find_front(rows: Sequence[Row]) -> list[Row]:
    """Rows on the Pareto front of their task, the fastest first."""
    front = []
    for task in dict.fromkeys(row.task for row in rows):
        known = [
            row
            for row in rows
            if row.task == task
            and row.score.is_known
            and row.seconds.is_known
            and not row.failed
        ]
        if len(known) < 2:
            continue
        seconds = [row.seconds.value for row in known]
        scores = [row.score.value for row in known]
        chosen = details.is_on_front(seconds, scores)
        front += sorted(
            (row for row, is_chosen in zip(known, chosen) if is_chosen),
            key=lambda row: row.seconds.value,
        )
    return front


def _tabulate_other_metrics(runs: pd.DataFrame) -> Table:
    """What is measured beside the headline metric, where anything is."""
    long = pd.DataFrame(
        [
            (run.text, run.trains, f"{run.lr:g}", metric, value)
            for run in runs.itertuples()
            for metric, value in run.metrics.items()
            if metric != run.metric
        ],
        columns=["task", "trains", "lr", "metric", "score"],
    )
    scores = long.groupby(["task", "trains", "lr", "metric"], sort=False).score
    return Table(
        "other_metrics",
        "Beside the headline metric, in points: mean ± standard deviation "
        "over n seeds",
        scores.agg(score=spread, n="count").reset_index(),
    )


# === The learning rates ===


def _compare_rates(runs: pd.DataFrame) -> dict[tuple[str, str, float], str]:
    """By text, approach and rate: `better`, or how much lower in percent."""
    words = {}
    for (text, trains), members in runs.groupby(["text", "trains"]):
        if members.validation.isna().any():
            continue  # nothing chooses
        rates = dict(iter(members.groupby("lr")))
        scored = {
            rate: [*zip(some.seed, some.validation)]
            for rate, some in rates.items()
        }
        best = selection.best_on_validation(scored)
        for rate in rates:
            means = selection.means_over_seeds(
                {
                    key: [*zip(rates[key].seed, rates[key].score)]
                    for key in (rate, best)
                }
            )
            word = ""
            if means[best]:
                word = f"{100 * (1 - means[rate] / means[best]):.1f}"
            words[text, trains, rate] = "better" if rate == best else word
    return words


def _tabulate_rates(runs: pd.DataFrame) -> Table:
    """Every approach at every rate it was run at."""
    several = runs.groupby(["text", "trains"]).lr.transform("nunique") > 1
    grouped = runs[several].groupby(["text", "trains", "lr"], sort=False)
    frame = grouped.agg(
        n=("score", "count"),
        score=("score", spread),
        epoch=("seconds_per_epoch", lambda values: spread(values, 1)),
        seconds=("seconds", lambda values: spread(values, 1)),
    ).reset_index()
    if len(frame):
        words = _compare_rates(runs[several])
        frame["lower"] = [
            words.get(key, "")
            for key in zip(frame.text, frame.trains, frame.lr)
        ]
        frame["lr"] = frame.lr.map("{:g}".format)
    return Table(
        "rates",
        "The learning rates of an approach beside each other; which one is "
        "better is decided on validation, and by how much on test, over the "
        "seeds that all of them have",
        frame.rename(
            columns={
                "text": "task",
                "lower": "lower than at the better, %",
                "epoch": "s per epoch",
                "seconds": "time, s",
            }
        ),
    )


# === Tables 2 to 9 ===


def _tabulate_epochs(study: Study, runs: pd.DataFrame) -> Iterator[Table]:
    """Score / seconds after each epoch, a table for each task."""
    epochs = study.epochs.merge(
        runs[["path", "text", "trains", "lr", "timed"]], on="path"
    )
    epochs.loc[~epochs.timed, "seconds"] = np.nan
    for text, members in runs.groupby("text", sort=False):
        groups = ["trains", "lr"]
        sizes = members.groupby(groups).size()
        by_epoch = epochs[epochs.text == text].groupby([*groups, "epoch"])
        reached = by_epoch[["test", "seconds"]].mean()
        reached["deviation"] = by_epoch.test.std()
        reached["runs"] = by_epoch.test.count()
        reached = reached.reset_index(level="epoch")
        reached["cell"] = [
            _show_epoch(
                cells.show_spread(cell.test, cell.deviation),
                cell.seconds,
                cell.runs,
                sizes[cell.Index],
            )
            for cell in reached.itertuples()
        ]
        wide = reached.pivot(columns="epoch", values="cell")
        wide.columns = [f"epoch {number}" for number in wide.columns]
        order = list(dict.fromkeys(zip(members.trains, members.lr)))
        frame = wide.reindex(order).reset_index()
        frame.insert(2, "n", [sizes[key] for key in order])
        frame["lr"] = frame.lr.map("{:g}".format)
        number = table_number(study, members)
        yield Table(
            f"epochs_{text}",
            f"{text}, {members.metric.iloc[0]}: test score / seconds of "
            "training after each epoch"
            + (f" (the paper's table {number})" if number else "")
            + "; means over the seeds that ran so many, with their number "
            "where not all did",
            frame.fillna(""),
        )


def _show_epoch(score: str, seconds: float, count: int, size: int) -> str:
    """`68.00 ± 0.71 / 256 (1)`: of one run where there are more."""
    if not score:
        return ""
    text = score if np.isnan(seconds) else f"{score} / {seconds:.0f}"
    return text if count == size else f"{text} ({count})"


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


# === Fixed times ===


def _tabulate_fixed_times(study: Study, rows: Sequence[Row]) -> Iterator[Table]:
    """What each approach has reached within a time, a table for each task."""
    for task in dict.fromkeys(row.task for row in rows):
        timed = [
            row for row in rows if row.task == task and row.seconds.is_known
        ]
        if len(timed) < 2:
            continue
        longest = max(_timed(row).seconds.max() for row in timed)
        published = _published_times(study, timed)
        asked = study.options.budgets or [q * longest for q in QUARTERS]
        budgets = sorted({*asked, *published})
        lines = []
        for budget in budgets:
            scores = {row.trains: _reach(row, budget) for row in timed}
            means = {name: values.mean() for name, values in scores.items()}
            best = pd.Series(means, dtype=float).max()
            lines.append(
                {
                    "within": f"{budget:,.0f} s",
                    **{name: spread(v) for name, v in scores.items()},
                    "best": ", ".join(
                        name for name, mean in means.items() if mean == best
                    ),
                    **(
                        {"published": published.get(budget, "")}
                        if published
                        else {}
                    ),
                }
            )
        yield Table(
            f"fixed_times_{task}",
            f"{task}: test score reached within a time. Of the epochs that are "
            "over by then it is that of the one that is best on validation; "
            "empty where a seed has ended none. Published: the last 4 less "
            "everything, in points, within the paper's seconds",
            pd.DataFrame(lines),
        )


def _published_times(study: Study, rows: Sequence[Row]) -> dict[float, str]:
    """The paper's seconds and differences, where a row is at its settings."""
    times = study.published.get("fixed_times", {})
    if not any(table_number(study, row.runs) for row in rows):
        return {}
    found = times.get(rows[0].runs.task.iloc[0], ())
    return {float(seconds): f"{points:+.2f}" for seconds, points in found}


def _reach(row: Row, seconds: float) -> pd.Series:
    """Scores of a row's runs within a time; none where one has none."""
    values = measures.measure_runs("score_within", row.runs, seconds)
    reached = pd.Series(values, dtype=float)
    return reached if reached.notna().all() else reached.iloc[:0]


# === Figures ===


def figures(study: Study) -> list[Figure]:
    """Score against time: after each epoch, and at the stopping point."""
    rows = [
        row for row in study.rows if row.seconds.is_known and row.score.is_known
    ]
    if not rows:
        return []
    return [_draw_curves(study, rows), _draw_front(rows), *_draw_rates(study)]


def _draw_curves(study: Study, rows: Sequence[Row]) -> Figure:
    """Wang's figures 3 to 6: tasks are panels, approaches curves."""
    tasks = list(dict.fromkeys(row.task for row in rows))
    figure, axes = plots.make_panels(len(tasks))
    handles: plots.Handles = {}
    curves = _learning_curves(study)
    for axis, task in zip(axes, tasks):
        members = [row for row in rows if row.task == task]
        for row in members:
            group = row.runs.group.iloc[0]
            if group not in curves.index:
                continue
            curve = curves.loc[group]
            [line] = axis.plot(curve.seconds, curve.score, **_style(row))
            axis.fill_between(
                curve.seconds,
                curve.score - curve.deviation,
                curve.score + curve.deviation,
                color=plots.colour_of(row.approach),
                alpha=0.15,
                linewidth=0,
            )
            handles[row.trains] = line
        metric = members[0].runs.metric.iloc[0]
        plots.add_frame(
            axis, f"{metric} on test, points", "training time, s", task
        )
        axis.set_xlim(left=0)
    return plots.finish(
        figure,
        handles,
        "score_against_time",
        "Test score after each epoch against training time, up to the last "
        "epoch that all seeds ran; bands are one standard deviation",
    )


def _learning_curves(study: Study) -> pd.DataFrame:
    """Mean `seconds`, `score`, and `deviation` by group and epoch.

    Of the timed runs of a group, and up to the last epoch that all ran.
    """
    runs = study.runs[study.runs.timed]
    epochs = study.epochs.merge(runs[["path", "group"]], on="path")
    by_epoch = epochs.groupby(["group", "epoch"])
    curves = by_epoch[["seconds", "test"]].mean()
    curves.columns = ["seconds", "score"]
    curves["deviation"] = by_epoch.test.std().fillna(0.0)
    size = curves.index.get_level_values("group").map(runs.group.value_counts())
    return curves[by_epoch.test.count() == size]


def _draw_front(rows: Sequence[Row]) -> Figure:
    """Final score against time; a line joins what nothing surpasses."""
    tasks = list(dict.fromkeys(row.task for row in rows))
    figure, axes = plots.make_panels(len(tasks))
    handles: plots.Handles = {}
    for axis, task in zip(axes, tasks):
        members = [row for row in rows if row.task == task]
        front = _find_front(members)
        axis.step(
            [row.seconds.value for row in front],
            [row.score.value for row in front],
            where="post",
            color="#888888",
            linewidth=1,
            zorder=0,
        )
        for row in members:
            handles[row.trains] = axis.errorbar(
                row.seconds.value,
                row.score.value,
                xerr=plots.reaches([row.seconds]),
                yerr=plots.reaches([row.score]),
                elinewidth=1,
                capsize=3,
                **{**_style(row), "linestyle": "none"},
            )
        metric = members[0].runs.metric.iloc[0]
        plots.add_frame(
            axis,
            f"{metric} on test, points",
            "time to the stopping point, s",
            task,
        )
        axis.set_xlim(left=0)
    return plots.finish(
        figure,
        handles,
        "front",
        "Test score against time to the stopping point, with 95 % intervals; "
        "the line joins what nothing else surpasses in both",
    )


def _draw_rates(study: Study) -> Iterator[Figure]:
    """Every approach at both learning rates.

    It is inferred to be Wang's figure 2: the text sends the rates to its
    figure 1, which shows something else, and the second has no caption left.
    """
    runs = details.label_runs(study.runs)
    several = runs.groupby(["text", "trains"]).lr.transform("nunique") > 1
    runs = runs[several]
    if runs.empty:
        return
    tasks = list(dict.fromkeys(runs.text))
    figure, axes = plots.make_panels(len(tasks), height=3.9)
    handles: plots.Handles = {}
    rates = sorted(set(runs.lr))
    for axis, task in zip(axes, tasks):
        members = runs[runs.text == task]
        names = list(dict.fromkeys(members.trains))
        for number, rate in enumerate(rates):
            scores = members[members.lr == rate].groupby("trains").score
            shown = [name for name in names if name in scores.groups]
            shift = 0.2 * (number - (len(rates) - 1) / 2)
            handles[f"lr {rate:g}"] = axis.errorbar(
                [names.index(name) + shift for name in shown],
                [scores.mean()[name] for name in shown],
                yerr=[np.nan_to_num(scores.std()[name]) for name in shown],
                color=plots.PALETTE[number % len(plots.PALETTE)],
                linestyle="none",
                marker=list(MARKERS.values())[number % len(MARKERS)],
                capsize=3,
                elinewidth=1,
            )
        plots.name_ticks(axis, names)
        metric = members.metric.iloc[0]
        plots.add_frame(axis, f"{metric} on test, points", "", task)
    yield plots.finish(
        figure,
        handles,
        "rates",
        "Test score of every approach at each learning rate (the paper's "
        "figure 2, as far as can be inferred), mean and standard deviation "
        "over seeds",
        below=plots.NAMES_HEIGHT,
    )


def _style(row: Row) -> dict[str, Any]:
    colour = plots.colour_of(row.approach)
    return {
        "color": colour,
        "linestyle": "--" if row.cached else "-",
        "marker": MARKERS.get(row.approach, "v"),
        "markerfacecolor": "white" if row.cached else colour,
        "markersize": 5,
    }


# === What to know when reading ===


def notes(study: Study) -> list[str]:
    """What a reader must know of these tables, a sentence each."""
    told = []
    numbers = {
        table_number(study, members)
        for _, members in study.runs.groupby(["task", "data_identity"])
    }
    if numbers & {3, 4, 9}:
        told.append(
            "The numbers of the paper's tables 3, 4 and 9 are inferred from "
            "the order of its tasks."
        )
    if study.runs.cached.any():
        told.append(
            "Cached runs have no dropout in their frozen blocks. They are rows "
            "of their own, never averaged with live ones."
        )
    told += cells.explain_times(study.runs)
    told.append(
        "Settings on which the paper is silent, and what we chose: "
        "docs/glue.md."
    )
    return told
