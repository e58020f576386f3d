"""Does the runs of a sweep on a pool of workers, until none is left.

Each worker does many runs (`worker`), on this machine or on a cluster (`local`,
`cluster`). A worker that dies, hangs or leaks memory is replaced, and its run
is tried once more.
"""

import abc
import dataclasses
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from tf_transfer.sweeps import plan, states
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.sweeps.worker import Order, SECONDS_TO_SAVE
from tf_transfer.training.signals import StopSignals
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import Interrupted, RunError
from tf_transfer.utils.json_files import Record

POLL_SECONDS = 0.05
MOST_FAILED_STARTS = 5  # of workers, one after another
MOST_RECENT = 4  # runs of a worker: a network keeps as many traced programs
REASONS = {"stopped": "was stopped", "broken": "broke"}  # by outcome of a run

Event = Literal["started", "finished", "failed", "retried"]
# (event, run, its result or the record of its failure)
OnEvent = Callable[[Event, Planned, Record], None]
OnPoll = Callable[[], None]
End = Literal["close", "stop", "kill"]  # how to end a worker


class Handle(abc.ABC):
    """A worker of a sweep; times are of `time.monotonic`.

    Attributes:
        is_ready: Whether it can be given a run; one that waits for room cannot.
        slot: Its number in the pool, from 0.
        run: The run that it does now.
        recent: The runs that it did last.
        building: The texts whose feature cache its run builds.
        last_report: When it last reported.
        reason: Why it is being stopped.
    """

    is_ready = True
    slot = 0
    run: Planned | None = None
    recent: Sequence[Planned] = ()
    building: Hashable = None
    last_report = 0.0
    reason = ""

    @abc.abstractmethod
    def send(self, order: Order) -> None:
        """Gives it a run to do; it has none now."""

    @abc.abstractmethod
    def receive(self) -> tuple[list[Record], int | None]:
        """Its new reports, and its exit code once it has ended.

        The reports are those of `worker.Worker`; the code is None while it
        lives. A code of minus n means that signal n ended it.
        """

    @abc.abstractmethod
    def end(self, how: End) -> None:
        """Ends it.

        Args:
            how: `close`, as there is no more to do; `stop`, after the state of
                its run is saved; or `kill`, at once.
        """


@dataclasses.dataclass
class Pool:
    """Workers that several sweeps use, one after another.

    Attributes:
        start: Makes a worker, from its slot and the log of its first run.
        jobs: The most workers at the same time.
        hang_seconds: A worker without a report for this long hangs.
        most_memory: Bytes that a worker may take; None for any.
        save_seconds: That a run has once it is asked to stop.
    """

    start: Callable[[int, str], Handle]
    jobs: int = 1
    hang_seconds: float = float("inf")
    most_memory: float | None = None
    save_seconds: float = SECONDS_TO_SAVE
    workers: list[Handle] = dataclasses.field(default_factory=list)

    def add_worker(self, log: str) -> None:
        """Starts another worker, in the first free slot."""
        slots = set(range(self.jobs)) - {w.slot for w in self.workers}
        worker = self.start(min(slots), log)
        worker.slot = min(slots)
        self.workers.append(worker)

    def close(self) -> None:
        """Ends all workers; a run that still trains saves its state first."""
        for worker in self.workers:
            worker.end("stop" if worker.run else "close")
        deadline = time.monotonic() + self.save_seconds
        while self.workers and time.monotonic() < deadline:
            self.workers = [w for w in self.workers if w.receive()[1] is None]
            time.sleep(POLL_SECONDS)
        for worker in self.workers:
            worker.end("kill")
        self.workers = []


