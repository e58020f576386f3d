"""Many devices give the numbers of one."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tf_transfer.errors import UserError
from tf_transfer.training import strategy
from tests.conftest import tiny_settings

# Prints the loss of every step and the metrics. 33 examples in batches of 8:
# the last batch is short, and on two devices one of them has none of it.
RUN = """
import json, sys
from tests.conftest import tiny_settings
from tf_transfer import glue
from tf_transfer.training import run

losses = []
original = run.Run._after_chunk

def listen(self, bar, plan, stopper, chunk, counts, seconds):
    losses.extend(zip(chunk.tolist(), counts.tolist()))
    return original(self, bar, plan, stopper, chunk, counts, seconds)

run.Run._after_chunk = listen
settings = tiny_settings(
    {out!r}, dropout=0.0, head_dropout=0.0, task="mnli", batch_size=8,
    validation_fraction=0.08, **{changes!r},
)
result = glue.run(settings)
print("RESULT" + json.dumps([losses, result["validation"], result["test"]]))
"""


def launch(out, changes, config=None):
    environment = dict(os.environ)
    if config:
        environment["TF_CONFIG"] = json.dumps(config)
    return subprocess.Popen(
        [sys.executable, "-c", RUN.format(out=str(out), changes=changes)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment,
    )  # fmt: skip


def outcome(process):
    output = process.communicate()[0]
    assert process.returncode == 0, output
    [line] = [line for line in output.splitlines() if line.startswith("RESULT")]
    return json.loads(line.removeprefix("RESULT"))


def assert_same_numbers(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    assert found[1] == pytest.approx(expected[1], abs=1e-6)
    assert found[2] == pytest.approx(expected[2], abs=1e-6)


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    return outcome(launch(tmp_path_factory.mktemp("one"), {}))


def test_the_last_batch_of_this_test_is_short(one_device):
    counts = [count for _, count in one_device[0]]
    assert counts[4] == 1 and counts[:4] == [8] * 4


def test_two_logical_devices_give_the_losses_of_one(one_device, tmp_path):
    process = launch(tmp_path, {"strategy": "mirrored", "cpu_devices": 2})
    assert_same_numbers(outcome(process), one_device)


def two_workers(out, changes):
    """What each of two worker processes finds."""
    ports = free_ports(2)
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    workers = [
        launch(
            out,
            {"strategy": "multi_worker", **changes},
            {"cluster": cluster, "task": {"type": "worker", "index": index}},
        )
        for index in (0, 1)
    ]
    return list(map(outcome, workers))


def test_two_workers_give_the_losses_of_one(one_device, tmp_path):
    for found in two_workers(tmp_path, {}):
        assert_same_numbers(found, one_device)
    results = [
        folder
        for folder, _, files in os.walk(tmp_path)
        if "result.json" in files
    ]
    assert len(results) == 1


# Two workers that share a cache folder: one builds, the other waits. With the
# limit, half of the rows run the prefix at every step.
LAST = {"trainable_layers": "1"}
CACHED = {**LAST, "frozen_prefix": "cached", "cache_dtype": "float32"}


@pytest.fixture(scope="module")
def one_device_live(tmp_path_factory):
    return outcome(launch(tmp_path_factory.mktemp("one"), LAST))


@pytest.mark.parametrize("limit", [1.0, 1e-4])
def test_two_logical_devices_give_the_losses_of_one_from_a_cache(
    limit, one_device_live, tmp_path
):
    changes = {
        **CACHED, "cache_limit_gb": limit, "strategy": "mirrored",
        "cpu_devices": 2, "cache_dir": str(tmp_path / "cache"),
    }  # fmt: skip
    assert_same_numbers(outcome(launch(tmp_path, changes)), one_device_live)


def test_two_workers_give_the_losses_of_one_from_a_cache(
    one_device_live, tmp_path
):
    changes = {**CACHED, "cache_dir": str(tmp_path / "cache")}
    for found in two_workers(tmp_path, changes):
        assert_same_numbers(found, one_device_live)
    assert len(list(tmp_path.glob("cache/prefix/*/rows-*.npz"))) == 1


def test_one_device_gives_the_same_losses(one_device, tmp_path):
    process = launch(tmp_path, {"strategy": "one_device"})
    assert_same_numbers(outcome(process), one_device)


def free_ports(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for opened in sockets:
        opened.close()
    return ports


CHIEF = {
    "cluster": {"chief": ["a:1"], "worker": ["b:1"]},
    "task": {"type": "worker", "index": 0},
}


@pytest.mark.parametrize("value", [None, "{", "{}", json.dumps(CHIEF)])
def test_a_tf_config_that_will_not_do_says_what_to_set(value, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if value is not None:
        monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(UserError, match="set TF_CONFIG"):
        strategy.set_up(tiny_settings("runs", strategy="multi_worker"))
