"""Measures of the runs of a group: a number for each run."""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tf_transfer.reports import (
    estimates,
    frames,
    reading,
    resampling,
)
from tf_transfer.reports.estimates import Cell

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
INTERLEAVED = 1 / 3  # of the span of starts, see `are_interleaved`
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


class Cells:
    """The cells of some runs; see `estimates`.

    The same runs and measure always have the same cell, so that a contrast that
    uses it twice counts its chance once.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def measure(
        self,
        names: Sequence[str],
        groups: Sequence[pd.DataFrame],
        at: float = 0.0,
        logarithms: bool = False,
        peers: Sequence[pd.DataFrame] = (),
    ) -> tuple[Cell, ...]:
        """The cells of both groups of a comparison, without unknown values.

        Args:
            names: of the measure of each group.
            groups: runs, see `frames.runs_frame`.
            at: for measures within a time, the time in epochs of the last
                group: of its own mean first epoch.
            logarithms: whether to take those of the values.
            peers: the runs of each approach on the task, groups included, which
                may share a variance.

        Returns:
            Of times, those of the timing environment that most runs of all
            groups share; of runs tested in folds, a value for each fold.
        """
        if {*names} & {*TIMES}:
            # The time of an epoch is that of those that did not trace.
            without_tracing = {*names} == {"seconds_per_epoch"}
            groups = _select_shared_environment(groups, without_tracing)
        if {*names} <= {*DURATIONS}:
            in_turn = are_interleaved(groups)
            return tuple(
                self._once(
                    (name, logarithms, in_turn, *runs.path),
                    functools.partial(
                        _make_duration, name, runs, logarithms, in_turn
                    ),
                )
                for name, runs in zip(names, groups)
            )
        is_within = bool({*names} & {*WITHIN})
        seconds = at * first_epoch(groups[-1]) if is_within else math.nan
        return tuple(
            self._once(
                (name, seconds, *runs.path),
                functools.partial(
                    _make_cell,
                    name,
                    runs,
                    seconds,
                    self._pool(name, peers, seconds),
                ),
            )
            for name, runs in zip(names, groups)
        )

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What a function returns, called once for a key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _pool(
        self, name: str, peers: Sequence[pd.DataFrame], seconds: float
    ) -> estimates.Pool | None:
        """The variance that some peers share."""
        paths = [path for peer in peers for path in peer.path]
        return self._once(
            ("pool", name, seconds, *paths),
            lambda: estimates.pool_variances(
                np.array(known(_measure_all(name, peer, seconds)))
                for peer in peers
            ),
        )


def _make_cell(
    name: str,
    runs: pd.DataFrame,
    seconds: float,
    pool: estimates.Pool | None,
) -> Cell:
    values = np.array(known(_measure_all(name, runs, seconds)))
    is_trained = bool(runs.record.map(reading.trains).any())
    if len(values) > len(runs):  # one for each fold
        sizes = runs.sizes.iloc[0]
        share = sizes["test"] / sizes["train"]
        return Cell(values, fold_share=share, is_trained=is_trained)
    # The predictions of the last epoch are not stored. The variance over texts
    # is that of the selected epoch.
    known_texts = ("score", "last_score")
    if runs.empty or name not in (*known_texts, runs.metric.iloc[0]):
        return Cell(values, pool, is_trained=is_trained)
    resampled = [*map(resampling.decode, runs.record.str["resampled"].dropna())]
    return Cell(
        values,
        pool,
        (runs.task.iloc[0], runs.data_identity.iloc[0]),
        next(iter(runs.record.str["texts"].dropna()), None),
        np.stack(resampled) if resampled else None,
        is_trained=is_trained,
    )


def _make_duration(
    name: str, runs: pd.DataFrame, logarithms: bool, in_turn: bool
) -> Cell:
    times = np.array(known(_measure_all(name, runs, math.nan)))
    return Cell(np.log(times) if logarithms else times, in_turn=in_turn)


def are_interleaved(groups: Sequence[pd.DataFrame]) -> bool:
    """Whether runs of several groups were timed in turn.

    The mean starts of two groups lie no further apart than a third of the time
    between the first start and the last. Without recorded starts the answer is
    no.
    """
    starts = pd.concat([runs.started for runs in groups])
    means = [runs.started.mean() for runs in groups if len(runs)]
    if starts.empty or starts.isna().any():
        return False
    return np.ptp(means) <= INTERLEAVED * np.ptp(starts)


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are known."""
    return [float(v) for v in values if v is not None and not pd.isna(v)]


def _select_shared_environment(
    groups: Sequence[pd.DataFrame], ignores_tracing: bool
) -> list[pd.DataFrame]:
    """The runs of each group in the environment that most runs share.

    Runs that trace nothing may be compared with runs that traced and with warm
    runs.

    Args:
        groups: see `Cells.measure`.
        ignores_tracing: whether runs that traced and warm runs are compared.
    """
    groups = [runs[~runs.mixed] for runs in groups]

    def select(
        runs: pd.DataFrame, environment: str, traced: str
    ) -> pd.DataFrame:
        may_trace = runs.traced.isin([traced, frames.TRACES_NOTHING])
        is_so = (runs.environment == environment) & (
            may_trace | ignores_tracing
        )
        return runs[is_so.to_numpy(bool)]

    names = {pair for s in groups for pair in zip(s.environment, s.traced)}
    best = max(
        ([select(runs, *name) for runs in groups] for name in sorted(names)),
        key=lambda runs: (min(map(len, runs)), sum(map(len, runs))),
        default=groups,
    )
    return best if all(map(len, best)) else [runs[:0] for runs in groups]


def measure_runs(
    name: str, runs: pd.DataFrame, seconds: float = math.nan
) -> list[float]:
    """A measure of each run, to be shown next to those of all other runs.

    Args:
        name: of the measure.
        runs: see `frames.runs_frame`.
        seconds: those of measures within a time.

    Returns:
        See `Cells.measure`, nan where it is not known; times are those of runs
        that were timed as most.
    """
    if name in TIMES:
        runs = runs[runs.timed]
    return _measure_all(name, runs, seconds)


def _measure_all(name: str, runs: pd.DataFrame, seconds: float) -> list[float]:
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


def first_epoch(runs: pd.DataFrame) -> float:
    """Mean seconds to the end of the first epoch; nan without runs."""
    ends = [frames.list_epochs(record)[0].seconds for record in runs.record]
    return float(np.mean(ends)) if ends else math.nan


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