class Scheduler:
    """Does runs until none is left.

    Args:
        run_states: Of the runs.
        pool: Of workers; it stays open.
        todo: The runs to do, in this order.
        on_event: Called when a run has started, finished or failed, or is to
            be tried once more.
        on_poll: Called at every poll.
    """

    def __init__(
        self,
        run_states: RunStates,
        pool: Pool,
        todo: Sequence[Planned] = (),
        on_event: OnEvent = lambda event, run, detail: None,
        on_poll: OnPoll = lambda: None,
    ) -> None:
        self.run_states = run_states
        self.pool = pool
        self.on_event = on_event
        self.on_poll = on_poll
        self._todo = list(todo)
        self._retried: set[str] = set()  # runs that lost a worker
        self._failed_starts = 0
        self._signals = StopSignals()

    def add(self, run: Planned) -> None:
        """Adds a run, or more epochs of one; `on_event` may call it."""
        self._todo.append(run)
        self._retried.discard(run.name)

    def work(self) -> None:
        """Does all runs.

        Raises:
            Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
            RunError: No worker starts, or the disk is full.
        """
        with self._signals:
            try:
                while self._poll():
                    self.on_poll()
                    time.sleep(POLL_SECONDS)
            except BaseException:
                self._signals.came = True  # runs that end now have not failed
                raise
            finally:
                self._stop_runs()
        if self._signals.came:
            raise Interrupted(
                "Stopped; the state of what was running is saved. The same "
                "command continues."
            )

    def _poll(self) -> bool:
        """Reads reports, and gives runs to workers. False when none is left."""
        for worker in list(self.pool.workers):
            self._receive_reports(worker)
        if self._signals.came:
            return False
        self._give_runs()
        return bool(self._todo or self.run_states.running)

    # === Giving runs ===

    def _give_runs(self) -> None:
        pool = self.pool
        while self._todo:
            free = [w for w in pool.workers if not w.run and not w.reason]
            idle = [worker for worker in free if worker.is_ready]
            if not idle and len(pool.workers) >= pool.jobs:
                return
            todo = [run for run in self._todo if self._may_start(run)]
            if idle and todo:
                self._give_run(idle[0], todo)
            elif len(todo) > len(free):
                first = plan.choose_run([], todo, self.run_states.running)
                pool.add_worker(self.run_states.log_file(first))
            else:
                return

    def _may_start(self, run: Planned) -> bool:
        """Whether no process works on the run or builds what it reads."""
        cache = plan.feature_cache(run)
        if cache and cache[0] in [w.building for w in self.pool.workers]:
            return False
        # Its sweep was killed, and it is still saving its state.
        return not run.directory.is_locked()

    def _give_run(self, worker: Handle, todo: list[Planned]) -> None:
        """Gives a worker the run that it does best, if it can do that."""
        run = plan.choose_run(worker.recent, todo, self.run_states.running)
        kinds = {plan.kind(last) for last in worker.recent}
        if kinds - {plan.kind(run)}:
            worker.reason = "of another kind"
            worker.end("close")
            return
        self._failed_starts = 0
        worker.run = run
        worker.last_report = time.monotonic()
        cache = plan.feature_cache(run)
        worker.building = cache and cache[0]
        self._todo.remove(run)
        self.run_states.running.append(run)
        also = plan.list_lower_cuts(run, self._todo)
        worker.send(Order.of_run(run, self.run_states.log_file(run), also))
        self.on_event("started", run, {})

    # === Reports of workers ===

    def _receive_reports(self, worker: Handle) -> None:
        messages, exit_code = worker.receive()
        for message in messages:
            worker.last_report = time.monotonic()
            if message["event"] == "alive":
                if message["has_trained"]:  # others may read its cache now
                    worker.building = None
            elif message["outcome"] in REASONS:  # its process ends now
                worker.reason = worker.reason or REASONS[message["outcome"]]
            else:
                worker.reason = ""
                self._take_back(worker, message["outcome"], 1)
            self._check_memory(worker, message["memory"])
        silent = time.monotonic() - worker.last_report
        if exit_code is not None:
            self.pool.workers.remove(worker)
            if worker.run:
                self._take_back(worker, "lost", exit_code)
            elif not worker.is_ready:
                self._count_failed_start()
        elif worker.run and silent > self.pool.hang_seconds:
            minutes = formatting.duration(self.pool.hang_seconds)
            worker.reason = worker.reason or f"no step for {minutes}"
            worker.end("kill")

    def _count_failed_start(self) -> None:
        self._failed_starts += 1
        is_stuck = self._failed_starts >= MOST_FAILED_STARTS
        if is_stuck and not self.run_states.running:
            raise RunError(
                f"{self._failed_starts} workers could not start. Read the "
                f"newest of {self.run_states.folder}/logs, and give the same "
                "command again."
            )

    def _check_memory(self, worker: Handle, memory: int | None) -> None:
        most = self.pool.most_memory
        if most and memory and memory > most and not worker.reason:
            worker.reason = (
                f"its process takes {formatting.size(memory)}, more than "
                "--worker_gb"
            )
            worker.end("stop" if worker.run else "close")

    def _take_back(self, worker: Handle, outcome: str, exit_code: int) -> None:
        """Takes back a worker's run: it is finished, has failed, or is retried.

        Args:
            worker: It no longer does its run.
            outcome: See `worker.Worker.do`; `lost` with the process.
            exit_code: Of the run, or of the process.
        """
        run = worker.run
        assert run is not None
        worker.recent = [*worker.recent, run][-MOST_RECENT:]
        worker.run = worker.building = None
        self.run_states.running.remove(run)
        result = self.run_states.result(run)
        reason = worker.reason or states.explain_exit(exit_code)
        is_lost = outcome == "lost"
        # A result may be the one that the run was to extend.
        if outcome == "finished" and result is not None:
            self.on_event("finished", run, result)
        elif outcome == "full":  # the next runs would fail as well
            raise RunError(
                f"{run.directory.path}: the disk of the run or of the feature "
                "cache is full or missing. Free some space, and give the same "
                "command."
            )
        elif is_lost and self._signals.came:
            return  # the same command continues it
        elif is_lost and run.name not in self._retried:
            self._retried.add(run.name)
            self._todo.insert(0, run)
            self.on_event("retried", run, {"reason": reason})
        else:
            record = self.run_states.record_failure(run, exit_code, reason)
            self.on_event("failed", run, record)

    def _stop_runs(self) -> None:
        """Lets runs save their state and end."""
        busy = [worker for worker in self.pool.workers if worker.run]
        for worker in busy:
            worker.reason = "stopped"
            worker.end("stop")
        deadline = time.monotonic() + self.pool.save_seconds
        while any(worker.run for worker in busy):
            for worker in busy:
                if time.monotonic() > deadline:
                    worker.end("kill")
                if worker in self.pool.workers:
                    self._receive_reports(worker)
            time.sleep(POLL_SECONDS)
