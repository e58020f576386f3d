"""How good a search is for its time: replayed from the records of a full grid.

    python -m benchmarks.search --runs=runs/search
    python -m benchmarks.search

The grids of experiments/search/ are run once, as ground truth, each by
tf_transfer.sweep with --out=runs/search. `--runs` puts their curves, and what
their approaches were to cost by counting operations, into records.json beside
them. Then budgets of a 20th, a 10th and a 4th of a grid's time are replayed
from there, with ten seeds each: a run takes the seconds that it took in the
grid and brings the scores that it brought there. Nothing is trained, since a
rerun would only repeat the grid's numbers; what the grid does not have (other
seeds, a rate that falls) takes its time and brings nothing. Every contestant
pays for the start of a search (imports, words alone) and for its answer.

`search` is tf_transfer.search's own planner. Beside it, on the same runs with
the same feature cache, but without knowing what anything costs: `random`, a
random approach and rate, all epochs; `hyperband`, Optuna's Hyperband pruner and
its TPE sampler; and `fine-tuning`, everything trained at the usual rates, the
likeliest first, and at a constant rate like all runs of the grid. Regret is
what the answer scores below the grid's best, both chosen on validation.
"""

import collections
import dataclasses
import glob
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from absl import app
from absl import flags

from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.models import loading
from tf_transfer.reports import plots
from tf_transfer.reports.study import Figure
from tf_transfer.search import prior_of
from tf_transfer.searches import planner as planner_lib
from tf_transfer.searches import space as space_lib
from tf_transfer.searches.costs import Costs
from tf_transfer.searches.costs import Prior
from tf_transfer.searches.costs import RUN_SECONDS
from tf_transfer.searches.space import Approach
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

FOLDER = "experiments/search"
SHARES = {"1/20": 1 / 20, "1/10": 1 / 10, "1/4": 1 / 4}
SEEDS = 10
EVERYTHING = "fine_tuning"
GENERATED = ("records.json",)
ANSWER_SECONDS = 10.0  # that a search keeps for its answer

Record = dict[str, Any]  # of a task; see `collect`
Event = tuple[float, float, float]  # seconds, validation and test, in points


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string(
        "runs",
        "",
        "Collect the records of these runs first, where the data is.",
    )
    flags.DEFINE_string("cache_dir", "", "Folder for what pip fetches.")
    flags.DEFINE_string("out", FOLDER, "Where grids, records and results are.")
    flags.DEFINE_integer("seeds", SEEDS, "Replays of each budget.", 1)


# === The grid as a world in which runs take their time ===


