"""Wang's tables and figures, from runs of `tf_transfer.glue`.

The cells of the paper's tables 2 to 9 and the points of its figures are lost.
Tables A to D, which the paper does not have, hold the numbers of its text.
Each approach has the rate that is better on validation: "we will only compare
the better performance scores".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from tf_transfer.reports import figures, runs as runs_lib, tables
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.tables import Table

LARGE = {"MNLI": "mnli", "QQP": "qqp", "QNLI": "qnli", "SST-2": "sst2"}
SMALL = {"CoLA": "cola", "STS-B": "stsb", "MRPC": "mrpc", "RTE": "rte"}
TASKS = {**LARGE, **SMALL}  # in the order of the tables 2 to 9
BASE = "fine-tuning"
LAST = {"last 4": "4", "last 3": "3", "last 2": "2", "last 1": "1"}
APPROACHES = {BASE: "all", **LAST}  # with `--trainable_layers`
EMPTY = (
    "Empty where the paper has no number, nothing was run, or --max_epochs "
    "ended a run before it stopped"
)

# The runs of a task and an approach; none where nothing was run.
Found = Mapping[tuple[str, str], pd.DataFrame]


def find_runs(study: Study, **rate: float) -> Found:
    """The runs of each task and approach, at a rate or at the better one."""
    found = {}
    for task, flag in TASKS.items():
        for name, layers in APPROACHES.items():
            wanted = {"trainable_layers": layers, **rate}
            found[task, name] = tables.find_runs(study, flag, wanted)
    return found


def measure(
    found: Found, take_mean: Callable[[pd.DataFrame], float]
) -> pd.DataFrame:
    """A mean of the runs of each task (row) and approach (column), or nan."""
    values = pd.Series({key: take_mean(runs) for key, runs in found.items()})
    return values.unstack(sort=False)


def stopping_time(runs: pd.DataFrame) -> float:
    """Mean seconds to the stopping point."""
    timed = runs[runs.timed]
    stopped = timed.stop_reason == "patience"
    return timed.seconds.where(stopped).mean(skipna=False)


def final_score(runs: pd.DataFrame) -> float:
    """Mean test score at the stopping point, in points."""
    last = pd.Series(runs_lib.measure_runs("last_score", runs), runs.index)
    return last.where(runs.stop_reason == "patience").mean(skipna=False)


def epoch_time(runs: pd.DataFrame) -> float:
    """Mean seconds of an epoch."""
    return runs.seconds_per_epoch.mean()


# === Tables ===


def table_a(found: Found, published: Mapping[str, Any]) -> pd.DataFrame:
    """The time that the last blocks save, in percent of fine-tuning's."""
    times = measure(found, stopping_time)
    saved = 100 - 100 * times.div(times[BASE], axis=0)
    return _list_with_means(saved, published)


def table_b(found: Found, published: Mapping[str, Any]) -> pd.DataFrame:
    """The final score of the last blocks less fine-tuning's, in points."""
    scores = measure(found, final_score)
    return _list_with_means(scores.sub(scores[BASE], axis=0), published)


def _list_with_means(
    here: pd.DataFrame, published: Mapping[str, Any]
) -> pd.DataFrame:
    """Published numbers and ours, of each task and the mean of four.

    Rows without any are left out.
    """
    for tasks in (LARGE, SMALL):
        mean = here.loc[[*tasks]].mean(skipna=False)
        here.loc[f"{', '.join(tasks)}, mean"] = mean
    columns = {}
    for name in LAST:
        known = [published.get(row, {}).get(name, "") for row in here.index]
        columns[f"{name}, published"] = known
        columns[f"{name}, here"] = here[name].map(tables.number)
    rows = pd.DataFrame(columns, here.index)
    rows = rows[(rows != "").any(axis=1)]
    return rows.reset_index(names="task")


def table_c(
    found: Found, published: Sequence[Mapping[str, Any]]
) -> pd.DataFrame:
    """The last 4 blocks less fine-tuning within the same time, in points."""
    gains = []
    for point in published:
        base = found[point["task"], BASE]
        last = found[point["task"], "last 4"]
        name = "interpolated_score"
        if "whole epochs" in point["time"]:
            name = "score_within"
        seconds = point["epochs"] * epoch_time(base)
        gain = tables.mean(runs_lib.measure_runs(name, last, seconds))
        gain -= tables.mean(runs_lib.measure_runs(name, base, seconds))
        gains.append(tables.number(gain, 2, "+"))
    return pd.DataFrame(published).assign(here=gains)


def table_d(
    found: Found, low: Found, high: Found, published: Sequence[Sequence[Any]]
) -> pd.DataFrame:
    """The other numbers of the text; means are of the tasks that were run.

    Args:
        found, low, high: runs at the better rate, at 2e-5 and at 1e-3.
        published: texts and the paper's numbers.
    """
    epochs, times = measure(found, epoch_time), measure(found, stopping_time)
    epochs = 100 * epochs[[*LAST]].div(epochs[BASE], axis=0)
    lower = 100 - 100 * measure(low, final_score) / measure(high, final_score)
    base = 100 - 100 * measure(high, final_score) / measure(low, final_score)
    rates = 100 * measure(low, stopping_time) / measure(high, stopping_time)
    here = [
        epochs.stack().mean(),
        epochs["last 4"]["MNLI"],
        base[BASE].mean(),
        lower[[*LAST]].stack().mean(),
        rates.stack().mean(),
        times[BASE]["RTE"],
        times["last 4"]["RTE"],
    ]
    rows = pd.DataFrame(published, columns=["number", "published"])
    return rows.assign(here=[tables.number(value, 1) for value in here])


