"""Figures: score against cost, and the panels, colours and files of all.

Colours are Okabe and Ito's, which people with any common kind of colour vision
can distinguish.
"""

import dataclasses
import functools
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import matplotlib
import matplotlib.figure
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer

from tf_transfer.comparison import decisions
from tf_transfer.comparison.estimates import Ranged
from tf_transfer.reports import advice
from tf_transfer.training.record_types import Profile

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
WIDTH = 4.2  # inches, so that text can be read on a page 400 pixels wide
LONG_LABEL = 20  # characters; two such labels do not fit on one line
SHORT_LABEL = 12  # fits next to its point
LEGEND_WIDTH = 52  # characters of a line of the legend

# Options of `Axes.errorbar`.
Style = TypedDict(
    "Style",
    {
        "marker": str,
        "markersize": float,
        "capsize": float,
        "elinewidth": float,
        "color": str,
        "linestyle": str,
    },
    total=False,
)
STYLE: Style = {
    "marker": "o",
    "markersize": 4,
    "capsize": 2,
    "elinewidth": 1,
}
GREY = "#7F7F7F"
MOST_POINTS = 14  # of the figure of costs

Profiles = Mapping[str, Profile]  # by task and files
# What a legend shows, by its label. matplotlib has no type for it: containers
# of error bars are no `Artist`.
Handles = dict[str, Any]
Point = tuple[Ranged, Ranged]  # x and y; each has an error bar or none


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        name: Of its files, without the extension.
        caption: A sentence or two.
        render: Returns the content of a file by its extension, `png` or `svg`.
    """

    name: str
    caption: str
    render: Callable[[str], bytes]

    @functools.cached_property
    def svg(self) -> bytes:
        """The picture as the page has it."""
        return self.render("svg")

    @functools.cached_property
    def png(self) -> bytes:
        """The picture as a document and a folder have it."""
        return self.render("png")


@dataclasses.dataclass(frozen=True)
class Curve:
    """Points of a panel that have one label.

    Attributes:
        points: In the order of the line.
        style: Of `Axes.errorbar`, in place of some of `STYLE`.
    """

    points: list[Point]
    style: Style = dataclasses.field(default_factory=Style)


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel of `draw_panels`.

    Attributes:
        title: Above it, or "".
        curves: By label.
        ylabel: What the curves show.
    """

    title: str
    curves: Mapping[str, Curve]
    ylabel: str = "test score, points"


def colour_of(approach: str) -> str:
    """The colour of an approach or another name, the same in all figures."""
    name = approach.split(",")[0]
    other = OTHERS[sum(name.encode()) % len(OTHERS)]
    return APPROACH_COLOURS.get(name, other)


def make_panels(
    count: int, height: float = 2.8
) -> tuple[matplotlib.figure.Figure, list[Axes]]:
    """A figure with this many panels, one below another.

    Args:
        count: Of panels.
        height: Of each, in inches.
    """
    figure = matplotlib.figure.Figure(
        layout="constrained", figsize=(WIDTH, height * count + 0.6)
    )
    return figure, [
        figure.add_subplot(count, 1, n) for n in range(1, count + 1)
    ]


def add_frame(axis: Axes, ylabel: str, xlabel: str, title: str = "") -> None:
    """Title, labels and grid of a panel; no lines above and on the right."""
    axis.set_title(title, fontsize=11)
    axis.set(xlabel=xlabel, ylabel=ylabel)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def use_whole_numbers(axis: Axes) -> None:
    """Ticks on the horizontal axis only at whole numbers."""
    axis.locator_params("x", integer=True)


def start_at_zero(axis: Axes) -> None:
    """A horizontal axis that begins at 0."""
    axis.set_xlim(left=0)


def reaches(values: Sequence[Ranged]) -> list[list[float]] | None:
    """How far error bars reach below and above; None without intervals."""
    if not any(value.has_interval for value in values):
        return None
    return [
        [v.value - v.low for v in values],
        [v.high - v.value for v in values],
    ]


def draw_panels(
    name: str,
    caption: str,
    panels: Sequence[Panel],
    xlabel: str,
    dress: Callable[[Axes], object],
) -> Figure:
    """Curves with error bars, in panels.

    Args:
        name: See `Figure`.
        caption: See `Figure`.
        panels: One or more.
        xlabel: Of each.
        dress: What else is done to a panel, such as its scale.
    """
    figure, axes = make_panels(len(panels))
    shown: Handles = {}
    for axis, panel in zip(axes, panels):
        for label, curve in panel.curves.items():
            across, along = zip(*curve.points)
            style: Style = {**STYLE, **curve.style}
            shown[label] = axis.errorbar(
                [x.value for x in across],
                [y.value for y in along],
                reaches(along),
                reaches(across),
                **style,
            )
        dress(axis)
        add_frame(axis, panel.ylabel, xlabel, panel.title)
    return finish(figure, shown, name, caption)


def finish(
    figure: matplotlib.figure.Figure,
    handles: Handles,
    name: str,
    caption: str,
) -> Figure:
    """The figure of the report, with a legend below the panels.

    Args:
        figure: From `make_panels`.
        handles: What the legend shows.
        name: See `Figure`.
        caption: See `Figure`.
    """
    if handles:
        figure.legend(
            handles.values(),
            [textwrap.fill(label, LEGEND_WIDTH) for label in handles],
            loc="outside lower center",
            ncols=1 if max(map(len, handles)) > LONG_LABEL else 2,
            frameon=False,
        )
    return Figure(name, caption, functools.partial(_render, figure, name))


