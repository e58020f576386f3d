"""Replays the runs of a full grid: the seconds and scores of each epoch.

A run takes the seconds that it took in the grid and brings the scores that it
brought there. Every contestant pays for the start of a search (imports, the
TF-IDF baseline, the probe) and for its answer, and with every epoch for scoring
both validation and test, as the grid did.

Regret is the score that an answer lacks of the best of the full grid.
"""

import collections
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tf_transfer.searches.controller import answer_seconds

Record = dict[str, Any]  # of a task; see `search_records.collect`
Event = tuple[float, float, float]  # seconds, validation and test, in points


class World:
    """Replays runs of a task: what each epoch takes and scores.

    Args:
        record: of the task.
        budget: seconds.

    Attributes:
        clock: seconds that were spent.
        events: what was known when.
        answers: what a contestant that chooses otherwise than by the highest
            validation score would have answered when.
        runs: of the grid, by approach, rate and seed.
        settings: approaches and rates.
    """

    def __init__(self, record: Record, budget: float) -> None:
        self.record = record
        self.budget = budget
        self.clock = record["start_seconds"] + record["probe"]["seconds"]
        self.events: list[Event] = []
        self.answers: list[Event] = []
        self.runs = {
            (run["approach"], run["rate"], run["seed"]): run
            for run in record["runs"]
        }
        self.settings = sorted(
            (name, rate) for name, rate, seed in self.runs if seed == 0
        )
        self.approaches = {a["name"]: a for a in record["approaches"]}
        self._done: collections.Counter[tuple[str, int, int]] = (
            collections.Counter()
        )
        self._built: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds of the budget, but for those of the answer."""
        return self.budget - answer_seconds(self.budget) - self.clock

    def _spend(self, seconds: float) -> bool:
        """Lets time pass, to the end at most; whether it was enough."""
        is_enough = seconds <= self.left
        self.clock += max(min(seconds, self.left), 0.0)
        return is_enough

    def build(self, approach: str) -> float:
        """Builds the cache of an approach; returns the seconds it took."""
        about = self.approaches[approach]
        if not about["work"]["family"] or approach in self._built:
            return 0.0
        stored = [
            s for s in self._built.values() if s <= about["build_seconds"]
        ]
        seconds = about["build_seconds"] - max(stored, default=0.0)
        if self._spend(seconds):
            for name, other in self.approaches.items():  # stored on the way
                if other["build_seconds"] <= about["build_seconds"]:
                    self._built[name] = other["build_seconds"]
        return seconds

    def train(
        self, approach: str, rate: int, epochs: int, seed: int = 0
    ) -> Iterator[tuple[int, float, float]]:
        """Trains a run up to a number of epochs; ends with the budget.

        Yields:
            The epoch, its seconds, and its validation score.
        """
        key = approach, rate, seed
        run = self.runs[key]
        if self._done[key] >= epochs:
            for epoch in range(epochs):
                yield epoch + 1, 0.0, run["validation"][epoch]
            return
        self.build(approach)
        self._spend(run["beside_seconds"])
        for epoch in range(epochs):
            seconds = 0.0
            if epoch >= self._done[key]:
                seconds = run["epoch_seconds"][epoch]
                if not self._spend(seconds):
                    return
                self._done[key] = epoch + 1
                self.events.append(
                    (self.clock, run["validation"][epoch], run["test"][epoch])
                )
            yield epoch + 1, seconds, run["validation"][epoch]


def grid_seconds(record: Record) -> float:
    """What the grid takes with one seed, each cache built once."""
    free = {"start_seconds": 0.0, "probe": {"seconds": 0.0}}
    world = World({**record, **free}, float("inf"))
    for approach, rate in world.settings:
        epochs = len(world.runs[approach, rate, 0]["validation"])
        for _ in world.train(approach, rate, epochs):
            pass
    return world.clock


# === Regret ===


def best_of(
    record: Record, pairs: Iterable[tuple[float, float]]
) -> tuple[float, float]:
    """Validation and test of the answer: the best on validation.

    The TF-IDF baseline and the probe are known from the start, so they are the
    answer where nothing is better. Of several, the first: the test does not
    choose.
    """
    words = (record["floor"], record["test_floor"])
    probe = (record["probe"]["validation"], record["probe"]["test"])
    return max([words, probe, *pairs], key=on_validation)


def on_validation(pair: tuple[float, float]) -> float:
    """Sort key: the first score of a pair."""
    return pair[0]


def list_epochs(run: Record) -> list[tuple[float, float]]:
    """Validation and test of each epoch of a run."""
    return list(zip(run["validation"], run["test"]))


def grid_best(record: Record) -> tuple[float, float]:
    """Validation and test of the best answer that a whole grid gives.

    Settings that ran with the most seeds are compared by their means over
    seeds, of each seed's best epoch on validation. The highest of single scores
    would be mostly luck.
    """
    settings: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for run in record["runs"]:
        best = max(list_epochs(run), key=on_validation)
        settings.setdefault((run["approach"], run["rate"]), []).append(best)
    most = max(map(len, settings.values()))
    return best_of(
        record,
        (
            (statistics.fmean(v), statistics.fmean(t))
            for v, t in (
                zip(*pairs) for pairs in settings.values() if len(pairs) == most
            )
        ),
    )


def regret_at(
    events: Sequence[Event],
    seconds: float,
    record: Record,
    answers: Sequence[Event] = (),
) -> tuple[float, float]:
    """What is missing at some time, on validation and on test, in points.

    Args:
        events: what was known when.
        seconds: at which time.
        record: of the task.
        answers: what was answered when, if not the best on validation.
    """
    best = grid_best(record)
    if answers:
        given = [a[1:] for a in answers if a[0] <= seconds]
        selected = given[-1] if given else best_of(record, [])
    else:
        finished = (event[1:] for event in events if event[0] <= seconds)
        selected = best_of(record, finished)
    return best[0] - selected[0], best[1] - selected[1]
