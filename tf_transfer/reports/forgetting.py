"""What training on one task does to the scores of the others, pass by pass.

For runs that train their tasks in turn: after every pass over one task's data,
all tasks are evaluated on dev. See `measures.mean_change`.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

import matplotlib.figure
import numpy as np
import pandas as pd

from tf_transfer.reports import cells
from tf_transfer.reports import measures
from tf_transfer.reports import plots
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Table

METRICS = {
    "sentiment": "sentiment_accuracy",
    "paraphrase": "paraphrase_accuracy",
    "similarity": "similarity_pearson",
}
LABELS = {  # what the figures call the tasks' scores
    "sentiment": "SST accuracy",
    "paraphrase": "Quora accuracy",
    "similarity": "STS r",
}
TASK_COLOURS = dict(zip(METRICS, ("#E69F00", "#56B4E9", "#009E73")))
MOST_MARKED = 100  # points of a line that markers do not hide

Name = Callable[[pd.DataFrame], str]


def tabulate(
    name: str, groups: Sequence[pd.DataFrame], name_group: Name
) -> list[Table]:
    """Changes of all groups that have passes over one task.

    Args:
        name: ends the table's name.
        groups: runs of each group.
        name_group: what a table calls one.
    """
    rows = [
        {
            "trains": name_group(group),
            "a pass over": trained,
            "n": len(group),
            **{
                label: cells.spread(_changes(group, trained, task), sign="+")
                for task, label in LABELS.items()
            },
        }
        for group in groups
        for trained in METRICS
        if cells.known(_changes(group, trained, trained))
    ]
    if not rows:
        return []
    caption = (
        "Change of each task's score on dev, in points, during a pass over one "
        "task: mean over all passes but a phase's first; deviation over n runs"
    )
    return [Table(f"forgetting_{name}", caption, pd.DataFrame(rows))]


def draw(
    name: str, groups: Sequence[pd.DataFrame], name_group: Name
) -> list[Figure]:
    """A heat map and the curves of the group with most runs; see `tabulate`.

    Of several, the one with the fewest passes.
    """
    measured = [
        group
        for group in groups
        if any(
            cells.known(_changes(group, trained, trained))
            for trained in METRICS
        )
    ]
    if not measured:
        return []
    shown = max(
        measured, key=lambda g: (len(g), -len(g.record.iloc[0]["passes"]))
    )
    return [
        _draw_heat_map(name, shown, name_group(shown)),
        _draw_curves(name, shown, name_group(shown)),
    ]


def _changes(group: pd.DataFrame, trained: str, task: str) -> measures.Values:
    """Mean change of each run during passes over one task, of another's."""
    name = f"{measures.PASS}{trained}:{METRICS[task]}"
    return measures.measure_runs(name, group)


def _draw_heat_map(name: str, group: pd.DataFrame, title: str) -> Figure:
    """Numbers on colours: blue above 0, red below."""
    numbers = np.array(
        [
            [
                np.mean(cells.known(_changes(group, trained, task)) or [np.nan])
                for task in METRICS
            ]
            for trained in METRICS
        ]
    )
    figure = matplotlib.figure.Figure(
        layout="constrained",
        figsize=(2.2 + 1.5 * len(METRICS), 0.8 + 0.8 * len(METRICS)),
    )
    axis = figure.subplots()
    most = 1.25 * np.nanmax(np.abs(numbers)) or 1.0  # the darkest look black
    picture = axis.imshow(
        numbers, cmap="RdBu", vmin=-most, vmax=most, aspect="auto"
    )
    for (y, x), value in np.ndenumerate(numbers):
        if not np.isnan(value):
            axis.text(
                x,
                y,
                f"{value:+z.2f}",
                ha="center",
                va="center",
                color="white" if abs(value) > 0.55 * most else "black",
            )
    axis.set_xticks(range(len(METRICS)), list(LABELS.values()))
    axis.set_yticks(
        range(len(METRICS)), [f"a pass over\n{task}" for task in METRICS]
    )
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.colorbar(picture, label="change, points")
    caption = (
        "Change of each task's score on dev during a pass over one task, mean "
        f"in points: {title}"
    )
    return plots.finish(figure, {}, f"forgetting_{name}", caption)


def _draw_curves(name: str, group: pd.DataFrame, title: str) -> Figure:
    """The first seed's scores after each pass, a panel each."""
    first = group.loc[group.seed.idxmin()]
    passes: Sequence[Mapping[str, object]] = first.record["passes"]
    tasks = [str(line["task"]) for line in passes]
    per_epoch = len(set(tasks))
    ends = [number / per_epoch for number in range(1, len(tasks) + 1)]
    figure = matplotlib.figure.Figure(
        layout="constrained", figsize=(9.0, 1.8 * len(METRICS) + 0.9)
    )
    axes = figure.subplots(len(METRICS), 1, sharex=True, squeeze=False)[:, 0]
    handles: plots.Handles = {}
    for axis, (task, metric) in zip(axes, METRICS.items()):
        for end, trained in zip(ends, tasks):
            handles[f"pass over {trained}"] = axis.axvspan(
                end - 1 / per_epoch,
                end,
                color=TASK_COLOURS.get(trained, "#CCCCCC"),
                alpha=0.3,
                linewidth=0,
            )
        axis.plot(
            ends,
            [
                100 * line["validation"][metric]
                for line in first.record["passes"]
            ],
            color="black",
            marker="o",
            clip_on=False,
            markersize=3.5 if len(tasks) <= MOST_MARKED else 0,
        )
        axis.set_xlim(0, ends[-1])
        plots.add_frame(axis, f"{LABELS[task]},\npoints", "")
    axes[-1].set_xlabel("epochs")
    plots.use_whole_numbers(axes[-1])
    caption = (
        "Each task's score on dev after every pass; the band says over which "
        f"task's data it went: {title}, seed {first.seed}"
    )
    return plots.finish(figure, handles, f"passes_{name}", caption)
