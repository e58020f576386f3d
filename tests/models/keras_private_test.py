"""What this package takes from inside Keras and keras-hub is still there.

If a test here fails after an update of Keras or keras-hub, adapt
`models/keras_private.py` (and the versions that it names), or pin the release
before in setup.cfg.
"""

import ast
import pathlib
import re

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.models import keras_private

ROOT = pathlib.Path(__file__).parent.parent.parent
SOURCE = ROOT / "tf_transfer" / "models" / "keras_private.py"


@pytest.fixture(scope="module")
def block():
    block = keras_hub.layers.TransformerEncoder(
        intermediate_dim=24, num_heads=4, dropout=0.5
    )
    block.build((None, None, 16))
    return block


def test_a_block_has_the_layers_that_we_compute_with(block):
    layers = keras_private.block_layers(block)
    weights = [
        weight
        for layer in vars(layers).values()
        for weight in layer.trainable_weights
    ]
    assert len(weights) == 16
    assert {id(w) for w in weights} == {id(w) for w in block.trainable_weights}
    for layer in (layers.query, layers.key, layers.value):
        assert tuple(layer.kernel.shape) == (16, 4, 4)
    assert tuple(layers.attention_output.kernel.shape) == (4, 4, 16)
    assert tuple(layers.inner.kernel.shape) == (16, 24)
    assert tuple(layers.outer.kernel.shape) == (24, 16)
    for norm in (layers.attention_norm, layers.feedforward_norm):
        assert isinstance(norm, keras.layers.LayerNormalization)
    dropouts = [
        layers.weights_dropout,
        layers.attention_dropout,
        layers.feedforward_dropout,
    ]
    assert [layer.rate for layer in dropouts] == [0.5] * 3


def test_a_block_without_dropout_drops_no_attention_weights():
    block = keras_hub.layers.TransformerEncoder(intermediate_dim=4, num_heads=1)
    block.build((None, None, 4))
    assert keras_private.block_layers(block).weights_dropout is None


def test_flattening_finds_every_layer_inside(block):
    found = keras_private.flatten(block)
    inside = set(vars(keras_private.block_layers(block)).values())
    assert found[0] is block and inside <= set(found)
    assert len(found) == len(set(found))


def test_dropout_layers_draw_from_the_seeds_that_replace_their_own():
    layers = [keras.layers.Dropout(0.5) for _ in range(2)]
    inputs = tf.ones([100])
    outputs = [layer(inputs, training=True).numpy() for layer in layers]
    assert (outputs[0] != outputs[1]).any()
    asked = []

    def next_seed(ordered=True):
        asked.append(ordered)
        return tf.constant([1, 2], tf.int64)

    keras_private.replace_dropout(layers, next_seed)
    masks = [layer(inputs, training=True).numpy() for layer in layers]
    assert len(asked) == 2
    assert (masks[0] == masks[1]).all()


def test_what_is_gone_is_named_with_the_versions(block):
    class Other(keras.layers.Layer):
        pass

    with pytest.raises(keras_private.PrivateAttributeError) as error:
        keras_private.block_layers(Other())
    for words in (
        "Other has no `_self_attention_layer` in Keras",
        keras_private.CHECKED,
        "models/keras_private.py",
    ):
        assert words in str(error.value)


def test_no_other_file_touches_them():
    names = {
        node.value
        for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and re.fullmatch(r"_[a-z_]+|seed_generator", str(node.value))
    }
    assert len(names) == 11
    found = {
        (path.name, node.attr)
        for path in (ROOT / "tf_transfer").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names
    }
    assert not found


def dropped(rate, precision, shape):
    """Ones through a dropout layer with replaced seeds."""
    layer = keras.layers.Dropout(rate, dtype=precision)
    seed = tf.constant([3, 4])
    keras_private.replace_dropout([layer], lambda ordered=True: seed)
    return layer(tf.ones(shape, layer.compute_dtype), training=True)


def test_half_precision_drops_the_same_values_as_float32():
    exact = dropped(0.1, "float32", [200, 200])
    half = dropped(0.1, "mixed_bfloat16", [200, 200])
    assert half.dtype.size == 2
    np.testing.assert_array_equal(exact == 0, half == 0)


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 0.999])
def test_dropout_keeps_the_mean_and_drops_the_share_of_its_rate(rate):
    """The rate is a multiple of 2^-16 that is at most 2^-16 smaller."""
    values = dropped(rate, "float32", [999, 1001]).numpy()
    rounded = 1 - 1 / values.max()
    assert rate - 2**-16 <= rounded + 1e-7 and rounded <= rate + 1e-7
    assert set(np.unique(values)) == {0, values.max()}
    deviation = (rate * (1 - rate) / values.size) ** 0.5
    assert np.mean(values == 0) == pytest.approx(rate, abs=4 * deviation)


def test_dropout_decides_neighbouring_values_independently():
    """Two of them share a random word."""
    kept = dropped(0.5, "float32", [1000, 1000]).numpy().reshape(-1, 2) > 0
    assert abs(np.corrcoef(kept.T)[0, 1]) < 4 / len(kept) ** 0.5


def test_half_precision_drops_whole_channels_where_a_layer_does():
    layer = keras.layers.SpatialDropout1D(0.5, dtype="mixed_bfloat16")
    seed = tf.constant([3, 4])
    keras_private.replace_dropout([layer], lambda ordered=True: seed)
    kept = layer(tf.ones([2, 5, 40]), training=True).numpy() != 0
    assert (kept == kept[:, :1]).all() and kept.any() and not kept.all()
