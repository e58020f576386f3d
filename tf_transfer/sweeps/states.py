"""The state of each run of a sweep, read from its files."""

import collections
import enum
import os
import pathlib
import signal
import socket
import time
from typing import TypedDict

from tf_transfer.config.settings import Settings
from tf_transfer.sweeps.grid import Planned
from tf_transfer.training import results
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.json_files import Record

Failure = TypedDict("Failure", {"reason": str, "last_lines": list[str]})
# The exit code of a worker whose node is gone; no process ends with it.
LOST_NODE = 256
LAST_LINES = 12  # of a failed run's output, kept in its record


class State(enum.StrEnum):
    """The state of a run, as this sweep sees it."""

    FINISHED = "finished"
    RUNNING = "running"
    FAILED = "failed"
    PENDING = "pending"


class RunStates:
    """The states of a sweep's runs, and the records of failures.

    Args:
        out: Root of the run directories.
        runs: The sweep's.

    Attributes:
        folder: The sweep's own, below `out`.
        running: The runs that workers of this process do now.

    Raises:
        UserError: Nothing can be written below `out`.
    """

    def __init__(self, out: str, runs: list[Planned]) -> None:
        self.folder = os.path.join(out, ".sweep")
        self.runs = runs
        self.running: list[Planned] = []
        # By name and settings: others may ask for more epochs.
        self._results: dict[tuple[str, Settings], Record] = {}
        try:
            for name in ("logs", "failed"):
                os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        except OSError as error:
            advice = files.advise(error)
            kind = RunError if advice else UserError
            raise kind(
                f"--out={out}: {error.strerror}. "
                f"{advice or 'Give another --out.'}"
            ) from None

    # === Reading ===

    def read_states(self) -> dict[str, State]:
        """The state of every run, by name."""
        states = {run.name: self._read_state(run) for run in self.runs}
        return states | {run.name: State.RUNNING for run in self.running}

    def _read_state(self, run: Planned) -> State:
        if self.result(run) is not None:
            return State.FINISHED
        return State.FAILED if self.failure(run) else State.PENDING

    def select(self, wanted: State) -> list[Planned]:
        """The runs in a state."""
        states = self.read_states()
        return [run for run in self.runs if states[run.name] == wanted]

    def result(self, run: Planned) -> Record | None:
        """The result of a finished run, else None."""
        key = run.name, run.settings
        if key not in self._results:
            try:
                result = run.directory.result()
                if result is None or not _has_ended(run, result):
                    return None
                run.directory.check_key()
            except UserError:  # damaged: the run reports it, and fails
                return None
            self._results[key] = result
        return self._results[key]

    def failure(self, run: Planned) -> Record | None:
        """The record of a failed run, else None."""
        try:
            return json_files.read_record(self._failure_file(run), Failure)
        except FileNotFoundError:
            return None
        except json_files.Damaged as error:  # the run has failed in any case
            return {"reason": str(error), "last_lines": []}

    # === Files ===

    def log_file(self, run: Planned) -> str:
        """Path of the file with a run's output."""
        return os.path.join(self.folder, "logs", f"{run.name}.log")

    def _failure_file(self, run: Planned) -> str:
        return os.path.join(self.folder, "failed", f"{run.name}.json")

    def record_failure(
        self, run: Planned, exit_code: int, reason: str
    ) -> Record:
        """Writes, and returns, how a run ended, with its last lines.

        Args:
            run: The run.
            exit_code: Of its process; minus the signal's number if by one.
            reason: Of the failure, in words.
        """
        with files.open_regular(self.log_file(run)) as log:
            lines = (line.decode(errors="replace").rstrip() for line in log)
            last = collections.deque(filter(None, lines), LAST_LINES)
        record: Record = {
            "command": run.command,
            "exit_code": exit_code,
            "reason": reason,
            "host": socket.gethostname(),
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "last_lines": [*last],
        }
        files.write_json(self._failure_file(run), record)
        return record

    def clear_failure(self, run: Planned) -> None:
        """Removes the record of a failure: the run is to be tried again."""
        pathlib.Path(self._failure_file(run)).unlink(missing_ok=True)


def explain_exit(exit_code: int) -> str:
    """How a process ended, in words."""
    if exit_code == LOST_NODE:
        return "its node was lost"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    return name + (" (out of memory?)" if name == "SIGKILL" else "")


def _has_ended(run: Planned, result: Record) -> bool:
    """Whether a run needs no more epochs, time or test scores."""
    is_out_of_time = (
        bool(run.settings.max_seconds)
        and result["stop_reason"] == results.OUT_OF_TIME
    )
    return is_out_of_time or not results.describe_extension(
        run.experiment.run_settings, result
    )
