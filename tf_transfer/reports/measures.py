"""Measures of the runs of a group: a number for each run."""

import itertools
import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from tf_transfer.reports import frames

# Names and units of measures; any other name is a metric of the run.
MEASURES = {
    "score": ("the score", "points"),
    "seconds": ("the time to the stopping point", "s"),
    "seconds_per_epoch": ("the time of an epoch", "s"),
    "epochs_run": ("the epochs to the stopping point", "epochs"),
    "last_score": ("the score at the stopping point", "points"),
    "score_within": ("the score within a time", "points"),
    "interpolated_score": ("the score at a time, interpolated", "points"),
    "deviation": ("the distance from the group's median", "points"),
}
PASS = "pass:"  # `pass:similarity:sentiment_accuracy`
DURATIONS = ("seconds", "seconds_per_epoch")
WITHIN = ("score_within", "interpolated_score")  # a time
TIMES = (*DURATIONS, *WITHIN)
# Not known of runs that the limit of epochs ended.
UNTIL_STOP = ("seconds", "epochs_run", "last_score")


def describe(measure: str) -> str:
    """A measure in words."""
    if measure.startswith(PASS):
        _, task, metric = measure.split(":")
        return f"the change of {metric} during a pass over {task}"
    return MEASURES.get(measure, (measure, "points"))[0]


def unit_of(measure: str) -> str:
    """`points`, `s` or `epochs`."""
    return MEASURES.get(measure, (measure, "points"))[1]


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are known."""
    return [float(v) for v in values if v is not None and not pd.isna(v)]


def measure_runs(
    name: str, runs: pd.DataFrame, seconds: float = math.nan
) -> list[float]:
    """A measure of each run, to be shown next to those of all other runs.

    Args:
        name: of the measure.
        runs: see `frames.runs_frame`.
        seconds: those of measures within a time.

    Returns:
        See `measure_all`; times are those of runs that were timed as most.
    """
    if name in TIMES:
        runs = runs[runs.timed]
    return measure_all(name, runs, seconds)


def measure_all(
    name: str, runs: pd.DataFrame, seconds: float = math.nan
) -> list[float]:
    """A measure of each run, or of each of its folds; nan where not known.

    Args:
        name: of the measure.
        runs: see `frames.runs_frame`.
        seconds: those of measures within a time.
    """
    if name == "deviation":
        return list(np.abs(runs.score - runs.score.median()))
    if name in ("seconds", "epochs_run"):
        return list(runs[name])
    if name == "seconds_per_epoch":  # the frame's are those timed as most
        return [frames.number(record[name]) for record in runs.record]
    return [
        value
        for record, score in zip(runs.record, runs.score)
        for value in _measure(name, record, score, seconds)
    ]


def _measure(
    name: str, record: frames.Record, score: float, seconds: float
) -> list[float]:
    """The measure of a run, or of each of its folds."""
    if name in WITHIN:
        is_step = name == "score_within"
        measure = score_within if is_step else interpolated_score
        return [measure(record, seconds)]
    if name == "last_score":
        return [epoch.test for epoch in frames.list_epochs(record)[-1:]]
    if name.startswith(PASS):
        return [mean_change(record, *name.split(":")[1:])]
    metric = record["metric"] if name == "score" else name
    if record["folds"]:
        return [frames.points(fold.get(metric)) for fold in record["folds"]]
    if name == "score":
        return [score]
    return [frames.points(record["metrics"].get(name))]


def is_cut_off(runs: pd.DataFrame) -> bool:
    """Whether a run that stops by itself was ended by `--max_epochs`."""
    return any(
        settings.get("patience") and reason == "max_epochs"
        for settings, reason in zip(runs.settings, runs.stop_reason)
    )


def epoch_seconds(runs: pd.DataFrame) -> float:
    """Mean seconds per epoch, the unit of "within a time"; nan if unknown."""
    times = known(measure_all("seconds_per_epoch", runs))
    return float(np.mean(times)) if times else math.nan


def score_within(record: frames.Record, seconds: float) -> float:
    """The test score in points that a run has reached within a time.

    That is the score of the epoch that is best on validation among those that
    are over by then; of the last one, where runs select that, or where nothing
    validates. nan where none is over.
    """
    over = [
        epoch
        for epoch in frames.list_epochs(record)
        if epoch.seconds <= seconds and not math.isnan(epoch.test)
    ]
    if not over:
        return math.nan
    is_last = record["key"].get("select") == "last"
    if is_last or math.isnan(over[0].validation):
        return over[-1].test
    return max(over, key=lambda epoch: epoch.validation).test


def interpolated_score(record: frames.Record, seconds: float) -> float:
    """The test score in points at a time, on a curve through all epochs.

    Between the ends of two epochs the curve is a line; after the last epoch it
    stays. nan before the first epoch ends.
    """
    epochs = frames.list_epochs(record)
    ends, scores = zip(*((epoch.seconds, epoch.test) for epoch in epochs))
    return float(np.interp(seconds, ends, scores, left=math.nan))


def mean_change(record: frames.Record, task: str, metric: str) -> float:
    """Mean change in points of a metric during passes over one task.

    The first pass of a phase has no evaluation before it: it begins from the
    selected weights of the phase before, not from its last.
    """
    passes = record["passes"]
    changes = [
        after["validation"][metric] - before["validation"][metric]
        for before, after in itertools.pairwise(passes)
        if after["task"] == task
    ]
    return 100 * float(np.mean(changes)) if changes else math.nan
