"""Runs on a real GPU: `pytest --gpu`. Each is a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tf_transfer.utils import machine

pytestmark = pytest.mark.gpu

FLAGS = {
    "task": "rte",
    "data": "sample",
    "model": "tiny",
    "batch_size": 8,
    "max_epochs": 2,
    "max_length": 32,
    "lr": 1e-3,
    "dropout": 0,
    "head_dropout": 0,
}
CACHED = {"trainable_layers": 1, "frozen_prefix": "cached"}


@pytest.fixture(scope="module", autouse=True)
def gpu():
    if not machine.has_gpu():
        pytest.fail(
            "TensorFlow has no GPU here. Install with pip install '.[gpu]', "
            "and see that nvidia-smi lists one."
        )


def run(folder, sees_gpu=True, **changes):
    """A run's configuration and the lines of its epochs."""
    out = folder / f"{len(list(folder.iterdir()))}"
    environment = {**os.environ, "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    if not sees_gpu:
        environment["CUDA_VISIBLE_DEVICES"] = "-1"
    flags = {**FLAGS, "cache_dir": folder / "cache", **changes, "out": out}
    words = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run(
        [sys.executable, "-m", "tf_transfer.glue", *words],
        env=environment,
        check=True,
    )
    [config] = pathlib.Path(out).glob("glue/*/*/*/config.json")
    lines = config.with_name("epochs.jsonl").read_text().splitlines()
    return json.loads(config.read_text()), [json.loads(x) for x in lines]


def losses(lines):
    return [line["train_loss"] for line in lines]


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    """The losses of a CPU, live and from the cache."""
    folder = tmp_path_factory.mktemp("cpu")
    return [
        losses(run(folder, sees_gpu=False, **changes)[1])
        for changes in ({}, CACHED)
    ]


@pytest.mark.parametrize("jit_compile", ["auto", "false"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_gpu_has_the_losses_of_a_cpu(on_cpu, cached, jit_compile, tmp_path):
    changes = CACHED if cached else {}
    config, lines = run(tmp_path, jit_compile=jit_compile, **changes)
    assert "CPU" not in " ".join(config["devices"])
    assert config["key"]["jit_compile"] == (jit_compile == "auto")
    assert losses(lines) == pytest.approx(on_cpu[cached], abs=2e-3)
    assert all(line["peak_memory_bytes"] > 0 for line in lines)


def test_a_deterministic_run_repeats_itself_bit_for_bit(tmp_path):
    changes = {"deterministic": True, "dropout": 0.1}
    numbers = [
        [(x["train_loss"], x["validation"], x["test"]) for x in lines]
        for _, lines in (run(tmp_path, **changes), run(tmp_path, **changes))
    ]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("precision", ["tf32", "mixed_bfloat16"])
def test_other_precisions_train_as_well(on_cpu, precision, tmp_path):
    _, lines = run(tmp_path, precision=precision)
    assert losses(lines) == pytest.approx(on_cpu[False], abs=0.05)


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_strategies_train_as_well(on_cpu, strategy, tmp_path):
    _, lines = run(tmp_path, strategy=strategy)
    assert losses(lines) == pytest.approx(on_cpu[False], abs=2e-3)


def test_a_batch_of_one_is_trained(tmp_path):
    _, lines = run(tmp_path, batch_size=1, max_train_examples=16)
    assert len(lines) == FLAGS["max_epochs"]
