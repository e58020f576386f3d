"""Replays searches from the records of a full grid, and their regret.

A run takes the seconds that it took in the grid and brings the scores that it
brought there. A run that the grid does not have (a rate that falls, seeds of
all but the best rates) takes its time and brings nothing. Every contestant pays
for the start of a search (imports, the TF-IDF baseline, the probe) and for its
answer, and with every epoch for scoring both validation and test, as the grid
did.

`search` is tf_transfer.search's own planner. Beside it, on the same runs with
the same feature cache, but without knowing what anything costs: `random`, a
random approach and rate, all epochs; `hyperband`, Optuna's Hyperband pruner and
its TPE sampler; and `fine-tuning`, everything trained at the usual rates, the
likeliest first, and at a constant rate like all runs of the grid.
"""

import collections
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tf_transfer.searches import costs
from tf_transfer.searches import planner as planner_lib
from tf_transfer.searches.costs import Costs, Prior
from tf_transfer.searches.space import Approach

SHARES = {"1/20": 1 / 20, "1/10": 1 / 10, "1/4": 1 / 4}
SEEDS = 10
EVERYTHING = "fine_tuning"
CURVE_POINTS = 40

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
        prior = about["prior"]
        if not prior["cache"] or prior["cache"] in self._built:
            return 0.0
        stored = [
            s for s in self._built.values() if s <= about["build_seconds"]
        ]
        seconds = about["build_seconds"] - max(stored, default=0.0)
        if self._spend(seconds):
            for other in self.approaches.values():  # stored on the way
                if other["build_seconds"] <= about["build_seconds"]:
                    cache = other["prior"]["cache"]
                    self._built[cache] = other["build_seconds"]
        return seconds

    def train(
        self, approach: str, rate: int, epochs: int, seed: int = 0
    ) -> Iterator[tuple[int, float, float]]:
        """Trains a run on to so many epochs; ends where the budget does.

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


# === The contestants ===


def search(world: World, seed: int, **options: Any) -> None:
    """`tf_transfer.search`, as it is or with other `planner.Options`."""
    del seed  # nothing is drawn
    record = world.record
    space = [
        Approach(
            a["name"],
            tuple(map(tuple, a["flags"])),
            a["depth"],
            tuple(a["rates"]),
        )
        for a in record["approaches"]
    ]
    probe = record["probe"]
    slowness = costs.slowness(probe["pass_seconds"], probe["counted_seconds"])
    priors = {
        a["name"]: Prior(**a["prior"]).times(slowness)
        for a in record["approaches"]
    }
    most = max(len(run["validation"]) for run in record["runs"])
    planner = planner_lib.Planner(
        space,
        Costs(priors),
        planner_lib.Options(world.budget, most, **options),
        planner_lib.noise_of(record["validation_examples"]),
        max(record["floor"], probe["validation"]),
    )
    while True:
        action = planner.next(world.left)
        if action is None:
            return
        choice, began = action.choice, world.clock
        key = choice.approach, choice.rate, choice.seed
        if choice.linear_epochs or key not in world.runs:
            world.clock += action.seconds
            planner.fail(choice)
            continue
        done = len(planner.curves.get(choice, ()))
        built = world.build(choice.approach)
        new = [
            (seconds, score)
            for _, seconds, score in world.train(
                choice.approach, choice.rate, action.epochs, choice.seed
            )
        ]
        if len(new) <= done:
            return
        planner.tell(
            choice,
            [score for _, score in new],
            [seconds for seconds, _ in new[done:]],
            built,
            world.clock - began,
        )
        world.answers.append((world.clock, *_answer(world, planner)))


def _answer(world: World, planner: planner_lib.Planner) -> tuple[float, float]:
    """Validation and test of what the planner would answer now."""
    first = planner.rank_settings()[0]
    if not planner.beats_floor(first):
        return best_of(world.record, [])
    return max(
        (
            pair
            for choice, curve in planner.curves.items()
            if choice.setting == first.choice
            for pair in _epochs(
                world.runs[choice.approach, choice.rate, choice.seed]
            )[: len(curve)]
        ),
        key=_on_validation,
    )


def search_at_random(world: World, seed: int) -> None:
    """A random approach and rate, all epochs, until the time is over."""
    order = list(world.settings)
    random.Random(seed).shuffle(order)
    for approach, rate in order:
        epochs = len(world.runs[approach, rate, 0]["validation"])
        for _ in world.train(approach, rate, epochs):
            pass
        if world.left <= 0:
            return


def search_by_hyperband(world: World, seed: int) -> None:
    """Optuna's Hyperband pruner and TPE sampler over approach and rate."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    most = max(len(run["validation"]) for run in world.record["runs"])
    study = optuna.create_study(
        direction="maximize",
        study_name=f"seed {seed}",  # the pruner draws brackets by it
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(1, most, 2),
    )
    names = list(world.approaches)
    for _ in range(20 * len(world.settings)):  # one that is drawn again is free
        trial = study.ask()
        approach = trial.suggest_categorical("approach", names)
        count = len(world.approaches[approach]["rates"])
        rate = trial.suggest_int("rate", 0, count - 1)
        best, is_pruned = -1e9, False
        for epoch, _, score in world.train(approach, rate, most):
            best = max(best, score)
            trial.report(best, epoch)
            if epoch < most and trial.should_prune():
                is_pruned = True
                break
        if world.left <= 0:
            return
        if is_pruned:  # it has the last score that was reported
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, best)


