"""A keras-hub model of one's own is frozen below its last blocks."""

import keras
import pytest
import tensorflow as tf

from tests.support.classifiers import (
    BLOCKS,
    classifier,
    compile,
    hashes,
    token_batches,
)
from tf_transfer import freeze_blocks


@pytest.fixture(autouse=True, scope="module")
def eager():
    """Tracing takes most of the time where nothing is large."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def should_move(path, k):
    """Whether a weight trains with the last k blocks, by its path."""
    if k == "all":
        return True
    if "transformer_layer_" in path:
        number = int(path.split("transformer_layer_")[1].split("/")[0])
        return number >= BLOCKS - k
    return "embedding" not in path


@pytest.mark.parametrize(
    "family, k",
    [("bert", 0), ("bert", 1), ("bert", 2), ("bert", "all"), ("roberta", 1)],
)
def test_exactly_the_last_blocks_pooler_and_head_move(family, k):
    model = classifier(family)
    model.backbone.trainable = False  # would win over its blocks
    freeze_blocks(model, k)
    # Decay moves weights whose gradient is zero, as a key's bias.
    optimizer = keras.optimizers.AdamW(1e-2, weight_decay=0.1)
    compile(model, optimizer)
    before = hashes(model)
    model.fit(token_batches(family).take(1), verbose=0)
    after = hashes(model)
    moved = {path for path in before if before[path] != after[path]}
    assert moved == {path for path in before if should_move(path, k)}
    assert moved == {weight.path for weight in model.trainable_weights}


def test_your_own_model_may_call_the_backbone():
    backbone = classifier("roberta").backbone
    states = backbone(backbone.input)
    outputs = keras.layers.Dense(2)(states[:, 0])
    model = keras.Model(backbone.input, outputs)
    freeze_blocks(model, 1)
    frozen = [layer.trainable for layer in backbone.transformer_layers]
    assert frozen == [False, True]
    assert model.layers[-1].trainable


@pytest.mark.parametrize("k", [-1, BLOCKS + 1, True, "1", None])
def test_the_number_of_blocks_is_checked(k):
    with pytest.raises(ValueError, match=f'from 0 to {BLOCKS}, or "all"'):
        freeze_blocks(classifier("bert"), k)


def test_what_has_no_blocks_is_refused():
    model = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(TypeError, match="1 BERT or RoBERTa backbone, got 0"):
        freeze_blocks(model, 1)
