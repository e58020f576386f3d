"""The progress of a sweep on the screen."""

import collections
import os
import time
from collections.abc import Collection
from typing import Any

import rich.console
import rich.live
import rich.table

from tf_transfer.sweeps import estimate
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.sweeps.work import Event
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

REFRESH_SECONDS = 1.0
SPEED_REFRESHES = 30  # over which examples per second are averaged


class Display:
    """A table that is redrawn in a terminal; elsewhere a line per event.

    Args:
        run_states: of the sweep.
        jobs: how many run at the same time.
        console: unset, the standard output.
    """

    def __init__(
        self,
        run_states: RunStates,
        jobs: int,
        console: rich.console.Console | None = None,
    ) -> None:
        self.run_states = run_states
        self.jobs = jobs
        self.durations = estimate.FinishedDurations(run_states)
        self._console = console or rich.console.Console(
            highlight=False, markup=False, emoji=False, soft_wrap=True
        )
        self._live: rich.live.Live | None = None
        self._refreshed = 0.0
        self._trained: collections.deque[tuple[float, int]] = collections.deque(
            maxlen=SPEED_REFRESHES
        )
        out = os.path.dirname(run_states.folder)
        self._console.print(f"{len(run_states.runs)} runs, below {out}")
        if self._console.is_terminal:
            self._live = rich.live.Live(
                console=self._console, auto_refresh=False, transient=True
            )
            self._live.start()

    def report(
        self,
        event: Event,
        run: Planned,
        detail: dict[str, Any] | None,
        running: Collection[str],
    ) -> None:
        """Prints an event of a run; see `work.OnEvent`."""
        line = f"{time.strftime('%T')} {event:8} {run.label}"
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
        self._console.print(line)
        if self._live is None:
            summary = self._summary(self.run_states.read(running))
            self._console.print("         " + summary)

    def refresh(self, running: Collection[str], examples: int = 0) -> None:
        """Draws the table, in a terminal; see `work.OnPoll`."""
        now = time.monotonic()
        if self._live is None or now - self._refreshed < REFRESH_SECONDS:
            return
        self._refreshed = now
        self._trained.append((now, examples))
        states = self.run_states.read(running)
        lines = [
            f"running: {run.label}{_progress(run)}"
            for run in self.run_states.runs
            if run.name in running
        ]
        lines.append(self._summary(states) + self._speed())
        self._live.update(
            rich.console.Group(
                table(self.run_states.runs, states), "\n".join(lines)
            ),
            refresh=True,
        )

    def close(self) -> None:
        """Prints the final table."""
        if self._live is not None:
            self._live.stop()
        states = self.run_states.read()
        self._console.print(table(self.run_states.runs, states))
        self._console.print(self._summary(states))

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
        seconds, unknown = self.durations.remaining(unfinished, self.jobs)
        if seconds:
            about = f"about {formatting.duration(seconds)} left"
            if unknown:
                about += f", without {unknown} runs of unknown time"
            phrases.append(about)
        return ", ".join(phrases)

    def _speed(self) -> str:
        """Examples per second, if any were trained."""
        (begin, before), (end, after) = self._trained[0], self._trained[-1]
        if after == before:
            return ""
        return f", {(after - before) / (end - begin):,.0f} examples/s"


def _progress(run: Planned) -> str:
    try:
        lines = run.directory.epochs()
    except (OSError, UserError):
        return ""
    return f", epoch {lines[-1]['epoch']} finished" if lines else ""


def table(runs: list[Planned], states: dict[str, State]) -> rich.table.Table:
    """Returns the number of runs in each state, by task and approach."""
    counts: dict[tuple[str, str], collections.Counter[State]] = {}
    for run in runs:
        module = run.experiment.command_module.rpartition(".")[2]
        task = getattr(run.settings, "task", module)
        cached = " cached" if run.settings.runs_cached else ""
        key = (task, run.settings.approach + cached)
        counts.setdefault(key, collections.Counter())[states[run.name]] += 1
    made = rich.table.Table(
        "task",
        "approach",
        *State,
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for key, count in counts.items():
        made.add_row(*key, *(str(count[state] or "-") for state in State))
    return made
