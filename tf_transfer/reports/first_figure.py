"""The figure at the top of a study: score against cost."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.reports import brief, overview, plots, tables, wording
from tf_transfer.reports.overview import Row
from tf_transfer.reports.study import Figure, Study

MOST_POINTS = 14  # that have room for a name
NEAR_THE_END = 80  # percent, from which on names stand on the left


def draw(study: Study, rows: Sequence[Row]) -> Figure | None:
    """The figure that shows the result of a study; None if nothing compares.

    An experiment's `tables.toml` may have its own `first_figure`.
    """
    if own := tables.draw_figures(study, "first_figure"):
        return own[0]
    approaches = brief.group_approaches(overview.keep_largest(rows))
    if 1 <= len(approaches) <= MOST_POINTS:
        return draw_costs(study, approaches)
    return None


def draw_costs(study: Study, approaches: Sequence[Sequence[Row]]) -> Figure:
    """Difference to training everything against cost, a point an approach.

    Args:
        study: theirs.
        approaches: rows of each, see `brief.group_approaches`.
    """
    shares = [brief.share_of_time(rows)[0].value for rows in approaches]
    # A probe is fitted once, often in another environment than the others.
    trained = [
        share for share, rows in zip(shares, approaches) if not rows[0].is_probe
    ]
    is_timed = not np.isnan(trained).any()
    figure, [axis] = plots.make_panels(1)
    figure.set_size_inches(5.4, 3.9)
    margin = study.options.margin
    axis.axhline(0, color=plots.GREY, linewidth=1, linestyle=":")
    axis.axhline(-margin, color=plots.GREY, linewidth=1, linestyle="--")
    _mark(axis, 100, overview.Ranged(0), overview.EVERYTHING, "#000000")
    for number, (share, rows) in enumerate(zip(shares, approaches)):
        first, colour = rows[0], plots.colour_of(rows[0].approach)
        cost = share if is_timed else first.trained
        name = first.trains
        if math.isnan(cost):
            name += " (time not compared)"
        _mark(
            axis,
            0.0 if math.isnan(cost) else cost,
            brief.loss_of(rows),
            name,
            colour,
            5 if number % 2 else -11,
            marker="*" if first.is_probe else "o",
            markersize=9 if first.is_probe else 5,
            markerfacecolor="white" if first.cached else colour,
        )
    axis.margins(x=0.12)
    label = "time" if is_timed else "trained weights"
    plots.add_frame(
        axis,
        "score minus that of everything, points",
        f"{label}, % of training everything",
    )
    tasks = sorted({row.task for rows in approaches for row in rows})
    where = "on" if len(tasks) == 1 else "mean over"
    every_row = [row for rows in approaches for row in rows]
    return plots.finish(
        figure,
        {},
        "costs",
        f"{overview.name_split(every_row)} score minus that of training "
        f"everything, {where} {wording.join(tasks)}, with 95 % intervals over "
        f"{overview.name_parts(every_row)}. Dashed line: a loss of "
        f"{brief.describe_points(margin)}. Hollow: the frozen blocks ran once "
        "and are cached. Star: the probe, a regression on the frozen encoder.",
    )


def _mark(
    axis: plots.Axes,
    cost: float,
    loss: overview.Ranged,
    name: str,
    colour: str,
    above: float = 5,
    **style: Any,
) -> None:
    """A point with its interval and name."""
    axis.errorbar(
        cost,
        loss.value,
        yerr=plots.reaches([loss]),
        capsize=2,
        elinewidth=1,
        color=colour,
        **{"marker": "o", **style},
    )
    is_right = cost > NEAR_THE_END
    axis.annotate(
        name,
        (cost, loss.value),
        (-5 if is_right else 5, above),
        textcoords="offset points",
        ha="right" if is_right else "left",
        fontsize=8,
        color=colour,
    )
