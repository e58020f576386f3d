"""The contestants that search a full grid, replayed within a budget.

`search` is tf_transfer.search's own ladder. The others have the same runs and
the same feature cache, but do not know what anything costs: `random`, a random
approach and rate, all epochs; `hyperband`, Optuna's Hyperband pruner and its
TPE sampler; and `fine-tuning`, everything trained at the usual rates, the
likeliest first, at a constant rate like all runs of the grid.

A run that the grid does not have (seeds of all but the best rates) takes its
time and brings nothing.
"""

import random
from collections.abc import Callable

from benchmarks import search_world
from benchmarks.search_world import World
from tf_transfer.searches.ladder import (
    Approach,
    Choice,
    Costs,
    Ladder,
    noise_of,
    rates_around,
)
from tf_transfer.sweeps.estimate import Work

EVERYTHING = "fine_tuning"


def search(world: World, seed: int) -> None:
    """`tf_transfer.search`: its own ladder."""
    del seed  # nothing is drawn
    record = world.record
    epochs = max(len(run["validation"]) for run in record["runs"])
    approaches = [
        Approach(
            a["name"],
            rates_around(a["rates"][len(a["rates"]) // 2]),
            Work(**{**a["work"], "epochs": tuple(a["work"]["epochs"])}),
            epochs,
            "cache" if a["work"]["family"] else "",
        )
        for a in record["approaches"]
        if a["name"] != "last_0"  # the probe is the head on frozen blocks
    ]
    probe = record["probe"]
    ladder = Ladder(
        approaches,
        Costs(approaches, probe["pass_seconds"] / probe["operations"]),
        {0: max(record["floor"], probe["validation"])},
        noise_of(record["validation_examples"]),
        world.budget,
    )
    while action := ladder.next(world.left):
        choice, began = action.choice, world.clock
        key = _find_key(world, choice)
        if key not in world.runs:
            world.clock += action.seconds
            ladder.failed.add(choice)
            continue
        done, built = ladder.count_epochs(choice), world.build(key[0])
        approach, rate, number = key
        trained = [*world.train(approach, rate, action.epochs, number)]
        if len(trained) <= done:
            return
        ladder.tell(
            choice,
            [score for _, _, score in trained],
            [seconds for _, seconds, _ in trained[done:]],
            built,
            world.clock - began,
        )
        world.answers.append((world.clock, *_answer(world, ladder)))


def _find_key(world: World, choice: Choice) -> tuple[str, int, int]:
    """A run of the ladder as the record names it."""
    rates = world.approaches[choice.approach]["rates"]
    return choice.approach, rates.index(choice.rate), choice.seed


def _answer(world: World, ladder: Ladder) -> tuple[float, float]:
    """Validation and test of what the search would answer now."""
    first = ladder.rank()[0]
    if first.least_lead <= 0:
        return search_world.best_of(world.record, [])
    choice = ladder.best_seed(first)
    run = world.runs[_find_key(world, choice)]
    epochs = search_world.list_epochs(run)[: ladder.count_epochs(choice)]
    return max(epochs, key=search_world.on_validation)


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
