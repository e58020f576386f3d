"""Runs and workers for tests of sweeps, in place of real ones."""

import contextlib
import os
import socket

from tests.support import run_files
from tf_transfer.sweeps import execute, grid as grid_lib, work
from tf_transfer.sweeps.states import State
from tf_transfer.training import records
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError


def plan_runs(out, count, **flags):
    """Runs that differ by seed."""
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample", "batch_size": 8, **flags},
        "axes": {"seed": list(range(count))},
    }
    return grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(out))


def plan_sixteen(out):
    """Runs of two tasks, two cuts and two seeds, live and cached."""
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "axes": {
            "seed": [0, 1],
            "frozen_prefix": ["live", "cached"],
            "task": ["rte", "sst2"],
            "trainable_layers": [1, 2],
        },
    }
    return grid_lib.expand("grid.json", grid_lib.Grid(**grid), str(out))


def finish(run, **result):
    """Writes what a finished run leaves."""
    write_finished(run.directory.path, run.directory.key, **result)


def write_finished(path, key, **result):
    """Writes a finished run's files."""
    os.makedirs(path, exist_ok=True)
    config = os.path.join(path, "config.json")
    files.write_json(config, {"key": key, "starts": []})
    directory = records.RunDirectory(path, key)
    directory.write_result(run_files.finished(**result))


def finish_after(run, seconds, epochs=1, host=None, **result):
    """A finished run whose epochs took this long together."""
    built = result.get("prefix_seconds") or 0.0
    train = 0.75 * seconds
    finish(
        run,
        phases=[run_files.phase(epochs)],
        train_seconds=built + train,
        trace_seconds=2.0,
        **result,
    )
    directory = run.directory
    starts = [{"host": host or socket.gethostname()}]
    files.write_json(
        directory.file("config.json"), {**directory.config(), "starts": starts}
    )
    lines = [
        {
            "epoch": epoch,
            "phase": 1,
            "phase_epoch": epoch,
            "task": None,
            "train_loss": 1.0,
            "validation": None,
            "test": None,
            "train_seconds": train / epochs,
            "eval_seconds": 0.25 * seconds / epochs,
            "elapsed_seconds": 0.0,
            "trace_seconds": 0.0,
        }
        for epoch in range(1, epochs + 1)
    ]
    directory.write_epochs(lines)


def pool_opener(do):
    """In place of `execute.open_pool`: fake workers; see `FakeWorker`."""

    def open_pool(*runs, jobs=None, **options):
        return contextlib.closing(make_pool(do, jobs or 1))

    return open_pool


class FakeWorker(work.Handle):
    """Does runs in this process, each at the `polls`-th time it is asked.

    Args:
        slot, log: see `work.Pool`.
        do: called with each run; returns how it ended, or None for `finished`.
            `dies` stands for a process that is gone, `hangs` for no answer.
        polls: how often it has nothing to say before.
        memory: what it reports.
    """

    def __init__(self, slot, log, do=finish, polls=1, memory=0):
        self.do = do
        self.wait = self.polls = polls
        self.memory = memory
        self.doing = None
        self.code = None
        self.ended_by = None

    def send(self, order):
        self.doing, self.polls = self.run, self.wait
        with open(order.log, "a") as file:
            file.write("first line\n\nlast line\n")

    def receive(self):
        code = self.code
        self.polls -= 1
        if not self.doing or self.polls > 0 or code is not None:
            return [], code
        outcome = self.do(self.doing) or "finished"
        if outcome == "hangs":
            return [], code
        if outcome == "dies":
            self.code = -11
            return [], code
        if outcome == "broken":
            self.code = 0
        self.doing = None
        message = {"memory": self.memory, "event": "ended"}
        return [{**message, "outcome": outcome}], code

    def end(self, how):
        self.ended_by = how
        self.code = {"stop": 130, "kill": -9, "close": 0}[how]


def make_pool(do=finish, jobs=1, workers=None, polls=1, memory=0, **options):
    """A pool of fake workers.

    Args:
        do, polls, memory: see `FakeWorker`.
        jobs, options: see `work.Pool`.
        workers: list that every new worker is added to.
    """

    def start(slot, log):
        worker = FakeWorker(slot, log, do, polls, memory)
        if workers is not None:
            workers.append(worker)
        return worker

    return work.Pool(start, jobs, **options)


def run_completely(runs, out, pool, retry_failed=False):
    """Does the missing runs as a sweep does; `UserError` if one fails."""
    run_states = execute.run_all(runs, out, pool, retry_failed)
    failed = run_states.select(State.FAILED)
    if failed:
        raise UserError(
            f"{len(failed)} of {len(run_states.runs)} runs failed. Give the "
            "same command with --retry_failed."
        )
    return run_states
