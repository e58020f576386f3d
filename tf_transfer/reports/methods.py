"""Tables and figures of `methods`: what each method scores and costs.

A point is a method in some blocks, at the rate that is best on validation. A
front joins the points that no other surpasses in both score and cost.
"""

import collections
import itertools
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from tf_transfer.reports import brief
from tf_transfer.reports import cells
from tf_transfer.reports import details
from tf_transfer.reports import measures
from tf_transfer.reports import overview
from tf_transfer.reports import plots
from tf_transfer.reports.overview import Row
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table

SHARE = 0.99  # of the validation score of training everything
MB = 2**20
EVERYWHERE = {"fine_tuning": "everywhere", "all": "everywhere"}
MARKERS = "soD^vPX*"

# Name, axis label and cost of a row; nan where it is not known.
Cost = tuple[str, str, Callable[[Row], float]]


def tables(study: Study) -> list[Table]:
    """What each method costs, and what the methods' papers publish."""
    found = [
        Table(
            "methods",
            "Each method at its best rate on validation: test score in "
            "points with its 95 % interval; seconds to the stopping point, "
            f"and until validation reached {SHARE:.0%} of what training "
            "everything reaches at its best (in brackets: by how many of the "
            "runs); highest memory of the process; parameters that train; "
            "bytes of a checkpoint, which holds their moments, too. A cached "
            "prefix counts as if each run had built it",
            pd.DataFrame([_describe(study, row) for row in study.rows]),
            open=True,
        )
    ]
    for table in study.published.get("tables", ()):
        frame = pd.DataFrame(table["rows"], columns=table["columns"])
        found.append(Table(table["name"], table["caption"], frame))
    return found


def headline(name: str, rows: Sequence[Row]) -> Table | None:
    """What each method keeps and costs, a row each: means over the tasks.

    Args:
        name: of the study.
        rows: see `overview.make_rows`.

    Returns:
        None where nothing is compared with training everything on all tasks.
    """
    rows = overview.keep_largest(rows)
    by_name: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        if not row.failed and (row.is_base or row.kept.is_known):
            by_name[row.trains].append(row)
    tasks = sorted({row.task for row in rows})
    groups = [group for group in by_name.values() if len(group) == len(tasks)]
    if all(group[0].is_base for group in groups):
        return None
    measured = collections.Counter(
        row.task for row in rows if not math.isnan(_memory(row))
    )
    [(task, _)] = measured.most_common(1) or [(tasks[0], 0)]
    lines = []
    for group in groups:
        kept, epoch = (
            brief.ranged(overview.compare_with_base(group, measure), 1)
            if not group[0].is_base
            else ""
            for measure in ("score", "seconds_per_epoch")
        )
        checkpoint = _mean(
            record.get("checkpoint_bytes")
            for row in group
            for record in row.runs.record
        )
        memory = _mean(_memory(row) for row in group if row.task == task)
        ends = [row.task for row in group if brief.end_of_rates(row)]
        lines.append(
            {
                "trains": group[0].trains,
                "keeps, %": kept,
                "of an epoch, %": epoch,
                "checkpoint, MB": _show(checkpoint / MB, "{:,.2f}"),
                f"memory on {task}, MB": _show(memory, "{:,.0f}"),
                "trained, %": _show(group[0].trained, "{:.3g}"),
                "rate at an end": ", ".join(ends),
            }
        )
    left = len({row.trains for row in rows}) - len(groups)
    out = (
        f". Left out: {brief.count(left, 'row')} {brief.FAILED} on a task, or "
        "not compared with training everything on each"
    )
    return Table(
        f"{name}_means",
        f"Means over {brief.join(tasks)}: percent of what training everything "
        "scores above the majority baseline, and of the time of its epochs "
        "(the cache's build apart), with 95 % intervals over seeds; size of a "
        "checkpoint, which holds the moments of what trains, too; highest "
        "memory of the process, of runs that were its first; on which tasks "
        "the best rate is the lowest or the highest of those tried"
        + (out if left else ""),
        pd.DataFrame(lines),
    )


def first_figure(study: Study, rows: Sequence[Row]) -> Figure | None:
    """Score against seconds, by task: there are too many rows to name each."""
    del study
    timed = _select_known(rows, _seconds)
    label = "seconds to the stopping point"
    return _draw_front(timed, "seconds", label, _seconds) if timed else None


def figures(study: Study) -> list[Figure]:
    """Fronts of score against memory and parameters, by task."""
    costs: Sequence[Cost] = (
        ("memory", "memory of the process, MB", _memory),
        ("parameters", "parameters that train", _parameters),
    )
    fronts = []
    for cost in costs:
        rows = _select_known(study.rows, cost[2])
        if rows:
            fronts.append(_draw_front(rows, *cost))
    return fronts


