"""Works through the runs of a sweep: claims, starts, watches, records.

Each run is a process of its own: what it leaks, or breaks, is gone with it.
Several sweeps over one folder share the runs by their claims.
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

from tf_transfer.sweeps import claims as claims_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.sweeps.states import State
from tf_transfer.utils import machine
from tf_transfer.utils.errors import Interrupted

POLL_SECONDS = 0.2
WAIT_SECONDS = 2.0  # between polls while only other sweeps have runs

Event = Literal["started", "finished", "failed", "lost"]
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
    claim: claims_lib.Claim
    process: subprocess.Popen[bytes]
    slot: int
    started: float
    last_heartbeat: float
    is_lost: bool = False


class Worker:
    """Claims runs and does them, until none is left.

    Args:
        run_states: of all runs.
        jobs: how many run at the same time.
        limit: how many to start at most; 0 for all.
        start: starts a run's process; unset, `start_process`.
        on_event: called when a run has started, finished or failed here, or
            was lost to another sweep.
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
        """Does all pending runs, and waits for those of other sweeps.

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
                time.sleep(POLL_SECONDS if self._running else WAIT_SECONDS)
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
        waits_for_others = False
        free = self.jobs - len(self._running)
        if free > 0:
            states = self.run_states.read(self._running_names())
            waits_for_others = State.ELSEWHERE in states.values()
            for run in self.run_states.runs:
                if free < 1 or self.starts_left < 1:
                    break
                if states[run.name] == State.PENDING:
                    if self._take(run):
                        free -= 1
                    else:  # another sweep was faster, or is still stopping
                        waits_for_others = True
        if self._running:
            return True
        return waits_for_others and self.starts_left >= 1

    def _take(self, run: Planned) -> bool:
        """Claims and starts a run. False if another sweep has it."""
        claim = self.run_states.claims.take(run.name)
        if claim is None:
            return False
        # Another sweep may have finished it a moment ago. Or it was killed,
        # and the run that it had started is still saving its state.
        if (
            self.run_states.result(run) is not None
            or self.run_states.failure(run)
            or run.directory.is_locked()
        ):
            claim.release()
            return False
        slots = set(range(self.jobs)) - {job.slot for job in self._running}
        slot = min(slots)
        process = self.start(run, self.run_states, slot, self.jobs)
        now = time.monotonic()
        self._running.append(_Job(run, claim, process, slot, now, now))
        self.starts_left -= 1
        self._report("started", run)
        return True

    def _check(self, job: _Job) -> None:
        """Sends the heartbeat of a run, or records how it ended."""
        exit_code = job.process.poll()
        if exit_code is None:
            self._send_heartbeat(job)
            return
        self._running.remove(job)
        if job.is_lost:
            self._report("lost", job.run)
            return
        result = self.run_states.result(job.run)
        if result is not None:
            seconds = time.monotonic() - job.started
            self.run_states.measured_seconds[job.run.name] = seconds
            self._report("finished", job.run, result)
            job.claim.release()
            self.run_states.claims.forget(job.run.name)
            return
        if not self._stopping:
            record = self.run_states.record_failure(job.run, exit_code)
            self._report("failed", job.run, record)
        job.claim.release()

    def _send_heartbeat(self, job: _Job) -> None:
        now = time.monotonic()
        if now - job.last_heartbeat < claims_lib.HEARTBEAT_SECONDS:
            return
        job.last_heartbeat = now
        if not job.claim.heartbeat():
            # This process slept, and another sweep continues the run: two
            # processes must not write it.
            job.is_lost = True
            job.process.kill()

    def _stop_runs(self) -> None:
        """Lets what runs save its state and end."""
        self._stopping = True
        for job in self._running:
            with contextlib.suppress(ProcessLookupError):
                job.process.terminate()
        for job in list(self._running):
            job.process.wait()
            self._check(job)
