"""Does the runs of a sweep on a pool of workers, until none is left.

Each worker does many runs (`worker`), on this machine or on a cluster (`local`,
`cluster`). A worker that dies, hangs or leaks memory is replaced, and its run
is tried once more.
"""

import dataclasses
import signal
import time
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any, Literal, Protocol

from tf_transfer.sweeps import plan
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.local import End
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import Interrupted, UserError

POLL_SECONDS = 0.05
SECONDS_TO_SAVE = 120  # that a run has once it is asked to stop
MOST_FAILED_STARTS = 5  # of workers, one after another

Event = Literal["started", "finished", "failed", "retried"]
# (event, run, result or record of failure, names of the runs running here)
OnEvent = Callable[[Event, Planned, dict[str, Any] | None, list[str]], None]
OnPoll = Callable[[list[str], int], None]  # (running runs, examples trained)


class Handle(Protocol):
    """A worker, as a sweep sees it."""

    def is_ready(self) -> bool:
        """Whether it can be given a run; one that waits for room cannot."""

    def send(self, run: Planned, log: str) -> None:
        """Gives it a run to do; it has none now."""

    def receive(self) -> tuple[list[dict[str, Any]], int | None]:
        """Its reports since the last time, and its exit code.

        The reports are those of `worker.Worker`; the code is None while it
        lives.
        """

    def end(self, how: End) -> None:
        """Ends it.

        Args:
            how: `close`, as there is no more to do; `stop`, after the state of
                its run is saved; or `kill`, at once.
        """


# From a slot, from 0, and the log of its first run, to a new worker.
Start = Callable[[int, str], Handle]


@dataclasses.dataclass
class _Member:
    """A worker of a pool; times are of `time.monotonic`.

    Attributes:
        kind: of the runs that it can do, from the first on; see `plan.kind`.
        run: what it does now.
        last: what it did last.
        sign: when it last reported.
        reason: why it is being stopped.
    """

    handle: Handle
    slot: int
    kind: Hashable = None
    run: Planned | None = None
    last: Planned | None = None
    sign: float = 0.0
    reason: str = ""


@dataclasses.dataclass
class Pool:
    """Workers that several sweeps use, one after another.

    Attributes:
        start: makes a worker.
        jobs: how many there are at most.
        hang_seconds: a worker without a report for this long hangs.
        most_memory: bytes that a worker may take; None for any.
        save_seconds: that a run has once it is asked to stop.
    """

    start: Start
    jobs: int = 1
    hang_seconds: float = float("inf")
    most_memory: float | None = None
    save_seconds: float = SECONDS_TO_SAVE
    members: list[_Member] = dataclasses.field(default_factory=list)

    def close(self) -> None:
        """Ends all workers; a run that is still on saves its state first."""
        for member in self.members:
            member.handle.end("stop" if member.run else "close")
        deadline = time.monotonic() + self.save_seconds
        while self.members and time.monotonic() < deadline:
            self.members = [
                m for m in self.members if m.handle.receive()[1] is None
            ]
            time.sleep(POLL_SECONDS)
        for member in self.members:
            member.handle.end("kill")
        self.members = []