def notes(study: Study) -> list[str]:
    """What a reader must know."""
    del study
    return [
        "With any method but `full` the embeddings are frozen, and the pooler "
        "is as the method says (docs/methods.md).",
        "A frozen prefix that is cached has no dropout; a live one has.",
    ]


# === Tables ===


def _describe(study: Study, row: Row) -> dict[str, Any]:
    score = row.score
    interval = ""
    if score.has_interval:
        interval = f" ({score.low:.2f} to {score.high:.2f})"
    return {
        "task": row.task,
        "trains": row.trains + (f" ({brief.FAILED})" if row.failed else ""),
        "lr": f"{row.lr:g}",
        "rates tried": _count_rates(row),
        "n": row.n,
        "score": f"{score.value:.2f}{interval}",
        "seconds": _show(_seconds(row), "{:.1f}"),
        f"seconds to {SHARE:.0%}": _seconds_to_share(study, row),
        "memory, MB": _show(_memory(row), "{:,.0f}"),
        "trained": _show(_parameters(row), "{:,.0f}"),
        "trained, %": _show(row.trained, "{:.3g}"),
        "checkpoint, bytes": _show(
            _mean(r.get("checkpoint_bytes") for r in row.runs.record),
            "{:,.0f}",
        ),
    }


def _count_rates(row: Row) -> str:
    """`4`; `4, lowest` where an end of them is the best."""
    return ", ".join(
        filter(None, [str(len(row.rates)), brief.end_of_rates(row)])
    )


def _seconds_to_share(study: Study, row: Row) -> str:
    """Mean over the runs that got there, and how many of them did."""
    base = row if row.is_base else row.base
    if base is None or row.note:
        return ""
    wanted = SHARE * float(base.runs.validation.mean())
    timed = row.runs[row.runs.timed]
    reached = [measures.seconds_to_score(r, wanted) for r in timed.record]
    known = cells.known(reached)
    if not reached:
        return ""
    mean = f"{np.mean(known):.1f} " if known else ""
    return f"{mean}({len(known)} of {len(reached)})"


def _show(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)


# === Costs ===


def _mean(values: Any) -> float:
    known = cells.known(values)
    return float(np.mean(known)) if known else math.nan


def _seconds(row: Row) -> float:
    return row.seconds.value


def _memory(row: Row) -> float:
    return _mean(row.runs.memory) / MB


def _parameters(row: Row) -> float:
    return _mean(row.runs.trainable_parameters)


def _select_known(
    rows: Sequence[Row], cost: Callable[[Row], float]
) -> list[Row]:
    """The rows that trained and whose cost is known."""
    return [row for row in rows if not row.failed and not math.isnan(cost(row))]


# === Figures ===


def _method_and_blocks(row: Row) -> tuple[str, str]:
    """What trains and where, in words: `lora8` and `last 2`."""
    blocks, method = overview.split_approach(row.approach)
    return (
        (method or "full").replace("_", ", "),
        EVERYWHERE.get(blocks, blocks.replace("_", " ")),
    )


def _draw_front(
    rows: Sequence[Row], name: str, label: str, cost: Callable[[Row], float]
) -> Figure:
    tasks = list(dict.fromkeys(row.task for row in rows))
    methods, blocks = map(dict.fromkeys, zip(*map(_method_and_blocks, rows)))
    colours = dict(zip(methods, itertools.cycle(plots.PALETTE)))
    markers = dict(zip(blocks, itertools.cycle(MARKERS)))
    figure, axes = plots.make_panels(len(tasks))
    for axis, task in zip(axes, tasks):
        members = sorted((row for row in rows if row.task == task), key=cost)
        points = [(cost(row), row.score.value) for row in members]
        on_front = details.is_on_front(*zip(*points))
        front = [point for point, is_on in zip(points, on_front) if is_on]
        axis.step(*zip(*front), where="post", color="#7F7F7F", linewidth=1)
        for row, point in zip(members, points):
            method, where = _method_and_blocks(row)
            axis.errorbar(
                *point,
                yerr=[[reach] for [reach] in plots.reaches([row.score])],
                fmt=markers[where],
                markerfacecolor="white" if row.cached else None,
                color=colours[method],
                linestyle="none",
                elinewidth=0.8,
            )
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(LogFormatter())
        axis.xaxis.set_minor_formatter(LogFormatter())
        metric = members[0].runs.metric.iloc[0]
        plots.add_frame(axis, f"{metric} on test, points", label, task)
    handles: plots.Handles = {
        method: Line2D([], [], color=colour, linewidth=4)
        for method, colour in colours.items()
    } | {
        where: Line2D([], [], color="#7F7F7F", marker=marker, linestyle="none")
        for where, marker in markers.items()
    }
    return plots.finish(
        figure,
        handles,
        f"score_against_{name}",
        f"Test score against {label}, with 95 % intervals; hollow where the "
        "prefix is cached; the line joins what nothing surpasses in both",
    )
