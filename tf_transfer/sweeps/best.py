"""The runs of a grid at the best value of one axis, such as its rate.

A grid whose rates are tried with one seed first, and of which the best is run
with the other seeds, takes about half the time of one that runs everything.
"""

import math
from collections.abc import Collection, Sequence

from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import selection
from tf_transfer.utils.errors import UserError


def choose(
    path: str, run_states: RunStates, axis: str, wanted: Collection[Planned]
) -> list[Planned]:
    """Returns the wanted runs whose value of an axis validates best.

    Among runs that differ only in this axis and in their seeds, one value is
    selected: the one with the highest mean validation score, over the seeds
    that all values have. A failed run counts as the worst.

    Args:
        path: of the grid, for messages.
        run_states: of the whole grid.
        axis: its name.
        wanted: runs of the grid.

    Raises:
        UserError: no such axis, nothing to choose by, or no seed with which
            all values are done.
    """
    axes = [name for name in run_states.runs[0].axes if name != "seed"]
    if axis not in axes:
        raise UserError(
            f"--best_of={axis}: is no axis of {path}. These are: "
            f"{', '.join(axes)}."
        )
    groups: dict[tuple[str, ...], dict[str, list[Planned]]] = {}
    for run in run_states.runs:
        others = tuple(run.axes[name] for name in axes if name != axis)
        values = groups.setdefault(others, {})
        values.setdefault(run.axes[axis], []).append(run)
    names = {run.name for run in wanted}
    chosen = []
    for values in groups.values():
        members = [run for runs in values.values() for run in runs]
        if names.isdisjoint(run.name for run in members):
            continue
        best = next(iter(values))
        if len(values) > 1:
            scored = {
                value: _scores(run_states, runs, axis)
                for value, runs in values.items()
            }
            if not selection.common_seeds(scored):
                raise UserError(_say_what_is_missing(axis, values, scored))
            best = selection.best_on_validation(scored)
        chosen += [run for run in values[best] if run.name in names]
    return chosen


def _scores(
    run_states: RunStates, runs: Sequence[Planned], axis: str
) -> list[tuple[int, float]]:
    """Seed and validation score of the runs that are done."""
    scores = []
    for run in runs:
        result = run_states.result(run)
        if result is None:
            if run_states.failure(run):
                scores.append((run.settings.seed, -math.inf))
            continue
        if not result["validation"]:
            raise UserError(
                f"--best_of={axis}: {run.name} has no validation to choose by. "
                "Give the grid a validation_fraction."
            )
        score = result["validation"][result["metric"]]
        scores.append((run.settings.seed, score))
    return scores


def _say_what_is_missing(
    axis: str,
    values: dict[str, list[Planned]],
    scored: dict[str, list[tuple[int, float]]],
) -> str:
    value = min(scored, key=lambda value: len(scored[value]))
    run = values[value][0]
    return (
        f"--best_of={axis}: no seed is done with each of {', '.join(values)}; "
        f"missing is, among others, {run.label}. Run the grid without this "
        f"flag first, with one seed: --only=seed={run.settings.seed}"
    )
