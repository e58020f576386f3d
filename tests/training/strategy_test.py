"""Many devices give the numbers of one."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tf_transfer.training import strategy
from tf_transfer.training.callbacks import Callback
from tf_transfer.utils.errors import UserError


def run_all(out, runs):
    """Does some runs, each with changed settings, and prints what they give.

    That is the loss of every step, and the metrics. 33 examples in batches of
    8: the last batch is short, and on two devices one of them has none of it.
    """
    from tf_transfer.glue import experiment as glue
    from tf_transfer.models import tiny

    tiny.BLOCKS = 1
    for number, changes in enumerate(runs):
        losses = Losses()
        settings = tiny_settings(
            f"{out}/{number}",
            **{
                "dropout": 0.0,
                "head_dropout": 0.0,
                "task": "mnli",
                "max_length": 16,
                "validation_fraction": 0.08,
                **changes,
            },
        )
        result = glue.run(settings, callbacks=[losses])
        outcome = [losses.steps, *result.scores.values()]
        print("RESULT" + json.dumps(outcome), flush=True)


class Losses(Callback):
    """Keeps (loss, examples) of each step."""

    def __init__(self):
        self.steps = []

    def on_steps_end(self, trainer, losses, counts):
        self.steps += zip(losses.tolist(), counts.tolist())


def assert_same_numbers(outcome, expected):
    np.testing.assert_allclose(outcome[0], expected[0], rtol=1e-4, atol=1e-5)
    assert outcome[1] == pytest.approx(expected[1], abs=1e-6)
    assert outcome[2] == pytest.approx(expected[2], abs=1e-6)


# In GB; under the second, half of the rows run the prefix at every step.
LIMITS = (1.0, 1e-4)
LAST = {"trainable_layers": "1"}
# No block below is frozen but the embeddings, whose output is stored.
CACHED = {**LAST, "frozen_prefix": "cached", "cache_dtype": "float32"}
BOTH = {"strategy": "mirrored", "cpu_devices": 2}


def outcomes_of(forks, out, runs):
    """What a process of its own gives on some runs."""
    return forks.start(run_all, str(out), runs, folder=str(out)).results()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"trainable_layers": "0"},
        {"trainable_layers": "all", "method": "lora"},
    ],
    ids=str,
)
def test_two_logical_devices_give_the_losses_of_one(changes, forks, tmp_path):
    outcomes = []
    for devices in ({}, BOTH):
        out = tmp_path / str(len(outcomes))
        out.mkdir()
        run = {"max_epochs": 1, **changes, **devices}
        outcomes += outcomes_of(forks, out, [run])
    one, two = outcomes
    assert [count for _, count in one[0]] == [8, 8, 8, 8, 1]
    assert_same_numbers(two, one)


# === All weights, and caches ===


@pytest.fixture(scope="module")
def alone(forks, tmp_path_factory):
    """Outcomes on one device: all trains, the last block, `one_device`."""
    runs = [{}, LAST, {"strategy": "one_device"}]
    return outcomes_of(forks, tmp_path_factory.mktemp("one"), runs)


@pytest.fixture(scope="module")
def two_devices(forks, tmp_path_factory):
    """Outcomes on two logical devices: live, and by limit of the cache."""
    out = tmp_path_factory.mktemp("two")
    runs = [
        BOTH,
        *(
            {
                **CACHED,
                **BOTH,
                "cache_limit_gb": limit,
                "cache_dir": str(out / f"cache{limit}"),
            }
            for limit in LIMITS
        ),
    ]
    outcomes = outcomes_of(forks, out, runs)
    return dict(zip(["live", *LIMITS], outcomes, strict=True))


@pytest.mark.slow
def test_two_logical_devices_train_all_weights_as_one_does(alone, two_devices):
    assert_same_numbers(two_devices["live"], alone[0])


@pytest.mark.slow
def test_one_device_gives_the_losses_of_the_default(alone):
    assert_same_numbers(alone[2], alone[0])


@pytest.mark.slow
@pytest.mark.parametrize("limit", LIMITS)
def test_two_logical_devices_give_the_losses_of_one_from_a_cache(
    limit, alone, two_devices
):
    assert_same_numbers(two_devices[limit], alone[1])


def devices_of_an_optimizer():
    """Prints the device of each of its variables; CPU:1 stands for a GPU."""
    import keras

    from tf_transfer.training import optimizer

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    with tf.device("CPU:1"):
        weights = [keras.Variable(np.ones(3, np.float32), name="kernel")]
        rate = optimizer.LearningRate("linear", True)
        adam = optimizer.BertAdam(weights, rate, optimizer.AdamOptions())
    variables = {**adam.state(), "optimizer/rate": rate.numbers}
    outcome = {name: variable.device for name, variable in variables.items()}
    print("RESULT" + json.dumps(outcome), flush=True)


@pytest.mark.slow
def test_counters_are_on_the_host_and_moments_on_the_device(forks, tmp_path):
    start = forks.start(devices_of_an_optimizer, folder=str(tmp_path))
    [devices] = start.results()
    assert {name.split("/")[0] for name in devices} == {"optimizer", "m", "v"}
    for name, device in devices.items():
        assert device.endswith("CPU:0") == name.startswith("optimizer"), name


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_products_are_rounded_only_where_tf32_is_asked_for(
    monkeypatch, precision
):
    gpus = ["GPU:0"]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    strategy.set_up("default", 8, precision=precision)
    is_allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    assert is_allowed == (precision == "tf32")
    gpus.clear()
    if precision == "tf32":
        with pytest.raises(UserError, match="--precision=tf32: this machine"):
            strategy.set_up("default", 8, precision=precision)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_record_names_the_gpus_that_a_run_uses(monkeypatch, replicas):
    gpus = [types.SimpleNamespace(name=f"GPU:{i}") for i in range(2)]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda device: {"device_name": f"H100 {device.name}"},
    )
    devices = strategy.single_device()
    devices.replicas = replicas
    expected = ["H100 GPU:0", "H100 GPU:1"][:replicas]
    assert devices.names == expected
