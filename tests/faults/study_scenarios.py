"""Sweeps and searches: what they know of their runs, and their answers."""

import contextlib
import functools
import os
import pathlib

from tests.faults import run_scenarios
from tests.faults.points import Scenario
from tests.sweeps import fakes
from tf_transfer.searches import clock as clock_lib
from tf_transfer.sweeps.states import RunStates
from tf_transfer.training import record_types, records, run_paths
from tf_transfer.utils import files
from tf_transfer.utils.errors import FullDiskError, UserError

RUNS = 4
FAILING = 2  # seed of a run


@functools.cache
def plan_runs(root):
    return fakes.plan_runs(pathlib.Path(root, "out"), RUNS)


def do_run(run):
    """As a worker does a run; how it ended."""
    try:
        if run.directory.result() is None:
            os.makedirs(run.directory.path, exist_ok=True)
            files.remove_litter(run.directory.path)
            fakes.finish(run, seed=run.settings.seed)
    except FullDiskError:
        return "full"
    except OSError as error:
        return "full" if files.advise(error) else "failed"
    return "finished"


def sweep(root, retry_failed=True):
    runs, out = plan_runs(root), os.path.join(root, "out")
    with contextlib.closing(fakes.make_pool(do_run)) as pool:
        fakes.run_completely(runs, out, pool, retry_failed)


def sweep_with_failing(root):
    """A run fails whenever it is tried; the others are finished."""

    def do(run):
        if run.settings.seed != FAILING:
            return do_run(run)
        os.makedirs(run.directory.path, exist_ok=True)
        files.remove_litter(run.directory.path)
        files.write_json(run.directory.file("config.json"), {"key": {}})
        return "failed"

    runs, out = plan_runs(root), os.path.join(root, "out")
    with contextlib.closing(fakes.make_pool(do)) as pool:
        try:
            fakes.run_completely(runs, out, pool, retry_failed=True)
        except UserError as error:
            if not str(error).startswith(f"1 of {RUNS} runs failed"):
                raise


def read_sweep_with_failing(root):
    results = read_sweep(root)
    states = RunStates(os.path.join(root, "out"), plan_runs(root))
    record = states.failure(plan_runs(root)[FAILING])
    return results | ({"failed": record["reason"]} if record else {})


def is_right_or_retried(result, before, expected):
    """The record of a failure goes when its run is tried again."""
    return has_right_results(result, {}, expected)


def read_sweep(root):
    """The result of each run of the sweep that has one, by name."""
    results = {}
    for run in plan_runs(root):
        result = records.RunDirectory(run.directory.path, None).result()
        if result is not None:
            del result["result_sha256"]
            results[run.name] = result
    return results


def has_right_results(result, before, expected):
    return (
        result.items() <= expected.items() and before.items() <= result.items()
    )


def prepare_failed(root):
    """Two runs are finished, one has failed, one was not begun."""
    run_scenarios.prepare_other(root)
    runs = plan_runs(root)
    states = RunStates(os.path.join(root, "out"), runs)
    for run in runs[:2]:
        do_run(run)
    pathlib.Path(states.log_file(runs[2])).write_text("why it failed\n")
    states.record_failure(runs[2], 1, "exit code 1")


def record_failure(root):
    runs = plan_runs(root)
    states = RunStates(os.path.join(root, "out"), runs)
    if states.failure(runs[2]) is None:
        states.record_failure(runs[2], 1, "exit code 1")


def prepare_log(root):
    runs = plan_runs(root)
    states = RunStates(os.path.join(root, "out"), runs)
    pathlib.Path(states.log_file(runs[2])).write_text("why it failed\n")


def read_failure(root):
    runs = plan_runs(root)
    record = RunStates(os.path.join(root, "out"), runs).failure(runs[2])
    return record and (record["reason"], record["last_lines"])


# === A search ===


def count_seconds(root):
    """A start of a search counts its seconds; the search has one answer."""
    times = iter([1.0, 2.0, 3.0])
    out = os.path.join(root, "out")
    clock = clock_lib.Clock(out, {"task": "rte"}, 0.0, lambda: next(times))
    try:
        clock.start()
        clock.save()
    finally:
        clock._is_over.set()
        if clock._thread.ident is not None:
            clock._thread.join()
    answer = record_types.Answer(lines=["Train the last block."], run="run")
    files.write_json(os.path.join(out, run_paths.ANSWER), answer)


def read_answer(root):
    path = os.path.join(root, "out")
    return os.path.relpath(run_paths.find_answer(path), root)


SCENARIOS = {
    "sweep": Scenario(
        run_scenarios.prepare_other,
        sweep,
        read_sweep,
        ("out/*",),
        leaves=has_right_results,
    ),
    "resumed sweep": Scenario(
        prepare_failed,
        sweep,
        read_sweep,
        ("out/*",),
        leaves=has_right_results,
    ),
    "sweep with a failing run": Scenario(
        run_scenarios.prepare_other,
        sweep_with_failing,
        read_sweep_with_failing,
        ("out/*",),
        leaves=is_right_or_retried,
    ),
    "failed run": Scenario(
        prepare_log,
        record_failure,
        read_failure,
        ("out/.sweep/*",),
        litters=True,
    ),
    "search": Scenario(
        run_scenarios.prepare_other, count_seconds, read_answer, ("out/*",)
    ),
}
