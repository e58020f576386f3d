"""Does what a planner asks for, on workers, until the time is over."""

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from tf_transfer.searches.history import History
from tf_transfer.searches.history import Step
from tf_transfer.searches.planner import Action
from tf_transfer.searches.planner import Planner
from tf_transfer.searches.space import Choice
from tf_transfer.searches.space import count_epochs
from tf_transfer.sweeps import work
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import UserError

# A run that is over its time by so much is stopped, wherever it is.
GRACE_SECONDS = 2.0
STOP_SECONDS = 10.0  # for it to save its state, before it is killed
SAVE_SECONDS = 1.0  # between writings of the time that was spent


class OutOfTime(Exception):
    """A run did not end in time."""


class Clock:
    """The seconds of a search, over all its starts.

    This start counts from its beginning once it works, not where it only
    repeats the answer. A thread writes the seconds meanwhile: however the
    process ends, they are spent.

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
        self._began = began
        self._before = history.spent
        self._history = history
        self._now = now
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def __call__(self) -> float:
        """Seconds so far."""
        if self._thread is None:
            return self._before
        return self._before + self._now() - self._began

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
            self._before, self._thread = self._history.spent, None


# From an action and the seconds that it may take to the run.
Plan = Callable[[Action, float], Planned]


@dataclasses.dataclass
class _Going:
    """A run that goes on: what was asked for, and when."""

    action: Action
    began: float
    epochs_before: int


class Runner:
    """Does runs on a pool of workers.

    Args:
        plan: makes the run of an action.
        pool: of workers; it stays open.
        run_states: of the runs.
        history: is told what was done.
        clock: says how many seconds the search has taken.
        end: by that clock, when nothing may run any more.
        say: prints a line.

    Attributes:
        runs: that are finished.
        kept: seconds before the end that are for something else.
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
        self._going: dict[str, _Going] = {}
        self.runs: dict[Choice, Planned] = {}
        self.kept = 0.0

    # === What is on disk ===

    def recall(self, planner: Planner) -> None:
        """Tells a planner what was done, as it was told when it was done.

        Runs that are finished without a step are steps from now on.
        """
        scores: dict[Choice, list[float]] = {}
        failed = []
        for choice in self._known_choices(planner):
            run = self._plan(Action(choice, choice.linear_epochs or 1, 0), 1.0)
            try:
                result = run.directory.result()
                epochs = run.directory.epochs() if result else []
            except (OSError, UserError):
                continue  # the run itself says what is wrong, once it is asked
            if result:
                self.runs[choice] = run
                scores[choice] = _scores(epochs, result["metric"])
                steps = [s for s in self._history.steps if s.choice == choice]
                done = max((step.epochs for step in steps), default=0)
                if done < len(epochs):
                    self._add_step(choice, run, self._clock(), done, result)
            if self._run_states.failure(run):
                failed.append(choice)
        for step in self._history.steps:
            if step.choice in scores:
                self._tell(planner, step, scores[step.choice])
        for choice in failed:
            planner.fail(choice)

    @staticmethod
    def _tell(planner: Planner, step: Step, scores: list[float]) -> None:
        """Tells a planner of a step.

        Args:
            planner: is told.
            step: what was done.
            scores: of all epochs of its run.
        """
        if step.epoch_seconds:  # else it failed
            planner.tell(
                step.choice,
                scores[: step.epochs],
                step.epoch_seconds,
                step.build_seconds,
                step.ended - step.began or None,  # not known of what was found
            )

    def _add_step(
        self,
        choice: Choice,
        run: Planned,
        began: float,
        done: int,
        result: dict[str, Any] | None,
    ) -> Step:
        """Adds what a run has done since to the history.

        Args:
            choice: the run.
            run: its directory is read.
            began: seconds of the search.
            done: epochs that it had then.
            result: what `result.json` says; None if it failed.
        """
        new = run.directory.epochs()[done:] if result else []
        built = result["prefix_seconds"] if result and not done else 0.0
        step = Step(
            **dataclasses.asdict(choice),
            epochs=done + len(new),
            began=began,
            ended=self._clock(),
            path=os.path.relpath(run.directory.path, self._out),
            epoch_seconds=_seconds(new),
            build_seconds=built or 0.0,
        )
        self._history.steps.append(step)
        return step

    def _known_choices(self, planner: Planner) -> list[Choice]:
        choices = [
            Choice(approach.name, rate)
            for approach in planner.space.values()
            for rate in range(len(approach.rates))
        ]
        choices += [
            step.choice
            for step in self._history.steps
            if step.approach in planner.space
        ]
        return list(dict.fromkeys(choices))

    # === Working ===

    def do_alone(self, run: Planned, meanwhile: Callable[[], None]) -> None:
        """Does one run; `meanwhile` is called once it has been started."""
        todo = [meanwhile]

        def poll(running: list[str], examples: int) -> None:
            del examples
            while running and todo:
                todo.pop()()
            self._tick()

        scheduler = work.Scheduler(
            self._run_states, self._pool, on_poll=poll, resumes=False
        )
        scheduler.add(run)
        self._work(scheduler)
        while todo:
            todo.pop()()

    def continue_alone(self, run: Planned) -> None:
        """Lets a finished run go on; it stays what it was if time is over."""
        self._run_states.add(run)  # forgets what it was
        if self._run_states.result(run) is None:
            self._history.keep(run.directory.path)
            self.do_alone(run, meanwhile=lambda: None)

    def do_all(self, planner: Planner) -> None:
        """Does what the planner asks for, until it asks for nothing.

        Raises:
            Interrupted: SIGTERM or Ctrl-C.
        """
        scheduler = work.Scheduler(
            self._run_states,
            self._pool,
            on_event=lambda event, run, detail, running: self._hear(
                planner, scheduler, event, run, detail
            ),
            on_poll=lambda running, examples: self._tick(),
            resumes=False,  # what was stopped for its time stays so
        )
        self._feed(planner, scheduler)
        self._work(scheduler)

    def _work(self, scheduler: work.Scheduler) -> None:
        self._clock.start()
        try:
            scheduler.work()
        except OutOfTime:
            self._say("A run took longer than expected, and was stopped.")
        finally:
            self._going = {}
            self._history.bring_back()
            self._clock.save()

    @property
    def _out(self) -> str:
        return os.path.dirname(self._history.folder)

    @property
    def left(self) -> float:
        """Seconds that there are."""
        return self._end - self._clock() - self.kept

    def _tick(self) -> None:
        if self.left < -GRACE_SECONDS:
            raise OutOfTime

    def _feed(self, planner: Planner, scheduler: work.Scheduler) -> None:
        """Gives the workers what is worth most."""
        while len(self._going) < self._pool.jobs:
            busy = [going.action.choice for going in self._going.values()]
            action = planner.next(self.left, busy)
            if action is None:
                return
            # Its seconds count from where it begins to train until it is saved.
            beside = planner.costs.beside_seconds(action.choice.approach)
            run = self._plan(action, max(self.left - beside, 1.0))
            done = len(planner.curves.get(action.choice, ()))
            if done:
                self._history.keep(run.directory.path)
            self._going[run.name] = _Going(action, self._clock(), done)
            scheduler.add(run)

    def _hear(
        self,
        planner: Planner,
        scheduler: work.Scheduler,
        event: work.Event,
        run: Planned,
        detail: dict[str, Any] | None,
    ) -> None:
        if event == "started":  # it may have waited for a feature cache
            self._going[run.name].began = self._clock()
        if event not in ("finished", "failed"):
            return
        going = self._going.pop(run.name)
        choice = going.action.choice
        if event == "failed":
            planner.fail(choice)
            self._add_step(choice, run, going.began, going.epochs_before, None)
            self._history.bring_back_run(run.directory.path)
            reason = (detail or {}).get("reason", "")
            log = self._run_states.log_file(run)
            self._say(
                f"{self._label(planner, choice)}: failed ({reason}); {log}"
            )
        else:
            assert detail is not None
            self._note(planner, going, run, detail)
            self._history.let_go(run.directory.path)
        self._feed(planner, scheduler)

    def _note(
        self,
        planner: Planner,
        going: _Going,
        run: Planned,
        result: dict[str, Any],
    ) -> None:
        """Tells the planner, the history and the screen of a finished run."""
        choice = going.action.choice
        scores = _scores(run.directory.epochs(), result["metric"])
        step = self._add_step(
            choice, run, going.began, going.epochs_before, result
        )
        self._tell(planner, step, scores)
        self.runs[choice] = run
        self._clock.save()
        title = f"{time.strftime('%T')} {self._label(planner, choice)}"
        self._say(
            f"{title}, {count_epochs(step.epochs)}: validation "
            f"{result['metric']} {max(scores):.1f}  "
            f"({step.ended - step.began:.0f} s)"
        )

    @staticmethod
    def _label(planner: Planner, choice: Choice) -> str:
        rate = planner.space[choice.approach].rates[choice.rate]
        more = f", seed {choice.seed}" if choice.seed else ""
        more += ", rate falling to 0" if choice.linear_epochs else ""
        return f"{choice.approach} at {rate:g}{more}"


def _scores(epochs: list[dict[str, Any]], metric: str) -> list[float]:
    """Of validation, in points: a search reads no other."""
    return [100 * line["validation"][metric] for line in epochs]


def _seconds(epochs: list[dict[str, Any]]) -> list[float]:
    """Training and evaluation of each epoch."""
    return [line["train_seconds"] + line["eval_seconds"] for line in epochs]
