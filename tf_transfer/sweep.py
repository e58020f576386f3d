"""Works through a grid of runs: skips what is done, continues what is not.

    python -m tf_transfer.sweep experiments/glue/embedded.json --dry_run
    python -m tf_transfer.sweep experiments/glue/embedded.json

The grid names a training module, flags that are fixed, and axes: flags with
a list of values each (`tf_transfer/sweeps/grid.py` shows one). Stop it as you
like, even with kill -9; the same command goes on. The same command on other
machines that see the same --out shares the work: no run is done twice. With
several GPUs, start one sweep each, with CUDA_VISIBLE_DEVICES set.

Output of each run: OUT/.sweep/logs. Then: python -m tf_transfer.report OUT
"""

import collections
import datetime
import os
import sys
import time

from absl import app
from absl import flags

from tf_transfer import settings as settings_lib
from tf_transfer import text
from tf_transfer.errors import UserError
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps import work
from tf_transfer.training import events

REDRAW_SECONDS = 1.0


def define_flags():
    """The flags of this command."""
    module = {"module_name": sys.argv[0]}
    flags.DEFINE_string("out", "runs", "Root of the run directories.", **module)
    flags.DEFINE_string(
        "cache_dir", "", "Folder for stored states, as the runs take it.",
        **module,
    )  # fmt: skip
    flags.DEFINE_bool(
        "dry_run", False,
        "List the runs, with an estimate of time and cache size; run none.",
        **module,
    )  # fmt: skip
    flags.DEFINE_integer(
        "jobs", 1,
        "Runs side by side, each with its share of the cores. Their record "
        "says so: times are compared only among equals.", 1, **module,
    )  # fmt: skip
    flags.DEFINE_list(
        "only", [],
        "Only the runs with these flags, such as task=rte,seed=0.", **module,
    )  # fmt: skip
    flags.DEFINE_integer(
        "limit", 0, "Start so many runs at most (0: all).", 0, **module
    )
    flags.DEFINE_bool(
        "retry_failed", False, "Try again what has failed before.", **module
    )


def main(argv):
    """Reads the flags and the grid, and does what they say."""
    values = flags.FLAGS
    if len(argv) != 2:
        raise UserError(
            "Give one grid file, such as experiments/glue/embedded.json."
        )
    path = argv[1]
    runs = grid_lib.expand(
        path, grid_lib.read(path), values.out, values.cache_dir
    )
    runs = grid_lib.only(path, runs, values.only)
    work.check_out(values.out)
    board = work.Board(values.out, runs)
    if values.dry_run:
        print(plan(board, values.jobs))
        return
    failed = work.check_failures(board, values.retry_failed)
    if failed:
        print(
            f"{len(failed)} runs have failed before and are left out; "
            "--retry_failed tries them again."
        )
    events.write_overview(os.path.join(values.out, "report"), {})
    display = Display(board, values.jobs)
    try:
        work.Worker(
            board, values.jobs, values.limit,
            tell=display.tell, look=display.look,
        ).work()  # fmt: skip
    finally:
        display.end()
    print(f"Side by side: python -m tf_transfer.report {values.out}")
    if work.FAILED in board.states().values():
        sys.exit(1)


# === What is going on ===


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
        self._print(f"{len(board.runs)} runs, below {board.folder[:-7]}")

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
                work.RUNNING, work.ELSEWHERE, work.FAILED, work.TO_COME
            )
            if count[state]
        ]  # fmt: skip
        open_ = [
            run
            for run in self.board.runs
            if states[run.name] in (work.RUNNING, work.TO_COME)
        ]
        left = self.pace.left(open_, self.jobs)
        if left is not None:
            words.append(f"about {text.duration(left)} left")
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
    shown = (
        work.DONE, work.RUNNING, work.ELSEWHERE, work.FAILED, work.TO_COME
    )  # fmt: skip
    rows = [("task", "approach", *shown)]
    for (task, approach), states in count.items():
        rows.append(
            (task, approach, *(str(states[s] or "-") for s in shown))
        )  # fmt: skip
    return text.aligned(rows)


# === What would be done ===


def plan(board, jobs):
    """What `--dry_run` says: every run, its state and its time."""
    states = board.states()
    pace = estimate.Pace(board)
    seconds = {run.name: pace.seconds(run) for run in board.runs}
    basis = "from like runs that are finished here"
    caches = {}
    trouble = ""
    if None in seconds.values() or any(
        run.settings.runs_cached for run in board.runs
    ):
        settings_lib.import_tensorflow()
        try:
            counter = estimate.Counter()
            for run in board.runs:
                rough = counter.rough(run)
                caches |= rough.caches
                if seconds[run.name] is None:
                    basis = (
                        "a rough guess from operations and --max_epochs; "
                        "finished runs make it better"
                    )
                    seconds[run.name] = rough.seconds
        except UserError as error:
            trouble = f"No estimate: {error}"
    rows = [("state", *board.runs[0].axes, "about")]
    for run in board.runs:
        known = seconds[run.name]
        rows.append(
            (
                states[run.name], *run.axes.values(),
                text.duration(known) if known is not None else "-",
            )
        )  # fmt: skip
    lines = [text.aligned(rows)]
    to_come = [run for run in board.runs if states[run.name] == work.TO_COME]
    lines.append(f"{len(board.runs)} runs, {len(to_come)} of them to come.")
    left = [seconds[run.name] for run in to_come]
    if trouble:
        lines.append(trouble)
    elif left:
        end = datetime.datetime.now() + datetime.timedelta(
            seconds=sum(left) / jobs
        )
        lines.append(
            f"Time: about {text.duration(sum(left) / jobs)}, so until "
            f"{end:%Y-%m-%d %H:%M} ({basis})."
        )
    if caches:
        lines.append(
            f"Cached prefixes: {text.size(sum(caches.values()))} in "
            f"{len(caches)} entries, where they are not there yet."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: settings_lib.guarded(lambda: main(argv)))
