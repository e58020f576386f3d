"""Runs a grid: skips finished runs, and continues interrupted ones.

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

import dataclasses
import math
import os
import sys

from tf_transfer.config import command_line
from tf_transfer.config.fields import Fields, setting
from tf_transfer.runs import disk
from tf_transfer.sweeps import estimate, execute, grid, plan, subset
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.training import tensorboard
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import RunError, UserError


@dataclasses.dataclass(frozen=True)
class Settings(Fields):
    """The settings of this command."""

    out: str = setting("runs", "Root of the run directories.")
    cache_dir: str = setting(
        "", "Folder of the feature cache, handed to every run."
    )
    dry_run: bool = setting(
        False,
        "List the runs with their operations and their time, of a paper's "
        "folder also the cells of its tables that they fill, and stop. It "
        "needs neither texts of published data sets nor weights.",
    )
    flops: float = setting(
        None,
        "Operations per second of the device, for the time that --dry_run "
        "prints, such as 30e12 of a GPU. Unset: the time is estimated by "
        "finished runs of this machine.",
        at_least=1,
    )
    jobs: int = setting(
        None,
        "Runs at the same time, each with its share of the cores. The number "
        "is recorded: times are compared only between runs with the same "
        "number. Unset: one, or --runs_per_gpu on each GPU.",
        at_least=1,
    )
    runs_per_gpu: int = setting(
        1,
        "Runs that share a GPU. They take turns, so small models are expected "
        "to gain little unless NVIDIA's Multi-Process Service lets their "
        "kernels run at the same time (`nvidia-cuda-mps-control -d`). Each "
        "takes GPU memory as it needs it; together they must fit.",
        at_least=1,
    )
    engine: str = setting(
        "local",
        "Workers run on this machine (`local`), or on a Ray cluster (`ray`).",
        choices=("local", "ray"),
    )
    ray_address: str = setting(
        "",
        "Address of the Ray cluster of --engine=ray, HOST:PORT. Unset, or "
        "`auto`: the cluster of this machine.",
    )
    hang_minutes: float = setting(
        execute.HANG_MINUTES,
        "Minutes without a step after which a worker is replaced.",
        above=0,
    )
    worker_gb: float = setting(
        None,
        "Memory of a worker in GB; a worker that takes more is replaced. "
        f"Unset: its share of {execute.SHARE_OF_MEMORY:.0%} of the machine's.",
        above=0,
    )
    only: str = setting(
        "", "Only the runs with these flags, such as task=rte,seed=0."
    )
    retry_failed: bool = setting(
        False, "Try runs again that have failed before."
    )
    yes: bool = setting(
        False, f"Expand a grid of more than {grid.MOST_RUNS:,} runs."
    )

    def check_settings(self) -> None:
        """Raises `UserError` for a flag that no engine reads."""
        if self.ray_address and self.engine != "ray":
            raise UserError(
                "--ray_address: only --engine=ray reads it. Give --engine=ray "
                "as well, or leave it out."
            )


def main(argv: list[str]) -> None:
    """Reads the flags and the grid; runs the sweep or describes it."""
    settings = command_line.from_flags(Settings).resolve()
    if len(argv) != 2:
        raise UserError(
            "Give one grid file, such as experiments/glue/embedded.json, or "
            "the folder of a paper, such as experiments/glue."
        )
    path = argv[1]
    most = math.inf if settings.yes else grid.MOST_RUNS
    runs = grid.expand_all(path, settings.out, settings.cache_dir, most)
    selected = subset.select_runs(
        path, runs, formatting.split_names(settings.only)
    )
    run_states = RunStates(settings.out, selected)
    if settings.dry_run:
        jobs = settings.jobs or 1
        print(estimate.describe_costs(run_states, jobs, settings.flops))
        if os.path.isdir(path):
            from tf_transfer.sweeps import rehearsal  # it loads pandas

            counted = plan.select_values(selected)
            if cells := rehearsal.describe_cells(path, counted):
                print(f"\n{cells}")
        return
    with execute.open_pool(
        selected,
        settings.jobs,
        settings.runs_per_gpu,
        settings.hang_minutes,
        settings.worker_gb,
        settings.out,
        settings.engine,
        settings.ray_address,
    ) as pool:
        tensorboard.write_columns(settings.out)
        run_states = execute.run_all(
            selected, settings.out, pool, settings.retry_failed
        )
    words = "python", "-m", "tf_transfer.report", settings.out
    print(f"To compare them: {formatting.quote_command(*words)}")
    disk.print_used(settings.out, settings.cache_dir)
    if run_states.select(State.FAILED):
        sys.exit(RunError.exit_code)


if __name__ == "__main__":
    command_line.command(main, Settings)
