"""Figures of a report: the same colour for an approach everywhere.

The colours are Okabe and Ito's, which people with any common kind of colour
vision can tell apart.
"""

import io
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import matplotlib
import matplotlib.figure
import matplotlib.ticker
from matplotlib.axes import Axes

from tf_transfer.reports import compare
from tf_transfer.reports import document
from tf_transfer.reports import statistics
from tf_transfer.reports import studies
from tf_transfer.reports.studies import Cell
from tf_transfer.reports.studies import Dataset

COLOURS = {
    "fine_tuning": "#000000",
    "last_1": "#E69F00",
    "last_2": "#56B4E9",
    "last_3": "#009E73",
    "last_4": "#D55E00",
    "last_0": "#CC79A7",
}
OTHERS = ("#0072B2", "#8C6D31", "#7F7F7F", "#5D3A9B", "#A6761D")
PALETTE = (*COLOURS.values(), *OTHERS)
TASK_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442")
MARKERS = {"fine_tuning": "o", "last_1": "s", "last_2": "^", "last_3": "D"}
MOST_MARKED = 100  # points of a line that markers do not hide
DPI = 130

Handles = dict[str, Any]  # what a legend shows, by its label


def colour(variant: studies.Variant) -> str:
    """The colour of an approach, cached or live."""
    approach = variant[0].split(",")[0]
    if approach in COLOURS:
        return COLOURS[approach]
    return OTHERS[sum(approach.encode()) % len(OTHERS)]


def _style(variant: studies.Variant) -> dict[str, Any]:
    approach, cached = variant
    return {
        "color": colour(variant),
        "linestyle": "--" if cached else "-",
        "marker": MARKERS.get(approach, "v"),
        "markerfacecolor": "white" if cached else colour(variant),
        "markersize": 5,
    }


def make_panels(
    count: int, height: float = 3.3
) -> tuple[matplotlib.figure.Figure, list[Axes]]:
    """A figure with so many panels of a height in inches, two to a row."""
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    figure = matplotlib.figure.Figure(
        layout="constrained",
        figsize=(7.2 if columns == 1 else 10.5, height * rows + 0.6),
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:count])


def add_frame(
    axis: Axes, ylabel: str, xlabel: str, title: str = "", pad: float = 6
) -> None:
    """Title, labels and grid of a panel; no lines above and on the right."""
    if title:
        axis.set_title(title, fontsize=11, pad=pad)
    axis.set_ylabel(ylabel)
    axis.set_xlabel(xlabel)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def use_whole_numbers(axis: Axes) -> None:
    """Ticks on the horizontal axis only at whole numbers."""
    locator = matplotlib.ticker.AutoLocator()
    locator.set_params(integer=True)
    axis.xaxis.set_major_locator(locator)


