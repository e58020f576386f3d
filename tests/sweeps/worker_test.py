"""Real workers: what they do, and what is left when they are killed."""

import errno
import glob
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support import commands, tweets_table
from tf_transfer.sweeps import grid as grid_lib, local, worker as worker_lib
from tf_transfer.utils.errors import (
    FullDiskError,
    Interrupted,
    UserError,
)

GRID = {
    "experiment": "glue",
    "flags": {
        "model": "tiny",
        "data": "sample",
        "task": "rte",
        "batch_size": 8,
        "max_length": 16,
        "trainable_layers": 1,
        "patience": 0,
    },
    "axes": {"seed": [0, 1, 2]},
}


def start(folder, *words, **flags):
    """Starts a sweep of three runs, with more words and flags of the runs."""
    grid = {**GRID, "flags": {**GRID["flags"], **flags}}
    (folder / "grid.json").write_text(json.dumps(grid))
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tf_transfer.sweep"),
            str(folder / "grid.json"),
            f"--out={folder / 'runs'}",
            *words,
        ],
        cwd=commands.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(path, count=1):
    for _ in range(6000):
        found = glob.glob(str(path), recursive=True)
        if len(found) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError(f"no {path}")


def wait_for_end(worker):
    for _ in range(3000):
        _, exit_code = worker.receive()
        if exit_code is not None:
            break
        time.sleep(0.02)
    assert exit_code == 0


def workers_of(folder):
    """The processes whose run is below a folder."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                is_worker = b"tf_transfer.sweeps.worker" in file.read()
            names = os.listdir(f"/proc/{process}/fd") if is_worker else []
            targets = [os.readlink(f"/proc/{process}/fd/{n}") for n in names]
        except OSError:
            continue
        if any(target.startswith(str(folder)) for target in targets):
            found.append(int(process))
    return found


def has_saved(folder):
    """Whether the only run that has begun was stopped, and saved."""
    [log] = glob.glob(f"{folder}/runs/.sweep/logs/*")
    with open(log) as file:
        return "Stopped and saved" in file.read()


def results(folder):
    return glob.glob(f"{folder}/runs/**/result.json", recursive=True)


@pytest.mark.slow
def test_a_worker_of_sparse_baselines_loads_no_tensorflow(tmp_path):
    grid = {
        "experiment": "tweets",
        "flags": {"data": tweets_table.write(tmp_path), "folds": 2},
        "axes": {"features": ["count", "hash"]},
    }
    worker = local.LocalWorker(0, str(tmp_path / "log"))
    for run in grid_lib.expand(
        "grid.json", grid_lib.Grid(**grid), str(tmp_path / "runs")
    ):
        worker.send(worker_lib.Order.of_run(run, str(tmp_path / "log")))
    outcomes, exit_code = [], None
    while len(outcomes) < 2 and exit_code is None:
        messages, exit_code = worker.receive()
        outcomes += [message["outcome"] for message in messages]
        time.sleep(0.02)
    assert outcomes == ["finished"] * 2
    with open(f"/proc/{worker._process.pid}/maps") as file:
        libraries = file.read()
    assert "sklearn" in libraries and "tensorflow" not in libraries
    worker.end("close")
    wait_for_end(worker)


@pytest.mark.parametrize(
    "error, outcome",
    [
        (FullDiskError("here"), "full"),
        (OSError(errno.EIO, "Input/output error"), "full"),
        (UserError("here"), "failed"),
        (Interrupted("here"), "stopped"),
        (ValueError("here"), "broken"),
    ],
)
def test_a_worker_reports_why_a_run_ended(
    error, outcome, tmp_path, monkeypatch
):
    def fail(order):
        raise error

    reported = []
    doing = worker_lib.Worker(reported.append)
    monkeypatch.setattr(doing, "_run", fail)
    log = str(tmp_path / "log")
    order = worker_lib.Order("tf_transfer.glue", (), log)
    assert doing.do(order) == outcome
    assert reported[-1]["outcome"] == outcome


@pytest.mark.slow
def test_a_killed_sweep_leaves_no_process_and_resumes(tmp_path):
    """And a killed worker's run resumes in another."""
    sweep = start(tmp_path, max_epochs=100_000)
    wait_for(tmp_path / "runs/glue/**/epochs.jsonl")
    assert workers_of(tmp_path)
    sweep.kill()
    sweep.wait()
    wait_for(tmp_path / "runs/glue/**/checkpoint")
    for _ in range(10_000):
        if not workers_of(tmp_path):
            break
        time.sleep(0.02)
    assert not workers_of(tmp_path)
    [first] = glob.glob(f"{tmp_path}/runs/glue/**/epochs.jsonl", recursive=True)
    with open(first) as file:
        done = len(file.readlines())

    sweep = start(tmp_path, max_epochs=done + 1)
    [config] = wait_for(os.path.dirname(first) + "/config.json")
    while len(json.load(open(config))["starts"]) < 2:
        time.sleep(0.02)
    assert "is locked" not in sweep.communicate()[0]
    assert sweep.returncode == 0
    assert len(results(tmp_path)) == 3
    starts = json.load(open(config))["starts"]
    assert [len(starts)] == [2]


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_tried_again(tmp_path):
    sweep = start(tmp_path, max_epochs=40)
    wait_for(tmp_path / "runs/glue/**/epochs.jsonl")
    [worker] = workers_of(tmp_path)
    os.kill(worker, signal.SIGKILL)
    output, _ = sweep.communicate()
    assert sweep.returncode == 0, output
    assert output.count("retried") == 1 and "SIGKILL" in output
    assert output.count("finished seed=") == 3


@pytest.mark.slow
def test_after_a_signal_the_run_is_saved(tmp_path):
    sweep = start(tmp_path, max_epochs=100_000)
    wait_for(tmp_path / "runs/glue/**/epochs.jsonl")
    sweep.send_signal(signal.SIGINT)
    output, _ = sweep.communicate()
    assert sweep.returncode == 130 and "same command continues" in output
    assert not workers_of(tmp_path) and not results(tmp_path)
    assert has_saved(tmp_path)


@pytest.mark.slow
def test_a_worker_without_orders_ends_with_its_input(tmp_path):
    """Before it has loaded TensorFlow, too."""
    worker = local.LocalWorker(0, str(tmp_path / "log"))
    worker.end("close")
    wait_for_end(worker)
