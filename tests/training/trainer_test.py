"""Several objectives and phases in one run, and what callbacks hear of it."""

import dataclasses
import json
import os

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tf_transfer.config import settings as settings_lib
from tf_transfer.glue import experiment as glue
from tf_transfer.models import network as network_lib
from tf_transfer.models.freezing import Trainable
from tf_transfer.training import (
    objectives as objectives_lib,
    records,
    steps,
    strategy,
    trainer,
)
from tf_transfer.training.callbacks import Callback
from tf_transfer.training.objectives import TrainingOptions
from tf_transfer.training.optimizer import AdamOptions
from tf_transfer.utils.errors import UserError

NAMES = ("sst2", "rte")


def prepare(settings):
    """One tiny encoder with a head and an objective for each of two tasks."""
    devices = strategy.single_device()
    networks, objectives = [], []
    for name in NAMES:
        experiment = glue.Glue(dataclasses.replace(settings, task=name))
        network, [phase], _ = experiment.build(devices)
        networks.append(network)
        objectives += phase.objectives
    joined = network_lib.Network(
        networks[0].encoder, {**networks[0].heads, **networks[1].heads}
    )
    return devices, joined, tuple(objectives)


def phase(objectives, trainable, layers):
    return objectives_lib.Phase(
        trainable=trainable,
        trainable_layers=layers,
        lr=1e-3,
        max_epochs=2,
        objectives=objectives,
        score=lambda metrics: metrics["accuracy"],
        patience=0,
        min_delta=0.0,
        select="best",
    )


class Recorder(Callback):
    """Notes every event, and where the run stood."""

    def __init__(self):
        self.events = []

    def __getattribute__(self, name):
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda trainer, *unused: self.events.append(name[3:])


class Losses(Callback):
    """Notes the loss of every step."""

    def __init__(self):
        self.values = []

    def on_steps_end(self, trainer, losses, counts):
        self.values += losses.tolist()


class Failing(Callback):
    """Fails after the first steps."""

    def on_steps_end(self, trainer, losses, counts):
        raise RuntimeError("no more")


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("one_block", "eager")
def test_two_heads_train_in_turn_in_two_phases(monkeypatch, tmp_path):
    monkeypatch.setattr(steps, "LONGEST_CHUNK", 1)
    settings = tiny_settings(
        tmp_path, max_length=16, max_train_examples=16
    ).resolve()
    devices, network, objectives = prepare(settings)
    before = {w.path: w.numpy().copy() for w in network.weights}
    directory = records.RunDirectory(str(tmp_path / "run"), {})
    directory.lock()
    plan = [
        phase(objectives, Trainable(2, 1), "0"),
        phase(objectives, Trainable(1, 1, embeddings=True), "all"),
    ]
    options = settings_lib.pick(
        TrainingOptions,
        settings,
        adam=settings_lib.pick(AdamOptions, settings),
    )
    recorder = Recorder()
    result = trainer.Trainer(
        network,
        plan,
        devices,
        directory,
        options,
        callbacks=[recorder],
    ).train()
    directory.close()

    with open(os.path.join(directory.path, "epochs.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    order = [(x["phase"], x["phase_epoch"], x["task"]) for x in lines]
    assert order == [
        (number, epoch, name)
        for number in (1, 2)
        for epoch in (1, 2)
        for name in NAMES
    ]
    assert [p["trainable_layers"] for p in result["phases"]] == ["0", "all"]
    moved = {
        w.path for w in network.weights if (w.numpy() != before[w.path]).any()
    }
    assert {w.path for h in network.heads.values() for w in h.weights} <= moved
    assert any("transformer_layer_0" in path for path in moved)
    assert np.isfinite([line["train_loss"] for line in lines]).all()

    one_pass = ["pass_begin", *2 * ["steps_end"], "record"]
    epoch = [*one_pass, *one_pass]
    assert recorder.events == [
        "train_begin",
        *4 * epoch,
        "train_end",
        "close",
    ]


@pytest.mark.usefixtures("one_block", "eager")
def test_callbacks_are_closed_and_the_run_is_free_after_an_error(tmp_path):
    recorder = Recorder()
    settings = tiny_settings(
        tmp_path, trainable_layers="0", max_length=16, max_train_examples=8
    )
    with pytest.raises(RuntimeError, match="no more"):
        glue.run(settings, callbacks=[recorder, Failing()])
    assert recorder.events == [
        "train_begin",
        "pass_begin",
        "steps_end",
        "close",
    ]
    directory = glue.Glue(settings).find_run()
    assert directory.result() is None
    assert not directory.is_locked()


def test_selected_weights_that_are_gone_are_explained(
    tiny_run, eager, one_block, monkeypatch
):
    def read_model(self, entry):
        raise ValueError("weights: No such file or directory")

    monkeypatch.setattr(records.RunDirectory, "read_model", read_model)
    with pytest.raises(UserError, match="No such file.*\nGive the same"):
        tiny_run(trainable_layers="0", max_epochs=1)


@pytest.mark.slow
def test_half_precision_has_the_losses_of_float32_for_thirty_steps(tmp_path):
    values = []
    for precision in ("float32", "mixed_bfloat16"):
        settings = tiny_settings(
            tmp_path,
            precision=precision,
            batch_size=4,
            max_epochs=4,
            patience=0,
        )
        losses = Losses()
        glue.run(settings, callbacks=[losses])
        values.append(losses.values[:30])
    exact, half = np.array(values)
    assert len(exact) == 30 and np.ptp(exact) > 0.1
    np.testing.assert_allclose(half, exact, atol=1e-2)
    assert (half != exact).any()
