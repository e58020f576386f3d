"""The state of each run of a sweep, read from its files."""

import collections
import contextlib
import enum
import os
import signal
import socket
import time
from collections.abc import Collection
from typing import Any, TypedDict

from tf_transfer.sweeps.grid import Planned
from tf_transfer.training import records
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

Failure = TypedDict("Failure", {"reason": str, "last_lines": list[str]})
LOST = 256  # the exit code of a worker whose node is gone: no process has it
LAST_LINES = 12  # of a failed run's output, kept in its record


class State(enum.StrEnum):
    """Of a run, as this sweep sees it."""

    FINISHED = "finished"
    RUNNING = "running"
    FAILED = "failed"
    PENDING = "pending"


class RunStates:
    """The states of a sweep's runs, and the records of what failed.

    Args:
        out: root of the run directories.
        runs: the sweep's.

    Attributes:
        folder: the sweep's own, below `out`.
        measured_seconds: of the runs that this process has done, by name.

    Raises:
        UserError: nothing can be written below `out`.
    """

    def __init__(self, out: str, runs: list[Planned]) -> None:
        self.folder = os.path.join(out, ".sweep")
        self.runs = runs
        try:
            for name in ("logs", "failed"):
                os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        except OSError as error:
            raise UserError(f"--out={out}: {error.strerror}.") from None
        self.measured_seconds: dict[str, float] = {}
        self._results: dict[str, dict[str, Any]] = {}

    def add(self, run: Planned) -> None:
        """Adds a run, or what replaces it: the same with more epochs."""
        self.runs = [other for other in self.runs if other.name != run.name]
        self.runs.append(run)
        self._results.pop(run.name, None)

    # === Reading ===

    def read(self, running_here: Collection[str] = ()) -> dict[str, State]:
        """Returns the state of every run, by name.

        Args:
            running_here: names of the runs that this process has started.
        """
        return {run.name: self._state(run, running_here) for run in self.runs}

    def _state(self, run: Planned, running_here: Collection[str]) -> State:
        if run.name in running_here:
            return State.RUNNING
        if self.result(run) is not None:
            return State.FINISHED
        return State.FAILED if self.failure(run) else State.PENDING

    def result(self, run: Planned) -> dict[str, Any] | None:
        """Returns the result of a finished run, else None."""
        if run.name not in self._results:
            try:
                result = run.directory.result()
                if result is None or not _has_ended(run, result):
                    return None
                run.directory.check_key()
            except UserError:  # damaged: the run reports it, and fails
                return None
            self._results[run.name] = result
        return self._results[run.name]

    def failure(self, run: Planned) -> dict[str, Any] | None:
        """Returns the record of a failed run, else None."""
        path = self._failure_file(run)
        try:
            return json_files.read(path, Failure)
        except FileNotFoundError:
            return None
        except json_files.Damaged as error:  # the run has failed in any case
            return {"reason": str(error), "last_lines": []}

    def failed_runs(self) -> list[Planned]:
        """Returns the runs that have failed, and were not done since."""
        return [
            run
            for run in self.runs
            if self.failure(run) and self.result(run) is None
        ]

    def seconds(self, run: Planned) -> float | None:
        """Returns the seconds of a finished run from its start to its result.

        None for an interrupted one: how long it paused is not known.
        """
        if run.name in self.measured_seconds:
            return self.measured_seconds[run.name]
        starts = (run.directory.config() or {}).get("starts", [])
        if len(starts) != 1:
            return None
        try:
            form = "%Y-%m-%dT%H:%M:%S"
            start = time.strptime(starts[0].get("started", "")[:19], form)
        except ValueError:
            return None
        end = os.stat(run.directory.file("result.json")).st_mtime
        return max(end - time.mktime(start), 0.0)

    # === Files ===

    def log_file(self, run: Planned) -> str:
        """Path of the file with a run's output."""
        return os.path.join(self.folder, "logs", f"{run.name}.log")

    def _failure_file(self, run: Planned) -> str:
        return os.path.join(self.folder, "failed", f"{run.name}.json")

    def record_failure(
        self, run: Planned, exit_code: int, reason: str
    ) -> dict[str, Any]:
        """Writes, and returns, how a run ended, with its last lines.

        Args:
            run: which.
            exit_code: of its process; minus the signal's number if by one.
            reason: of the failure, in words.
        """
        with open(self.log_file(run), encoding="utf-8", errors="replace") as f:
            lines = collections.deque(
                (line.rstrip() for line in f if line.strip()), LAST_LINES
            )
        record = {
            "command": run.command,
            "exit_code": exit_code,
            "reason": reason,
            "host": socket.gethostname(),
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "last_lines": list(lines),
        }
        files.write_json(self._failure_file(run), record)
        return record

    @staticmethod
    def explain(exit_code: int) -> str:
        """How a process ended, in words."""
        if exit_code == LOST:
            return "its node was lost"
        if exit_code >= 0:
            return f"exit code {exit_code}"
        name = signal.Signals(-exit_code).name
        return name + (" (out of memory?)" if name == "SIGKILL" else "")

    def clear_failure(self, run: Planned) -> None:
        """Removes the record of a failure: the run is to be tried again."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._failure_file(run))


def _has_ended(run: Planned, result: dict[str, Any]) -> bool:
    """Whether a run needs no more epochs, time or test scores."""
    is_out_of_time = (
        getattr(run.settings, "max_seconds", None) is not None
        and result["stop_reason"] == records.OUT_OF_TIME
    )
    return is_out_of_time or not records.describe_extension(
        run.settings, result
    )
