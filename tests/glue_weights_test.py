"""A run of GLUE: which weights train, how fast, and which do not."""

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.run_files import checkpoint_of
from tests.run_files import model_of
from tf_transfer import text_task
from tf_transfer.data import tasks
from tf_transfer.models import freezing
from tf_transfer.training import loop
from tf_transfer.training import strategy


@pytest.mark.parametrize(
    "changes, trains",
    [
        ({"trainable_layers": "all"}, ("embeddings", 1, 2, 3, "pooler")),
        ({"trainable_layers": "3"}, (1, 2, 3, "pooler")),
        ({"trainable_layers": "1"}, (3, "pooler")),
        ({"trainable_layers": "0"}, ("pooler",)),
        ({"blocks": "1-2"}, (1, 2, "pooler")),
        ({"trainable_layers": "1", "pooling": "mean"}, (3,)),
    ],
    ids=str,
)
def test_the_weights_that_train_move_and_no_others(changes, trains, tiny_run):
    """Saved are those alone, and no others have a state in the optimizer."""
    result, folder = tiny_run(
        max_epochs=1, max_length=16, lr=0.1, select="last", **changes
    )
    settings = tiny_settings("runs", **changes)
    network = text_task.build_network(
        settings, tasks.GLUE["rte"], strategy.set_up(settings)
    )
    names = {f"block {p}" if isinstance(p, int) else p for p in trains}
    expected = {
        weight.path: weight.numpy()
        for part in freezing.parts(network)
        if part.name in names | {"head rte"}
        for weight in part.weights
    }
    model = model_of(folder)
    assert model.keys() == expected.keys()
    assert result["trainable_parameters"] == sum(
        array.size for array in model.values()
    )
    for path, before in expected.items():
        if not path.endswith("key/bias"):  # has no gradient: softmax
            assert np.abs(model[path] - before).max() > 1e-3, path
    slots = {
        name.split("/", 1)[1]
        for name in checkpoint_of(folder)
        if name.startswith(("m/", "v/"))
    }
    assert slots == expected.keys()


def test_under_layer_decay_lower_blocks_have_lower_rates(monkeypatch, tiny_run):
    rates = {}
    original = loop.build_optimizer

    def listen(devices, weights, rate, settings, scales, groups):
        for weight, scale in zip(weights, scales, strict=True):
            rates.setdefault(scale, set()).add(weight.path.split("/")[0])
        return original(devices, weights, rate, settings, scales, groups)

    monkeypatch.setattr(loop, "build_optimizer", listen)
    tiny_run(max_epochs=1, trainable_layers="2", layer_decay=0.5)
    assert sorted(rates) == [0.5, 1.0]
    assert rates[0.5] == {"transformer_layer_1"}
    assert "transformer_layer_2" in rates[1.0]


def test_mean_pooling_leaves_the_pooler_out():
    def names(pooling):
        settings = tiny_settings("runs", pooling=pooling)
        network = text_task.build_network(
            settings, tasks.GLUE["rte"], strategy.set_up(settings)
        )
        return {part.name for part in freezing.parts(network)}

    assert names("cls") - names("mean") == {"pooler"}


@pytest.mark.usefixtures("one_block")
def test_a_frozen_weight_that_moves_is_no_result(monkeypatch, tiny_run):
    original = loop.Trainer.train

    def meddle(self, *arguments):
        weight = self.learners[0].network.encoder.blocks[0].weights[0]
        weight.assign_add(0.1 * weight)
        return original(self, *arguments)

    monkeypatch.setattr(loop.Trainer, "train", meddle)
    with pytest.raises(Exception, match="frozen weight moved"):
        tiny_run(trainable_layers="0", max_epochs=1, max_length=16)
