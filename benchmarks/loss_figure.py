"""The figure of docs/how_much.md: loss against share of the cost."""

import math
from collections.abc import Sequence

from benchmarks.fewest_blocks import TaskLosses
from tf_transfer.comparison import decisions
from tf_transfer.reports import advice, figures
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.run_groups import group_by

FIGURE = "loss_against_cost"
MARGIN = decisions.MARGIN
LOWEST = -12.0  # points that the figure shows
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def draw_losses(losses: Sequence[TaskLosses]) -> Figure:
    """Loss against share of the cost: a panel per encoder, a line per task.

    The points of a line are its numbers of blocks. A star is the probe, at 0,
    as its time is not compared. Studies of the same task share its colour, but
    not their markers.
    """
    encoders = group_by(losses, lambda one: one.encoder)
    tasks = sorted(
        {
            _name_line(one)
            for one in losses
            if one.known_losses or _has_probe(one)
        }
    )
    colours = dict(zip(tasks, figures.PALETTE[1:], strict=False))
    figure, axes = figures.make_panels(len(encoders), 4.2)
    shown: figures.Handles = {}
    stars: figures.Handles = {}
    for axis, (encoder, members) in zip(axes, encoders.items()):
        axis.axhline(0, color=figures.GREY, linewidth=1, linestyle=":")
        axis.axhline(-MARGIN, color=figures.GREY, linewidth=1, linestyle="--")
        counts: dict[str, int] = {}
        for one in members:
            task = _name_line(one)
            points = [x for x in one.known_losses if not math.isnan(x.share)]
            if one.probe is not None and _has_probe(one):
                [stars[task]] = axis.plot(
                    0,
                    max(one.probe.row.difference.value, LOWEST),
                    "*",
                    color=colours[task],
                    markersize=9,
                    clip_on=False,
                )
            if not points:
                continue
            number = counts[task] = counts.get(task, -1) + 1
            handle = axis.errorbar(
                [point.share for point in points],
                [point.row.difference.value for point in points],
                figures.reaches([point.row.difference for point in points]),
                color=colours[task],
                marker=MARKERS[number % len(MARKERS)],
                markersize=4,
                linewidth=1.2,
                elinewidth=0.5,
                capsize=1.5,
            )
            shown.setdefault(task, handle)
        axis.set_xlim(-3, 100)
        axis.set_ylim(LOWEST, -LOWEST * 0.75)
        figures.add_frame(
            axis,
            "score minus everything's, points",
            "time, % of everything's",
            encoder,
        )
    return figures.finish(
        figure,
        dict(sorted({**stars, **shown}.items())),
        FIGURE,
        "Score minus that of training everything against the share of its "
        "time, with 95 % intervals. A line is a task in a study, and a point a "
        "number of last blocks. Stars: the probe, at 0, whatever its time. "
        f"Dashed: a loss of {advice.describe_points(MARGIN)}. "
        f"Losses of more than {-LOWEST:.0f} points are below the figure.",
    )


def _has_probe(one: TaskLosses) -> bool:
    """Whether the probe is compared with everything."""
    return one.probe is not None and one.probe.row.difference.is_known


def _name_line(one: TaskLosses) -> str:
    """The name of a task in the legend."""
    return one.task.partition(",")[0]
