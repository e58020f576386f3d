"""Runs and processes for tests of sweeps, in place of real ones."""

import dataclasses
import functools
import json
import os
import types

from tests import run_files
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.training import records
from tf_transfer.utils import files


def plan_runs(out, count):
    """Runs that differ by seed."""
    grid = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample", "batch_size": 8},
        "axes": {"seed": list(range(count))},
    }
    return grid_lib.expand("grid.json", grid, str(out))


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


class FakeProcess:
    """Ends with `exit_code` at its `polls`-th poll; 0 leaves `result`."""

    def __init__(
        self, run, run_states, slot, jobs, exit_code=0, polls=1, **result
    ):
        self.run = run
        self.result = result
        self.exit_code = exit_code
        self.polls = polls
        self.ended_by = None
        os.makedirs(run.directory.path, exist_ok=True)
        with open(run_states.log_file(run), "a") as log:
            log.write("first line\n\nlast line\n")

    def poll(self):
        self.polls -= 1
        if self.polls > 0 and not self.ended_by:
            return None
        if self.ended_by:
            return 130
        if self.exit_code == 0:
            finish(self.run, **self.result)
        return self.exit_code

    def terminate(self):
        self.ended_by = "SIGTERM"

    def kill(self):
        self.ended_by = "SIGKILL"

    def wait(self):
        return 130


def make_start(**options):
    """A function that starts a fake process with these options."""
    return functools.partial(FakeProcess, **options)


def with_own_command(run):
    """The same run, done by `fake_run.py` in a process of its own."""
    experiment = types.SimpleNamespace(
        settings=run.settings, command_module="tests.sweeps.fake_run"
    )
    words = (run.directory.path, json.dumps(run.directory.key))
    return dataclasses.replace(run, experiment=experiment, words=words)
