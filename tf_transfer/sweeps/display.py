"""The progress of a sweep on the screen."""

import collections
import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

import tqdm

from tf_transfer.sweeps import estimate
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.sweeps.work import Event
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

REFRESH_SECONDS = 1.0
BAR = "{percentage:3.0f}%|{bar:20}| {desc}"


class Display:
    """A line per event, and a bar in a terminal.

    Args:
        run_states: Of the sweep.
        jobs: The number of runs at the same time.
        stream: Where the bar is drawn; unset, the standard error.
    """

    def __init__(
        self,
        run_states: RunStates,
        jobs: int,
        stream: TextIO | None = None,
    ) -> None:
        self.run_states = run_states
        self.jobs = jobs
        self._bar = tqdm.tqdm(
            total=len(run_states.runs),
            file=stream or sys.stderr,
            disable=None,  # where the stream is no terminal
            dynamic_ncols=True,
            leave=False,
            bar_format=BAR,
        )
        self._drawn_at = 0.0  # time of the last bar
        self._start_times: dict[str, float] = {}  # of runs, by name
        self._estimator = estimate.Estimator()
        with contextlib.suppress(OSError, UserError):
            finished = run_states.select(State.FINISHED)
            self._estimator.measure_all(finished)
        out = os.path.dirname(run_states.folder)
        self._print(f"{len(run_states.runs)} runs, below {out}")

    def _print(self, text: str) -> None:
        """Prints a text above the bar."""
        with self._bar.external_write_mode(sys.stdout):
            print(text, flush=True)

    def report(self, event: Event, run: Planned, detail: Record) -> None:
        """Prints an event of a run; see `work.OnEvent`."""
        line = f"{time.strftime('%T')} {event:8} {run.label}"
        if event == "started":
            self._start_times[run.name] = time.monotonic()
        elif event == "finished":
            seconds = time.monotonic() - self._start_times[run.name]
            with contextlib.suppress(OSError, UserError):
                self._estimator.measure(run, seconds)
            metric = detail["metric"]
            scores = detail["test"] or detail["validation"] or {}
            if metric in scores:
                line += f"  {metric} {scores[metric]:.4f}"
            line += f"  {_describe_seconds(run, detail, seconds)}"
        elif event == "retried":
            line += f": {detail['reason']}; it is tried once more"
        elif event == "failed":
            output = "\n".join(f"    {line}" for line in detail["last_lines"])
            line += f": {detail['reason']}; its last lines:\n{output}\n"
            line += f"    its whole output: {self.run_states.log_file(run)}"
        self._print(line)
        if self._bar.disable:
            states = self.run_states.read_states()
            self._print("         " + self._summary(states))

    def refresh(self) -> None:
        """Draws the bar, in a terminal; see `work.OnPoll`."""
        now = time.monotonic()
        if now - self._drawn_at < REFRESH_SECONDS or self._bar.disable:
            return
        self._drawn_at = now
        states = self.run_states.read_states()
        phrases = [self._summary(states)]
        for run in self.run_states.running:
            phrases.append(f"{run.label}{_progress(run)}")
        self._bar.n = [*states.values()].count(State.FINISHED)
        self._bar.set_description_str("; ".join(phrases))

    def close(self) -> None:
        """Prints the final table."""
        self._bar.close()
        states = self.run_states.read_states()
        self._print(make_table(self.run_states.runs, states))
        self._print(self._summary(states))

    def _summary(self, states: Mapping[str, State]) -> str:
        count = collections.Counter(states.values())
        phrases = [
            f"{count[State.FINISHED]} of {count.total()} finished",
            *(
                f"{count[state]} {state}"
                for state in State
                if count[state] and state != State.FINISHED
            ),
        ]
        unfinished = [
            run
            for run in self.run_states.runs
            if states[run.name] in (State.RUNNING, State.PENDING)
        ]
        if unfinished and not count[State.FINISHED]:
            phrases.append("time left unknown until the first run is finished")
        elif unfinished:
            with contextlib.suppress(OSError, UserError):  # the run reports it
                phrases.append(self._describe_time_left(unfinished))
        return ", ".join(phrases)

    def _describe_time_left(self, unfinished: Sequence[Planned]) -> str:
        """The clause on the time of runs that run or are pending."""
        for run in self.run_states.running:
            self._estimator.measure(run)
        seconds = [self._estimate_remaining(run) for run in unfinished]
        builds = self._estimator.estimate_builds(unfinished)
        total = estimate.add([*seconds, builds])
        if total is not None:
            return f"about {formatting.duration(total / self.jobs)} left"
        unknown = [r for r, s in zip(unfinished, seconds) if s is None]
        label = (unknown or unfinished)[0].label
        return f"time left unknown until a run like {label} is finished"

    def _estimate_remaining(self, run: Planned) -> float | None:
        """The seconds that a run still takes; None if not known.

        Raises:
            UserError: Its epochs are not known here.
        """
        self._estimator.count(run)
        if run not in self.run_states.running:
            return self._estimator.estimate(run)
        lines = _read_epochs(run)
        if lines:
            spent = estimate.add_up(lines, "train_seconds")
            spent += estimate.add_up(lines, "eval_seconds")
            done = lines[-1]["epoch"]
            epochs = sum(run.settings.phase_epochs)
            return float(spent / done * max(0, epochs - done))
        seconds = self._estimator.estimate(run)
        if seconds is None:
            return None
        began = self._start_times.get(run.name, time.monotonic())
        return max(0.0, seconds - (time.monotonic() - began))


def _describe_seconds(run: Planned, result: Record, wall: float) -> str:
    """The seconds of the parts of a finished run, the longest first.

    Those of a run that an earlier sweep began are of several starts.
    """
    with contextlib.suppress(OSError, UserError):
        parts = {
            "training": result["train_seconds"] or 0.0,
            "evaluation": estimate.add_up(
                run.directory.epochs(), "eval_seconds"
            ),
            "tracing": result.get("trace_seconds") or 0.0,
        }
        rest = wall - sum(parts.values())
        if rest >= 0:
            parts["loading and saving"] = rest
            ranked = sorted(parts.items(), key=lambda part: -part[1])
            shown = [f"{name} {s:.0f}" for name, s in ranked if s >= 0.5]
            return f"{wall:.0f} s: {', '.join(shown)}" if shown else "0 s"
    return f"{wall:.0f} s"


def _read_epochs(run: Planned) -> list[Record]:
    """The epochs of a run so far; none before it has a folder."""
    with contextlib.suppress(OSError, UserError):
        return run.directory.epochs()
    return []


def _progress(run: Planned) -> str:
    lines = _read_epochs(run)
    return f", epoch {lines[-1]['epoch']} finished" if lines else ""


def make_table(runs: Sequence[Planned], states: Mapping[str, State]) -> str:
    """The number of runs in each state, by task and approach.

    Args:
        runs: Of the sweep.
        states: By the names of runs.
    """
    count = collections.Counter(
        (_name_group(run), states[run.name]) for run in runs
    )
    rows: list[tuple[str, ...]] = [("task", "approach", *State)]
    for group in dict.fromkeys(group for group, _ in count):
        numbers = [str(count[group, state] or "-") for state in State]
        rows.append((*group, *numbers))
    return formatting.aligned(rows)


def _name_group(run: Planned) -> tuple[str, str]:
    """Task and approach of a run."""
    module = run.experiment.command_module.rpartition(".")[2]
    cached = " cached" if run.settings.runs_cached else ""
    task = getattr(run.settings, "task", module)
    return task, run.settings.approach + cached
