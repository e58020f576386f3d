"""Several objectives and phases in one run, as later papers need them."""

import json
import os

import numpy as np

from tests.conftest import tiny_settings
from tf_transfer import text_task
from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.models import network as network_lib
from tf_transfer.models.freezing import Trainable
from tf_transfer.training import phases
from tf_transfer.training import records
from tf_transfer.training import run
from tf_transfer.training import strategy

NAMES = ("sst2", "rte")


def prepare(settings):
    """One tiny encoder with a head and an objective for each of two tasks."""
    devices = strategy.Devices(strategy.tf.distribute.get_strategy())
    networks, objectives = [], []
    for name in NAMES:
        task = tasks.GLUE[name]
        source = sources.Source(task, "sample", "")
        network, [phase], _ = text_task.prepare(settings, task, source, devices)
        networks.append(network)
        objectives += phase.objectives
    joined = network_lib.Network(
        networks[0].encoder, {**networks[0].heads, **networks[1].heads}
    )
    return devices, joined, tuple(objectives)


def phase(objectives, trainable, layers):
    return phases.Phase(
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


def test_two_heads_train_in_turn_in_two_phases(tmp_path):
    settings = tiny_settings(tmp_path, max_length=16).resolve()
    devices, network, objectives = prepare(settings)
    before = {w.path: w.numpy().copy() for w in network.weights}
    directory = records.RunDirectory(str(tmp_path / "run"), {})
    directory.lock()
    plan = [
        phase(objectives, Trainable(4, 3), "0"),
        phase(objectives, Trainable(1, 3, embeddings=True), "all"),
    ]
    facts = run.Run(settings, directory, devices, network, plan).train()
    directory.close()

    with open(os.path.join(directory.path, "epochs.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    order = [(x["phase"], x["phase_epoch"], x["turn"]) for x in lines]
    assert order == [
        (number, epoch, name)
        for number in (1, 2)
        for epoch in (1, 2)
        for name in NAMES
    ]
    assert [p["trainable_layers"] for p in facts["phases"]] == ["0", "all"]
    moved = {
        w.path for w in network.weights if (w.numpy() != before[w.path]).any()
    }
    assert {w.path for h in network.heads.values() for w in h.weights} <= moved
    assert any("transformer_layer_0" in path for path in moved)
    assert np.isfinite([line["train_loss"] for line in lines]).all()