def table_of_epochs(found: Found, task: str) -> pd.DataFrame:
    """The paper's tables 2 to 9: score / seconds after each epoch.

    `(1)` follows where only one of several runs has the epoch.
    """
    rows = []
    for name in APPROACHES:
        runs = found[task, name]
        row = {"approach": name, "lr": tables.rate(runs.lr.mean())}
        epochs = runs_lib.epochs_frame(runs).dropna(subset="test")
        is_timed = epochs.path.isin(runs.path[runs.timed])
        for number, members in epochs.groupby("epoch"):
            seconds = tables.number(members.seconds[is_timed].mean(), 0)
            cell = f"{tables.spread(members.test)} / {seconds}"
            if len(members) < len(runs):
                cell += f" ({len(members)})"
            row[f"epoch {number}"] = cell
        rows.append(row)
    return pd.DataFrame(rows)


def list_tables(study: Study) -> list[Table]:
    """Tables A to D, and those of the tables 2 to 9 whose task was run."""
    found, published = find_runs(study), study.published
    low, high = find_runs(study, lr=2e-5), find_runs(study, lr=1e-3)
    made = [
        Table(
            "table_a",
            "Table A, numbers of the paper's text: training time saved "
            "against fine-tuning, in %, both to the stopping point. The paper "
            'calls the last 4 "9 to 12"; the tasks of its means follow from '
            "the order of its sentences. Each approach has the rate that is "
            "better on validation. " + EMPTY,
            table_a(found, published["time_saved"]),
        ),
        Table(
            "table_b",
            "Table B, numbers of the paper's text: test score at the stopping "
            'point less that of fine-tuning, in points. The paper writes "%"; '
            "points are our reading. " + EMPTY,
            table_b(found, published["score_difference"]),
        ),
        Table(
            "table_c",
            "Table C, numbers of the paper's text: test score of the last 4 "
            "less that of fine-tuning within the same time, in points. Times "
            "are epochs of fine-tuning; those without seconds are ours. Scores "
            "between two epochs are interpolated. Empty where nothing was run",
            table_c(found, published["fixed_times"]),
        ),
        Table(
            "table_d",
            "Table D, other numbers of the paper's text. It calls both 1,526 "
            "and 1,737 s the saving on RTE. " + EMPTY,
            table_d(found, low, high, published["others"]),
        ),
    ]
    for number, task in enumerate(TASKS, 2):
        frame = table_of_epochs(found, task)
        if "epoch 1" in frame:
            made.append(
                Table(
                    f"table_{number}",
                    f"Table {number}, {task}: test score / seconds of training "
                    "after each epoch; mean ± standard deviation over seeds. "
                    "The paper's cells are lost",
                    frame,
                )
            )
    return made


# === Figures ===


def list_figures(study: Study) -> list[Figure]:
    """The paper's figure 2, and its figures 3 to 6 as one."""
    found = find_runs(study)
    live = study.runs[~study.runs.cached]
    rates, curves = {}, {}
    for task, name in found:
        is_so = live.approach == _name_approach(name)
        runs = live[is_so & (live.task == TASKS[task])]
        if runs.lr.nunique() > 1:
            rates[task, name] = _list_points(runs.groupby("lr"), "lr", "score")
        curves[task, name] = list_epochs(found[task, name])
    return [
        *_draw(
            "figure_2",
            "Figure 2, as far as can be inferred: test score at each learning "
            "rate, mean and standard deviation over seeds. The paper's points "
            "are lost",
            rates,
            "learning rate",
            figures.SCALES["log"],
        ),
        *_draw(
            "figures_3_to_6",
            "Figures 3 to 6: test score after each epoch against training "
            "time, up to the last epoch that all seeds ran; bars are one "
            "standard deviation. The paper's points are lost",
            curves,
            "training time, s",
            figures.SCALES["zero"],
        ),
    ]


def list_epochs(runs: pd.DataFrame) -> list[figures.Point]:
    """Seconds and score after each epoch that all timed runs have."""
    timed = runs[runs.timed]
    epochs = runs_lib.epochs_frame(timed).dropna(subset=["test", "seconds"])
    count = epochs.groupby("epoch").test.transform("size")
    whole = epochs[count == len(timed)]
    return _list_points(whole.groupby("epoch"), "seconds", "test")


def _name_approach(name: str) -> str:
    """As the column `approach` has it."""
    return name.replace("-", "_").replace(" ", "_")


def _list_points(groups: Any, x: str, y: str) -> list[figures.Point]:
    """Means and deviations of two columns."""
    return [
        (tables.deviation(group[x]), tables.deviation(group[y]))
        for _, group in groups
    ]


def _draw(
    name: str,
    caption: str,
    points: Mapping[tuple[str, str], list[figures.Point]],
    xlabel: str,
    dress: Callable[..., Any],
) -> list[Figure]:
    """A panel for each task, a curve for each approach; none without any."""
    curves: dict[str, dict[str, figures.Curve]] = {}
    for (task, approach), known in points.items():
        if known:
            colour = figures.colour_of(_name_approach(approach))
            curve = figures.Curve(known, {"color": colour})
            curves.setdefault(task, {})[approach] = curve
    panels = [figures.Panel(*entry) for entry in curves.items()]
    if not panels:
        return []
    return [figures.draw_panels(name, caption, panels, xlabel, dress=dress)]
