"""Runs of encoders whose blocks are ours: cached, LoRA, the probe, predict."""

import json

import numpy as np
import pytest

from tests.models import own_types
from tests.support import commands, own_data, own_runs
from tf_transfer import experiment, train
from tf_transfer.data.task import Examples
from tf_transfer.models import exports
from tf_transfer.utils import machine

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=own_types.CONFIGS)
def model(request, tmp_path_factory):
    """A folder of a small encoder of random weights."""
    folder = tmp_path_factory.mktemp("types") / request.param
    encoder = own_types.make(request.param, folder)
    network = own_types.network_of(encoder)
    exports.hugging_face(
        network, "mine", str(folder), "classes", ("no", "yes"), 40
    )
    return str(folder)


def train_one(model, tmp_path, **changes):
    path = own_data.write_task(
        tmp_path, columns=own_data.news(30), texts=["body"]
    )
    settings = own_runs.settings_of(
        path, tmp_path / "runs", model=model, baseline=False, **changes
    )
    return train.run(settings).directory


def read_losses(directory):
    lines = open(f"{directory}/epochs.jsonl", encoding="utf-8")
    return [json.loads(line)["train_loss"] for line in lines]


@pytest.mark.parametrize("engine", ["tensorflow", "openvino"])
def test_a_cached_run_trains_and_its_answers_are_found_again(
    engine, model, tmp_path, monkeypatch
):
    if engine == "openvino":
        openvino = pytest.importorskip("openvino")
        version = openvino.__version__
        monkeypatch.setitem(machine.versions(), "openvino", version)
    directory = train_one(
        model,
        tmp_path,
        frozen_prefix="cached",
        prefix_engine=engine,
        max_epochs=2,
        dropout=0.0,
    )
    live = train_one(
        model, tmp_path, frozen_prefix="live", max_epochs=2, dropout=0.0
    )
    np.testing.assert_allclose(
        read_losses(directory), read_losses(live), atol=2e-3
    )
    predictor = experiment.open_run(str(directory)).predictor("")
    [logits] = predictor.logits(
        Examples(np.arange(1), [["moon rocket orbit"]], None)
    )
    assert logits.shape == (3,) and np.isfinite(logits).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "lora", "lora_targets": "all"},
        {"features": "frozen"},
        {"trainable_layers": "all"},
        {"keep_blocks": 2},
        {"pooling": "mean", "precision": "mixed_bfloat16"},
    ],
    ids=str,
)
def test_what_else_a_run_can_be(changes, model, tmp_path):
    directory = train_one(model, tmp_path, **changes)
    with open(f"{directory}/result.json", encoding="utf-8") as file:
        result = json.load(file)
    assert 0 <= result["test"]["accuracy"] <= 1
    assert np.isfinite(
        np.load(f"{directory}/predictions.npz")["test_logits"]
    ).all()


def test_a_search_ranks_it_and_searches(model, tmp_path):
    """The command, up to the runs of the search."""
    path = own_data.write_task(
        tmp_path, columns=own_data.news(60), texts=["body"]
    )
    code, out, err = commands.finish(
        commands.start(
            "search",
            f"--task={path}",
            f"--models=tiny,{model}",
            "--budget=5m",
            "--dry_run",
            f"--out={tmp_path / 'out'}",
        )
    )
    assert code == 0, err
    assert model in out and "tiny" in out
    assert "last 1" in out
