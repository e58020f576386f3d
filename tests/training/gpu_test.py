"""What a GPU is fed, and what XLA compiles; CPU devices stand for the GPU."""

import dataclasses
import gc
import json
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.feature_cache import small
from tf_transfer.data import batches
from tf_transfer.glue import experiment as glue
from tf_transfer.models import tiny
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.multitask import experiment as multitask
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import resident_split, strategy
from tf_transfer.utils import machine

CACHED = {"trainable_layers": "1", "frozen_prefix": "cached"}


def stand_in(monkeypatch, device, free):
    """Lets a CPU device pass for a GPU with this free memory, in bytes."""
    create = strategy.Devices.__init__

    def create_with_gpu(self, *arguments):
        create(self, *arguments)
        self.gpu = device

    monkeypatch.setattr(strategy.Devices, "__init__", create_with_gpu)
    monkeypatch.setattr(strategy.Devices, "free_memory", lambda self: free)


def losses(settings):
    """The losses and scores of a run, by epoch."""
    result = glue.run(settings)
    with open(f"{result.directory}/epochs.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [(x["train_loss"], x["validation"], x["test"]) for x in lines]


# === Stored states ===


@pytest.fixture
def split(tmp_path):
    """A split with stored states of tokens."""
    attached = small.attach(
        tmp_path,
        FrozenPrefix(1, "tokens", "float16"),
        {"train": small.split("train")},
    )
    return attached.splits["train"]


def test_states_that_fit_the_gpu_are_gathered_there(split, monkeypatch):
    stand_in(monkeypatch, "CPU:0", 10**9)
    resident = resident_split.ResidentSplit(split, strategy.single_device())
    assert resident.vectors.shape[0] == split.tokens.lengths.sum()
    plan = batches.plan_epoch(split.lengths, 4, "random", 0, 1)
    pad = small.encoder().special.pad
    for batch, expected in zip(
        resident.distribute(plan, pad),
        batches.pipeline(split, plan, pad),
        strict=True,
    ):
        assert "states" not in batch
        states = tf.gather(resident.vectors, batch["index"])
        mask = expected["mask"]
        np.testing.assert_array_equal(states[mask], expected["states"][mask])


def test_states_that_do_not_fit_are_read_by_the_pipeline(
    split, monkeypatch, capsys
):
    stand_in(monkeypatch, "CPU:0", 1000)
    resident = resident_split.ResidentSplit(split, strategy.single_device())
    assert resident.vectors is None
    assert "(22 kB) do not fit the GPU's memory" in capsys.readouterr().out
    [batch] = resident.distribute(
        batches.plan_evaluation(split.lengths, len(split)), 0
    )
    assert batch["states"].shape[0] == len(split)


@pytest.mark.slow  # trains whole runs
@pytest.mark.parametrize("trainable_layers", ["0", "1"])
@pytest.mark.parametrize("free", [10**9, 0])
def test_a_run_has_the_same_numbers_wherever_its_states_are(
    trainable_layers, free, monkeypatch, eager, tmp_path
):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    changes = {"trainable_layers": trainable_layers, "max_train_examples": 16}
    settings = tiny_settings(tmp_path, **{**CACHED, **changes})
    expected = losses(settings)
    stand_in(monkeypatch, "CPU:0", free)
    monkeypatch.setattr(batches, "GPU_EVALUATION_TOKENS", 0)
    again = losses(dataclasses.replace(settings, rerun=True))
    assert again == expected


@pytest.mark.slow  # trains whole runs
def test_the_gpu_holds_no_states_of_a_phase_that_has_ended(
    monkeypatch, eager, tmp_path
):
    stand_in(monkeypatch, "CPU:0", 10**9)
    loaded = []
    load = resident_split.ResidentSplit.__init__

    def watch(self, *arguments):
        load(self, *arguments)
        loaded.append(weakref.ref(self))

    monkeypatch.setattr(resident_split.ResidentSplit, "__init__", watch)
    settings = tiny_settings(tmp_path, max_epochs=1, **CACHED)
    experiment = glue.Glue(settings, warm=WarmState())
    result = experiment.train()
    gc.collect()
    assert result.network.programs  # for the next run
    assert len(loaded) == 3 and not any(one() for one in loaded)


def train_on_two_devices(out, free):
    """Prints the numbers of a run; CPU:1 stands for a GPU if `free` is set."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    if free is not None:
        with pytest.MonkeyPatch.context() as patch:
            stand_in(patch, "CPU:1", free)
            patch.setattr(batches, "GPU_EVALUATION_TOKENS", 0)
            outcome = losses(tiny_settings(out, **CACHED))
    else:
        outcome = losses(tiny_settings(out, **CACHED))
    print("RESULT" + json.dumps(outcome), flush=True)


@pytest.mark.slow
def test_batches_copied_to_another_device_give_the_same_numbers(
    forks, tmp_path
):
    outcomes = []
    for free in (None, 10**9, 0):
        folder = tmp_path / str(free)
        folder.mkdir()
        case = forks.start(
            train_on_two_devices, str(folder), free, folder=str(folder)
        )
        outcomes += case.results()
    assert outcomes[1] == outcomes[0]
    assert outcomes[2] == outcomes[0]


# === XLA ===


@pytest.mark.parametrize(
    "jit_compile, gpu, deterministic, expected",
    [
        ("auto", False, False, False),
        ("auto", True, False, True),
        ("auto", True, True, False),
        ("false", True, False, False),
        ("true", False, False, True),
    ],
)
def test_auto_compiles_on_a_gpu_unless_it_must_be_deterministic(
    jit_compile, gpu, deterministic, expected, monkeypatch
):
    monkeypatch.setattr(machine, "has_gpu", lambda: gpu)
    settings = glue.Settings(
        jit_compile=jit_compile, deterministic=deterministic
    ).resolve()
    assert settings.uses_xla == expected
    assert settings.hashed()["jit_compile"] == expected


def test_a_gpu_counts_only_where_tensorflow_can_use_it(monkeypatch):
    gpus = ["0"]
    monkeypatch.setattr(machine, "list_gpus", lambda: gpus)
    machine.has_gpu.cache_clear()
    try:
        assert not machine.has_gpu()  # TensorFlow sees none in tests
        machine.has_gpu.cache_clear()
        monkeypatch.setattr(
            tf.config, "list_physical_devices", lambda kind: gpus
        )
        assert machine.has_gpu()
    finally:
        machine.has_gpu.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batch_size": 1, "max_train_examples": 6},
        CACHED,
        {**CACHED, "trainable_layers": "0"},
        {"trainable_layers": "1", "method": "lora"},
        {"precision": "mixed_bfloat16", **CACHED},
        {"strategy": "one_device"},
        {"strategy": "mirrored"},
        {**CACHED, "cache_limit_gb": 1e-4},
        {"schedule": "linear", "warmup_fraction": 0.3, "layer_decay": 0.9},
    ],
    ids=str,
)
def test_a_step_under_xla_moves_the_weights_as_without(
    changes, monkeypatch, tmp_path
):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    half = "precision" in changes
    numbers = [
        losses(
            tiny_settings(
                tmp_path,
                **changes,
                jit_compile=jit_compile,
                dropout=0.0,
                head_dropout=0.0,
            )
        )
        for jit_compile in ("false", "true")
    ]
    for without, compiled in zip(*numbers, strict=True):
        assert compiled[0] == pytest.approx(
            without[0], abs=2e-3 if half else 2e-6
        )


@pytest.mark.slow
@pytest.mark.parametrize("combine", ["sum", "pcgrad", "sampled"])
def test_several_tasks_share_a_step_under_xla_as_without(
    combine, one_block, tmp_path
):
    epochs = []
    for jit_compile in ("false", "true"):
        result = multitask.run(
            multitask.Settings(
                data="sample",
                model="tiny",
                batch_size=8,
                max_epochs=1,
                max_length=32,
                dropout=0.0,
                head_dropout=0.0,
                combine=combine,
                jit_compile=jit_compile,
                out=str(tmp_path),
            )
        )
        with open(f"{result.directory}/epochs.jsonl") as file:
            epochs.append([json.loads(line)["train_loss"] for line in file])
    # A loss of 10 in float32 has an error of 1e-6 at each of its sums.
    assert epochs[1] == pytest.approx(epochs[0], abs=1e-5, rel=1e-5)