def finish(
    figure: matplotlib.figure.Figure, handles: Handles, name: str, caption: str
) -> document.Figure:
    """The part of the report, with a legend below the panels."""
    if handles:
        entry = max(1.8, 0.7 + 0.075 * max(map(len, handles)))  # inches
        columns = max(1, int(figure.get_figwidth() // entry))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(len(handles), columns),
            frameon=False,
        )
    return document.Figure(name, caption, lambda: _render(figure, name))


def _render(figure: matplotlib.figure.Figure, name: str) -> dict[str, bytes]:
    """The figure as PNG and SVG, the same bytes from the same numbers."""
    files = {}
    for ending in ("png", "svg"):
        buffer = io.BytesIO()
        metadata = {"Date": None} if ending == "svg" else {"Software": None}
        with matplotlib.rc_context({"svg.hashsalt": name}):
            figure.savefig(buffer, format=ending, dpi=DPI, metadata=metadata)
        files[ending] = buffer.getvalue()
    return files


def _draw_for_datasets(
    datasets: Sequence[Dataset],
    name: str,
    caption: str,
    xlabel: str,
    draw: Callable[[Axes, Cell], Any],
) -> document.Figure:
    """A figure with a panel for each data set.

    Args:
        datasets: of a study.
        name, caption: see `document.Figure`.
        xlabel: label of the time axis.
        draw: draws a cell, and returns what the legend shows of it, or None;
            called for each variant at its better rate.
    """
    figure, axes = make_panels(len(datasets))
    handles = {}
    for axis, dataset in zip(axes, datasets):
        for cell in dataset.best_cells():
            handle = draw(axis, cell)
            if handle is not None:
                handles[studies.variant_name(cell.variant)] = handle
        ylabel = f"{dataset.metric} on test, points"
        add_frame(axis, ylabel, xlabel, dataset.name)
        axis.set_xlim(left=0)
    return finish(figure, handles, name, caption)


def learning_curve(
    cell: Cell,
) -> tuple[list[float], list[float], list[float]]:
    """(seconds, scores, deviations) after each epoch that all seeds ran."""
    epochs = min(len(record["epochs"]) for record in cell.timed)
    points = [cell.at_epoch(number) for number in range(1, epochs + 1)]
    known = [(score, time) for score, time in points if score and time]
    return (
        [time.mean for _, time in known],
        [score.mean for score, _ in known],
        [score.deviation or 0.0 for score, _ in known],
    )


def score_against_time(
    study: studies.Study, datasets: Sequence[Dataset]
) -> document.Figure | None:
    """Wang's figures 3 to 6, or None: tasks are panels, approaches curves."""
    datasets = [d for d in datasets if any(c.timed for c in d.cells.values())]
    if not datasets:
        return None

    def draw(axis: Axes, cell: Cell) -> Any:
        if not cell.timed or cell.score is None:
            return None
        seconds, scores, deviations = learning_curve(cell)
        [line] = axis.plot(seconds, scores, **_style(cell.variant))
        axis.fill_between(
            seconds,
            [s - d for s, d in zip(scores, deviations)],
            [s + d for s, d in zip(scores, deviations)],
            color=colour(cell.variant),
            alpha=0.15,
            linewidth=0,
        )
        return line

    return _draw_for_datasets(
        datasets,
        f"score_against_time_{study.name}",
        "Test score after each epoch against training time; bands are one "
        "standard deviation over seeds",
        "training time, s",
        draw,
    )


def pareto_fronts(
    study: studies.Study, datasets: Sequence[Dataset]
) -> document.Figure | None:
    """Final score against time to the stopping point, or None."""
    fronts = {dataset.name: _front_points(dataset) for dataset in datasets}
    datasets = [dataset for dataset in datasets if fronts[dataset.name]]
    if not datasets:
        return None
    lined = set()

    def draw(axis: Axes, cell: Cell) -> Any:
        if cell.seconds is None or cell.score is None:
            return None
        if axis not in lined:
            lined.add(axis)
            axis.step(
                *zip(*sorted(fronts[cell.dataset.name])),
                where="post",
                color="#888888",
                linewidth=1,
                zorder=0,
            )
        return draw_final(
            axis,
            cell,
            capsize=3,
            **{**_style(cell.variant), "linestyle": "none"},
        )

    return _draw_for_datasets(
        datasets,
        f"pareto_{study.name}",
        "Test score against time to the stopping point; the line joins what "
        "nothing else surpasses in both; bars are one standard deviation",
        "time to the stopping point, s",
        draw,
    )


def _front_points(dataset: Dataset) -> list[tuple[float, float]]:
    return [
        (cell.seconds.mean, cell.score.mean)
        for cell in compare.pareto_front(dataset)
        if cell.seconds and cell.score
    ]


def draw_final(axis: Axes, cell: Cell, **style: Any) -> Any:
    """Final score against time, with a bar of one deviation each way."""
    if cell.seconds is None or cell.score is None:
        return None
    return axis.errorbar(
        cell.seconds.mean,
        cell.score.mean,
        xerr=cell.seconds.deviation,
        yerr=cell.score.deviation,
        elinewidth=1,
        **style,
    )


def relative_scores(
    study: studies.Study,
    curves: Mapping[tuple[str, str], Sequence[tuple[int, float]]],
) -> document.Figure | None:
    """Score less that of training everything, against frozen blocks, or None.

    Args:
        study: whose encoder it is.
        curves: (frozen blocks, score) pairs by name of a data set and mode:
            `live`, `cached` or `published`.
    """
    if not curves:
        return None
    figure, [axis] = make_panels(1, height=3.8)
    names = list(dict.fromkeys(name for name, _ in curves))
    lines = {"live": "-", "cached": "--", "published": ":"}
    handles = {}
    for (name, mode), points in curves.items():
        [line] = axis.plot(
            *zip(*sorted(points)),
            linestyle=lines[mode],
            marker="" if mode == "published" else "o",
            markersize=4,
            color=PALETTE[names.index(name) % len(PALETTE)],
        )
        handles[name + ("" if mode == "live" else f", {mode}")] = line
    axis.axhline(0, color="#888888", linewidth=1, zorder=0)
    ylabel = "score less that of training all, points"
    add_frame(axis, ylabel, f"frozen blocks of {study.blocks}")
    use_whole_numbers(axis)
    return finish(
        figure,
        handles,
        f"relative_scores_{study.name}",
        "Relative score against the number of frozen blocks, mean over trials",
    )


def box_plots(
    name: str, caption: str, panels: Mapping[str, Mapping[str, list[float]]]
) -> document.Figure:
    """Box plots: a panel for each metric, a box for each list of values.

    Args:
        name, caption: see `document.Figure`.
        panels: values by metric and label.
    """
    labels = max((len(boxes) for boxes in panels.values()), default=1)
    figure, axes = make_panels(len(panels), height=1.2 + 0.45 * labels)
    for axis, (metric, values) in zip(axes, panels.items()):
        axis.boxplot(
            list(values.values()),
            orientation="horizontal",
            tick_labels=list(values),
            widths=0.55,
            medianprops={"color": COLOURS["last_4"]},
        )
        axis.invert_yaxis()
        axis.set_xlabel(f"{metric}, points")
        axis.grid(alpha=0.25, axis="x")
        axis.spines[["top", "right"]].set_visible(False)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    return finish(figure, {}, name, caption)


def scores_by_size(
    name: str,
    caption: str,
    curves: Mapping[str, Mapping[int, statistics.Mean | None]],
) -> document.Figure:
    """Scores against the number of training examples, with deviations.

    Args:
        name, caption: see `document.Figure`.
        curves: means by label and size.
    """
    figure, [axis] = make_panels(1, height=3.6)
    handles = {}
    for number, (label, curve) in enumerate(curves.items()):
        points = [(size, mean) for size, mean in sorted(curve.items()) if mean]
        handles[label] = axis.errorbar(
            [size for size, _ in points],
            [mean.mean for _, mean in points],
            yerr=[mean.deviation or 0.0 for _, mean in points],
            capsize=3,
            elinewidth=1,
            marker="o",
            markersize=4,
            color=PALETTE[number % len(PALETTE)],
        )
    axis.set_xscale("log")
    add_frame(axis, "test score, points", "training examples")
    return finish(figure, handles, name, caption)


def heat_map(
    name: str,
    caption: str,
    rows: Mapping[str, Sequence[float | None]],
    columns: Sequence[str],
    unit: str,
) -> document.Figure:
    """Numbers on colours: blue above 0, red below.

    Args:
        name, caption: see `document.Figure`.
        rows: values by label, one for each column; None is unknown.
        columns: labels.
        unit: what the colours stand for.
    """
    figure = matplotlib.figure.Figure(
        layout="constrained",
        figsize=(2.2 + 1.5 * len(columns), 0.8 + 0.8 * len(rows)),
    )
    axis = figure.subplots()
    known = [abs(v) for row in rows.values() for v in row if v is not None]
    most = 1.25 * max(known, default=0.0) or 1.0  # the darkest look black
    numbers = [
        [float("nan") if value is None else value for value in row]
        for row in rows.values()
    ]
    picture = axis.imshow(
        numbers, cmap="RdBu", vmin=-most, vmax=most, aspect="auto"
    )
    for y, row in enumerate(rows.values()):
        for x, value in enumerate(row):
            if value is not None:
                axis.text(
                    x,
                    y,
                    f"{value:+z.2f}",
                    ha="center",
                    va="center",
                    color="white" if abs(value) > 0.55 * most else "black",
                )
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    figure.colorbar(picture, label=unit)
    return finish(figure, {}, name, caption)


def scores_over_passes(
    name: str,
    caption: str,
    tasks: Sequence[str],
    scores: Mapping[str, Sequence[float]],
) -> document.Figure:
    """Scores after each pass of an epoch, a panel each over one time axis.

    Args:
        name, caption: see `document.Figure`.
        tasks: over whose data each pass went.
        scores: those after each pass, by label.
    """
    figure = matplotlib.figure.Figure(
        layout="constrained", figsize=(9.0, 1.8 * len(scores) + 0.9)
    )
    axes = figure.subplots(len(scores), 1, sharex=True, squeeze=False)[:, 0]
    per_epoch = len(set(tasks))
    ends = [number / per_epoch for number in range(1, len(tasks) + 1)]
    colours = dict(zip(sorted(set(tasks)), TASK_COLOURS))
    handles = {}
    for axis, (label, values) in zip(axes, scores.items()):
        for end, task in zip(ends, tasks):
            handles[f"pass over {task}"] = axis.axvspan(
                end - 1 / per_epoch,
                end,
                color=colours[task],
                alpha=0.3,
                linewidth=0,
            )
        axis.plot(
            ends,
            values,
            color="black",
            marker="o",
            clip_on=False,
            markersize=3.5 if len(tasks) <= MOST_MARKED else 0,
        )
        axis.set_xlim(0, ends[-1])
        add_frame(axis, f"{label},\npoints", "")
    axes[-1].set_xlabel("epochs")
    use_whole_numbers(axes[-1])
    return finish(figure, handles, name, caption)
