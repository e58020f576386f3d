"""Figures of `tweets`: boxes of folds and trials, scores by data size."""

from collections.abc import Mapping
from collections.abc import Sequence

import pandas as pd

from tf_transfer.reports import cells
from tf_transfer.reports import plots
from tf_transfer.reports import study


def box_plots(
    name: str, caption: str, panels: Mapping[str, Mapping[str, Sequence[float]]]
) -> study.Figure:
    """Box plots: a panel for each metric, a box for each list of values.

    Args:
        name, caption: see `study.Figure`.
        panels: values by metric and label.
    """
    labels = max((len(boxes) for boxes in panels.values()), default=1)
    figure, axes = plots.make_panels(
        len(panels), 1.2 + 0.45 * labels, has_names=True
    )
    for axis, (metric, values) in zip(axes, panels.items()):
        axis.boxplot(
            list(values.values()),
            orientation="horizontal",
            tick_labels=list(values),
            widths=0.55,
            medianprops={"color": plots.APPROACH_COLOURS["last_4"]},
        )
        axis.invert_yaxis()
        plots.add_frame(axis, "", f"{metric}, points")
        if axis is not axes[0]:
            axis.set_yticklabels([])
    return plots.finish(figure, {}, name, caption)


def scores_by_size(
    name: str, caption: str, curves: pd.DataFrame
) -> study.Figure:
    """Scores against the number of training examples, with deviations.

    Args:
        name, caption: see `study.Figure`.
        curves: lists of scores in points, or nan; a row for each number of
            examples, a column for each curve.
    """
    figure, [axis] = plots.make_panels(1, height=3.6)
    handles: plots.Handles = {}
    for number, label in enumerate(curves.columns):
        scores = curves[label].dropna().map(lambda v: pd.Series(cells.known(v)))
        handles[str(label)] = axis.errorbar(
            scores.index,
            scores.map(pd.Series.mean),
            yerr=scores.map(pd.Series.std).fillna(0.0),
            capsize=3,
            elinewidth=1,
            marker="o",
            markersize=4,
            color=plots.PALETTE[number % len(plots.PALETTE)],
        )
    axis.set_xscale("log")
    plots.add_frame(axis, "test score, points", "training examples")
    return plots.finish(figure, handles, name, caption)
