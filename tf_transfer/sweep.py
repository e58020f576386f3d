"""Works through a grid of runs: skips the finished, continues the others.

    python -m tf_transfer.sweep experiments/glue/embedded.json --dry_run
    python -m tf_transfer.sweep experiments/glue/embedded.json
    python -m tf_transfer.sweep experiments/glue

The grid names an experiment, flags that are fixed, and axes: flags with a list
of values each (`tf_transfer/sweeps/grid.py` shows one). A paper's folder stands
for all grids that the paper needs. Stop it at any time, even with kill -9: the
same command continues. With several GPUs, each run has its own. --engine=ray
spreads the runs over the nodes of a Ray cluster.

--jobs workers do the runs. TensorFlow, the encoder, texts and traced programs
stay in memory from run to run; they change no number.

Output of each run: OUT/.sweep/logs. Then: python -m tf_transfer.report OUT
"""

import math
import os
import sys

from absl import flags

from tf_transfer.config import command_line
from tf_transfer.runs import disk
from tf_transfer.sweeps import estimate, execute, grid, plan, subset
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training import tensorboard
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import quote_command


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
        "List the runs with their operations and their time, of a paper's "
        "folder also the cells of its tables that they fill, and stop. It "
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
            "Give one grid file, such as experiments/glue/embedded.json, or "
            "the folder of a paper, such as experiments/glue."
        )
    if values.ray_address and values.engine != "ray":
        raise UserError(
            "--ray_address: only --engine=ray reads it. Give --engine=ray as "
            "well, or leave it out."
        )
    path = argv[1]
    most = math.inf if values.yes else grid.MOST_RUNS
    runs = grid.expand_all(path, values.out, values.cache_dir, most)
    selected = subset.select_runs(path, runs, values.only)
    run_states = RunStates(values.out, selected)
    if values.dry_run:
        jobs = values.jobs or 1
        print(estimate.describe_costs(run_states, jobs, values.flops))
        if os.path.isdir(path):
            from tf_transfer.sweeps import rehearsal  # it loads pandas

            counted = plan.select_values(selected)
            if cells := rehearsal.describe_cells(path, counted):
                print(f"\n{cells}")
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
            selected, values.out, pool, values.retry_failed
        )
    words = "python", "-m", "tf_transfer.report", values.out
    print(f"Side by side: {quote_command(*words)}")
    disk.print_used(values.out, values.cache_dir)
    if run_states.select(State.FAILED):
        sys.exit(1)


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
