"""What all figures have in common: panels, frames, colours, and their files.

Colours are Okabe and Ito's, which people with any common kind of colour vision
can tell apart.
"""

import dataclasses
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.figure
import matplotlib.ticker
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tf_transfer.reports import study
from tf_transfer.reports.overview import Ranged

APPROACH_COLOURS = {
    "fine_tuning": "#000000",
    "last_1": "#E69F00",
    "last_2": "#56B4E9",
    "last_3": "#009E73",
    "last_4": "#D55E00",
    "last_0": "#CC79A7",
}
OTHERS = ("#0072B2", "#8C6D31", "#7F7F7F", "#5D3A9B", "#A6761D")
PALETTE = (*APPROACH_COLOURS.values(), *OTHERS)
DPI = 130
LEGEND_ROW = 0.23  # inches
MOST_LEGEND_ROWS = 4  # before the figure becomes higher

MARKERS = "os^Dv<>p"
STYLE = {"marker": "o", "markersize": 4, "capsize": 2, "elinewidth": 1}
GREY = "#7F7F7F"

Handles = dict[str, Any]  # what a legend shows, by its label
Point = tuple[Ranged, Ranged]  # x and y; each has an error bar or none


@dataclasses.dataclass(frozen=True)
class Curve:
    """Points of a panel that have one label.

    Attributes:
        points: in the order of the line.
        style: of `Axes.errorbar`, in place of some of `STYLE`.
    """

    points: list[Point]
    style: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel of `draw_panels`.

    Attributes:
        title: above it, or "".
        curves: by label; the legend leaves out labels that begin with `_`.
        ylabel: what the curves show.
        bounds: where vertical lines are.
    """

    title: str
    curves: Mapping[str, Curve]
    ylabel: str = "test score, points"
    bounds: Sequence[float] = ()


def colour_of(approach: str, number: int | None = None) -> str:
    """The colour of an approach, the same in all figures.

    Args:
        approach: or anything else that has a colour.
        number: what is no approach has the colour of this number.
    """
    name = approach.split(",")[0]
    other = (
        OTHERS[sum(name.encode()) % len(OTHERS)]
        if number is None
        else PALETTE[number % len(PALETTE)]
    )
    return APPROACH_COLOURS.get(name, other)


def make_panels(
    count: int, height: float = 3.3
) -> tuple[matplotlib.figure.Figure, list[Axes]]:
    """A figure with so many panels, two to a row.

    Args:
        count: of panels.
        height: of each, in inches.
    """
    columns = min(count, 2)
    rows = -(-count // columns)
    figure = matplotlib.figure.Figure(
        layout="constrained",
        figsize=(7.2 if columns == 1 else 10.5, height * rows + 0.6),
    )
    return figure, [
        figure.add_subplot(rows, columns, n) for n in range(1, count + 1)
    ]


def add_frame(
    axis: Axes, ylabel: str, xlabel: str, title: str = "", pad: float = 6
) -> None:
    """Title, labels and grid of a panel; no lines above and on the right."""
    axis.set_title(title, fontsize=11, pad=pad)
    axis.set(xlabel=xlabel, ylabel=ylabel)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def use_whole_numbers(axis: Axes) -> None:
    """Ticks on the horizontal axis only at whole numbers."""
    axis.locator_params("x", integer=True)


def use_log_scale(axis: Axes) -> None:
    """A logarithmic horizontal axis, with numbers as people write them."""
    axis.set_xscale("log")
    formatter = matplotlib.ticker.LogFormatter()
    axis.xaxis.set(major_formatter=formatter, minor_formatter=formatter)


SCALES: Mapping[str, Callable[[Axes], object]] = {
    "": lambda axis: None,
    "log": use_log_scale,
    "whole": use_whole_numbers,
    "zero": lambda axis: axis.set_xlim(left=0),
}


def reaches(values: Sequence[Ranged]) -> list[list[float]]:
    """How far error bars reach below and above; nan without an interval."""
    return [
        [v.value - v.low for v in values],
        [v.high - v.value for v in values],
    ]


def draw_panels(
    name: str,
    caption: str,
    panels: Sequence[Panel],
    xlabel: str,
    height: float = 3.3,
    dress: Callable[[Axes], object] = lambda axis: None,
    width: float | None = None,
) -> study.Figure:
    """Curves with error bars, in panels.

    Args:
        name, caption: see `study.Figure`.
        panels: one or more.
        xlabel: of each.
        height: of a panel, in inches.
        dress: what else is done to a panel, such as its scale.
        width: of the figure, in inches, if not the usual one.
    """
    figure, axes = make_panels(len(panels), height)
    figure.set_figwidth(width or figure.get_figwidth())
    shown: Handles = {}
    for axis, panel in zip(axes, panels):
        for label, curve in panel.curves.items():
            shown[label] = _draw_curve(axis, curve)
        for bound in {*panel.bounds}:
            axis.axvline(bound, color=GREY, linewidth=1, linestyle=":")
        dress(axis)
        add_frame(axis, panel.ylabel, xlabel, panel.title)
    return finish(
        figure,
        {n: artist for n, artist in shown.items() if n[:1] != "_"},
        name,
        caption,
    )


def _draw_curve(axis: Axes, curve: Curve) -> Any:
    x, y = zip(*curve.points)
    costs, values = ([v.value for v in ends] for ends in (x, y))
    style = {**STYLE, **curve.style}
    across, along = (
        reaches(ends) if any(v.has_interval for v in ends) else None
        for ends in (x, y)
    )
    return axis.errorbar(costs, values, along, across, **style)


def finish(
    figure: matplotlib.figure.Figure,
    handles: Handles,
    name: str,
    caption: str,
) -> study.Figure:
    """The part of the report, with a legend below the panels.

    Args:
        figure: from `make_panels`.
        handles: what the legend shows.
        name, caption: see `study.Figure`.
    """
    for axis in figure.axes:
        for artist in (*axis.lines, *axis.collections):
            artist.set_in_layout(False)  # inside its panel; hundreds take long
    if handles:
        entry = max(1.8, 0.7 + 0.075 * max(map(len, handles)))  # inches
        columns = max(1, int(figure.get_figwidth() // entry))
        rows = -(-len(handles) // columns)
        more = LEGEND_ROW * max(rows - MOST_LEGEND_ROWS, 0)
        figure.set_figheight(figure.get_figheight() + more)
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(len(handles), columns),
            frameon=False,
        )
    # Once; `savefig` would do it for every file, and draw it for nothing.
    ConstrainedLayoutEngine().execute(figure)
    figure.set_layout_engine("none")
    return study.Figure(name, caption, functools.partial(_render, figure, name))


def _render(figure: matplotlib.figure.Figure, name: str, ending: str) -> bytes:
    """The figure as a file, the same bytes from the same numbers."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if ending == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format=ending, dpi=DPI, metadata=metadata)
    return buffer.getvalue()
