"""Does the runs that a planner asks for, on workers, until the time is over."""

import time
from collections.abc import Callable
from typing import Any

from tf_transfer.searches.history import Clock, History, Step
from tf_transfer.searches.planner import Action, Planner
from tf_transfer.searches.space import Choice
from tf_transfer.sweeps import work
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

# A run that exceeds its time by this much is stopped, even within an epoch.
GRACE_SECONDS = 2.0
STOP_SECONDS = 10.0  # for it to save its state, before it is killed


def say(line: str) -> None:
    """Prints a line at once, also into a pipe."""
    print(line, flush=True)


class OutOfTime(Exception):
    """A run did not end in time."""


class Runner:
    """Does runs on a pool of workers.

    Args:
        plan: makes the run of an action that may take some seconds.
        pool: of workers; it stays open.
        run_states: of the runs.
        history: records all runs.
        clock: the seconds that the search has taken.
        end: by that clock, when nothing may run any more.

    Attributes:
        runs: that are finished.
        reserved: seconds before the end that are for something else.
    """

    def __init__(
        self,
        plan: Callable[[Action, float], Planned],
        pool: work.Pool,
        run_states: RunStates,
        history: History,
        clock: Clock,
        end: float,
    ) -> None:
        self._plan = plan
        self._pool = pool
        self._pool.save_seconds = STOP_SECONDS
        self._run_states = run_states
        self._history = history
        self._clock = clock
        self._end = end
        # By name of the run: the run, and when its order or training began.
        self._orders: dict[str, tuple[Choice, float]] = {}
        self.runs: dict[Choice, Planned] = {}
        self.reserved = 0.0

    @property
    def left(self) -> float:
        """Seconds that there are."""
        return self._end - self._clock() - self.reserved

    # === Finished runs ===

    def recall(self, planner: Planner) -> None:
        """Tells a planner of all finished runs, in the order of their ends.

        Finished runs without a step become steps.
        """
        scores: dict[Choice, list[float]] = {}
        failed = []
        steps = self._history.record.steps
        choices = [
            *(
                c
                for approach in planner.space.values()
                for c in approach.choices
            ),
            *(s.choice for s in steps if s.choice.approach in planner.space),
        ]
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
                done = max(
                    (s.epochs for s in steps if s.choice == choice), default=0
                )
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
            choice,
            done + len(new),
            began,
            self._clock(),
            [line["train_seconds"] + line["eval_seconds"] for line in new],
            built or 0.0,
        )
        self._history.record.steps.append(step)
        return step

    # === Working ===

    def do_alone(self, run: Planned) -> None:
        """Does one run."""
        scheduler = work.Scheduler(
            self._run_states, self._pool, on_poll=self._check_time
        )
        scheduler.add(run)
        self._work(scheduler)

    def extend_alone(self, run: Planned) -> None:
        """Extends a finished run, or leaves it as it is if time is over."""
        if self._run_states.result(run) is None:
            self.do_alone(run)

    def do_all(self, planner: Planner) -> None:
        """Does what the planner asks for, until it asks for nothing.

        Raises:
            Interrupted: SIGTERM or Ctrl-C.
        """

        def on_event(
            event: work.Event, run: Planned, detail: dict[str, Any]
        ) -> None:
            if event == "started":  # it may have waited for a feature cache
                choice, _ = self._orders[run.name]
                self._orders[run.name] = choice, self._clock()
            elif event != "retried":
                self._end_run(planner, run, detail, event == "failed")
                self._order(planner, scheduler)

        scheduler = work.Scheduler(
            self._run_states,
            self._pool,
            on_event=on_event,
            on_poll=self._check_time,
        )
        self._order(planner, scheduler)
        self._work(scheduler)

    def _check_time(self) -> None:
        if self.left < -GRACE_SECONDS:
            raise OutOfTime

    def _work(self, scheduler: work.Scheduler) -> None:
        self._clock.start()
        try:
            scheduler.work()
        except OutOfTime:
            say("A run took longer than expected, and was stopped.")
        finally:
            self._clock.save()

    def _order(self, planner: Planner, scheduler: work.Scheduler) -> None:
        """Gives the workers the runs that are worth most."""
        while len(self._orders) < self._pool.jobs:
            busy = [choice for choice, _ in self._orders.values()]
            action = planner.next(self.left, busy)
            if action is None:
                return
            choice = action.choice
            # A run counts its seconds from its training until it is saved.
            overhead = planner.costs.overhead_seconds(choice.approach)
            run = self._plan(action, max(self.left - overhead, 1.0))
            self._orders[run.name] = choice, self._clock()
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
            run: the run.
            detail: its result, or the record of its failure.
            has_failed: whether it failed.
        """
        choice, began = self._orders.pop(run.name)
        done = planner.count_epochs(choice)
        step = self._add_step(
            choice, run, began, done, None if has_failed else detail
        )
        title = f"{choice.approach} at {planner.rate_of(choice):g}"
        title += f", seed {choice.seed}" if choice.seed else ""
        title += ", rate falling to 0" if choice.linear_epochs else ""
        if has_failed:
            planner.fail(choice)
            log = self._run_states.log_file(run)
            say(f"{title}: failed ({detail['reason']}); {log}")
            return
        scores = _scores(run.directory.epochs(), detail["metric"])
        _tell(planner, step, scores)
        self.runs[choice] = run
        self._clock.save()
        epochs = formatting.count(step.epochs, "epoch")
        say(
            f"{time.strftime('%T')} {title}, {epochs}: "
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
    """The validation scores of all epochs, in points."""
    return [100 * line["validation"][metric] for line in epochs]
