"""Replays the runs of a full grid: the seconds and scores of each epoch.

A run takes the seconds that it took in the grid and brings the scores that it
brought there. Every contestant pays for the start of a search (imports, the
TF-IDF baseline, the probe) and for its answer, and with every epoch for scoring
both validation and test, as the grid did.
"""

import collections
from collections.abc import Iterator
from typing import Any

from tf_transfer.searches import planner as planner_lib

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
        return (
            self.budget - planner_lib.answer_seconds(self.budget) - self.clock
        )

    def _spend(self, seconds: float) -> bool:
        """Lets time pass, to the end at most; whether it was enough."""
        is_enough = seconds <= self.left
        self.clock += max(min(seconds, self.left), 0.0)
        return is_enough

    def build(self, approach: str) -> float:
        """Builds the cache of an approach; returns the seconds it took."""
        about = self.approaches[approach]
        cache = about["work"]["cache"]
        if not cache or cache in self._built:
            return 0.0
        stored = [
            s for s in self._built.values() if s <= about["build_seconds"]
        ]
        seconds = about["build_seconds"] - max(stored, default=0.0)
        if self._spend(seconds):
            for other in self.approaches.values():  # stored on the way
                if other["build_seconds"] <= about["build_seconds"]:
                    cache = other["work"]["cache"]
                    self._built[cache] = other["build_seconds"]
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
