"""Works through a grid of runs: skips the finished, continues the others.

    python -m tf_transfer.sweep experiments/glue/embedded.json --dry_run
    python -m tf_transfer.sweep experiments/glue/embedded.json

The grid names an experiment, flags that are fixed, and axes: flags with a list
of values each (`tf_transfer/sweeps/grid.py` shows one). Stop it at any time,
even with kill -9: the same command continues. With several GPUs, each run has
its own. --engine=ray spreads the runs over the nodes of a Ray cluster.

--jobs workers do the runs. TensorFlow, the encoder, texts and traced programs
stay in memory from run to run; they change no number.

Output of each run: OUT/.sweep/logs. Then: python -m tf_transfer.report OUT
"""

import math
import sys
from collections.abc import Sequence

from absl import flags

from tf_transfer.config import command_line
from tf_transfer.sweeps import estimate, execute, grid, subset
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training import tensorboard
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("out", "runs", "Root of the run directories.")
    flags.DEFINE_string(
        "cache_dir",
        "",
        "Folder of the feature cache, handed to every run.",
    )
    flags.DEFINE_bool(
        "dry_run",
        False,
        "List the runs with their operations and their time, and stop. It "
        "needs neither texts of published data sets nor weights.",
    )
    flags.DEFINE_float(
        "flops",
        None,
        "Operations per second of the device, for the time that --dry_run "
        "prints, such as 30e12 of a GPU. Unset: those of the last finished "
        "run of this machine.",
        1,
    )
    flags.DEFINE_integer(
        "jobs",
        None,
        "Runs at the same time, each with its share of the cores. The number "
        "is recorded: times are compared only between runs with the same "
        "number. Unset: one, or --runs_per_gpu on each GPU.",
        1,
    )
    flags.DEFINE_integer(
        "runs_per_gpu",
        1,
        "Runs that share a GPU. They take turns, so small models are expected "
        "to gain little unless NVIDIA's Multi-Process Service lets their "
        "kernels run at the same time (`nvidia-cuda-mps-control -d`). Each "
        "takes GPU memory as it needs it; together they must fit.",
        1,
    )
    flags.DEFINE_enum(
        "engine",
        "local",
        ["local", "ray"],
        "Workers run on this machine (`local`), or on a Ray cluster (`ray`).",
    )
    flags.DEFINE_string(
        "ray_address",
        "",
        "Address of the Ray cluster of --engine=ray, HOST:PORT. Unset, or "
        "`auto`: the cluster of this machine.",
    )
    flags.DEFINE_float(
        "hang_minutes",
        execute.HANG_MINUTES,
        "Minutes without a step after which a worker is replaced.",
        0,
    )
    flags.DEFINE_float(
        "worker_gb",
        None,
        "Memory of a worker in GB; a worker that takes more is replaced. "
        f"Unset: its share of {execute.SHARE_OF_MEMORY:.0%} of the machine's.",
        0,
    )
    flags.DEFINE_list(
        "only",
        [],
        "Only the runs with these flags, such as task=rte,seed=0.",
    )
    flags.DEFINE_string(
        "best_of",
        "",
        "Only the runs with the value of this axis, such as lr, that is best "
        "on validation in runs that are finished.",
    )
    flags.DEFINE_bool(
        "retry_failed",
        False,
        "Try runs again that have failed before.",
    )
    flags.DEFINE_bool(
        "yes", False, f"Expand a grid of more than {grid.MOST_RUNS:,} runs."
    )


def main(argv: list[str]) -> None:
    """Reads the flags and the grid; runs the sweep or describes it."""
    values = flags.FLAGS
    if len(argv) != 2:
        raise UserError(
            "Give one grid file, such as experiments/glue/embedded.json."
        )
    if values.ray_address and values.engine != "ray":
        raise UserError(
            "--ray_address: only --engine=ray reads it. Give --engine=ray as "
            "well, or leave it out."
        )
    path, problem = argv[1], ""
    content = grid.read(path)
    most = math.inf if values.yes else grid.MOST_RUNS
    arguments = path, content, values.out, values.cache_dir, most
    try:
        runs = grid.expand(*arguments)
    except UserError as error:
        if not values.dry_run or values.best_of:
            raise
        problem = f"Not known which runs are finished: {error}"
        runs = grid.expand(*arguments, is_located=False)
    selected = subset.select(path, runs, values.only)
    if values.best_of:
        run_states = RunStates(values.out, runs)
        selected = subset.select_best(
            path, run_states, values.best_of, selected
        )
    run_states = RunStates(values.out, selected)
    if values.dry_run:
        finished = [] if problem else run_states.select(State.FINISHED)
        print(describe(selected, finished, values.jobs or 1, values.flops))
        if problem:
            print(problem)
        return
    with execute.open_pool(
        selected,
        values.jobs,
        values.runs_per_gpu,
        values.hang_minutes,
        values.worker_gb,
        values.out,
        values.engine,
        values.ray_address,
    ) as pool:
        tensorboard.write_columns(values.out)
        run_states = execute.run_all(
            selected,
            values.out,
            pool,
            values.retry_failed,
        )
    print(f"Side by side: python -m tf_transfer.report {values.out}")
    if run_states.select(State.FAILED):
        sys.exit(1)


# === What `--dry_run` prints ===


def describe(
    runs: Sequence[Planned],
    finished: Sequence[Planned],
    jobs: int,
    flops: float | None,
) -> str:
    """Every run with its operations and its time, and the sums.

    Args:
        runs: of the sweep.
        finished: those of them that are known to be finished.
        jobs: the number of runs at the same time.
        flops: operations per second of the device; None to take those of the
            last finished run of this machine.
    """
    if not runs:
        return "0 runs: the flags leave none."
    pending = [run for run in runs if run not in finished]
    estimator = estimate.Estimator()
    try:
        total = estimator.count_all(pending)
        estimator.measure_all(finished)
    except UserError as error:
        return f"{_count(runs, pending)}\nNo estimate: {error}"
    speed = 1 / flops if flops else estimator.seconds_per_operation
    rows = [("state", *runs[0].axes, "operations", "about")]
    for run in runs:
        operations = estimator.count_one(run)
        rows.append(
            (
                "pending" if run in pending else "finished",
                *run.axes.values(),
                f"{operations:.2e}",
                formatting.duration(speed * operations) if speed else "-",
            )
        )
    lines = [formatting.aligned(rows), _count(runs, pending)]
    if pending:
        lines.append(
            f"Operations: {total:.2e}, if every text has --max_length tokens "
            "and every run --max_epochs epochs."
        )
        lines.append(_describe_time(total / jobs, flops, estimator))
    return "\n".join(lines)


def _count(runs: Sequence[Planned], pending: Sequence[Planned]) -> str:
    return f"{len(runs)} runs, {len(pending)} of them pending."


def _describe_time(
    operations: float, flops: float | None, estimator: estimate.Estimator
) -> str:
    """The sentence on the time of all operations; see `describe`."""
    if flops:
        hours = operations / flops / 3600
        return f"Time: {hours:,.1f} hours at --flops={flops:g}."
    speed = estimator.seconds_per_operation
    if speed is None:
        return (
            "Time: not known before a run is finished here. --flops=30e12 "
            "gives it for a device that does 30e12 operations per second."
        )
    return (
        f"Time: about {formatting.duration(speed * operations)} at "
        f"{1 / speed:.2g} operations per second, as measured by the last "
        "finished run."
    )


if __name__ == "__main__":
    define_flags()
    command_line.start_with_words(main)
