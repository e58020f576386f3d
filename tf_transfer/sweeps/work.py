"""Works through the runs of a sweep: claims, starts, watches, records.

Each run is a process of its own: what it leaks, or breaks, is gone with it.
Several sweeps over one folder share the runs by their claims.
"""

import collections
import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time

from tf_transfer.sweeps import claims as claims_lib
from tf_transfer.training import checkpoint
from tf_transfer.training import records
from tf_transfer.utils import machine
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError

DONE, RUNNING, ELSEWHERE, FAILED, TO_COME = (
    "done",
    "running",
    "elsewhere",
    "failed",
    "to come",
)
LAST_LINES = 12  # of a failed run's output, that its record keeps
POLL_SECONDS = 0.2
WAIT_SECONDS = 2.0  # between two looks at what other sweeps have done


class Board:
    """What became of each run: read from the folder, which all can see.

    Args:
        out: root of the run directories.
        runs: list of `grid.Planned`.
    """

    def __init__(self, out, runs):
        self.folder = os.path.join(out, ".sweep")
        self.runs = runs
        self.claims = claims_lib.Claims(os.path.join(self.folder, "claims"))
        for name in ("logs", "failed"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        self._done = {}
        self.walls = {}  # seconds of the runs that this process did

    def result(self, run):
        """The result of a finished run, or None."""
        if run.name not in self._done:
            try:
                result = run.directory.result()
            except UserError:  # damaged: the run itself says so, and fails
                return None
            if result is None or records.extends(run.settings, result):
                return None
            run.directory.check_key()
            self._done[run.name] = result
        return self._done[run.name]

    def failure(self, run):
        """The record of how it failed, or None."""
        return claims_lib.read_json(self._failed_file(run))

    def states(self, mine=()):
        """The state of every run, as a dict from its name."""
        held = self.claims.held()
        return {run.name: self._state(run, mine, held) for run in self.runs}

    def _state(self, run, mine, held):
        if run.name in mine:
            return RUNNING
        if self.result(run) is not None:
            return DONE
        if run.name in held:
            return ELSEWHERE
        return FAILED if self.failure(run) else TO_COME

    def log_file(self, run):
        """Where the output of a run goes."""
        return os.path.join(self.folder, "logs", f"{run.name}.log")

    def _failed_file(self, run):
        return os.path.join(self.folder, "failed", f"{run.name}.json")

    def record_failure(self, run, code):
        """Writes down how a run ended, with the last lines that it printed."""
        with open(self.log_file(run), encoding="utf-8", errors="replace") as f:
            lines = collections.deque(
                (line.rstrip() for line in f if line.strip()), LAST_LINES
            )
        record = {
            "command": command(run),
            "exit_code": code,
            "reason": _reason(code),
            "host": socket.gethostname(),
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "last_lines": list(lines),
        }
        checkpoint.write_json(self._failed_file(run), record)
        return record

    def forget_failure(self, run):
        """It is to be tried again."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._failed_file(run))

    def seconds(self, run):
        """What a finished run took from its start to its result, or None.

        None for one that was interrupted: its pauses are not known.
        """
        if run.name in self.walls:
            return self.walls[run.name]
        config = run.directory.config() or {}
        starts = config.get("starts", [])
        if len(starts) != 1:
            return None
        began = time.mktime(
            time.strptime(starts[0]["started"][:19], "%Y-%m-%dT%H:%M:%S")
        )
        ended = os.stat(run.directory.file("result.json")).st_mtime
        return max(ended - began, 0.0)


def _reason(code):
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name
    return name + (" (out of memory?)" if name == "SIGKILL" else "")


def command(run):
    """The command that does a run by itself."""
    return ["python", "-m", f"tf_transfer.{run.module}", *run.words]


def start_process(run, board, slot, jobs):
    """Starts a run's process, its output going to its log.

    With several jobs each gets its share of the cores, and its record says
    how many ran side by side.
    """
    environment = {**os.environ, machine.JOBS_VARIABLE: str(jobs)}
    with open(board.log_file(run), "ab") as log:
        line = f"\n=== {time.strftime('%F %T')} {' '.join(command(run))}\n"
        log.write(line.encode())
        log.flush()
        return subprocess.Popen(
            [sys.executable, *command(run)[1:]],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: _prepare_child(slot, jobs),
        )


def _prepare_child(slot, jobs):
    """Runs in the child: its cores, and that it stops when its sweep dies."""
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
    run: object
    claim: claims_lib.Claim
    process: object
    slot: int
    began: float
    beaten: float
    is_lost: bool = False


class Worker:
    """Takes runs and does them, until there is nothing left.

    Args:
        board: `Board`.
        jobs: how many at a time.
        limit: how many to start at most; 0 for all.
        start: function (run, board, slot, jobs) to a process; unset,
            `start_process`.
        tell: function that is called with (event, run, detail, the names of
            the runs that run here): `started`, `done`, `failed`, `lost`.
        look: function that is called again and again with the names of the
            runs that run here.
    """

    def __init__(
        self,
        board,
        jobs=1,
        limit=0,
        start=None,
        tell=lambda *event: None,
        look=lambda mine: None,
    ):
        self.board = board
        self.jobs = jobs
        self.left = limit or float("inf")
        self.start = start or start_process
        self.tell = tell
        self.look = look
        self.running = []
        self._stop = False
        self._leaving = False

    def work(self):
        """Does what is to be done, and waits for what others do.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
        """
        before = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while self._turn():
                self.look(self._mine())
                time.sleep(POLL_SECONDS if self.running else WAIT_SECONDS)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._leave()
        if self._stop:
            raise Interrupted(
                "Stopped, what was running is saved. The same command "
                "continues."
            )

    def _mine(self):
        return [job.run.name for job in self.running]

    def _tell(self, event, run, detail=None):
        self.tell(event, run, detail, self._mine())

    def _note(self, number, frame):
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True

    def _turn(self):
        """One look at everything. False when there is nothing left."""
        self._leaving = self._stop
        for job in list(self.running):
            self._watch(job)
        if self._stop:
            return False
        others = False
        free = self.jobs - len(self.running)
        if free > 0:
            states = self.board.states(self._mine())
            others = ELSEWHERE in states.values()
            for run in self.board.runs:
                if free < 1 or self.left < 1:
                    break
                if states[run.name] == TO_COME:
                    if self._take(run):
                        free -= 1
                    else:
                        others = True  # was faster, or is still leaving
        return bool(self.running or (others and self.left >= 1))

    def _take(self, run):
        claim = self.board.claims.take(run.name)
        if claim is None:
            return False
        # Another sweep may have ended it a moment before; or it was killed,
        # and the run that it had started is still saving its state.
        if (
            self.board.result(run) is not None
            or self.board.failure(run)
            or run.directory.is_locked()
        ):
            claim.release()
            return False
        slot = min(set(range(self.jobs)) - {job.slot for job in self.running})
        process = self.start(run, self.board, slot, self.jobs)
        now = time.monotonic()
        self.running.append(_Job(run, claim, process, slot, now, now))
        self.left -= 1
        self._tell("started", run)
        return True

    def _watch(self, job):
        code = job.process.poll()
        if code is None:
            self._beat(job)
            return
        self.running.remove(job)
        if job.is_lost:
            self._tell("lost", job.run)
            return
        result = self.board.result(job.run)
        if result is not None:
            self.board.walls[job.run.name] = time.monotonic() - job.began
            self._tell("done", job.run, result)
            job.claim.release()
            self.board.claims.forget(job.run.name)
            return
        if not self._leaving:
            record = self.board.record_failure(job.run, code)
            self._tell("failed", job.run, record)
        job.claim.release()

    def _beat(self, job):
        if time.monotonic() - job.beaten < claims_lib.BEAT_SECONDS:
            return
        job.beaten = time.monotonic()
        if not job.claim.beat():
            # This process slept, and another sweep goes on with the run: two
            # must not write it.
            job.is_lost = True
            job.process.kill()

    def _leave(self):
        """Lets what runs save its state and end: none of it has failed."""
        self._leaving = True
        for job in self.running:
            with contextlib.suppress(ProcessLookupError):
                job.process.terminate()
        for job in list(self.running):
            job.process.wait()
            self._watch(job)


def check_failures(board, retry):
    """The runs that failed before; with `retry` they are to come again."""
    failed = [run for run in board.runs if board.failure(run)]
    if retry:
        for run in failed:
            board.forget_failure(run)
    return [] if retry else failed


def latest_line(run):
    """The last evaluation of a run that is running, or None."""
    try:
        with open(run.directory.file("epochs.jsonl"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        return json.loads(lines[-1]) if lines else None
    except (OSError, ValueError):
        return None


def check_out(out):
    """Raises `UserError` where nothing can be written."""
    try:
        os.makedirs(os.path.join(out, ".sweep"), exist_ok=True)
    except OSError as error:
        raise UserError(f"--out={out}: {error.strerror}.") from None
