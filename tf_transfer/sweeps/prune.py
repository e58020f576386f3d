"""Checkpoints and logs that finished runs no longer need.

A finished run keeps its selected weights, for `predict`, and its records. Its
checkpoint serves only to train more epochs or to score the test later. A run
that stopped by itself, or under a falling rate, never trains more epochs.
"""

import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training import records
from tf_transfer.utils import formatting


def find(run_states: RunStates) -> list[str]:
    """The folders and files that may go, of a sweep's finished runs."""
    paths = []
    for run in run_states.select(State.FINISHED):
        if not run.directory.is_locked():
            if not _may_be_extended(run, run_states.result(run) or {}):
                paths.append(run.directory.file("checkpoint"))
            paths.append(run_states.log_file(run))
    return list(filter(os.path.exists, paths))


def _may_be_extended(run: Planned, result: dict[str, Any]) -> bool:
    """Whether more epochs, more time or the test would extend the run."""
    reasons = [records.OUT_OF_TIME]
    if "max_epochs" not in run.settings.hashed():  # the rate is constant
        reasons.append("max_epochs")
    is_scored = result.get("scores_test", True)
    return not is_scored or result["stop_reason"] in reasons


def describe(paths: Sequence[str], removes: bool) -> str:
    """Counts the files that may go, and deletes them where asked."""
    size = formatting.size(sum(map(_size, paths)))
    what = f"{len(paths)} checkpoints and logs of finished runs, {size}"
    if not removes:
        return f"{what}, are no longer needed. Add --yes to delete them."
    for path in paths:
        remove = shutil.rmtree if os.path.isdir(path) else os.remove
        remove(path)
    return f"Deleted: {what}."


def _size(path: str) -> int:
    paths = (pathlib.Path(path), *pathlib.Path(path).rglob("*"))
    return sum(file.stat().st_size for file in paths if file.is_file())
