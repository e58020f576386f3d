"""Checkpoints and logs that finished runs no longer need.

A finished run keeps its selected weights, for `predict`, and its records. Its
checkpoint serves only to train more epochs or to score the test later. A run
that stopped by itself, or under a falling rate, never trains more epochs.
"""

import os
import pathlib
import shutil
from collections.abc import Sequence

from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training import records
from tf_transfer.utils import formatting


def find(run_states: RunStates) -> list[str]:
    """The folders and files that may go, of a sweep's finished runs."""
    states = run_states.read()
    paths = []
    for run in run_states.runs:
        if states[run.name] == State.FINISHED and not run.directory.is_locked():
            folder = run.directory.file("checkpoint")
            if os.path.isdir(folder) and not _may_be_extended(run, run_states):
                paths.append(folder)
            paths += filter(os.path.isfile, [run_states.log_file(run)])
    return paths


def _may_be_extended(run: Planned, run_states: RunStates) -> bool:
    """Whether more epochs, more time or the test would extend the run."""
    result = run_states.result(run) or {}
    if result.get("scores_test") is False:
        return True
    reason = result.get("stop_reason")
    is_constant = "max_epochs" not in run.settings.hashed()
    return reason == records.OUT_OF_TIME or (
        reason == "max_epochs" and is_constant
    )


def describe(paths: Sequence[str], removes: bool) -> str:
    """Counts the files that may go, and deletes them where asked."""
    size = sum(map(_size, paths))
    if removes:
        for path in paths:
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
    what = (
        f"{len(paths)} checkpoints and logs of finished runs, "
        f"{formatting.size(size)}"
    )
    if removes:
        return f"Deleted: {what}."
    return f"{what}, are no longer needed. Add --yes to delete them."


def _size(path: str) -> int:
    paths = (pathlib.Path(path), *pathlib.Path(path).rglob("*"))
    return sum(file.stat().st_size for file in paths if file.is_file())
