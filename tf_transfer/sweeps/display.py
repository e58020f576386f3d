"""What a sweep shows of itself while it works."""

import collections
import os
import sys
import time

from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import work
from tf_transfer.utils import formatting

REDRAW_SECONDS = 1.0


class Display:
    """A table that is drawn again and again, or lines where nobody looks.

    Args:
        board: `work.Board`.
        jobs: runs side by side.
    """

    def __init__(self, board, jobs, stream=None):
        self.board = board
        self.jobs = jobs
        self.stream = stream or sys.stdout
        self.pace = estimate.Pace(board)
        self.is_screen = self.stream.isatty()
        self._drawn = 0  # lines of the table that stands on the screen
        self._drawn_at = 0.0
        self._print(
            f"{len(board.runs)} runs, below {os.path.dirname(board.folder)}"
        )

    def tell(self, event, run, detail, mine):
        """A line on something that happened; `mine` runs here now."""
        line = f"{time.strftime('%T')} {event:8}{label(run)}"
        if event == "done":
            metric = detail["metric"]
            scores = detail["test"] or detail["validation"]
            line += f"  {metric} {scores[metric]:.4f}"
            line += f"  {detail['train_seconds']:.0f} s of training"
        if event == "failed":
            said = "\n".join(f"    {line}" for line in detail["last_lines"])
            line += f": {detail['reason']}; its last lines:\n{said}\n"
            line += f"    all of it: {self.board.log_file(run)}"
        if event == "lost":
            line += ": another sweep took it over while this one slept"
        self._erase()
        self._print(line)
        if not self.is_screen:
            self._print("         " + self._summary(self.board.states(mine)))

    def look(self, mine):
        """Draws the table, where it stands on a screen."""
        now = time.monotonic()
        if not self.is_screen or now - self._drawn_at < REDRAW_SECONDS:
            return
        self._drawn_at = now
        states = self.board.states(mine)
        lines = table(self.board.runs, states).splitlines()
        for run in self.board.runs:
            if run.name in mine:
                lines.append(f"running: {label(run)}{_where(run)}")
        lines.append(self._summary(states))
        self._erase()
        self._print("\n".join(lines))
        self._drawn = len(lines)

    def end(self):
        """The table as it stands at the end."""
        self._erase()
        states = self.board.states()
        self._print(table(self.board.runs, states))
        self._print(self._summary(states))

    def _summary(self, states):
        count = collections.Counter(states.values())
        words = [f"{count[work.DONE]} of {len(states)} done"]
        words += [
            f"{count[state]} {state}"
            for state in (
                work.RUNNING,
                work.ELSEWHERE,
                work.FAILED,
                work.TO_COME,
            )
            if count[state]
        ]
        open_ = [
            run
            for run in self.board.runs
            if states[run.name] in (work.RUNNING, work.TO_COME)
        ]
        left = self.pace.left(open_, self.jobs)
        if left is not None:
            words.append(f"about {formatting.duration(left)} left")
        return ", ".join(words)

    def _erase(self):
        if self._drawn:
            self.stream.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0

    def _print(self, lines):
        print(lines, file=self.stream, flush=True)


def label(run):
    """A run by what tells it from the others."""
    return " ".join(f"{name}={value}" for name, value in run.axes.items())


def _where(run):
    line = work.latest_line(run)
    return f", epoch {line['epoch']} done" if line else ""


def table(runs, states):
    """How many runs of each task and approach are in which state."""
    count = collections.defaultdict(collections.Counter)
    for run in runs:
        cached = " cached" if run.settings.runs_cached else ""
        task = getattr(run.settings, "task", run.module)
        count[task, run.settings.approach + cached][states[run.name]] += 1
    shown = (work.DONE, work.RUNNING, work.ELSEWHERE, work.FAILED, work.TO_COME)
    rows = [("task", "approach", *shown)]
    for (task, approach), states in count.items():
        rows.append((task, approach, *(str(states[s] or "-") for s in shown)))
    return formatting.aligned(rows)
