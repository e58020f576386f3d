"""Does all runs of a list, and shows them meanwhile."""

from typing import Any

from tf_transfer.sweeps import display as display_lib
from tf_transfer.sweeps import work
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import UserError


def run_all(
    runs: list[Planned],
    out: str,
    jobs: int = 1,
    limit: int = 0,
    retry_failed: bool = False,
) -> RunStates:
    """Does the runs that are not finished; returns the states of all.

    Args:
        runs: what to do.
        out: root of the run directories.
        jobs: how many run at the same time.
        limit: how many to start at most; 0 for all.
        retry_failed: whether to try again what has failed before.

    Raises:
        UserError: nothing can be written below `out`.
        Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
    """
    run_states = RunStates(out, runs)
    failed = run_states.failed_runs()
    if retry_failed:
        for run in failed:
            run_states.clear_failure(run)
    elif failed:
        print(
            f"{len(failed)} runs have failed before and are left out; "
            "--retry_failed tries them again."
        )
    display = display_lib.Display(run_states, jobs)
    try:
        work.Worker(
            run_states,
            jobs,
            limit,
            on_event=display.report,
            on_poll=display.refresh,
        ).work()
    finally:
        display.close()
    return run_states


def collect_results(
    runs: list[Planned], out: str, jobs: int = 1, retry_failed: bool = False
) -> list[dict[str, Any]]:
    """Does the runs that are not finished; returns the results of all.

    The arguments are those of `run_all`.

    Returns:
        The content of each run's `result.json`.

    Raises:
        UserError: a run has failed.
    """
    run_states = run_all(runs, out, jobs, retry_failed=retry_failed)
    results = [run_states.result(run) for run in runs]
    finished = [result for result in results if result is not None]
    if len(finished) < len(runs):
        raise UserError(
            f"{len(runs) - len(finished)} of {len(runs)} runs have failed; "
            f"their logs are in {run_states.folder}/logs. Fix what they say, "
            "and give the same command with --retry_failed."
        )
    return finished