def _render(
    figure: matplotlib.figure.Figure, name: str, extension: str
) -> bytes:
    """The figure as a file, the same bytes from the same numbers."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if extension == "svg" else {"Software": None}
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format=extension, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


# === Score against cost ===


def draw_costs(rows: Sequence[decisions.Row], margin: float) -> Figure | None:
    """Difference to the reference against cost, a point for each approach.

    Args:
        rows: See `approaches.make_rows`.
        margin: The largest accepted loss, in points.

    Returns:
        Nothing without a comparison, if there are too many, or if all
        approaches train the same weights and have no times.
    """
    rows = decisions.take_headline(rows)
    points = [row for row in rows if row.difference.is_known]
    if not 1 <= len(points) <= MOST_POINTS:
        return None
    reference = next(row for row in rows if row.is_reference)
    # A baseline is often fitted in another environment than the others.
    trained = [row for row in points if not row.is_baseline]
    label = (trained or points)[0].time_of
    if any(row.lacks_build for row in trained):
        label = "time with build"
        points = [
            dataclasses.replace(
                row, time=Ranged(100 * row.seconds / reference.seconds)
            )
            for row in points
        ]
        trained = [row for row in points if not row.is_baseline]
    is_timed = all(row.time.is_known for row in trained)
    if not is_timed and all(abs(row.weights - 100) < 1 for row in trained):
        return None
    # Long names take several lines of the legend.
    lines = sum(len(textwrap.wrap(row.name, LEGEND_WIDTH)) for row in points)
    figure, [axis] = make_panels(1, 2.8 + 0.2 * lines)
    axis.axhline(0, color=GREY, linewidth=1, linestyle=":")
    axis.axhline(-margin, color=GREY, linewidth=1, linestyle="--")
    names: Handles = {}
    other = reference.name
    if len(other) > SHORT_LABEL:
        other = "0"
    base = _mark(axis, 100, Ranged(0), other, "#000000")
    if other == "0":
        names[f"0 {reference.name}"] = base
    for number, row in enumerate(points, 1):
        cost, marker = row.weights, "o"
        if is_timed:
            cost = row.time.value
        if row.is_baseline:
            cost, marker = row.cost[0], "*"
        colour = colour_of(row.name.split(" (")[0].replace(" ", "_"))
        names[f"{number} {row.name}"] = _mark(
            axis, cost, row.difference, str(number), colour, marker
        )
    axis.margins(x=0.12)
    label = label if is_timed else "trained weights"
    add_frame(
        axis,
        f"score minus that of {other}, points",
        f"{label}, % of {other}",
    )
    caption = (
        f"Score minus that of {reference.name}, {points[0].task}, with 95 % "
        "intervals. Dashed line: a loss of "
        f"{advice.describe_points(margin)}."
    )
    if any(row.is_baseline for row in points):
        caption += (
            " Star: a baseline, the probe or TF-IDF; at 0 % where its time is "
            "not compared."
        )
    return finish(figure, names, "costs", caption)


def _mark(
    axis: Axes,
    cost: float,
    difference: Ranged,
    label: str,
    colour: str,
    marker: str = "o",
) -> ErrorbarContainer:
    """A point with its interval and a label; returns what a legend shows."""
    handle = axis.errorbar(
        cost,
        difference.value,
        reaches([difference]),
        color=colour,
        marker=marker,
        markersize=9 if marker == "*" else 5,
        capsize=2,
        elinewidth=1,
    )
    axis.annotate(
        label,
        (cost, difference.value),
        (-5, 4),
        textcoords="offset points",
        ha="right",
        color=colour,
    )
    return handle


# === The depth profile ===


def profiles_of(runs: pd.DataFrame) -> Profiles:
    """The depth profiles of a study's probes, the first of each text.

    Args:
        runs: See `approaches.label_runs`.
    """
    profiles: dict[str, Profile] = {}
    for text, record in zip(runs.text, runs.record):
        if record.profile is not None:
            profiles.setdefault(text, record.profile)
    return dict(sorted(profiles.items()))


def draw_profile(profiles: Profiles) -> Figure | None:
    """The probe's scores above each block, a line per task; None without any.

    Args:
        profiles: See `profiles_of`.
    """
    if not profiles:
        return None
    figure, [axis] = make_panels(1)
    lines = {}
    for number, (task, profile) in enumerate(sorted(profiles.items())):
        points = pd.DataFrame(profile["blocks"])
        lines[f"{task}, {profile['metric']}"] = axis.errorbar(
            points.block,
            100 * points.score,
            100 * points.standard_error,
            **STYLE,
            color=PALETTE[(number + 2) % len(PALETTE)],
        )
    use_whole_numbers(axis)
    add_frame(axis, "cross-validated score, points", "block")
    return finish(
        figure,
        lines,
        "depth_profile",
        "What the probe scores on the states above each block (0: the "
        "embeddings), by cross-validation inside the training texts, with a "
        "standard error.",
    )
