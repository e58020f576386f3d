"""Works through the runs of a sweep: starts, watches, records.

Each run is a process of its own: what it leaks, or breaks, is gone with it.
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any
from typing import Literal

from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.sweeps.states import State
from tf_transfer.utils import machine
from tf_transfer.utils.errors import Interrupted

POLL_SECONDS = 0.2

Event = Literal["started", "finished", "failed"]
# (event, run, result or record of failure, names of the runs running here)
OnEvent = Callable[[Event, Planned, dict[str, Any] | None, list[str]], None]
OnPoll = Callable[[list[str]], None]  # (names of the runs running here)


def start_process(
    run: Planned, run_states: RunStates, slot: int, jobs: int
) -> subprocess.Popen[bytes]:
    """Starts a run's process, with its output appended to its log.

    With several jobs each gets its share of the cores, and its record says
    how many ran at the same time.

    Args:
        run: which.
        run_states: says where its log is.
        slot: from 0 to `jobs` - 1, which share of the cores.
        jobs: how many run at the same time.
    """
    environment = {**os.environ, machine.JOBS_VARIABLE: str(jobs)}
    with open(run_states.log_file(run), "ab") as log:
        line = f"\n=== {time.strftime('%F %T')} {' '.join(run.command)}\n"
        log.write(line.encode())
        log.flush()
        return subprocess.Popen(
            [sys.executable, *run.command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: _prepare_child(slot, jobs),
        )


def _prepare_child(slot: int, jobs: int) -> None:
    """Runs in the child: its cores, and that it ends when its sweep dies."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // jobs
    if jobs > 1 and share:
        os.sched_setaffinity(0, cores[slot * share : (slot + 1) * share])
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


@dataclasses.dataclass
class _Job:
    """A run that runs here; times are of `time.monotonic`."""

    run: Planned
    process: subprocess.Popen[bytes]
    slot: int
    started: float


class Worker:
    """Does runs until none is left.

    Args:
        run_states: of all runs.
        jobs: how many run at the same time.
        limit: how many to start at most; 0 for all.
        start: starts a run's process; unset, `start_process`.
        on_event: called when a run has started, finished or failed.
        on_poll: called again and again.
    """

    def __init__(
        self,
        run_states: RunStates,
        jobs: int = 1,
        limit: int = 0,
        start: Callable[[Planned, RunStates, int, int], subprocess.Popen[bytes]]
        | None = None,
        on_event: OnEvent = lambda *event: None,
        on_poll: OnPoll = lambda running: None,
    ) -> None:
        self.run_states = run_states
        self.jobs = jobs
        self.starts_left = limit or float("inf")
        self.start = start or start_process
        self.on_event = on_event
        self.on_poll = on_poll
        self._running: list[_Job] = []
        self._interrupted = False
        self._stopping = False  # runs that end now have not failed

    def work(self) -> None:
        """Does all pending runs.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
        """
        handlers = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while self._poll():
                self.on_poll(self._running_names())
                time.sleep(POLL_SECONDS)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._stop_runs()
        if self._interrupted:
            raise Interrupted(
                "Stopped; the state of what was running is saved. The same "
                "command continues."
            )

    def _running_names(self) -> list[str]:
        return [job.run.name for job in self._running]

    def _report(
        self,
        event: Event,
        run: Planned,
        detail: dict[str, Any] | None = None,
    ) -> None:
        self.on_event(event, run, detail, self._running_names())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def _poll(self) -> bool:
        """Checks what runs and starts what can. False when none is left."""
        self._stopping = self._interrupted
        for job in list(self._running):
            self._check(job)
        if self._interrupted:
            return False
        is_waiting = False
        free = self.jobs - len(self._running)
        if free > 0:
            states = self.run_states.read(self._running_names())
            for run in self.run_states.runs:
                if free < 1 or self.starts_left < 1:
                    break
                if states[run.name] == State.PENDING:
                    # Its sweep was killed, and it is still saving its state;
                    # or somebody does it alone.
                    is_waiting |= run.directory.is_locked()
                    if not run.directory.is_locked():
                        self._start(run)
                        free -= 1
        return bool(self._running or is_waiting)

    def _start(self, run: Planned) -> None:
        slots = set(range(self.jobs)) - {job.slot for job in self._running}
        slot = min(slots)
        process = self.start(run, self.run_states, slot, self.jobs)
        self._running.append(_Job(run, process, slot, time.monotonic()))
        self.starts_left -= 1
        self._report("started", run)

    def _check(self, job: _Job) -> None:
        """Records how a run ended, if it has."""
        exit_code = job.process.poll()
        if exit_code is None:
            return
        self._running.remove(job)
        result = self.run_states.result(job.run)
        if result is not None:
            seconds = time.monotonic() - job.started
            self.run_states.measured_seconds[job.run.name] = seconds
            self._report("finished", job.run, result)
        elif not self._stopping:
            record = self.run_states.record_failure(job.run, exit_code)
            self._report("failed", job.run, record)

    def _stop_runs(self) -> None:
        """Lets what runs save its state and end."""
        self._stopping = True
        for job in self._running:
            with contextlib.suppress(ProcessLookupError):
                job.process.terminate()
        for job in list(self._running):
            job.process.wait()
            self._check(job)
