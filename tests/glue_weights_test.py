"""A run of GLUE: which weights train, how fast, and which do not."""

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.support.run_files import checkpoint_of, model_of
from tf_transfer.glue import experiment as glue
from tf_transfer.models import freezing
from tf_transfer.training import programs, steps, strategy

SLOW = pytest.mark.slow


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "changes, trains",
    [
        ({"trainable_layers": "all"}, ("embeddings", 1, 2, 3, "pooler")),
        pytest.param(
            {"trainable_layers": "3"}, (1, 2, 3, "pooler"), marks=SLOW
        ),
        pytest.param({"trainable_layers": "1"}, (3, "pooler"), marks=SLOW),
        pytest.param({"trainable_layers": "0"}, ("pooler",), marks=SLOW),
        ({"blocks": "1-2"}, (1, 2, "pooler")),
        pytest.param(
            {"trainable_layers": "1", "pooling": "mean"}, (3,), marks=SLOW
        ),
    ],
    ids=str,
)
def test_the_weights_that_train_move_and_no_others(changes, trains, tiny_run):
    """Saved are those alone, and no others have a state in the optimizer."""
    result, folder = tiny_run(
        max_epochs=1,
        max_length=16,
        max_train_examples=16,
        lr=0.1,
        select="last",
        **changes,
    )
    settings = tiny_settings("runs", **changes)
    network = glue.Glue(settings).build_network(strategy.single_device())
    names = {f"block {p}" if isinstance(p, int) else p for p in trains}
    expected = {
        weight.path: weight.numpy()
        for part in freezing.components(network)
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

    class Known(Exception):
        """Enough was seen."""

    def listen(weights, rate, options, scales, *unused):
        for weight, scale in zip(weights, scales, strict=True):
            rates.setdefault(scale, set()).add(weight.path.split("/")[0])
        raise Known

    monkeypatch.setattr(programs, "BertAdam", listen)
    with pytest.raises(Known):
        tiny_run(trainable_layers="2", layer_decay=0.5)
    assert sorted(rates) == [0.5, 1.0]
    assert rates[0.5] == {"transformer_layer_1"}
    assert "transformer_layer_2" in rates[1.0]


def test_mean_pooling_leaves_the_pooler_out():
    def names(pooling):
        settings = tiny_settings("runs", pooling=pooling)
        network = glue.Glue(settings).build_network(strategy.single_device())
        return {part.name for part in freezing.components(network)}

    assert names("cls") - names("mean") == {"pooler"}


@pytest.mark.usefixtures("one_block", "eager")
def test_a_frozen_weight_that_moves_is_no_result(monkeypatch, tiny_run):
    original = steps.Pass.train

    def meddle(self, *arguments):
        weight = self.programs[0].network.encoder.blocks[0].weights[0]
        weight.assign_add(0.1 * weight)
        return original(self, *arguments)

    monkeypatch.setattr(steps.Pass, "train", meddle)
    with pytest.raises(Exception, match="frozen weight moved"):
        tiny_run(trainable_layers="0", max_epochs=1, max_length=16)
