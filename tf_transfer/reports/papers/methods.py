"""Tables and figures of `methods`: what each method scores and costs.

A point is a method in some blocks, at the rate that is best on validation.
"""

import collections
import math
from collections.abc import Iterator

import pandas as pd

from tf_transfer.reports import brief, contrast, overview, tables, wording
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
    tasks = sorted({row.task for row in rows})
    compared: dict[str, list[Row]] = {}
    for row in rows:
        if not row.failed and (row.is_base or row.kept.is_known):
            compared.setdefault(row.trains, []).append(row)
    groups = [group for group in compared.values() if len(group) == len(tasks)]
    if all(group[0].is_base for group in groups):
        return []
    measured = [row.task for row in rows if row.runs.memory.notna().any()]
    left = len({row.trains for row in rows}) - len(groups)
    out = ""
    if left:
        out = (
            f". Left out: {wording.count(left, 'row')} {contrast.FAILED} on a "
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
        kept: overview.Ranged | str = ""
        epoch: overview.Ranged | str = ""
        if not group[0].is_base:
            kept = overview.compare_with_base(group, "score")
            epoch = overview.compare_with_base(group, "seconds_per_epoch")
        memory = {}
        for row in group:
            if row.task == task:
                memory[f"memory on {task}, MB"] = _memory(row.runs)
        ends = [row.task for row in group if brief.end_of_rates(row)]
        values = {
            "kept": kept,
            "epoch": epoch,
            "memory": memory,
            "ends": ", ".join(ends),
        }
        runs = pd.concat([row.runs for row in group])
        yield tables.Line(part, runs, group[0], values=values)


def _list_published(part: tables.Part) -> Iterator[tables.Line]:
    """The rows of a published table."""
    for row in part.words["rows"]:
        cells = dict(zip(part.words["columns"], row))
        yield tables.Line(part, values={"cells": cells})


def _list_trained(part: tables.Part) -> list[tables.Line]:
    """The rows of the overview that are above the majority baseline."""
    lines = tables.list_rows(part)
    return [line for line in lines if line.row and not line.row.failed]


# === Measures ===


def _memory(runs: pd.DataFrame) -> float:
    return wording.mean(runs.memory) / MB


def _checkpoint(runs: pd.DataFrame) -> float:
    return wording.mean(r.get("checkpoint_bytes") for r in runs.record)


def _name_or_failure(line: tables.Line) -> str:
    if line.row is None:
        return ""
    if line.row.failed:
        return f"{line.row.trains} ({contrast.FAILED})"
    return line.row.trains


def _describe_rates(line: tables.Line) -> str:
    """`4`; `4, lowest` where an end of them is the best."""
    if line.row is None:
        return ""
    count = str(len(line.row.rates))
    return tables.join(count, brief.end_of_rates(line.row))


def _show_share(line: tables.Line) -> str:
    """The trained parameters in percent of all."""
    if line.row is None or math.isnan(line.row.trained):
        return ""
    return f"{line.row.trained:.3g}"


def _measure_seconds(line: tables.Line) -> float | str:
    return line.row.seconds.value if line.row else ""


MEASURES: dict[str, tables.Measure] = {
    "trains_or_failure": _name_or_failure,
    "rates": _describe_rates,
    "mean_seconds": _measure_seconds,
    "megabytes": lambda line: _memory(line.runs),
    "trained_share": _show_share,
    "checkpoint": lambda line: _checkpoint(line.runs),
    "checkpoint_megabytes": lambda line: _checkpoint(line.runs) / MB,
}
PARTS = {"means": _divide_means}
ROWS = {
    "means": _list_means,
    "published": _list_published,
    "trained": _list_trained,
}
