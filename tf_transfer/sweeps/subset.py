"""The runs of a grid that a sweep does: `--only` and `--best_of`."""

import math
from collections.abc import Collection, Iterable

from tf_transfer.sweeps.grid import Planned, show_value
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import selection
from tf_transfer.utils.errors import UserError

# === The runs with some flags ===


def select(
    path: str, runs: list[Planned], conditions: Iterable[str]
) -> list[Planned]:
    """The runs that fulfil all conditions, such as `task=rte`.

    Raises:
        UserError: no such flag, or no such run.
    """
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or not hasattr(runs[0].settings, name):
            raise UserError(
                f"--only={condition}: give a flag of the runs and its value, "
                "such as task=rte."
            )
        known = {_read_flag(run, name) for run in runs}
        runs = [run for run in runs if _is_equal(_read_flag(run, name), value)]
        if not runs:
            raise UserError(
                f"--only={condition}: no run of {path} has this value. There "
                f"are: {', '.join(sorted(known))}."
            )
    return runs


def _is_equal(value: str, other: str) -> bool:
    try:
        return float(value) == float(other)  # 2e-5 and 2e-05
    except ValueError:
        return value == other


def _read_flag(run: Planned, name: str) -> str:
    return run.axes.get(name, show_value(getattr(run.settings, name)))


# === The runs at the best value of an axis ===


def select_best(
    path: str, run_states: RunStates, axis: str, wanted: Collection[Planned]
) -> list[Planned]:
    """The wanted runs whose value of an axis, such as lr, validates best.

    Among runs that differ only in this axis and in their seeds, one value is
    selected: the one with the highest mean validation score, over the seeds
    that all values have. A failed run counts as the worst. A grid whose rates
    are tried with one seed first takes about half the time of the whole grid.

    Args:
        path: of the grid, for messages.
        run_states: of the whole grid.
        axis: its name.
        wanted: runs of the grid.

    Raises:
        UserError: no such axis, no validation scores, or no seed with which
            all values are finished.
    """
    axes = [name for name in run_states.runs[0].axes if name != "seed"]
    if axis not in axes:
        raise UserError(
            f"--best_of={axis}: is no axis of {path}. These are: "
            f"{', '.join(axes)}."
        )
    groups: dict[tuple[str, ...], list[Planned]] = {}
    for run in run_states.runs:
        others = tuple(run.axes[name] for name in axes if name != axis)
        groups.setdefault(others, []).append(run)
    names = {run.name for run in wanted}
    chosen = []
    for group in groups.values():
        members = [run for run in group if run.name in names]
        if members:
            best = _find_best(run_states, axis, group)
            chosen += [run for run in members if run.axes[axis] == best]
    return chosen


def _find_best(run_states: RunStates, axis: str, group: list[Planned]) -> str:
    """The best value of an axis; see `select_best`."""
    # Seed and validation score of the finished runs of each value.
    scored: dict[str, list[tuple[int, float]]] = {}
    for run in group:
        scores = scored.setdefault(run.axes[axis], [])
        result = run_states.result(run)
        if result is not None and not result["validation"]:
            raise UserError(
                f"--best_of={axis}: {run.name} has no validation to choose by. "
                "Give the grid a validation_fraction."
            )
        if result is not None:
            score = result["validation"][result["metric"]]
            scores.append((run.settings.seed, score))
        elif run_states.failure(run):
            scores.append((run.settings.seed, -math.inf))
    if len(scored) == 1:
        return group[0].axes[axis]
    if not selection.common_seeds(scored):
        value = min(scored, key=lambda value: len(scored[value]))
        run = next(run for run in group if run.axes[axis] == value)
        raise UserError(
            f"--best_of={axis}: no seed is done with each of "
            f"{', '.join(scored)}; missing is, among others, {run.label}. Run "
            "the grid without this flag first, with one seed: "
            f"--only=seed={run.settings.seed}"
        )
    return selection.best_on_validation(scored)
