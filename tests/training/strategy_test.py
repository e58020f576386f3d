"""Many devices give the numbers of one."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tf_transfer.training import strategy
from tf_transfer.utils.errors import UserError

# For each of several runs, prints the loss of every step and the metrics. 33
# examples in batches of 8: the last batch is short, and on two devices one of
# them has none of it.
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
for number, changes in enumerate({runs!r}):
    losses.clear()
    settings = tiny_settings(
        f"{out}/{{number}}", dropout=0.0, head_dropout=0.0, task="mnli",
        batch_size=8, validation_fraction=0.08, **changes,
    )
    result = glue.run(settings)
    found = [losses, result["validation"], result["test"]]
    print("RESULT" + json.dumps(found))
"""


def launch(out, runs, config=None):
    """Starts a process that does these runs, each with changed settings."""
    environment = dict(os.environ)
    if config:
        environment["TF_CONFIG"] = json.dumps(config)
    return subprocess.Popen(
        [sys.executable, "-c", RUN.format(out=str(out), runs=runs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def outcomes(process):
    """What the process printed of each of its runs."""
    output = process.communicate()[0]
    assert process.returncode == 0, output
    return [
        json.loads(line.removeprefix("RESULT"))
        for line in output.splitlines()
        if line.startswith("RESULT")
    ]


def assert_same_numbers(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    assert found[1] == pytest.approx(expected[1], abs=1e-6)
    assert found[2] == pytest.approx(expected[2], abs=1e-6)


# In GB; under the second, half of the rows run the prefix at every step.
LIMITS = (1.0, 1e-4)
LAST = {"trainable_layers": "1"}
CACHED = {**LAST, "frozen_prefix": "cached", "cache_dtype": "float32"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Outcomes on one device: all trains, the last block, by `one_device`."""
    runs = [{}, LAST, {"strategy": "one_device"}]
    found = outcomes(launch(tmp_path_factory.mktemp("one"), runs))
    assert len(found) == len(runs)
    return found


@pytest.fixture(scope="module")
def one_device(alone):
    return alone[0]


@pytest.fixture(scope="module")
def one_device_live(alone):
    return alone[1]


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory):
    """Outcomes on two logical devices: live, and by limit of the cache."""
    out = tmp_path_factory.mktemp("two")
    both = {"strategy": "mirrored", "cpu_devices": 2}
    runs = [
        both,
        *(
            {
                **CACHED,
                **both,
                "cache_limit_gb": limit,
                "cache_dir": str(out / f"cache{limit}"),
            }
            for limit in LIMITS
        ),
    ]
    found = outcomes(launch(out, runs))
    return dict(zip(["live", *LIMITS], found, strict=True))


def test_the_last_batch_of_this_test_is_short(one_device):
    counts = [count for _, count in one_device[0]]
    assert counts[4] == 1 and counts[:4] == [8] * 4


def test_two_logical_devices_give_the_losses_of_one(one_device, two_devices):
    assert_same_numbers(two_devices["live"], one_device)


def two_workers(out, changes):
    """What each of two worker processes finds."""
    ports = free_ports(2)
    cluster = {"worker": [f"localhost:{port}" for port in ports]}
    workers = [
        launch(
            out,
            [{"strategy": "multi_worker", **changes}],
            {"cluster": cluster, "task": {"type": "worker", "index": index}},
        )
        for index in (0, 1)
    ]
    found = list(map(outcomes, workers))
    return [outcome for [outcome] in found]


def test_two_workers_give_the_losses_of_one(one_device, tmp_path):
    for found in two_workers(tmp_path, {}):
        assert_same_numbers(found, one_device)
    results = [
        folder
        for folder, _, files in os.walk(tmp_path)
        if "result.json" in files
    ]
    assert len(results) == 1


@pytest.mark.parametrize("limit", LIMITS)
def test_two_logical_devices_give_the_losses_of_one_from_a_cache(
    limit, one_device_live, two_devices
):
    assert_same_numbers(two_devices[limit], one_device_live)


def test_two_workers_give_the_losses_of_one_from_a_cache(
    one_device_live, tmp_path
):
    """They share a cache folder: one builds, the other waits."""
    changes = {**CACHED, "cache_dir": str(tmp_path / "cache")}
    for found in two_workers(tmp_path, changes):
        assert_same_numbers(found, one_device_live)
    assert len(list(tmp_path.glob("cache/prefix/*/rows-*.npz"))) == 1


def test_one_device_gives_the_same_losses(one_device, alone):
    assert_same_numbers(alone[2], one_device)


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
