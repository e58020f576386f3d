"""Does all runs of a list, and shows their progress."""

import contextlib
import fcntl
import functools
import os
from collections.abc import Iterator, Sequence

from tf_transfer.sweeps import cluster, local, plan, subset
from tf_transfer.sweeps.display import Display
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.sweeps.work import Pool, Scheduler
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import RunError

HANG_MINUTES = 30.0
SHARE_OF_MEMORY = 0.8  # of the machine's, for all workers


@contextlib.contextmanager
def open_pool(
    runs: Sequence[Planned] = (),
    jobs: int | None = None,
    runs_per_gpu: int = 1,
    hang_minutes: float = HANG_MINUTES,
    worker_gb: float | None = None,
    out: str = "",
    engine: str = "local",
    ray_address: str = "",
) -> Iterator[Pool]:
    """Workers on this machine, or on the nodes of a Ray cluster.

    They start when there is work. The context ends them.

    Args:
        runs: What they will do, as far as that is known.
        jobs: The most workers; None for one on each GPU, or without GPUs one,
            of a cluster one on each node.
        runs_per_gpu: The number of workers that may share a GPU.
        hang_minutes: A worker without a step for this long is replaced.
        worker_gb: A worker that takes more memory is replaced; None for its
            share of the machine's memory, or of what Ray may give.
        out: Of a cluster, the root of the run directories, on all nodes;
            exists.
        engine: `local` or `ray`.
        ray_address: Of the cluster; see `cluster.connect`.

    Raises:
        UserError: There are too few GPUs; see `cluster.connect` and
            `cluster.divide`.
    """
    needs_all = any(run.settings.strategy == "mirrored" for run in runs)
    with contextlib.ExitStack() as stack:
        if engine == "ray":
            nodes = stack.enter_context(cluster.connect(ray_address, out))
            share = cluster.divide(nodes, jobs, runs_per_gpu, needs_all)
            pool = Pool(
                functools.partial(cluster.RayWorker, share),
                share.jobs,
                most_memory=share.memory,
            )
        else:
            environments = local.assign_gpus(
                machine.list_gpus(), jobs, runs_per_gpu, needs_all
            )
            memory = SHARE_OF_MEMORY * machine.total_memory()
            pool = Pool(
                functools.partial(local.LocalWorker, environments=environments),
                len(environments),
                most_memory=memory / len(environments),
            )
        pool.hang_seconds = 60 * hang_minutes
        if worker_gb:
            pool.most_memory = 1e9 * worker_gb
        yield stack.enter_context(contextlib.closing(pool))


def run_all(
    runs: list[Planned],
    out: str,
    pool: Pool,
    retry_failed: bool = False,
) -> RunStates:
    """Does the runs that are not finished; returns the states of all.

    Runs that wait for a search are done after it, at the best value alone.

    Args:
        runs: The runs.
        out: Root of the run directories.
        pool: Of workers.
        retry_failed: Whether to try again the runs that have failed before.

    Raises:
        RunError: Nothing can be written below `out`, or another sweep works
            there.
        Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
    """
    run_states = RunStates(out, runs)
    with lock(run_states.folder):
        files.remove_litter(os.path.join(run_states.folder, "failed"))
        failed = run_states.select(State.FAILED)
        if retry_failed:
            for run in failed:
                run_states.clear_failure(run)
        elif failed:
            print(
                f"{len(failed)} runs have failed before and are left out; "
                "--retry_failed tries them again."
            )
        first = plan.order_runs([run for run in runs if not run.searched])
        run_states.runs = first
        _do_pending(run_states, pool)
        waiting = [run for run in runs if run.searched]
        if waiting:
            best_runs = subset.select_best(run_states, waiting)
            run_states.runs = [*first, *plan.order_runs(best_runs)]
            _do_pending(run_states, pool)
    return run_states


def _do_pending(run_states: RunStates, pool: Pool) -> None:
    """Does the runs that are neither finished nor failed."""
    display = Display(run_states, pool.jobs)
    with contextlib.closing(display):
        todo = run_states.select(State.PENDING)
        Scheduler(
            run_states, pool, todo, display.report, display.refresh
        ).work()


@contextlib.contextmanager
def lock(folder: str) -> Iterator[None]:
    """Holds the lock of a sweep.

    The lock is the kernel's: it ends with its process.

    Args:
        folder: The sweep's own; exists.

    Raises:
        RunError: Another sweep holds it.
    """
    path = os.path.join(folder, "sweep.lock")
    with files.open_lock(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"--out={os.path.dirname(folder)}: another sweep works in it. "
                "Wait for it or stop it; --jobs does several runs at the same "
                "time."
            ) from None
        yield
