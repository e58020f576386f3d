"""What a sweep shows while it works."""

import collections
import os
import sys
import time
from collections.abc import Collection
from typing import Any
from typing import TextIO

from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import states as states_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import State
from tf_transfer.sweeps.work import Event
from tf_transfer.utils import formatting

REFRESH_SECONDS = 1.0


class Display:
    """A table that is redrawn in a terminal; elsewhere a line per event.

    Args:
        run_states: of the sweep.
        jobs: how many run at the same time.
        stream: unset, the standard output.
    """

    def __init__(
        self,
        run_states: states_lib.RunStates,
        jobs: int,
        stream: TextIO | None = None,
    ) -> None:
        self.run_states = run_states
        self.jobs = jobs
        self.stream = stream or sys.stdout
        self.durations = estimate.FinishedDurations(run_states)
        self.is_terminal = self.stream.isatty()
        self._table_lines = 0  # of the table that is on the screen
        self._refreshed = 0.0
        self._print(
            f"{len(run_states.runs)} runs, below "
            f"{os.path.dirname(run_states.folder)}"
        )

    def report(
        self,
        event: Event,
        run: Planned,
        detail: dict[str, Any] | None,
        running: Collection[str],
    ) -> None:
        """Prints what happened to a run; see `work.OnEvent`."""
        line = f"{time.strftime('%T')} {event:8} {label(run)}"
        if event == "finished" and detail is not None:
            metric = detail["metric"]
            scores = detail["test"] or detail["validation"]
            line += f"  {metric} {scores[metric]:.4f}"
            line += f"  {detail['train_seconds']:.0f} s of training"
        if event == "retried" and detail is not None:
            line += f": {detail['reason']}; it is tried once more"
        if event == "failed" and detail is not None:
            output = "\n".join(f"    {line}" for line in detail["last_lines"])
            line += f": {detail['reason']}; its last lines:\n{output}\n"
            line += f"    its whole output: {self.run_states.log_file(run)}"
        self._erase()
        self._print(line)
        if not self.is_terminal:
            summary = self._summary(self.run_states.read(running))
            self._print("         " + summary)

    def refresh(self, running: Collection[str], examples: int = 0) -> None:
        """Draws the table, in a terminal; see `work.OnPoll`."""
        now = time.monotonic()
        if not self.is_terminal or now - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = now
        states = self.run_states.read(running)
        lines = table(self.run_states.runs, states).splitlines()
        for run in self.run_states.runs:
            if run.name in running:
                lines.append(f"running: {label(run)}{_progress(run)}")
        lines.append(self._summary(states))
        self._erase()
        self._print("\n".join(lines))
        self._table_lines = len(lines)

    def close(self) -> None:
        """Draws the final table."""
        self._erase()
        states = self.run_states.read()
        self._print(table(self.run_states.runs, states))
        self._print(self._summary(states))

    def _summary(self, states: dict[str, State]) -> str:
        count = collections.Counter(states.values())
        phrases = [f"{count[State.FINISHED]} of {len(states)} finished"]
        phrases += [
            f"{count[state]} {state}"
            for state in State
            if state != State.FINISHED and count[state]
        ]
        unfinished = [
            run
            for run in self.run_states.runs
            if states[run.name] in (State.RUNNING, State.PENDING)
        ]
        seconds = self.durations.remaining(unfinished, self.jobs)
        if seconds is not None:
            phrases.append(f"about {formatting.duration(seconds)} left")
        return ", ".join(phrases)

    def _erase(self) -> None:
        if self._table_lines:
            self.stream.write(f"\x1b[{self._table_lines}F\x1b[J")
            self._table_lines = 0

    def _print(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


def label(run: Planned) -> str:
    """Returns the axes of a run as text: they tell it from the others."""
    return " ".join(f"{name}={value}" for name, value in run.axes.items())


def _progress(run: Planned) -> str:
    last = states_lib.read_last_epoch(run)
    return f", epoch {last['epoch']} finished" if last else ""


def table(runs: list[Planned], states: dict[str, State]) -> str:
    """Returns how many runs of each task and approach are in which state."""
    counts: dict[tuple[str, str], collections.Counter[State]] = {}
    for run in runs:
        module = run.experiment.command_module.rpartition(".")[2]
        task = getattr(run.settings, "task", module)
        cached = " cached" if run.settings.runs_cached else ""
        key = (task, run.settings.approach + cached)
        counts.setdefault(key, collections.Counter())[states[run.name]] += 1
    rows = [("task", "approach", *State)]
    for key, count in counts.items():
        rows.append((*key, *(str(count[state] or "-") for state in State)))
    return formatting.aligned(rows)
