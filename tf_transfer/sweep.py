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

import datetime
import os
import sys

from absl import app
from absl import flags

from tf_transfer.config import command_line
from tf_transfer.sweeps import all_of
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps import work
from tf_transfer.training import tensorboard
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError


def define_flags():
    """The flags of this command."""
    module = {"module_name": sys.argv[0]}
    flags.DEFINE_string("out", "runs", "Root of the run directories.", **module)
    flags.DEFINE_string(
        "cache_dir",
        "",
        "Folder for stored states, as the runs take it.",
        **module,
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "List the runs, with an estimate of time and cache size; run none.",
        **module,
    )
    flags.DEFINE_integer(
        "jobs",
        1,
        "Runs side by side, each with its share of the cores. Their record "
        "says so: times are compared only among equals.",
        1,
        **module,
    )
    flags.DEFINE_list(
        "only",
        [],
        "Only the runs with these flags, such as task=rte,seed=0.",
        **module,
    )
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
    if values.dry_run:
        print(plan(work.Board(values.out, runs), values.jobs))
        return
    tensorboard.write_overview(os.path.join(values.out, tensorboard.OVERVIEW))
    board = all_of.run(
        runs, values.out, values.jobs, values.limit, values.retry_failed
    )
    print(f"Side by side: python -m tf_transfer.report {values.out}")
    if work.FAILED in board.states().values():
        sys.exit(1)


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
        command_line.import_tensorflow()
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
                states[run.name],
                *run.axes.values(),
                formatting.duration(known) if known is not None else "-",
            )
        )
    lines = [formatting.aligned(rows)]
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
            f"Time: about {formatting.duration(sum(left) / jobs)}, so until "
            f"{end:%Y-%m-%d %H:%M} ({basis})."
        )
    if caches:
        lines.append(
            f"Cached prefixes: {formatting.size(sum(caches.values()))} in "
            f"{len(caches)} entries, where they are not there yet."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: command_line.guarded(lambda: main(argv)))
