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

import datetime
import math
import os
import sys

from absl import flags

from tf_transfer.config import command_line
from tf_transfer.sweeps import estimate, execute, grid, subset
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
        "List the runs, with an estimate of time and cache size, and stop.",
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
    flags.DEFINE_integer(
        "limit", 0, "Start at most this many runs (0: all).", 0
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
    path = argv[1]
    runs = grid.expand(
        path,
        grid.read(path),
        values.out,
        values.cache_dir,
        math.inf if values.yes else grid.MOST_RUNS,
    )
    selected = subset.select(path, runs, values.only)
    if values.best_of:
        run_states = RunStates(values.out, runs)
        selected = subset.select_best(
            path, run_states, values.best_of, selected
        )
    run_states = RunStates(values.out, selected)
    if values.dry_run:
        print(describe(run_states, values.jobs or 1))
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
        tensorboard.write_overview(
            os.path.join(values.out, tensorboard.OVERVIEW)
        )
        run_states = execute.run_all(
            selected,
            values.out,
            pool,
            values.limit,
            values.retry_failed,
        )
    print(f"Side by side: python -m tf_transfer.report {values.out}")
    if run_states.select(State.FAILED):
        sys.exit(1)


# === What `--dry_run` prints ===


def describe(run_states: RunStates, jobs: int) -> str:
    """Every run with its state and its time, and the total costs.

    Args:
        run_states: of the sweep.
        jobs: the number of runs at the same time.
    """
    runs, states = run_states.runs, run_states.read()
    if not runs:
        return "0 runs: the flags leave none."
    pending = run_states.select(State.PENDING)
    predicted = estimate.predict_durations(run_states, runs)
    seconds = {run.name: known for run, known in zip(runs, predicted)}
    is_guess = any(seconds[run.name] is None for run in pending)
    needs: dict[str, estimate.Estimate] = {}
    problem = ""
    if is_guess or any(run.settings.runs_cached for run in pending):
        command_line.import_tensorflow()
        estimator = estimate.Estimator()
        try:
            needs = {run.name: estimator.estimate(run) for run in pending}
        except UserError as error:
            problem = f"No estimate: {error}"
    # Runs that share an estimate share their programs: see `Estimator`.
    compile_seconds: dict[int, float] = {}
    for name, need in needs.items():
        if seconds[name] is None:
            seconds[name] = need.seconds
            compile_seconds[id(need)] = need.compile_seconds
    rows = [("state", *runs[0].axes, "about")]
    for run in runs:
        known = seconds[run.name]
        about = "-" if known is None else formatting.duration(known)
        rows.append((states[run.name], *run.axes.values(), about))
    lines = [
        formatting.aligned(rows),
        f"{len(runs)} runs, {len(pending)} of them pending.",
    ]
    builds = {k: b for n in needs.values() for k, b in n.builds.items()}
    if problem:
        lines.append(problem)
    elif pending:
        work_seconds = sum(build.seconds for build in builds.values())
        work_seconds += sum(seconds[run.name] or 0 for run in pending)
        # Each worker compiles for itself.
        total = estimate.START_SECONDS + sum(compile_seconds.values())
        total += work_seconds / jobs
        end = datetime.datetime.now() + datetime.timedelta(seconds=total)
        basis = (
            "a rough guess from operations and --max_epochs; finished runs "
            "make it better"
            if is_guess
            else "from similar runs that are finished here"
        )
        lines.append(
            f"Time: about {formatting.duration(total)}, so until "
            f"{end:%Y-%m-%d %H:%M} ({basis})."
        )
    if builds:
        size = sum(build.bytes for build in builds.values())
        lines.append(
            f"Feature cache: {formatting.size(size)} in {len(builds)} entries, "
            "minus the entries that are stored already."
        )
    disk = sum(n.disk_bytes for n in needs.values())
    if disk:
        lines.append(
            f"Run directories: {formatting.size(disk)}, three quarters of it "
            "checkpoints."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    define_flags()
    command_line.start_with_words(main)