class Scheduler:
    """Does runs until none is left.

    Args:
        run_states: of all runs.
        pool: of workers; it stays open.
        limit: how many to start at most; 0 for all.
        on_event: called when a run has started, finished or failed, or is to
            be tried once more.
        on_poll: called again and again.
        resumes: whether it also does the runs that are pending already.
    """

    def __init__(
        self,
        run_states: RunStates,
        pool: Pool,
        limit: int = 0,
        on_event: OnEvent = lambda *event: None,
        on_poll: OnPoll = lambda running, examples: None,
        resumes: bool = True,
    ) -> None:
        self.run_states = run_states
        self.pool = pool
        self.starts_left = limit or float("inf")
        self.on_event = on_event
        self.on_poll = on_poll
        self._todo = {
            name
            for name, state in run_states.read().items()
            if state == State.PENDING and resumes
        }
        self._retried: set[str] = set()  # runs that lost a worker
        self._failed_starts = 0
        # Texts whose feature cache a run builds, by its name.
        self._building: dict[str, Hashable] = {}
        self._examples = 0
        self._interrupted = False

    def add(self, run: Planned) -> None:
        """Adds a run, or more epochs of one; `on_event` may call it."""
        self.run_states.add(run)
        self._todo.add(run.name)
        self._retried.discard(run.name)

    def work(self) -> None:
        """Does all pending runs.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
            UserError: no worker starts, or the disk is full.
        """
        handlers = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while self._poll():
                self.on_poll(self._running_names(), self._examples)
                time.sleep(POLL_SECONDS)
        except BaseException:
            self._interrupted = True  # runs that end now have not failed
            raise
        finally:
            self._stop_runs()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if self._interrupted:
            raise Interrupted(
                "Stopped; the state of what was running is saved. The same "
                "command continues."
            )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def _running(self) -> list[Planned]:
        return [member.run for member in self.pool.members if member.run]

    def _running_names(self) -> list[str]:
        return [run.name for run in self._running()]

    def _event(
        self, event: Event, run: Planned, detail: dict[str, Any] | None = None
    ) -> None:
        self.on_event(event, run, detail, self._running_names())

    def _poll(self) -> bool:
        """Reads reports, and gives runs to workers. False when none is left."""
        for member in list(self.pool.members):
            self._hear(member)
        if self._interrupted:
            return False
        self._give_runs()
        return bool(self._running()) or (
            bool(self._todo) and self.starts_left >= 1
        )

    # === Giving runs ===

    def _give_runs(self) -> None:
        pool = self.pool
        while self._todo and self.starts_left >= 1:
            free = [m for m in pool.members if not m.run and not m.reason]
            idle = [member for member in free if member.handle.is_ready()]
            if not idle and len(pool.members) >= pool.jobs:
                return
            todo = [
                run
                for run in self.run_states.runs
                if run.name in self._todo and self._may_start(run)
            ]
            if idle and todo:
                self._give_one(idle[0], todo)
            elif len(todo) > len(free):
                self._start_worker(plan.choose(None, todo, self._running()))
            else:
                return

    def _may_start(self, run: Planned) -> bool:
        """Whether nobody else works on the run or builds what it reads."""
        cache = plan.feature_cache(run)
        if cache and cache[0] in self._building.values():
            return False
        # Its sweep was killed, and it is still saving its state; or somebody
        # does it alone.
        return not run.directory.is_locked()

    def _start_worker(self, first: Planned) -> None:
        slots = set(range(self.pool.jobs))
        slot = min(slots - {m.slot for m in self.pool.members})
        handle = self.pool.start(slot, self.run_states.log_file(first))
        self.pool.members.append(_Member(handle, slot))

    def _give_one(self, member: _Member, todo: list[Planned]) -> None:
        """Gives a worker the run that it does best, if it can do that."""
        run = plan.choose(member.last, todo, self._running())
        if member.kind not in (None, plan.kind(run)):
            member.reason = "of another kind"
            member.handle.end("close")
            return
        self._failed_starts = 0
        member.kind = plan.kind(run)
        member.run, member.sign = run, time.monotonic()
        cache = plan.feature_cache(run)
        if cache:
            self._building[run.name] = cache[0]
        self._todo.discard(run.name)
        if run.name not in self._retried:
            self.starts_left -= 1
        member.handle.send(run, self.run_states.log_file(run))
        self._event("started", run)

    # === Hearing workers ===

    def _hear(self, member: _Member) -> None:
        messages, exit_code = member.handle.receive()
        for message in messages:
            member.sign = time.monotonic()
            if message["event"] == "ended":
                self._end(member, message)
            elif member.run:
                self._examples += message["examples"]
                if message["examples"]:  # others may read its cache now
                    self._building.pop(member.run.name, None)
                self._check_memory(member, message["memory"])
        if exit_code is not None:
            self.pool.members.remove(member)
            if member.run:
                self._lose(member, exit_code)
            elif not member.handle.is_ready():
                self._failed_starts += 1
                is_stuck = self._failed_starts >= MOST_FAILED_STARTS
                if is_stuck and not self._running():
                    raise UserError(
                        f"{self._failed_starts} workers could not start. Read "
                        f"the newest of {self.run_states.folder}/logs, and "
                        "give the same command again."
                    )
            return
        silent = time.monotonic() - member.sign
        if member.run and silent > self.pool.hang_seconds:
            if not member.reason:
                minutes = formatting.duration(self.pool.hang_seconds)
                member.reason = f"no step for {minutes}"
            member.handle.end("kill")

    def _check_memory(self, member: _Member, memory: int | None) -> None:
        most = self.pool.most_memory
        if most and memory and memory > most and not member.reason:
            member.reason = (
                f"its process takes {formatting.size(memory)}, more than "
                "--worker_gb"
            )
            member.handle.end("stop" if member.run else "close")

    def _end(self, member: _Member, message: dict[str, Any]) -> None:
        """Records how a run ended."""
        run, outcome = member.run, message["outcome"]
        assert run is not None
        result = self.run_states.result(run)
        if result is None and outcome in ("stopped", "broken"):
            # Its process ends now.
            ended = "was stopped" if outcome == "stopped" else "broke"
            member.reason = member.reason or ended
            return
        member.run, member.last, member.reason = None, run, ""
        self._building.pop(run.name, None)
        if result is not None:
            self.run_states.measured_seconds[run.name] = message["seconds"]
            self._event("finished", run, result)
        elif outcome == "full":  # the next runs would fail, too
            raise UserError(
                f"{run.directory.path}: the disk is full, or that of the "
                "feature cache. Free some space, and give the same command."
            )
        else:
            self._fail(run, "exit code 1", 1)
        self._check_memory(member, message["memory"])

    def _lose(self, member: _Member, exit_code: int) -> None:
        """Tries the run of a worker that is gone once more."""
        run, member.run = member.run, None
        assert run is not None
        self._building.pop(run.name, None)
        result = self.run_states.result(run)
        reason = member.reason or self.run_states.explain(exit_code)
        if result is not None:
            self._event("finished", run, result)
        elif run.name in self._retried and not self._interrupted:
            self._fail(run, reason, exit_code)
        elif not self._interrupted:
            self._retried.add(run.name)
            self._todo.add(run.name)
            self._event("retried", run, {"reason": reason})

    def _fail(self, run: Planned, reason: str, exit_code: int) -> None:
        record = self.run_states.record_failure(run, exit_code, reason)
        self._event("failed", run, record)

    def _stop_runs(self) -> None:
        """Lets what runs save its state and end."""
        busy = [member for member in self.pool.members if member.run]
        for member in busy:
            member.reason = "stopped"
            member.handle.end("stop")
        deadline = time.monotonic() + self.pool.save_seconds
        while any(member.run for member in busy):
            if time.monotonic() > deadline:
                for member in busy:
                    member.handle.end("kill")
            for member in busy:
                if member in self.pool.members:
                    self._hear(member)
            time.sleep(POLL_SECONDS)
