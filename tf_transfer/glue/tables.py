"""Wang's tables and figures, from runs of `tf_transfer.glue`.

The cells of the paper's tables 2 to 9 and the points of its figures are lost.
Tables A to C, which the paper does not have, hold the numbers of its text.
Each approach has the rate that is better on validation: "we will only compare
the better performance scores".
"""

import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from pandas.api.typing import DataFrameGroupBy

from tf_transfer.reports import figures, run_frame as runs_lib, tables
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table

LARGE = {"MNLI": "mnli", "QQP": "qqp", "QNLI": "qnli", "SST-2": "sst2"}
SMALL = {"CoLA": "cola", "STS-B": "stsb", "MRPC": "mrpc", "RTE": "rte"}
TASKS = {**LARGE, **SMALL}  # in the order of the tables 2 to 9
CURVES = {  # the tasks of the figures of score against time
    3: ("MNLI", "QQP"),
    4: ("QNLI", "SST-2"),
    5: ("CoLA", "STS-B"),
    6: ("MRPC", "RTE"),
}
BASE = "fine-tuning"
LAST = {"last 4": "4", "last 3": "3", "last 2": "2", "last 1": "1"}
APPROACHES = {BASE: "all", **LAST}  # with `--trainable_layers`
EMPTY = (
    "Empty: no number in the paper, not run, or a run that --max_epochs ended"
)

# The runs of a task and an approach; none where nothing was run.
TaskRuns = Mapping[tuple[str, str], pd.DataFrame]
# The runs of some last blocks, and of fine-tuning.
Pair = tuple[pd.DataFrame, pd.DataFrame]


def find_runs(study: Study) -> TaskRuns:
    """The runs of each task and approach, at the better rate."""
    task_runs = {}
    for task, flag in TASKS.items():
        for name, layers in APPROACHES.items():
            wanted = {"trainable_layers": layers}
            task_runs[task, name] = tables.find_runs(study, flag, wanted)
    return task_runs


def find_pairs(study: Study) -> dict[str, dict[str, Pair]]:
    """By task and last blocks, the runs that a claim would compare."""
    base = {"trainable_layers": APPROACHES[BASE]}
    return {
        task: {
            name: tables.find_pair(
                study, flag, {"trainable_layers": layers}, base
            )
            for name, layers in LAST.items()
        }
        for task, flag in TASKS.items()
    }


def stopping_time(runs: pd.DataFrame) -> float:
    """Mean seconds to the stopping point."""
    timed = runs[runs.timed]
    stopped = timed.stop_reason == "patience"
    return float(timed.seconds.where(stopped).mean(skipna=False))


def final_score(runs: pd.DataFrame) -> float:
    """Mean test score at the stopping point, in points."""
    last = pd.Series(runs_lib.measure_runs("last_score", runs), runs.index)
    stopped = runs.stop_reason == "patience"
    return float(last.where(stopped).mean(skipna=False))


def list_epochs(runs: pd.DataFrame) -> pd.DataFrame:
    """Test score and seconds after each epoch that all runs have.

    Seconds are nan in a run that was timed unlike most.
    """
    epochs = runs_lib.epochs_frame(runs).dropna(subset="test")
    is_timed = epochs.path.isin(runs.path[runs.timed])
    count = epochs.groupby("epoch").test.transform("size")
    shared = epochs.assign(seconds=epochs.seconds.where(is_timed))
    return shared[count == len(runs)]


# === Tables ===


def table_a(study: Study) -> pd.DataFrame:
    """The time that the last blocks save, in percent of fine-tuning's."""

    def save(last: pd.DataFrame, base: pd.DataFrame) -> float:
        return 100 - 100 * stopping_time(last) / stopping_time(base)

    return _compare(study, "time_saved", save)


def table_b(study: Study) -> pd.DataFrame:
    """The final score of the last blocks less fine-tuning's, in points."""

    def subtract(last: pd.DataFrame, base: pd.DataFrame) -> float:
        return final_score(last) - final_score(base)

    return _compare(study, "score_difference", subtract, "last_score")


def _compare(
    study: Study,
    published: str,
    compare: Callable[..., float],
    measure: str = "score",
) -> pd.DataFrame:
    """Published numbers and ours, of each task and the mean of four.

    Rows without any are left out.

    Args:
        study: Whose runs are ours.
        published: The name of the paper's numbers.
        compare: Function of the runs of last blocks and of fine-tuning.
        measure: See `tables.find_mark`.
    """
    pairs = find_pairs(study)
    values = {
        (task, name): compare(*pair)
        for task, of_task in pairs.items()
        for name, pair in of_task.items()
    }
    rows = []
    lines = {task: [task] for task in TASKS}
    lines |= {f"{', '.join(m)}, mean": [*m] for m in (LARGE, SMALL)}
    for title, tasks in lines.items():
        printed = study.published[published].get(title, {})
        row = {"task": title}
        for name in LAST:
            mean = float(np.mean([values[task, name] for task in tasks]))
            groups = [runs for task in tasks for runs in pairs[task][name]]
            ours = tables.show_difference(mean, groups, measure=measure)
            row |= tables.pair(name, str(printed.get(name, "")), ours)
        if printed or any(row[f"{name}, here"] for name in LAST):
            rows.append(row)
    return pd.DataFrame(rows)


def table_c(study: Study) -> pd.DataFrame:
    """The last 4 blocks less fine-tuning within the same time, in points."""
    pairs, gains = find_pairs(study), []
    for point in study.published["fixed_times"]:
        pair = pairs[point["task"]]["last 4"]
        name = "interpolated_score"
        if "whole epochs" in point["time"]:
            name = "score_within"
        seconds = point["epochs"] * pair[1].seconds_per_epoch.mean()
        last, base = (
            tables.mean(runs_lib.measure_runs(name, runs, seconds))
            for runs in pair
        )
        gains.append(tables.show_difference(last - base, pair, sign="+"))
    return pd.DataFrame(study.published["fixed_times"]).assign(here=gains)


