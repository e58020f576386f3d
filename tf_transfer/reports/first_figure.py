"""The figure at the top of a study: score kept against blocks trained."""

import re
import textwrap
from collections.abc import Sequence

from tf_transfer.reports import overview
from tf_transfer.reports import plots
from tf_transfer.reports import tables
from tf_transfer.reports.overview import Row
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study

FEWEST_POINTS = 3  # of a line
MOST_ROWS = 20
PROBE_AT = -0.5  # trained blocks: left of the head alone
MARKERS = "os^Dv<>p"


def draw(study: Study, rows: Sequence[Row]) -> Figure | None:
    """The figure that shows what a study found; None of a single row.

    An experiment's `tables.toml` may have its own `first_figure`.
    """
    if own := tables.draw_figures(study, "first_figure"):
        return own[0]
    rows = overview.keep_largest(rows)
    places = [
        (row.task, row.cached, row.blocks) for row in rows if row.kept.is_known
    ]
    is_curve = len({*places}) == len(places)  # no rates side by side
    if is_curve and len({place[2] for place in places}) >= FEWEST_POINTS:
        return draw_kept(study, rows)
    if len([row for row in rows if row.score.is_known]) > 1:
        return draw_scores(rows)
    return None


def draw_kept(study: Study, rows: Sequence[Row]) -> Figure:
    """Percent of the score of training everything, a line for each task."""
    figure, [axis] = plots.make_panels(1)
    figure.set_size_inches(5.4, 3.9)
    axis.axhline(100, color="#7F7F7F", linewidth=1, linestyle=":")
    tasks = sorted({row.task for row in rows if row.kept.is_known})
    handles: plots.Handles = {}
    for number, task in enumerate(tasks):
        colour = plots.PALETTE[(number + 2) % len(plots.PALETTE)]
        for cached in (False, True):
            points = [
                (row.blocks, row.kept)
                for row in rows
                if row.task == task
                and row.cached == cached
                and row.blocks is not None
                and row.kept.is_known
            ]  # the rows come in the order of their blocks
            if not points:
                continue
            shift = (number - (len(tasks) - 1) / 2) * 0.06
            line = axis.errorbar(
                [blocks + shift for blocks, _ in points],
                [kept.value for _, kept in points],
                yerr=plots.reaches([kept for _, kept in points]),
                color=colour,
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
                markerfacecolor="white" if cached else colour,
                linestyle="--" if cached else "-",
                capsize=2,
                elinewidth=1,
            )
            handles[f"{task}{' (cached)' if cached else ''}"] = line
        for row in rows:
            if row.is_probe and row.task == task and row.kept.is_known:
                [handles[f"{task}, the probe"]] = axis.plot(
                    PROBE_AT,
                    row.kept.value,
                    "*",
                    markersize=9,
                    color=colour,
                    linestyle="none",
                )
    has_probe = any(label.endswith("the probe") for label in handles)
    plots.use_whole_numbers(axis)
    axis.set_ylim(bottom=max(axis.get_ylim()[0], -20), top=None)
    plots.add_frame(
        axis,
        "score, % of everything's",
        f"trained blocks of {study.blocks}",
    )
    return plots.finish(
        figure,
        handles,
        "kept",
        f"{overview.name_split(rows)} score above the majority baseline as "
        "percent of that of training everything (the dotted line), with 95 % "
        f"intervals over {overview.name_parts(rows)}. Rows "
        "that are not above the majority baseline are left out."
        + " A star is the probe, for which nothing trains."
        * has_probe,
    )


def draw_scores(rows: Sequence[Row]) -> Figure:
    """The score of every row, with its interval and what a guess scores."""
    scored = [row for row in rows if row.score.is_known]
    known = scored[:MOST_ROWS]
    figure, [axis] = plots.make_panels(1, has_names=True)
    several = len({row.task for row in known}) > 1
    names = []
    for height, row in enumerate(known):
        colour = "#7F7F7F" if row.failed else plots.colour_of(row.approach)
        axis.errorbar(
            row.score.value,
            -height,
            xerr=plots.reaches([row.score]),
            color=colour,
            marker="x" if row.failed else "o",
            markersize=5,
            capsize=2,
        )
        if row.majority == row.majority:
            axis.plot(row.majority, -height, "|", color="#7F7F7F")
        name = f"{row.task}: {row.trains}" if several else row.trains
        name = re.sub(r",(?=\S)", ", ", name)  # a list may be broken
        names.append(textwrap.fill(name, 46, max_lines=2, placeholder=" …"))
    lines = 2 if any("\n" in name for name in names) else 1
    figure.set_size_inches(5.4, 1.2 + (0.06 + 0.16 * lines) * len(known))
    axis.set_yticks([-height for height in range(len(known))], names)
    plots.add_frame(axis, "", "score, points")
    return plots.finish(
        figure,
        {},
        "scores",
        f"{overview.name_split(known)} score with 95 % intervals over "
        f"{overview.name_parts(known)}; "
        "the grey mark is what the majority baseline scores, a cross a row "
        "that is not above it."
        + (
            f" The first {len(known)} of {len(scored)} rows of the table."
            if len(scored) > len(known)
            else ""
        ),
    )