class World:
    """Replays runs of a task: what each epoch takes and scores.

    Args:
        record: of the task.
        budget: seconds.

    Attributes:
        clock: seconds that were spent.
        events: what was known when.
    """

    def __init__(self, record: Record, budget: float) -> None:
        self.record = record
        self.budget = budget
        self.clock = record["start_seconds"]
        self.events: list[Event] = []
        self.runs = {
            (run["approach"], run["rate"]): run for run in record["runs"]
        }
        self.approaches = {a["name"]: a for a in record["approaches"]}
        self._done: collections.Counter[tuple[str, int]] = collections.Counter()
        self._built: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds of the budget, but for those of the answer."""
        return self.budget - ANSWER_SECONDS - self.clock

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
        for other in self.approaches.values():  # stored on the way
            if other["build_seconds"] <= about["build_seconds"]:
                self._built[other["prior"]["cache"]] = other["build_seconds"]
        self.clock += seconds
        return seconds

    def train(
        self, approach: str, rate: int, epochs: int
    ) -> Iterator[tuple[int, float, float]]:
        """Trains a run on to so many epochs; ends where the budget does.

        Yields:
            The epoch, its seconds, and its validation score.
        """
        run = self.runs[approach, rate]
        key = approach, rate
        if self._done[key] >= epochs:
            for epoch in range(epochs):
                yield epoch + 1, 0.0, run["validation"][epoch]
            return
        self.build(approach)
        self.clock += run["beside_seconds"]
        for epoch in range(epochs):
            seconds = 0.0
            if epoch >= self._done[key]:
                seconds = run["epoch_seconds"][epoch]
                if seconds > self.left:
                    self.clock += max(self.left, 0.0)
                    return
                self.clock += seconds
                self._done[key] = epoch + 1
                self.events.append(
                    (self.clock, run["validation"][epoch], run["test"][epoch])
                )
            yield epoch + 1, seconds, run["validation"][epoch]


# === The contestants ===


def search(world: World, seed: int) -> None:
    """`tf_transfer.search`, as it is."""
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
    priors = {a["name"]: Prior(**a["prior"]) for a in record["approaches"]}
    most = max(len(run["validation"]) for run in record["runs"])
    planner = planner_lib.Planner(
        space,
        Costs(priors),
        planner_lib.Options(world.budget, most, seed),
        planner_lib.noise_of(record["validation_examples"]),
        record["floor"],
    )
    while True:
        action = planner.next(world.left)
        if action is None:
            return
        choice, began = action.choice, world.clock
        if choice.seed or choice.linear_epochs:
            world.clock += action.seconds
            planner.fail(choice)
            continue
        done = len(planner.curves.get(choice, ()))
        built = world.build(choice.approach)
        new = [
            (seconds, score)
            for _, seconds, score in world.train(
                choice.approach, choice.rate, action.epochs
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


def search_at_random(world: World, seed: int) -> None:
    """A random approach and rate, all epochs, until the time is over."""
    order = sorted(world.runs)
    random.Random(seed).shuffle(order)
    for approach, rate in order:
        epochs = len(world.runs[approach, rate]["validation"])
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
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(1, most, 2),
    )
    names = list(world.approaches)
    for _ in range(20 * len(world.runs)):  # one that is drawn again is free
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
    rates = sorted(r for name, r in world.runs if name == EVERYTHING)
    middle = rates[len(rates) // 2]
    for rate in sorted(rates, key=lambda r: (abs(r - middle), r)):
        epochs = len(world.runs[EVERYTHING, rate]["validation"])
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
    """What the whole grid takes, each cache built once."""
    world = World({**record, "start_seconds": 0.0}, float("inf"))
    for (approach, rate), run in world.runs.items():
        for _ in world.train(approach, rate, len(run["validation"])):
            pass
    return world.clock


def grid_best(record: Record) -> tuple[float, float]:
    """Validation and test of the grid's best epoch on validation.

    Of several, the first: the test does not choose.
    """
    return max(
        (
            pair
            for run in record["runs"]
            for pair in zip(run["validation"], run["test"])
        ),
        key=lambda pair: pair[0],
    )


def regret_at(
    events: Sequence[Event], seconds: float, record: Record
) -> tuple[float, float]:
    """What is missing at some time, on validation and on test, in points.

    Before anything is known, the answer is the floor's.
    """
    best = grid_best(record)
    known = [event[1:] for event in events if event[0] <= seconds]
    chosen = max(
        known,
        key=lambda pair: pair[0],
        default=(record["floor"], record["test_floor"]),
    )
    return best[0] - chosen[0], best[1] - chosen[1]


def replay(records: dict[str, Record], seeds: int = SEEDS) -> list[dict]:
    """Replays every contestant; a dict for each task, share, and contestant."""
    rows = []
    for task, record in records.items():
        whole = grid_seconds(record)
        for share_name, share in SHARES.items():
            for name, contestant in CONTESTANTS.items():
                worlds = []
                for seed in range(seeds):
                    world = World(record, share * whole)
                    contestant(world, seed)
                    worlds.append(world)
                regrets = [
                    regret_at(w.events, w.budget, record) for w in worlds
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
                            (w.clock + ANSWER_SECONDS) / w.budget
                            for w in worlds
                        ],
                        "curve": _mean_curve(worlds, record),
                    }
                )
    return rows


CURVE_POINTS = 40


def _mean_curve(worlds: Sequence[World], record: Record) -> list[float]:
    """Mean regret on validation at equal parts of the budget."""
    return [
        statistics.fmean(
            regret_at(w.events, part * w.budget / CURVE_POINTS, record)[0]
            for w in worlds
        )
        for part in range(1, CURVE_POINTS + 1)
    ]


# === The records of the grid ===


def collect(
    grids: Sequence[str], out: str, cache_dir: str
) -> dict[str, Record]:
    """What the finished runs of some grids come to, by task.

    Args:
        grids: paths of the grid files.
        out: root of the run directories.
        cache_dir: folder for what pip fetches.

    Returns:
        Of each task whose runs are all finished.
    """
    runs: dict[str, list[Planned]] = {}
    for path in grids:
        for run in grid_lib.expand(path, grid_lib.read(path), out, cache_dir):
            settings: Any = run.settings
            runs.setdefault(settings.task_name, []).append(run)
    command_line.import_tensorflow()
    records = {}
    for task, members in runs.items():
        missing = [run for run in members if run.directory.result() is None]
        if missing:
            print(f"{task}: {len(missing)} of {len(members)} are not finished.")
        else:
            records[task] = _collect_task(members)
    return records


def _collect_task(runs: Sequence[Planned]) -> Record:
    approaches: dict[str, Record] = {}
    lines: list[Record] = []
    names = list(dict.fromkeys(run.settings.trainable_layers for run in runs))
    estimator = estimate.Estimator()
    blocks = loading.count_blocks(
        runs[0].settings.model, runs[0].settings.cache_folder
    )
    space = {
        dict(approach.flags)["trainable_layers"]: approach
        for approach in space_lib.make_space(
            names, blocks, lambda layers, _: train.usual_rate(layers), {}
        )
    }
    for run in runs:
        result = run.directory.result() or {}
        approach, metric = (
            space[run.settings.trainable_layers],
            result["metric"],
        )
        epochs = run.directory.epochs()
        prior = prior_of(estimator.estimate(_of_one_epoch(run)))
        about = approaches.setdefault(
            approach.name,
            {
                "name": approach.name,
                "flags": approach.flags,
                "depth": approach.depth,
                "rates": approach.rates,
                "prior": dataclasses.asdict(prior),
                "build_seconds": 0.0,
            },
        )
        about["build_seconds"] = max(
            about["build_seconds"], result["prefix_build_seconds"] or 0.0
        )
        lines.append(
            {
                "approach": approach.name,
                "rate": approach.rates.index(run.settings.lr),
                "validation": _points(epochs, "validation", metric),
                "test": _points(epochs, "test", metric),
                "epoch_seconds": [
                    line["train_seconds"] + line["eval_seconds"]
                    for line in epochs
                ],
                "beside_seconds": _seconds_beside(run, epochs, result),
            }
        )
    began = time.perf_counter()
    words = _words_alone(runs[0])
    start_seconds = estimate.START_SECONDS + time.perf_counter() - began
    config = runs[0].directory.config() or {}
    return {
        "metric": words["metric"],
        "approaches": sorted(approaches.values(), key=lambda a: a["depth"]),
        "runs": lines,
        "start_seconds": round(start_seconds, 1),
        "floor": 100 * words["validation"][words["metric"]],
        "test_floor": 100 * words["test"][words["metric"]],
        "validation_examples": config["split_sizes"]["validation"],
    }


def _seconds_beside(
    run: Planned, epochs: Sequence[Record], result: Record
) -> float:
    """What a run of the grid took beside its epochs and its feature cache."""
    seconds = RunStates(run.settings.out, [run]).seconds(run)
    if seconds is None:  # it was interrupted
        return RUN_SECONDS
    seconds -= sum(e["train_seconds"] + e["eval_seconds"] for e in epochs)
    return round(max(seconds - (result["prefix_seconds"] or 0.0), 0.0), 3)


def _points(epochs: Sequence[Record], kind: str, metric: str) -> list[float]:
    return [round(100 * line[kind][metric], 4) for line in epochs]


def _of_one_epoch(run: Planned) -> Planned:
    settings = dataclasses.replace(run.settings, max_epochs=1)
    return dataclasses.replace(run, experiment=train.Train(settings))


def _words_alone(run: Planned) -> Record:
    settings: Any = run.settings
    settings = dataclasses.replace(settings, features="tfidf")
    return train.Train(settings).train().record


# === Table and figure ===


def make_table(rows: Sequence[Record]) -> str:
    """Mean regret of each contestant, as Markdown; in brackets the worst."""
    names = list(CONTESTANTS)
    heads = ["task", "of the grid's time", "budget, s"]
    heads += [f"{name}: regret; on test" for name in names]
    heads += ["search: of its budget"]
    lines = [heads, ["---"] * len(heads)]
    for task, share in dict.fromkeys((r["task"], r["share"]) for r in rows):
        by_name = {
            row["contestant"]: row
            for row in rows
            if (row["task"], row["share"]) == (task, share)
        }
        ours = by_name["search"]
        lines.append(
            [task, share, f"{ours['budget']:.0f}"]
            + [
                f"{_mean_and_worst(by_name[n]['validation'])}; "
                f"{statistics.fmean(by_name[n]['test']):.2f}"
                for n in names
            ]
            + [f"{max(ours['used']):.0%} at most"]
        )
    for share in SHARES:
        means = [
            statistics.fmean(
                statistics.fmean(row["validation"])
                for row in rows
                if row["share"] == share and row["contestant"] == name
            )
            for name in names
        ]
        lines.append(
            ["**mean**", share, ""] + [f"**{m:.2f}**" for m in means] + [""]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mean_and_worst(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values):.2f} ({max(values):.2f})"


def draw(rows: Sequence[Record]) -> Figure:
    """Regret against time, within the longest of the budgets, by task."""
    longest = list(SHARES)[-1]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, axes = plots.make_panels(len(tasks))
    handles: plots.Handles = {}
    for axis, task in zip(axes, tasks):
        for number, name in enumerate(CONTESTANTS):
            [row] = [
                row
                for row in rows
                if row["task"] == task
                and row["contestant"] == name
                and row["share"] == longest
            ]
            times = [
                100 * SHARES[longest] * part / CURVE_POINTS
                for part in range(1, CURVE_POINTS + 1)
            ]
            [handles[name]] = axis.plot(
                times, row["curve"], color=plots.PALETTE[number]
            )
        axis.set_yscale("symlog", linthresh=0.5)
        axis.set_ylim(bottom=0)
        plots.add_frame(axis, "regret, points", "% of the grid's time", task)
    return plots.finish(
        figure,
        handles,
        "search_regret",
        "Regret on validation against time, the mean over the replays.",
    )


def main(argv: list[str]) -> None:
    """Collects where asked, replays, and writes table and figure."""
    del argv
    values = flags.FLAGS
    path = os.path.join(values.out, "records.json")
    if values.runs:
        grids = sorted(
            name
            for name in glob.glob(os.path.join(values.out, "*.json"))
            if os.path.basename(name) not in GENERATED
        )
        files.write_json(path, collect(grids, values.runs, values.cache_dir))
    try:
        with open(path, encoding="utf-8") as file:
            records = json.load(file)
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file. Run the grids beside it, and give --runs."
        ) from None
    rows = replay(records, values.seeds)
    figure = draw(rows)
    text = "\n\n".join(
        [
            "# A search against the whole grid",
            "Generated by `python -m benchmarks.search`, replayed from the "
            f"grid's records: {values.seeds} seeds a budget; mean regret in "
            "points of validation, in brackets the worst seed's, then that on "
            "test.",
            make_table(rows),
            f"![{figure.caption}]({figure.name}.png)\n",
        ]
    )
    files.write_atomically(
        os.path.join(values.out, "results.md"), text.encode()
    )
    image = os.path.join(values.out, f"{figure.name}.png")
    files.write_atomically(image, figure.render("png"))
    print(text)


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: command_line.guarded(lambda: main(argv)))
