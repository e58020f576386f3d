"""The settings of a freezing run, and its network."""

import numpy as np
import pytest

from tests.models import encoders, saving
from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing
from tf_transfer.models import freezing as models_freezing, tiny
from tf_transfer.sweeps import grid as grid_lib


def parsed(*words):
    return command_line.parse(freezing.Settings, words).resolve()


def test_defaults_are_the_authors():
    settings = parsed()
    assert (settings.batch_size, settings.max_epochs) == (16, 3)
    assert (settings.weight_decay, settings.adam_epsilon) == (0.0, 1e-8)
    assert settings.bias_correction and settings.clip_norm == 1.0
    assert (settings.schedule, settings.warmup_fraction) == ("linear", 0.0)
    assert (settings.select, settings.patience) == ("last", 0)
    assert settings.validation_fraction == 0.0
    assert settings.lr == 3e-5  # the middle of the paper's
    assert settings.dropout == settings.head_dropout == 0.1


def test_roberta_trains_for_ten_epochs():
    assert parsed("--model=roberta_base_en").max_epochs == 10
    assert parsed("--model=roberta_base_en", "--max_epochs=4").max_epochs == 4


def test_the_output_is_the_authors():
    """Two units; for RoBERTa a second dropout, before the pooler."""
    bert, roberta = parsed(), parsed("--model=roberta_base_en")
    assert bert.loss_head == roberta.loss_head == "softmax"
    assert (bert.pooler_dropout, roberta.pooler_dropout) == (0.0, 0.1)
    assert "pooler_dropout" not in bert.hashed()
    mean = parsed("--model=roberta_base_en", "--pooling=mean")
    assert mean.pooler_dropout == 0.0


@pytest.mark.slow  # trains whole runs
def test_biases_and_norms_may_be_left_out_where_everything_trains(monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    words = ("--model=tiny", "--data=sample", "--lr=1e-3")
    left_out = "--untrained=bias,norm"

    def trained(*more):
        experiment = freezing.Freezing(parsed(*words, *more))
        network = experiment.build_network(experiment.set_up_devices())
        weights = models_freezing.freeze(network, experiment.trainable(2))
        assert all(weight.trainable for weight in weights)
        rest = {w.path for w in network.weights if not w.trainable}
        return {weight.path for weight in weights}, rest

    everything, nothing = trained()
    matrices, left = trained(left_out)
    assert not nothing and matrices | left == everything
    assert {path.split("/")[-1] for path in left} == {"bias", "beta", "gamma"}
    assert {path.split("/")[-1] for path in matrices} == {
        "kernel",
        "embeddings",
    }
    assert any("rte" in path for path in left)  # the head's
    # Runs that freeze blocks are the same runs with and without it.
    for layers in ("1", "0"):
        last = f"--trainable_layers={layers}"
        frozen = parsed(*words, last, left_out)
        assert frozen.hashed() == parsed(*words, last).hashed()
        assert "untrained" in frozen.unread()
        assert trained(last, left_out) == trained(last)
    whole = parsed(*words, left_out)
    assert whole.hashed() == {
        **parsed(*words).hashed(),
        "untrained": "bias,norm",
    }


def test_dropout_before_the_pooler_is_that_of_training_alone(monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 1)
    words = ("--model=tiny", "--data=sample", "--lr=1e-3")
    none = ("--dropout=0", "--head_dropout=0")
    for rate, is_same in ((0.0, True), (0.5, False)):
        experiment = freezing.Freezing(
            parsed(*words, *none, f"--pooler_dropout={rate}")
        )
        network = experiment.build_network(experiment.set_up_devices())
        batch = encoders.batch_of(network.encoder, encoders.PAIRS)
        trains, answers = (
            network.logits("rte", batch, training=is_training).numpy()
            for is_training in (True, False)
        )
        assert answers.shape == (4, 2)
        assert np.allclose(trains, answers, atol=1e-6) == is_same


@pytest.mark.slow
@pytest.mark.parametrize("save", [saving.as_keras, saving.as_hugging_face])
def test_a_roberta_trains_every_number_of_blocks(tmp_path, save, eager):
    """Of a preset and of a Hugging Face folder, live and cached."""
    folder = str(tmp_path / "roberta")
    save(encoders.roberta(), folder)
    small = {"max_length": 16, "batch_size": 8, "max_epochs": 1}
    grid = {
        "experiment": "freezing",
        "flags": {"model": folder, "data": "sample", "task": "wnli", **small},
        "axes": {
            "trainable_layers": ["all", 1, 0],
            "frozen_prefix": ["live", "cached"],
        },
    }
    cache = str(tmp_path / "cache")
    runs = grid_lib.expand(
        "grid", grid_lib.Grid(**grid), str(tmp_path / "runs"), cache
    )
    trained = [(r.settings.approach, r.settings.runs_cached) for r in runs]
    assert trained == [
        ("fine_tuning", False),
        ("last_1", False),
        ("last_1", True),
        ("last_0", False),
        ("last_0", True),
    ]
    for run in runs:
        assert freezing.run(run.settings).record["test"]