def just_fine_tune(world: World, seed: int) -> None:
    """Everything trained, the usual rate first, then those beside it."""
    del seed
    rates = [rate for name, rate in world.settings if name == EVERYTHING]
    middle = rates[len(rates) // 2]
    for rate in sorted(rates, key=lambda r: (abs(r - middle), r)):
        epochs = len(world.runs[EVERYTHING, rate, 0]["validation"])
        for _ in world.train(EVERYTHING, rate, min(4, epochs)):
            pass
        if world.left <= 0:
            return


CONTESTANTS: dict[str, Callable[[World, int], None]] = {
    "search": search,
    "random": search_at_random,
    "hyperband": search_by_hyperband,
    "fine-tuning": just_fine_tune,
}


# === Regret ===


def grid_seconds(record: Record) -> float:
    """What the grid takes with one seed, each cache built once."""
    free = {"start_seconds": 0.0, "probe": {"seconds": 0.0}}
    world = World({**record, **free}, float("inf"))
    for approach, rate in world.settings:
        epochs = len(world.runs[approach, rate, 0]["validation"])
        for _ in world.train(approach, rate, epochs):
            pass
    return world.clock


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
    return max([words, probe, *pairs], key=_on_validation)


def _on_validation(pair: tuple[float, float]) -> float:
    return pair[0]


def _epochs(run: Record) -> list[tuple[float, float]]:
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
        best = max(_epochs(run), key=_on_validation)
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
        chosen = given[-1] if given else best_of(record, [])
    else:
        known = (event[1:] for event in events if event[0] <= seconds)
        chosen = best_of(record, known)
    return best[0] - chosen[0], best[1] - chosen[1]


def replay(
    records: dict[str, Record],
    seeds: int = SEEDS,
    contestants: Mapping[str, Callable[[World, int], None]] = CONTESTANTS,
) -> list[dict]:
    """Replays contestants; a dict for each task, share, and contestant."""
    rows = []
    for task, record in records.items():
        whole = grid_seconds(record)
        for share_name, share in SHARES.items():
            for name, contestant in contestants.items():
                worlds = []
                for seed in range(seeds):
                    world = World(record, share * whole)
                    contestant(world, seed)
                    worlds.append(world)
                regrets = [
                    regret_at(w.events, w.budget, record, w.answers)
                    for w in worlds
                ]
                rows.append(
                    {
                        "task": task,
                        "share": share_name,
                        "contestant": name,
                        "budget": share * whole,
                        "validation": [v for v, _ in regrets],
                        "test": [t for _, t in regrets],
                        "used": [
                            (w.budget - w.left) / w.budget for w in worlds
                        ],
                        "curve": _mean_curve(worlds, record),
                    }
                )
    return rows


def _mean_curve(worlds: Sequence[World], record: Record) -> list[float]:
    """Mean regret on validation at equal parts of the budget."""
    return [
        statistics.fmean(
            regret_at(
                w.events,
                part * w.budget / CURVE_POINTS,
                record,
                w.answers,
            )[0]
            for w in worlds
        )
        for part in range(1, CURVE_POINTS + 1)
    ]
