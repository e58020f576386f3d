"""The one comparison: candidates and a reference, as the rows of a decision.

`train` and the estimators compare finished runs, a search its best settings, a
page the approaches of a study. All of them make candidates, each with the cells
of its scores and times, and `compare` subtracts these.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tf_transfer.comparison import estimates, finished_runs
from tf_transfer.comparison.decisions import Row
from tf_transfer.comparison.estimates import (
    Cell,
    Ranged,
    UNKNOWN,
)
from tf_transfer.comparison.finished_runs import Scored
from tf_transfer.utils.formatting import count

BASELINES = ("probe", "tfidf")  # approaches of `train` that train no encoder


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """An approach that may be used, and what it is compared by.

    Attributes:
        row: What is known of it alone.
        scores: Of each task, in points.
        seconds: Of each task, as logarithms; empty where times are not
            compared.
        parameters: Trained ones, of each task.
        runs: Where it ran on several folds, its run on each, on the texts that
            are held out. It is compared on the folds that another has, too.
        majority: What the majority baseline scores on the same texts; None
            where it is not known.
    """

    row: Row
    scores: Sequence[Cell]
    seconds: Sequence[Cell]
    parameters: Sequence[float]
    runs: Mapping[int, Scored] = dataclasses.field(default_factory=dict)
    majority: Cell | None = None


def compare(
    candidates: Sequence[Candidate],
    reference: Candidate,
    baselines: Sequence[Candidate] = (),
) -> list[Row]:
    """The row of each candidate, compared with a reference.

    Args:
        candidates: On the tasks of the reference.
        reference: May be one of them.
        baselines: The candidates that gains are over.
    """
    return [_compare_one(one, reference, baselines) for one in candidates]


def _compare_one(
    one: Candidate, reference: Candidate, baselines: Sequence[Candidate]
) -> Row:
    difference, lead = UNKNOWN, UNKNOWN
    if one is not reference:
        difference = subtract(one, reference)
    if one.majority is not None:
        lead = estimates.subtract(one.scores, [one.majority])
    ratios = [
        ours / max(theirs, 1)
        for ours, theirs in zip(one.parameters, reference.parameters)
    ]
    return dataclasses.replace(
        one.row,
        difference=difference,
        time=_divide_seconds(one, reference),
        weights=100 * float(np.mean(ratios)),
        is_reference=one is reference,
        lead=lead,
        gains={
            baseline.row.name: subtract(one, baseline)
            for baseline in baselines
            if baseline is not one
        },
    )


def subtract(one: Candidate, other: Candidate) -> Ranged:
    """The difference of their scores in points, where both ran."""
    if not one.runs:
        return estimates.subtract(one.scores, other.scores)
    shared = sorted(one.runs.keys() & other.runs.keys())
    if not shared:
        return UNKNOWN
    first, second = (
        finished_runs.join(tuple(of.runs[fold] for fold in shared))
        for of in (one, other)
    )
    return first.minus(second)


def _divide_seconds(one: Candidate, reference: Candidate) -> Ranged:
    """The time in percent of the reference's.

    It has an interval where both were measured in turn.
    """
    time = estimates.subtract(one.seconds, reference.seconds, logarithms=True)
    if all(cell.in_turn for cell in (*one.seconds, *reference.seconds)):
        return time
    return Ranged(time.value)


# === Finished runs ===


def make_candidate(
    name: str,
    run: Scored,
    splits: Sequence[Scored] = (),
    runs: Mapping[int, Scored] = MappingProxyType({}),
) -> Candidate:
    """A candidate of one finished run, compared by the texts of a split.

    Args:
        name: What to call it.
        run: On the split that is compared.
        splits: The run on each split whose score is shown.
        runs: See `Candidate`; `run` is all of them, joined.
    """
    scored = count(len(run.ids), f"{run.kind} text")
    is_baseline = run.approach.startswith(BASELINES)
    shown = {one.kind: one.ranged for one in splits}
    below_chance = [
        f"{one.score:.1f} on {count(len(one.ids), f'{one.kind} text')}"
        for one in splits
        if one.is_below_chance
    ]
    row = Row(
        name,
        validation=shown.get("validation", UNKNOWN),
        test=shown.get("test", UNKNOWN),
        seeds=0 if is_baseline else 1,
        scored=scored,
        is_baseline=is_baseline,
        seconds=run.seconds,
        below_chance=", ".join(below_chance),
    )
    return Candidate(
        row,
        [run.cell],
        [Cell(np.log([run.seconds]))],
        [run.trainable_parameters],
        runs,
        run.constant.cell,
    )


def open_candidates(
    paths: Mapping[str, str],
    kind: str = "",
) -> list[Candidate]:
    """Candidates of finished runs; none of a run without predictions.

    Args:
        paths: Their directories, by what to call them.
        kind: Of the split that is compared. Unset: `validation`, where all runs
            have it, as the test must not choose; else `test`.
    """
    opened: dict[str, dict[str, Scored]] = {}
    for name, path in paths.items():
        splits = (
            finished_runs.open_scored(path, split)
            for split in ("validation", "test")
        )
        opened[name] = {one.kind: one for one in splits if one is not None}
    if not kind:
        has_validated = ["validation" in splits for splits in opened.values()]
        kind = "validation" if all(has_validated) else "test"
    return [
        make_candidate(name, splits[kind], [*splits.values()])
        for name, splits in opened.items()
        if kind in splits
    ]


def compare_runs(
    candidates: Sequence[Candidate], reference: str = ""
) -> list[Row]:
    """The rows of finished runs, with their gains over the baselines.

    Args:
        candidates: See `open_candidates`.
        reference: The name of what others are compared with. Unset, or without
            a candidate: the best on the split that is compared.
    """
    if not candidates:
        return []
    named = {one.row.name: one for one in candidates}
    best = max(candidates, key=lambda one: one.scores[0].values[0])
    baselines = [one for one in candidates if one.row.is_baseline]
    return compare(candidates, named.get(reference, best), baselines)
