"""A sweep on a Ray cluster: a real one, of several nodes on this machine."""

import contextlib
import glob
import json
import os
import re
import signal
import socket
import sys
import time

import pytest

from tests import search_test
from tests.searches import fake_runs
from tests.sweeps import worker_test
from tf_transfer.sweeps import cluster, execute, grid as grid_lib, work
from tf_transfer.sweeps.cluster import Share
from tf_transfer.sweeps.states import RunStates, State
from tf_transfer.utils.errors import UserError

BIG, SMALL, HEAD = {"CPU": 8}, {"CPU": 4, "memory": 6e9}, {"memory": 2e9}
GPUS = {"CPU": 8, "GPU": 2}


@pytest.mark.parametrize(
    "nodes, options, expected",
    [
        ([BIG], {}, Share(1, 1, 8, 0)),
        ([HEAD, BIG, SMALL], {}, Share(2, 1, 4, 0, 6e9)),
        ([SMALL, SMALL], {"jobs": 4}, Share(4, 2, 2, 0, 3e9)),
        ([{"CPU": 2}], {"jobs": 5}, Share(5, 5, 0.4, 0)),
        ([BIG, GPUS, GPUS], {}, Share(4, 2, 4, 1)),
        ([GPUS], {"runs_per_gpu": 2}, Share(4, 4, 2, 0.5)),
        ([GPUS, GPUS], {"needs_all": True}, Share(2, 1, 8, 2)),
    ],
)
def test_each_worker_has_its_share_of_a_node(nodes, options, expected):
    assert cluster.divide(nodes, **options) == expected


def test_more_workers_than_places_on_gpus_are_an_error():
    with pytest.raises(UserError, match=r"--jobs=5.*--jobs=4"):
        cluster.divide([GPUS, GPUS], jobs=5)
    with pytest.raises(UserError, match="no node of the cluster"):
        cluster.divide([HEAD])


def message(address, out):
    """What `connect` complains of."""
    with pytest.raises(UserError) as error:
        with cluster.connect(address, str(out)):
            pass
    assert len(str(error.value).splitlines()) <= 2
    assert not glob.glob(f"{out}/**/.seen-*", recursive=True)
    return str(error.value)


def test_without_ray_an_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "--engine=ray: Ray is not installed" in message("auto", tmp_path)


@pytest.mark.parametrize("address", ["nowhere", "ray://here:1", "a:70000000"])
def test_a_wrong_address_is_named(address, tmp_path):
    pytest.importorskip("ray")
    assert f"--ray_address={address}: give" in message(address, tmp_path)


def test_a_cluster_that_does_not_answer_is_reported_at_once(tmp_path):
    pytest.importorskip("ray")
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        _, port = listening.getsockname()
    told = message(f"localhost:{port}", tmp_path)
    assert "refused" in told and "ray start --head" in told


# === With a cluster ===

SMALLEST = 100 * 1024**2  # bytes that a node stores objects in


@pytest.fixture(scope="module")
def nodes():
    """A cluster of a head without room for workers and a node for one."""
    pytest.importorskip("ray")
    from ray import cluster_utils

    head = {
        "num_cpus": 0,
        "object_store_memory": SMALLEST,
        "include_dashboard": False,
        "_system_config": {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 500,
            "health_check_failure_threshold": 5,
        },
    }
    made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        made.add_node(num_cpus=1, object_store_memory=SMALLEST)
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


def wait_until_no_worker_is_left(folder):
    for _ in range(1000):
        if not worker_test.workers_of(folder):
            return
        time.sleep(0.05)
    raise AssertionError("a worker is left")


def count_starts(run):
    with open(run.directory.file("config.json")) as file:
        return len(json.load(file)["starts"])


def expand(out, seeds, max_epochs):
    flags = {**worker_test.GRID["flags"], "max_epochs": max_epochs}
    grid = {**worker_test.GRID, "flags": flags, "axes": {"seed": seeds}}
    return grid_lib.expand("grid.json", grid_lib.Grid(**grid), out)