def table_of_epochs(task_runs: TaskRuns, task: str) -> pd.DataFrame:
    """The paper's tables 2 to 9: score / seconds after each epoch."""
    rows = []
    for name in APPROACHES:
        runs = task_runs[task, name]
        row = {"approach": name, "lr": tables.rate(runs.lr.mean())}
        for number, members in list_epochs(runs).groupby("epoch"):
            cell = tables.spread(members.test)
            if members.seconds.any():
                cell += f" / {members.seconds.mean():.0f}"
            row[f"epoch {number}"] = cell
        rows.append(row)
    return pd.DataFrame(rows)


def list_tables(study: Study) -> list[Table]:
    """Tables A to C, and those of the tables 2 to 9 whose task was run."""
    task_runs = find_runs(study)
    made = [
        Table(
            "table_a",
            "Table A, numbers of the paper's text: training time saved "
            "against fine-tuning, in %, both to the stopping point and at the "
            "rate that is better on validation. " + EMPTY,
            table_a(study),
        ),
        Table(
            "table_b",
            "Table B, numbers of the paper's text: test score at the stopping "
            'point less that of fine-tuning, in points. The paper writes "%"; '
            "points are our reading. " + EMPTY,
            table_b(study),
        ),
        Table(
            "table_c",
            "Table C, numbers of the paper's text: test score of the last 4 "
            "less that of fine-tuning within the same time, in points. Times "
            "are epochs of fine-tuning; those without seconds are ours. "
            "Empty: not run",
            table_c(study),
        ),
    ]
    for number, task in enumerate(TASKS, 2):
        frame = table_of_epochs(task_runs, task)
        if "epoch 1" in frame:
            caption = (
                f"Table {number}, {task}: test score / seconds of training "
                "after each epoch that all seeds ran, ± standard deviation. "
                "The paper's cells are lost"
            )
            made.append(Table(f"table_{number}", caption, frame))
    return made


# === Figures ===


def list_figures(study: Study) -> list[Figure]:
    """The paper's figures 2 to 6, with panels of what was run."""
    return [*_draw_rates(study), *_draw_curves(study)]


def _draw_rates(study: Study) -> Iterator[Figure]:
    """Yields figure 2: score and training time of each task at both rates."""
    scores, times = {}, {}
    rates: set[float] = set()
    for (task, name), at_best_rate in find_runs(study).items():
        # All rates, with the same schedule, and all cached or all live.
        is_so = study.runs.task == TASKS[task]
        for setting in ("trains", "cached"):
            is_so &= study.runs[setting].isin(at_best_rate[setting])
        runs = study.runs[is_so]
        if runs.lr.nunique() > 1:
            rates |= {*runs.lr}
            timed = runs[runs.timed].groupby("lr")
            scores[task, name] = _list_points(runs.groupby("lr"), "lr", "score")
            times[task, name] = _list_points(timed, "lr", "seconds")
    panels = [
        *_make_panels(scores, "test score, points"),
        *_make_panels(times, "training time, s"),
    ]
    if panels:
        yield figures.draw_panels(
            "figure_2",
            "Figure 2, as far as can be inferred: test score and training "
            "time at each learning rate, mean and standard deviation over "
            "seeds. The paper's points are lost",
            sorted(panels, key=lambda panel: [*TASKS].index(panel.title)),
            "learning rate",
            dress=functools.partial(_mark_rates, rates=sorted(rates)),
        )


def _mark_rates(axis: Axes, rates: list[float]) -> None:
    """A logarithmic axis with a tick at each rate alone."""
    axis.set_xscale("log")
    axis.set_xticks(rates, [tables.rate(rate) for rate in rates])
    axis.minorticks_off()


def _draw_curves(study: Study) -> Iterator[Figure]:
    """Yields figures 3 to 6, of two tasks each: score against time."""
    task_runs = find_runs(study)
    for number, tasks in CURVES.items():
        curves = {
            (task, name): _list_points(
                list_epochs(task_runs[task, name]).groupby("epoch"),
                "seconds",
                "test",
            )
            for task in tasks
            for name in APPROACHES
        }
        panels = _make_panels(curves, "test score, points")
        if panels:
            yield figures.draw_panels(
                f"figure_{number}",
                f"Figure {number}, {' and '.join(tasks)}: test score after "
                "each epoch against training time, up to the last epoch that "
                "all seeds ran; bars are one standard deviation. The paper's "
                "points are lost",
                panels,
                "training time, s",
                dress=figures.start_at_zero,
            )


def _name_approach(name: str) -> str:
    """As the column `approach` has it."""
    return name.replace("-", "_").replace(" ", "_")


def _list_points(
    groups: DataFrameGroupBy, x: str, y: str
) -> list[figures.Point]:
    """Means and standard deviations of two columns, where both are known."""
    return [
        (tables.deviation(group[x]), tables.deviation(group[y]))
        for _, group in groups
        if group[x].any() and group[y].any()
    ]


def _make_panels(
    points: Mapping[tuple[str, str], list[figures.Point]], ylabel: str
) -> list[figures.Panel]:
    """A panel for each task, a curve for each approach; none without any."""
    panels: dict[str, dict[str, figures.Curve]] = {}
    for (task, approach), curve_points in points.items():
        if curve_points:
            colour = figures.colour_of(_name_approach(approach))
            curve = figures.Curve(curve_points, {"color": colour})
            panels.setdefault(task, {})[approach] = curve
    return [figures.Panel(*panel, ylabel) for panel in panels.items()]
