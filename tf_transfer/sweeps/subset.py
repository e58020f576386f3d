"""The runs of a grid that a sweep does: by `--only`, and after a search."""

import collections
import math
from collections.abc import Iterable

from tf_transfer.sweeps.grid import Planned, show_value
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import selection
from tf_transfer.utils.errors import UserError

# === The runs with some flags ===


def select_runs(
    path: str, runs: list[Planned], conditions: Iterable[str]
) -> list[Planned]:
    """The runs that fulfil all conditions, such as `task=rte`.

    They include all runs of a search that one of them waits for.

    Raises:
        UserError: No such flag, or no such run.
    """
    selected = runs
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or not hasattr(runs[0].settings, name):
            raise UserError(
                f"--only={condition}: give a flag of the runs and its value, "
                "such as task=rte."
            )
        values = {_read_flag(run, name) for run in selected}
        selected = [
            run for run in selected if _is_equal(_read_flag(run, name), value)
        ]
        if not selected:
            raise UserError(
                f"--only={condition}: no run of {path} has this value. There "
                f"are: {', '.join(sorted(values))}."
            )
    ids = {id(run) for run in selected}
    groups = {run.group for run in selected if run.searched}
    return [
        run
        for run in runs
        if id(run) in ids or (run.group in groups and not run.searched)
    ]


def _is_equal(value: str, other: str) -> bool:
    try:
        return float(value) == float(other)  # 2e-5 and 2e-05
    except ValueError:
        return value == other


def _read_flag(run: Planned, name: str) -> str:
    return run.axes.get(name, show_value(getattr(run.settings, name)))


# === The runs at the best value of an axis ===


def select_best(
    run_states: RunStates, waiting: Iterable[Planned]
) -> list[Planned]:
    """The waiting runs whose value of the searched axis validates best.

    Of each group one value is selected: the one with the highest mean
    validation score, over the seeds that all values have. A failed run counts
    as the worst.

    Args:
        run_states: Of the runs of the searches, which are done.
        waiting: Runs that wait for them.

    Raises:
        UserError: No validation scores, or no seed with which all values are
            finished.
    """
    searched = collections.defaultdict(list)
    for run in run_states.runs:
        searched[run.group].append(run)
    best: dict[tuple[str, ...], str] = {}
    best_runs = []
    for run in waiting:
        if run.group not in best:
            best[run.group] = _find_best(
                run_states, run.searched, searched[run.group]
            )
        if run.axes[run.searched] == best[run.group]:
            best_runs.append(run)
    return best_runs


def _find_best(
    run_states: RunStates, axis: str, searched: Iterable[Planned]
) -> str:
    """The best value of an axis; see `select_best`."""
    # Seed and validation score of the finished runs of each value.
    scored: dict[str, list[tuple[int, float]]] = {}
    for run in searched:
        scores = scored.setdefault(run.axes[axis], [])
        result = run_states.result(run)
        if result is None:
            if run_states.failure(run):
                scores.append((run.settings.seed, -math.inf))
        elif result["validation"]:
            score = result["validation"][result["metric"]]
            scores.append((run.settings.seed, score))
        else:
            raise UserError(
                f"{run.path}: search: {run.name} has no validation to choose "
                f"{axis} by. Give it a validation_fraction."
            )
    if not selection.common_seeds(scored):
        raise UserError(
            f"{run.path}: search: no seed is done with each {axis} of "
            f"{', '.join(scored)}, as for {run.label}."
        )
    return selection.best_on_validation(scored)
