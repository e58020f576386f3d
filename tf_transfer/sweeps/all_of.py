"""All of a list of runs, shown while it goes on."""

from tf_transfer.sweeps import display as display_lib
from tf_transfer.sweeps import work
from tf_transfer.utils.errors import UserError


def run(runs, out, jobs=1, limit=0, retry_failed=False):
    """Does what is to be done of some runs; returns their `work.Board`.

    Args:
        runs: list of `grid.Planned`.
        out: root of the run directories.
        jobs: how many side by side.
        limit: how many to start at most; 0 for all.
        retry_failed: whether to try again what has failed before.

    Raises:
        UserError: nothing can be written there.
        Interrupted: SIGTERM or Ctrl-C; the runs have saved their state.
    """
    work.check_out(out)
    board = work.Board(out, runs)
    failed = work.check_failures(board, retry_failed)
    if failed:
        print(
            f"{len(failed)} runs have failed before and are left out; "
            "--retry_failed tries them again."
        )
    display = display_lib.Display(board, jobs)
    try:
        work.Worker(
            board, jobs, limit, tell=display.tell, look=display.look
        ).work()
    finally:
        display.end()
    return board


def finish(runs, settings):
    """Does what is to be done of a study's runs; returns their results.

    Args:
        runs: list of `grid.Planned`.
        settings: the study's, with `out`, `jobs` and `retry_failed`.

    Returns:
        List of what each `result.json` says.

    Raises:
        UserError: one has failed.
    """
    board = run(
        runs, settings.out, settings.jobs, retry_failed=settings.retry_failed
    )
    results = [board.result(one) for one in runs]
    if None in results:
        raise UserError(
            f"{results.count(None)} of {len(runs)} runs have failed; their "
            f"logs are in {board.folder}/logs. Mend what they say, and give "
            "the same command with --retry_failed."
        )
    return results
