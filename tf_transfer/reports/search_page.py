"""The answer of a search as a page: one HTML file that needs no other."""

import dataclasses
import os
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import page
from tf_transfer.reports import plots
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Table
from tf_transfer.utils import files

CAPTIONS = {
    "approaches": "The best setting of each approach, the answer first. Scores "
    "in points; intervals of 95 %, over seeds where there are three, else over "
    "texts",
    "runs": "All runs, and their scores on validation",
}


@dataclasses.dataclass(frozen=True)
class SearchPage:
    """What the page shows.

    Attributes:
        title: of the page.
        sentences: the answer.
        figure: best score against time; None where nothing has run.
        profile: the depth profile as a figure; None without a probe.
        approaches, runs: tables.
    """

    title: str
    sentences: Sequence[str]
    figure: Figure | None
    profile: Figure | None
    approaches: Table
    runs: Table


def tabulate(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table of the page.

    Args:
        name: one of `CAPTIONS`.
        rows: dicts with the same keys.
    """
    return Table(name, CAPTIONS[name], pd.DataFrame(rows))


def draw_progress(
    progress: Mapping[str, Sequence[tuple[float, float]]],
) -> Figure | None:
    """Best score against time, a line for each approach.

    Args:
        progress: (seconds, best score so far in points) of each approach.
    """
    if not progress:
        return None
    figure, [axis] = plots.make_panels(1)
    end = max(seconds for points in progress.values() for seconds, _ in points)
    unit, name = (60.0, "minutes") if end > 180 else (1.0, "seconds")
    handles: plots.Handles = {}
    for approach, points in progress.items():
        times, scores = zip(*points)
        [handles[approach]] = axis.step(
            np.divide([*times, end], unit),
            [*scores, scores[-1]],
            where="post",
            color=plots.colour_of(approach),
            linewidth=1.6,
            marker=".",
            markevery=slice(len(points)),
        )
    plots.add_frame(axis, "best on validation, points", f"{name} of the search")
    return plots.finish(
        figure,
        handles,
        "progress",
        "The best score on validation so far, by approach, against the time "
        "of the whole search. A dot is a run, or more epochs of one.",
    )


def write(shown: SearchPage, path: str) -> None:
    """Writes the page."""
    text = (
        page.make_environment(escapes=True)
        .get_template("search.html.jinja")
        .render(page=shown, most_shown=page.MOST_SHOWN)
    )
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    files.write_atomically(path, text.encode())