@pytest.mark.slow
def test_a_lost_node_loses_no_run(nodes, tmp_path):
    """It is lost when a short run is finished and both nodes train."""
    out = str(tmp_path / "runs")
    runs = expand(out, [0], 2) + expand(out, [1, 2], 40)
    lost = [nodes.add_node(num_cpus=1, object_store_memory=SMALLEST)]
    nodes.wait_for_nodes()
    finished, failed = [], []

    def on_event(event, run, *rest):
        if event == "finished":
            finished.append(run.name)
        elif event == "failed":
            failed.append(rest)

    def on_poll():
        begun = [
            run
            for run in run_states.running
            if os.path.exists(run.directory.file("epochs.jsonl"))
        ]
        if lost and finished and len(begun) == 2:
            nodes.remove_node(lost.pop(), allow_graceful=False)

    run_states = RunStates(out, runs)
    with execute.open_pool(
        out=out, engine="ray", ray_address=nodes.address
    ) as pool:
        assert pool.jobs == 2
        work.Scheduler(
            run_states, pool, runs, on_event=on_event, on_poll=on_poll
        ).work()
    assert not lost and not failed
    assert set(run_states.read_states().values()) == {State.FINISHED}
    assert sorted(finished) == sorted(run.name for run in runs)
    starts = [count_starts(run) for run in runs]
    assert starts[0] == 1
    assert sorted(starts[1:]) == [1, 2]  # one was continued
    wait_until_no_worker_is_left(tmp_path)
    assert not glob.glob(f"{out}/.seen-*")


@contextlib.contextmanager
def sweep_that_trains(nodes, folder):
    """A sweep on the cluster, whose first run has begun and has no end."""
    sweep = worker_test.start(
        folder,
        "--engine=ray",
        f"--ray_address={nodes.address}",
        max_epochs=100_000,
    )
    try:
        worker_test.wait_for(folder / "runs/glue/**/epochs.jsonl")
        assert worker_test.workers_of(folder)
        yield sweep
    finally:
        sweep.kill()
        sweep.wait()


@pytest.mark.slow
def test_after_ctrl_c_the_run_is_saved(nodes, tmp_path):
    with sweep_that_trains(nodes, tmp_path) as sweep:
        sweep.send_signal(signal.SIGINT)
        output, _ = sweep.communicate()
    assert sweep.returncode == 130 and "same command continues" in output
    assert not worker_test.workers_of(tmp_path)
    assert worker_test.has_saved(tmp_path)


@pytest.mark.slow
def test_the_workers_of_a_killed_sweep_save_and_end(nodes, tmp_path):
    with sweep_that_trains(nodes, tmp_path) as sweep:
        sweep.kill()
        wait_until_no_worker_is_left(tmp_path)
    assert worker_test.has_saved(tmp_path)


@pytest.mark.slow
def test_a_node_that_cannot_work_is_named(nodes, tmp_path, monkeypatch):
    """It does not see the folder, has other packages, or none."""
    here = cluster.find_missing([])
    for answer, expected in (
        (lambda paths: (paths[:1], here[1]), rf"--out={tmp_path}: the node "),
        (lambda paths: (paths[1:], here[1]), f"{os.getcwd()}: the node "),
        (lambda paths: ([], {**here[1], "numpy": "1"}), "has numpy 1, here"),
        (lambda paths: __import__("tf_transfr"), "No module named 'tf_transfr"),
    ):
        monkeypatch.setattr(cluster, "find_missing", answer)
        assert expected in message(nodes.address, tmp_path)


@pytest.mark.slow
def test_a_search_trains_on_the_nodes(nodes, tmp_path):
    fake_runs.write_task(tmp_path)
    search = search_test.start(
        tmp_path, "--engine=ray", f"--ray_address={nodes.address}"
    )
    said, _ = search.communicate()
    assert search.returncode == 0, said
    # A random encoder seldom beats the baselines, so it need not be the answer.
    assert re.search(r"last [12] at .* epoch", said) and "failed" not in said
    assert len(search_test.results(tmp_path)) >= 2  # with TF-IDF
    wait_until_no_worker_is_left(tmp_path)
