"""What is measured of the runs of a group: a number for each run."""

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
    operating,
    reading,
    resampling,
)
from tf_transfer.reports.estimates import Cell

# What each is called; any other name is a metric of the run.
MEASURES = {
    "score": ("the score", "points"),
    "seconds": ("the time to the stopping point", "s"),
    "seconds_per_epoch": ("the time of an epoch", "s"),
    "epochs_run": ("the epochs to the stopping point", "epochs"),
    "score_within": ("the score within a time", "points"),
    "kept_score": ("the score, by the authors' averaging", "points"),
    "deviation": ("the distance from the group's median", "points"),
}
PASS = "pass:"  # `pass:similarity:sentiment_accuracy`
DURATIONS = ("seconds", "seconds_per_epoch")
TIMES = (*DURATIONS, "score_within")
INTERLEAVED = 1 / 3  # of the span of starts, see `are_interleaved`
UNTIL_STOP = ("seconds", "epochs_run")  # what a limit of epochs cuts off

Values = Sequence[float | None]


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

    Of the same runs, measured alike, there is one cell: what depends on it
    twice does not count its luck twice.
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
            at: for `score_within`, the time in epochs of the last group: of its
                own mean first epoch.
            logarithms: whether to take those of the values.
            peers: the runs of each approach on the task, groups included, which
                may share a variance.

        Returns:
            Of times, those of the timing environment that most runs of all
            groups share, corrected for their drift where they were timed in
            turn; of runs tested in folds, a value for each fold.
        """
        if {*names} & {*TIMES}:
            # The time of an epoch is that of those that did not trace.
            without_tracing = {*names} == {"seconds_per_epoch"}
            groups = _select_shared_environment(groups, without_tracing)
        if {*names} <= {*DURATIONS}:
            return self._measure_durations(names, groups, logarithms, peers)
        seconds = math.nan
        if "score_within" in names:
            seconds = at * _first_epoch(groups[-1])
        cells = []
        for name, runs in zip(names, groups):
            pool = self._pool(name, peers, seconds)
            make = functools.partial(_make_cell, name, runs, seconds, pool)
            cells.append(self._once((name, seconds, *runs.path), make))
        return tuple(cells)

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

    def _measure_durations(
        self,
        names: Sequence[str],
        groups: Sequence[pd.DataFrame],
        logarithms: bool,
        peers: Sequence[pd.DataFrame],
    ) -> tuple[Cell, ...]:
        """Cells of times, less their drift where they were taken in turn."""
        drift, in_turn = None, are_interleaved(groups)
        if in_turn:
            drift = self._fit_drift(names[0], groups, logarithms, peers)
        cells = []
        for name, runs in zip(names, groups):
            timed = _time(name, runs, logarithms)
            make = functools.partial(_make_duration, *timed, drift, in_turn)
            key = (name, logarithms, id(drift), in_turn, *runs.path)
            cells.append(self._once(key, make))
        return tuple(cells)

    def _fit_drift(
        self,
        name: str,
        groups: Sequence[pd.DataFrame],
        logarithms: bool,
        peers: Sequence[pd.DataFrame],
    ) -> estimates.Drift | None:
        """A line through all peers that were timed where the groups were."""
        where = {*zip(groups[0].environment, groups[0].traced)}
        peers = peers or groups
        paths = [path for peer in peers for path in peer.path]

        def fit() -> estimates.Drift | None:
            groups = []
            for peer in peers:
                alike = [
                    pair in where for pair in zip(peer.environment, peer.traced)
                ]
                times, starts = _time(name, peer[alike], logarithms)
                if len(times) > 1 and not np.isnan(starts).any():
                    groups.append((times, starts))
            return estimates.fit_drift(groups) if groups else None

        key = ("drift", name, logarithms, frozenset(where), *sorted(paths))
        return self._once(key, fit)


def _make_cell(
    name: str,
    runs: pd.DataFrame,
    seconds: float,
    pool: estimates.Pool | None,
) -> Cell:
    measured = _measure_all(name, runs, seconds)
    values = np.array(known(measured))
    is_trained = bool(runs.record.map(reading.trains).any())
    if len(values) > len(runs):  # one for each fold
        sizes = runs.sizes.iloc[0]
        share = sizes["test"] / sizes["train"]
        return Cell(values, fold_share=share, is_trained=is_trained)
    first = runs.iloc[0] if len(runs) else None
    if first is None or name not in ("score", first.metric):
        return Cell(values, pool, is_trained=is_trained)
    resampled = [
        resampling.decode(record["resampled"])
        for record in runs.record
        if record.get("resampled")
    ]
    return Cell(
        values,
        pool,
        (first.task, first.data_identity),
        next((r["texts"] for r in runs.record if r.get("texts")), None),
        np.stack(resampled) if resampled else None,
        is_trained=is_trained,
    )


def _time(
    name: str, runs: pd.DataFrame, logarithms: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(times or their logarithms, starts) of the runs whose time is known."""
    times = np.array(_measure_all(name, runs, math.nan), float)
    is_known = ~np.isnan(times)
    times = np.log(times[is_known]) if logarithms else times[is_known]
    return times, runs.started.to_numpy()[is_known]


