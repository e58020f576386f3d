"""The contestants that search a full grid, replayed within a budget.

`search` is tf_transfer.search's own planner. The others have the same runs and
the same feature cache, but do not know what anything costs: `random`, a random
approach and rate, all epochs; `hyperband`, Optuna's Hyperband pruner and its
TPE sampler; and `fine-tuning`, everything trained at the usual rates, the
likeliest first, at a constant rate like all runs of the grid.

A run that the grid does not have (a rate that falls, seeds of all but the best
rates) takes its time and brings nothing.
"""

import random
from collections.abc import Callable
from typing import Any

from benchmarks import search_regret
from benchmarks.search_world import World
from tf_transfer.searches import planner as planner_lib
from tf_transfer.searches.costs import Costs
from tf_transfer.searches.space import Approach, EVERYTHING
from tf_transfer.sweeps.estimate import Work


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
    works = {
        a["name"]: Work(**{**a["work"], "epochs": tuple(a["work"]["epochs"])})
        for a in record["approaches"]
    }
    most = max(len(run["validation"]) for run in record["runs"])
    planner = planner_lib.Planner(
        space,
        Costs(works, probe["pass_seconds"] / probe["operations"]),
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
        return search_regret.best_of(world.record, [])
    return max(
        (
            pair
            for choice, curve in planner.curves.items()
            if choice.setting == first.choice
            for pair in search_regret.list_epochs(
                world.runs[choice.approach, choice.rate, choice.seed]
            )[: len(curve)]
        ),
        key=search_regret.on_validation,
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
    """Everything trained, the usual rate first, then the nearest ones."""
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
