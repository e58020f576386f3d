"""Tables and figures of `methods`: what each method scores and costs.

A point is a method in some blocks, at the rate that is best on validation.
"""

import collections
import math
from collections.abc import Iterator

import pandas as pd

from tf_transfer.reports import brief, choose, overview, tables, wording
from tf_transfer.reports.overview import Row
from tf_transfer.reports.study import Study

MB = 2**20


def _divide_means(study: Study) -> list[tables.Part]:
    """The approaches that are compared with training everything on all tasks.

    Returns:
        One part, whose words are `groups` (the rows of each approach), `tasks`,
        `task` (on which memory is known most often) and `left` (what is left
        out, a sentence or ""); none if there are no such approaches.
    """
    rows = overview.keep_largest(study.rows)
    compared = [
        row
        for row in rows
        if not row.failed and (row.is_base or row.kept.is_known)
    ]
    tasks = sorted({row.task for row in rows})
    by_name = choose.group_by(compared, lambda row: row.trains).values()
    groups = [group for group in by_name if len(group) == len(tasks)]
    if all(group[0].is_base for group in groups):
        return []
    measured = [row.task for row in rows if row.runs.memory.notna().any()]
    left = len({row.trains for row in rows}) - len(groups)
    out = ""
    if left:
        out = (
            f". Left out: {wording.count(left, 'row')} {brief.FAILED} on a "
            "task, or not compared with training everything on each"
        )
    words = {
        "groups": groups,
        "tasks": wording.join(tasks),
        "task": collections.Counter(measured or tasks).most_common(1)[0][0],
        "left": out,
    }
    return [tables.Part(study, study.labelled, words=words)]


def _list_means(part: tables.Part) -> Iterator[tables.Line]:
    """Means over the tasks of what each approach keeps and costs."""
    task = part.words["task"]
    for group in part.words["groups"]:
        kept, epoch = (
            ""
            if group[0].is_base
            else overview.compare_with_base(group, measure)
            for measure in ("score", "seconds_per_epoch")
        )
        [memory] = [_memory(row.runs) for row in group if row.task == task]
        ends = [row.task for row in group if brief.end_of_rates(row)]
        yield tables.Line(
            part,
            pd.concat([row.runs for row in group]),
            group[0],
            values={
                "kept": kept,
                "epoch": epoch,
                "memory": {f"memory on {task}, MB": memory},
                "ends": ", ".join(ends),
            },
        )


# === Measures ===


def _memory(runs: pd.DataFrame) -> float:
    return wording.mean(runs.memory) / MB


def _checkpoint(runs: pd.DataFrame) -> float:
    return wording.mean(r.get("checkpoint_bytes") for r in runs.record)


def _share(row: Row) -> str:
    return "" if math.isnan(row.trained) else f"{row.trained:.3g}"


def _name_or_failure(line: tables.Line) -> str:
    if line.row is None:
        return ""
    if line.row.failed:
        return f"{line.row.trains} ({brief.FAILED})"
    return line.row.trains


MEASURES: dict[str, tables.Measure] = {
    "trains_or_failure": _name_or_failure,
    # `4`; `4, lowest` where an end of them is the best.
    "rates": lambda line: (
        line.row
        and tables.join(str(len(line.row.rates)), brief.end_of_rates(line.row))
    ),
    "n": lambda line: line.row and line.row.n,
    "mean_seconds": lambda line: line.row and line.row.seconds.value,
    "megabytes": lambda line: _memory(line.runs),
    "trained_share": lambda line: line.row and _share(line.row),
    "checkpoint": lambda line: _checkpoint(line.runs),
    "checkpoint_megabytes": lambda line: _checkpoint(line.runs) / MB,
}
PARTS = {"means": _divide_means}
ROWS = {
    "means": _list_means,
    "published": lambda part: [
        tables.Line(
            part, values={"cells": dict(zip(part.words["columns"], cells))}
        )
        for cells in part.words["rows"]
    ],
    "trained": lambda part: [
        line
        for line in tables.list_rows(part)
        if line.row and not line.row.failed
    ],
}
