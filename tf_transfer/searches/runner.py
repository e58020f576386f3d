"""Does the runs that a planner asks for, on workers, until the time is over."""

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tf_transfer.searches.history import History, Step
from tf_transfer.searches.planner import Action, Planner
from tf_transfer.searches.space import Choice, count_epochs
from tf_transfer.sweeps import work
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import UserError

# A run that exceeds its time by this much is stopped, even within an epoch.
GRACE_SECONDS = 2.0
STOP_SECONDS = 10.0  # for it to save its state, before it is killed
SAVE_SECONDS = 1.0  # between writings of the time that was spent


class OutOfTime(Exception):
    """A run did not end in time."""


class Clock:
    """The seconds of a search, over all its starts.

    A start counts from its beginning once it works, but not if it only repeats
    the answer. A thread writes the seconds meanwhile, so they are spent however
    the process ends.

    Args:
        began: when this start began, by `now`.
        history: has the seconds of the starts before, and is given all.
        now: the time in seconds.
    """

    def __init__(
        self,
        began: float,
        history: History,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._began = began - history.spent
        self._history = history
        self._now = now
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def __call__(self) -> float:
        """Seconds so far."""
        if self._thread is None:
            return self._history.spent
        return self._now() - self._began

    def start(self) -> None:
        """Counts this start, and writes that at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, daemon=True)
            self.save()
            self._thread.start()

    def _write(self) -> None:
        while not self._is_over.wait(SAVE_SECONDS):
            # The search itself reports a full disk when it saves a run.
            with contextlib.suppress(OSError, UserError):
                self.save()

    def save(self) -> None:
        """Writes the history, with the seconds so far."""
        self._history.spent = self()
        self._history.save()

    def stop(self) -> None:
        """Counts no longer; the answer takes no time of the budget."""
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()
            self.save()
            self._thread = None


# From an action and the seconds that it may take to the run.
Plan = Callable[[Action, float], Planned]


@dataclasses.dataclass
class _Ordered:
    """A run that a worker has: when it began, and what it had before.

    Attributes:
        action: the order.
        began: seconds of the search.
        epochs_before: of the run.
    """

    action: Action
    began: float
    epochs_before: int


class Runner:
    """Does runs on a pool of workers.

    Args:
        plan: makes the run of an action.
        pool: of workers; it stays open.
        run_states: of the runs.
        history: records all runs.
        clock: the seconds that the search has taken.
        end: by that clock, when nothing may run any more.
        say: prints a line.

    Attributes:
        runs: that are finished.
        reserved: seconds before the end that are for something else.
    """

    def __init__(
        self,
        plan: Plan,
        pool: work.Pool,
        run_states: RunStates,
        history: History,
        clock: Clock,
        end: float,
        say: Callable[[str], None] = print,
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._pool.save_seconds = STOP_SECONDS
        self._run_states = run_states
        self._history = history
        self._clock = clock
        self._end = end
        self._say = say
        self._ordered: dict[str, _Ordered] = {}
        self.runs: dict[Choice, Planned] = {}
        self.reserved = 0.0

    @property
    def left(self) -> float:
        """Seconds that there are."""
        return self._end - self._clock() - self.reserved

    # === What is on disk ===

    def recall(self, planner: Planner) -> None:
        """Tells a planner of all finished runs, in the order of their ends.

        Finished runs without a step become steps.
        """
        scores: dict[Choice, list[float]] = {}
        failed = []
        steps = self._history.steps
        choices = [c for a in planner.space.values() for c in a.choices]
        choices += [s.choice for s in steps if s.approach in planner.space]
        for choice in dict.fromkeys(choices):
            run = self._plan(Action(choice, choice.linear_epochs or 1, 0), 1.0)
            try:
                result = run.directory.result()
                epochs = run.directory.epochs() if result else []
            except (OSError, UserError):
                continue  # the run itself reports what is wrong
            if result:
                self.runs[choice] = run
                scores[choice] = _scores(epochs, result["metric"])
                known = [s.epochs for s in steps if s.choice == choice]
                done = max(known, default=0)
                if done < len(epochs):
                    self._add_step(choice, run, self._clock(), done, result)
            if self._run_states.failure(run):
                failed.append(choice)
        for step in steps:
            if step.choice in scores:
                _tell(planner, step, scores[step.choice])
        for choice in failed:
            planner.fail(choice)

    def _add_step(
        self,
        choice: Choice,
        run: Planned,
        began: float,
        done: int,
        result: dict[str, Any] | None,
    ) -> Step:
        """Adds the new epochs of a run to the history.

        Args:
            choice: the run.
            run: its directory is read.
            began: seconds of the search.
            done: epochs that it had then.
            result: the content of `result.json`; None if it failed.
        """
        new = run.directory.epochs()[done:] if result else []
        built = result["prefix_seconds"] if result and not done else 0.0
        step = Step(
            **dataclasses.asdict(choice),
            epochs=done + len(new),
            began=began,
            ended=self._clock(),
            path=os.path.relpath(run.directory.path, self._history.out),
            epoch_seconds=[e["train_seconds"] + e["eval_seconds"] for e in new],
            build_seconds=built or 0.0,
        )
        self._history.steps.append(step)
        return step

    # === Working ===

    def do_alone(
        self, run: Planned, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Does one run; `meanwhile` is called once, when it has started."""
        waiting = [meanwhile] if meanwhile else []

        def poll(examples: int) -> None:
            if self._run_states.running and waiting:
                waiting.pop()()
            self._check_time()

        scheduler = work.Scheduler(self._run_states, self._pool, on_poll=poll)
        scheduler.add(run)
        self._work(scheduler)
        if waiting:
            waiting.pop()()

    def continue_alone(self, run: Planned) -> None:
        """Extends a finished run, or leaves it as it is if time is over."""
        self._run_states.forget(run)  # forgets its old result
        if self._run_states.result(run) is None:
            self._history.back_up(run.directory.path)
            self.do_alone(run)

    def do_all(self, planner: Planner) -> None:
        """Does what the planner asks for, until it asks for nothing.

        Raises:
            Interrupted: SIGTERM or Ctrl-C.
        """

        def on_event(
            event: work.Event,
            run: Planned,
            detail: dict[str, Any],
        ) -> None:
            if event == "started":  # it may have waited for a feature cache
                self._ordered[run.name].began = self._clock()
            elif event != "retried":
                self._end_run(planner, run, detail, event == "failed")
                self._order(planner, scheduler)

        scheduler = work.Scheduler(
            self._run_states,
            self._pool,
            on_event=on_event,
            on_poll=lambda examples: self._check_time(),
        )
        self._order(planner, scheduler)
        self._work(scheduler)

    def _work(self, scheduler: work.Scheduler) -> None:
        self._clock.start()
        try:
            scheduler.work()
        except OutOfTime:
            self._say("A run took longer than expected, and was stopped.")
        finally:
            self._ordered = {}
            self._history.restore_all()
            self._clock.save()

    def _check_time(self) -> None:
        if self.left < -GRACE_SECONDS:
            raise OutOfTime

    def _order(self, planner: Planner, scheduler: work.Scheduler) -> None:
        """Gives the workers the runs that are worth most."""
        while len(self._ordered) < self._pool.jobs:
            busy = [ordered.action.choice for ordered in self._ordered.values()]
            action = planner.next(self.left, busy)
            if action is None:
                return
            # A run counts its seconds from its training until it is saved.
            overhead = planner.costs.overhead_seconds(action.choice.approach)
            run = self._plan(action, max(self.left - overhead, 1.0))
            done = len(planner.curves.get(action.choice, ()))
            if done:
                self._history.back_up(run.directory.path)
            self._ordered[run.name] = _Ordered(action, self._clock(), done)
            scheduler.add(run)

    def _end_run(
        self,
        planner: Planner,
        run: Planned,
        detail: dict[str, Any],
        has_failed: bool,
    ) -> None:
        """Reports a run to planner, history and screen.

        Args:
            planner: that asked for it.
            run: which.
            detail: its result, or the record of its failure.
            has_failed: whether it failed.
        """
        ordered = self._ordered.pop(run.name)
        choice, began = ordered.action.choice, ordered.began
        title = f"{choice.approach} at {planner.rate_of(choice):g}"
        title += f", seed {choice.seed}" if choice.seed else ""
        title += ", rate falling to 0" if choice.linear_epochs else ""
        step = self._add_step(
            choice,
            run,
            began,
            ordered.epochs_before,
            None if has_failed else detail,
        )
        if has_failed:
            planner.fail(choice)
            self._history.restore(run.directory.path)
            log = self._run_states.log_file(run)
            self._say(f"{title}: failed ({detail['reason']}); {log}")
            return
        scores = _scores(run.directory.epochs(), detail["metric"])
        _tell(planner, step, scores)
        self.runs[choice] = run
        self._history.discard_backup(run.directory.path)
        self._clock.save()
        self._say(
            f"{time.strftime('%T')} {title}, {count_epochs(step.epochs)}: "
            f"validation {detail['metric']} {max(scores):.1f}  "
            f"({step.ended - began:.0f} s)"
        )


def _tell(planner: Planner, step: Step, scores: list[float]) -> None:
    """Tells a planner of a step, with the scores of all epochs of its run."""
    if step.epoch_seconds:  # else it failed
        planner.tell(
            step.choice,
            scores[: step.epochs],
            step.epoch_seconds,
            step.build_seconds,
            step.ended - step.began or None,  # unknown for a recalled run
        )


def _scores(epochs: list[dict[str, Any]], metric: str) -> list[float]:
    """Of validation, in points: a search reads no other."""
    return [100 * line["validation"][metric] for line in epochs]