def _make_duration(
    times: np.ndarray,
    starts: np.ndarray,
    drift: estimates.Drift | None,
    in_turn: bool,
) -> Cell:
    if drift is None:
        return Cell(times, in_turn=in_turn)
    return Cell(
        times - drift.slope * (starts - drift.centre),
        drift=drift,
        start=float(starts.mean() - drift.centre),
        in_turn=in_turn,
    )


def are_interleaved(groups: Sequence[pd.DataFrame]) -> bool:
    """Whether runs of several groups were timed in turn.

    The mean starts of two groups lie no further apart than a third of the time
    between the first start and the last. Starts that nobody recorded are not
    known to be so.
    """
    starts = pd.concat([runs.started for runs in groups])
    means = [runs.started.mean() for runs in groups if len(runs)]
    if not len(means) or starts.isna().any():
        return False
    span = starts.max() - starts.min()
    return max(means) - min(means) <= INTERLEAVED * span


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are known."""
    return [float(v) for v in values if v is not None and not pd.isna(v)]


def _select_shared_environment(
    groups: Sequence[pd.DataFrame], ignores_tracing: bool
) -> list[pd.DataFrame]:
    """Of each group the runs in the environment that most of all groups share.

    What traces nothing may be compared with what traced and with what was warm.

    Args:
        groups: see `Cells.measure`.
        ignores_tracing: whether runs that traced count beside warm ones.
    """
    groups = [runs[~runs.mixed] for runs in groups]

    def select(name: tuple[str, str]) -> list[pd.DataFrame]:
        environment, traced = name
        chosen = []
        for runs in groups:
            is_so = runs.environment == environment
            if not ignores_tracing:
                may_trace = runs.traced.isin([traced, frames.TRACES_NOTHING])
                is_so &= may_trace
            chosen.append(runs[is_so.to_numpy(bool)])
        return chosen

    names = {pair for s in groups for pair in zip(s.environment, s.traced)}
    best = max(
        map(select, sorted(names)),
        key=lambda runs: (min(map(len, runs)), sum(map(len, runs))),
        default=groups,
    )
    return best if all(map(len, best)) else [runs[:0] for runs in groups]


def measure_runs(
    name: str, runs: pd.DataFrame, seconds: float = math.nan
) -> Values:
    """A measure of each run, to be shown beside those of all others.

    Args:
        name: of the measure.
        runs: see `frames.runs_frame`.
        seconds: those of `score_within`.

    Returns:
        See `Cells.measure`; times are those of runs that were timed as most.
    """
    if name in TIMES:
        runs = runs[runs.timed]
    return _measure_all(name, runs, seconds)


def _measure_all(name: str, runs: pd.DataFrame, seconds: float) -> Values:
    if name == "deviation":
        return list(np.abs(runs.score - runs.score.median()))
    if name == "kept_score":
        return operating.keep_as_authors(list(runs.score))
    values: list[float | None] = []
    if name in ("seconds", "epochs_run"):
        values = list(runs[name])
    elif name == "seconds_per_epoch":  # the frame's are those timed as most
        values = [record[name] for record in runs.record]
    else:
        for record, score in zip(runs.record, runs.score):
            values += _measure(name, record, score, seconds)
    return [
        None if value is None or pd.isna(value) else value for value in values
    ]


def _measure(
    name: str, record: frames.Record, score: float, seconds: float
) -> Values:
    """Of a run, or of each of its folds."""
    if name == "score_within":
        return [score_within(record, seconds)]
    if name.startswith(PASS):
        _, task, metric = name.split(":")
        return [mean_change(record, task, metric)]
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


def _first_epoch(runs: pd.DataFrame) -> float:
    """Mean seconds to the end of the first epoch."""
    seconds = [record["epochs"][0]["seconds"] for record in runs.record]
    known = [np.nan if value is None else value for value in seconds]
    return float(np.mean(known + runs.unpaid_seconds)) if known else math.nan


def score_within(record: frames.Record, seconds: float) -> float | None:
    """The test score in points that a run has reached within a time.

    That is the score of the epoch that is best on validation among those that
    are over by then; of the last one, where runs select that, or where nothing
    validates. None where none is over.
    """
    unpaid = 0.0
    if record["cached"]:
        unpaid = record["prefix_build_seconds"] - record["prefix_seconds"]
    over = [
        epoch
        for epoch in record["epochs"]
        if epoch["seconds"] is not None
        and epoch["seconds"] + unpaid <= seconds
        and epoch["test"] is not None
    ]
    if not over:
        return None
    if over[0]["validation"] is None or record["key"].get("select") == "last":
        return 100 * over[-1]["test"]
    return 100 * max(over, key=lambda epoch: epoch["validation"])["test"]


def seconds_to_score(record: frames.Record, score: float) -> float | None:
    """Seconds until a run's validation first reached a score in points.

    It is measured alike on every group of a comparison, on validation; where
    nothing validates, on test. None where it never did.
    """
    unpaid = 0.0
    if record["cached"]:
        unpaid = record["prefix_build_seconds"] - record["prefix_seconds"]
    for epoch in record["epochs"]:
        reached = epoch["validation"]
        reached = epoch["test"] if reached is None else reached
        if reached is not None and 100 * reached >= score:
            seconds = epoch["seconds"]
            return None if seconds is None else seconds + unpaid
    return None


def mean_change(record: frames.Record, task: str, metric: str) -> float | None:
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
    return 100 * float(np.mean(changes)) if changes else None
