"""The tables and figures of "What Would Elsa Do?", from runs of `freezing`.

The tables of quality and cost are in `freezing_tables`; here is what stands
around them: the encoder's parameters and the figures.
"""

import itertools
from collections.abc import Iterator
from collections.abc import Sequence

import pandas as pd

from tf_transfer.reports import cells
from tf_transfer.reports import freezing_tables
from tf_transfer.reports import operating
from tf_transfer.reports import overview
from tf_transfer.reports import plots
from tf_transfer.reports.freezing_tables import Row
from tf_transfer.reports.freezing_tables import rows_of
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table

MARKERS = "os^D"  # of the encoders


def tables(study: Study) -> list[Table]:
    """The search, or operating points, scores and parameters."""
    if freezing_tables.has_search_alone(study):
        made = [freezing_tables.tabulate_search(study)]
    else:
        rows = rows_of(study.runs, study.paper, study.published)
        made = freezing_tables.results(rows, study.options)
        made.append(_tabulate_parameters(study))
    return [table for table in made if len(table.frame)]


def _tabulate_parameters(study: Study) -> Table:
    """The paper's table 4, of the encoder at hand."""
    parts = study.runs.record.iloc[0]["parts"]
    blocks = [n for name, n in parts.items() if name.startswith("block ")]
    counts = {
        "embeddings": parts["embeddings"],
        "each block": blocks[0],
        "all blocks": sum(blocks),
        "pooler": parts.get("pooler", 0),
    }
    total = sum(counts.values()) - blocks[0]
    frame = pd.DataFrame(
        [
            {
                "part": name,
                "parameters": f"{count:,}",
                "share, %": f"{100 * count / total:.1f}",
            }
            for name, count in {**counts, "total": total}.items()
        ]
    )
    name = freezing_tables.PUBLISHED_NAMES.get(study.model)
    theirs = study.published.get("parameters", {}).get(name)
    if theirs:
        frame["published architecture"] = [f"{count:,}" for count in theirs]
    return Table(
        "parameters",
        f"Parameters of {study.model}, {study.blocks} blocks (the paper's "
        "table 4)",
        frame,
    )


# === Figures ===


def figures(study: Study) -> list[Figure]:
    """Relative scores; of the first study also those of all encoders."""
    rows = rows_of(study.runs, study.paper, study.published)
    made = [_draw_relative_scores(study, rows)] if rows else []
    if study.name == "A":
        made += _draw_encoders(study)
    return made


def _draw_relative_scores(study: Study, rows: Sequence[Row]) -> Figure:
    """The paper's figure: a panel for each task, every trial a point."""
    tasks = list(dict.fromkeys(row.name for row in rows))
    figure, axes = plots.make_panels(len(tasks), height=3.0)
    handles: plots.Handles = {}
    for axis, task in zip(axes, tasks):
        members = [row for row in rows if row.name == task]
        several = len({row.lr for row in members}) > 1
        for number, row in enumerate(members):
            label = row.mode + (f", lr {row.lr:g}" if several else "")
            label += _name_untrained(row)
            handles[label] = _plot_row(axis, row, number)
        for row in members[:1]:
            if row.published:
                [handles["published"]] = axis.plot(
                    *_published_curve(row), color="#000000", linestyle=":"
                )
        axis.axhline(0, color="#888888", linewidth=1, zorder=0)
        plots.add_frame(
            axis, "relative score, points", f"frozen of {study.blocks}", task
        )
        plots.use_whole_numbers(axis)
    return plots.finish(
        figure,
        handles,
        "relative_scores",
        "Score less that of training everything against the number of frozen "
        "blocks: plain means with 95 % intervals, every trial as a point; "
        "dotted, what the authors published for these settings, by their own "
        "averaging, which leaves out trials at 0 or not above 0.9 of the best",
    )


def _name_untrained(row: Row) -> str:
    """What the full model of a row leaves untrained, for a legend."""
    return f", untrained {row.untrained}" if row.untrained else ""


def _plot_row(axis: plots.Axes, row: Row, number: int) -> object:
    """Means, intervals and trials of a row; returns its entry of the legend."""
    colour = plots.PALETTE[(number + 2) % len(plots.PALETTE)]
    frozen, values = _relative_curve(row)
    points = [
        (row.blocks - blocks - 0.15, score - row.full)
        for blocks, scores in row.trials.items()
        if isinstance(blocks, int)
        for score in scores
    ]
    axis.scatter(
        [x for x, _ in points],
        [y for _, y in points],
        s=12,
        color=colour,
        alpha=0.5,
        linewidth=0,
    )
    return axis.errorbar(
        frozen,
        [value.value for value in values],
        yerr=plots.reaches(values),
        color=colour,
        linestyle="--" if row.cached else "-",
        marker="o",
        markersize=4,
        markerfacecolor="white" if row.cached else colour,
        capsize=2,
        elinewidth=1,
    )


def _relative_curve(row: Row) -> tuple[list[int], list[overview.Ranged]]:
    """(frozen blocks, score less that of training everything), rising."""
    numbers = [n for n in row.trials if isinstance(n, int)]
    full = row.trials[operating.ALL]
    return (
        [row.blocks - n for n in numbers],
        [overview.subtract(row.trials[n], full) for n in numbers],
    )


def _published_curve(row: Row) -> tuple[list[int], list[float]]:
    """(frozen blocks, relative score) by the authors' averaging."""
    full = row.published[operating.ALL][0]
    points = sorted(
        (row.blocks - int(blocks), known[0] - full)
        for blocks, known in row.published.items()
        if blocks != operating.ALL
    )
    return [frozen for frozen, _ in points], [score for _, score in points]


def _draw_encoders(study: Study) -> Iterator[Figure]:
    """All encoders of the experiment in one figure, where there are several.

    Of each encoder its largest study that froze something, with live blocks
    where it has them.
    """
    by_model: dict[str, list[Row]] = {}
    for model, members in study.all_runs.groupby("model"):
        for name in members.study.value_counts().index:
            rows = rows_of(
                members[members.study == name], study.paper, study.published
            )
            if rows:
                live = [row for row in rows if not row.cached]
                by_model[str(model)] = live or rows
                break
    if len(by_model) < 2:
        return
    tasks = sorted({row.name for rows in by_model.values() for row in rows})
    figure, axes = plots.make_panels(len(tasks), height=3.0)
    handles: plots.Handles = {}
    for axis, task in zip(axes, tasks):
        for number, (model, rows) in enumerate(by_model.items()):
            for row in rows:
                if row.name != task:
                    continue
                frozen, values = _relative_curve(row)
                label = model + _name_untrained(row)
                handles[label] = axis.errorbar(
                    [100 * count / row.blocks for count in frozen],
                    [value.value for value in values],
                    yerr=plots.reaches(values),
                    color=plots.PALETTE[number % len(plots.PALETTE)],
                    linestyle="--" if row.untrained else "-",
                    marker=MARKERS[number % len(MARKERS)],
                    markersize=4,
                    capsize=2,
                    elinewidth=1,
                )
        axis.axhline(0, color="#888888", linewidth=1, zorder=0)
        plots.add_frame(
            axis, "relative score, points", "frozen blocks, %", task
        )
    yield plots.finish(
        figure,
        handles,
        "encoders",
        "The encoders beside each other: score less that of training "
        "everything against the share of frozen blocks, plain means with 95 % "
        "intervals",
    )


# === What to know when reading ===


def notes(study: Study) -> list[str]:
    """What a reader must know of these tables, a sentence each."""
    told = []
    recorded_by = study.runs.settings.iloc[0].get("recorded_by")
    if recorded_by:
        told.append(
            f"These runs are records of {recorded_by}, not ours. What they do "
            "not have, such as times and predictions, is empty."
        )
    if not freezing_tables.has_search_alone(study):
        rows = rows_of(study.runs, study.paper, study.published)
        if any(map(_has_holes, rows)):
            told.append(
                "Between numbers that were not tried we assume that more "
                "trained blocks are never worse."
            )
        told += dict.fromkeys(_tell_time_saved(rows))  # rows share frozen runs
    told += cells.explain_times(study.runs)
    told.append(
        "Where the paper is silent, and what we chose: docs/freezing.md."
    )
    return told


def _has_holes(row: Row) -> bool:
    tried = [n for n in row.trials if isinstance(n, int)]
    return max(tried) - min(tried) + 1 > len(tried)


def _tell_time_saved(rows: Sequence[Row]) -> Iterator[str]:
    """What the frozen runs of a task took cached, against live."""
    for live, cached in itertools.permutations(rows, 2):
        if live.cached or not cached.cached or live.metric != cached.metric:
            continue
        if (live.name, live.lr) != (cached.name, cached.lr):
            continue
        sides = [
            {
                blocks: runs[runs.seconds.notna()]
                for blocks, runs in row.runs.items()
                if isinstance(blocks, int)
            }
            for row in (live, cached)
        ]
        both = [
            blocks
            for blocks, runs in sides[0].items()
            if 0 < len(runs) == len(sides[1].get(blocks, ()))
        ]
        if not both:
            continue
        before, after = (
            pd.concat([side[blocks] for blocks in both]) for side in sides
        )
        # Each cut goes on from a shallower one, so that building the deepest
        # one takes in all of them, whichever run paid for it.
        building = [r["prefix_build_seconds"] for r in after.record]
        seconds = float((after.seconds - building).sum()) + max(building)
        yield (
            f"{live.name}, the {len(after)} runs with "
            f"{', '.join(map(str, sorted(both)))} trained blocks: "
            f"{before.seconds.sum():.0f} s live, {seconds:.0f} s cached with "
            "the building of the cache, "
            f"{100 * seconds / before.seconds.sum():.1f} % of it."
        )
