"""Our arithmetic of a block is keras-nlp's, whole or at [CLS] alone."""

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.blocks import bert

SEED = tf.constant([3, 4])
EXACT = {"float64": 1e-12, "float32": 2e-5}
HALF = {"mixed_bfloat16": 0.06}


def approximate_gelu(x):
    return tf.nn.gelu(x, approximate=True)


def built(precision, activation="gelu", dropout=0.0):
    """The same block each time; every weight differs from its usual start."""
    block = keras_hub.layers.TransformerEncoder(
        intermediate_dim=24,
        num_heads=4,
        dropout=dropout,
        activation=activation,
        layer_norm_epsilon=1e-12,
        kernel_initializer=keras.initializers.GlorotUniform(seed=3),
        dtype=precision,
    )
    block.build((None, None, 16))
    rng = np.random.default_rng(3)
    for weight in block.weights:
        noise = rng.normal(scale=0.3, size=weight.shape)
        weight.assign(weight.numpy() + noise.astype(weight.dtype))
    return block


def inputs(dtype):
    """States of three texts of 7, 3 and 1 tokens, and their mask."""
    x = np.random.default_rng(4).normal(size=(3, 7, 16))
    mask = np.arange(7)[None] < np.array([[7], [3], [1]])
    return tf.constant(x, dtype), tf.constant(mask)


def outcome(block, call):
    """A block's output at real tokens, and gradients of all that goes in."""
    x, mask = inputs(block.variable_dtype)
    wanted = np.random.default_rng(5).normal(size=x.shape)
    weights = [weight.value for weight in block.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch([x, *weights])
        y = call(block, x, mask)
        real = tf.cast(mask, y.dtype)[:, : y.shape[1], None]
        share = tf.cast(wanted[:, : y.shape[1]], y.dtype) * real
        loss = tf.reduce_sum(tf.cast(y * share, x.dtype))
    # The key's bias changes nothing at [CLS]: it is not in the graph.
    gradients = tape.gradient(loss, [x, *weights], unconnected_gradients="zero")
    return y * real, gradients


def keras_cls(block, x, mask):
    return block(x, padding_mask=mask)[:, :1]


def close(ours, theirs, tolerance):
    largest = np.abs(np.asarray(theirs, np.float64)).max()
    error = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    assert np.abs(error).max() <= tolerance * max(largest, 1)


@pytest.mark.parametrize("activation", ["gelu", approximate_gelu])
@pytest.mark.parametrize("precision", [*EXACT, *HALF])
@pytest.mark.parametrize("cls_only", [False, True])
def test_output_and_gradients_are_those_of_keras_hub(
    precision, activation, cls_only
):
    block = built(precision, activation)
    tolerance = {**EXACT, **HALF}[precision]
    ours, our_gradients = outcome(
        block,
        lambda b, x, mask: bert.run(
            b, tf.cast(x, b.compute_dtype), mask, False, cls_only
        ),
    )
    keras = keras_cls if cls_only else lambda b, x, m: b(x, padding_mask=m)
    theirs, their_gradients = outcome(block, keras)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    close(ours, theirs, tolerance)
    for one, other in zip(our_gradients, their_gradients, strict=True):
        close(one, other, tolerance)


def test_padding_changes_nothing():
    block = built("float64")
    x, mask = inputs("float64")
    other = tf.where(mask[:, :, None], x, 17.0)
    one, two = (bert.run(block, s, mask, False) for s in (x, other))
    np.testing.assert_array_equal(one[mask], two[mask])


@pytest.mark.parametrize("cls_only", [False, True])
def test_dropout_is_active_in_training_alone(cls_only):
    block = built("float32", dropout=0.5)
    x, mask = inputs("float32")
    quiet = [bert.run(block, x, mask, False, cls_only) for _ in range(2)]
    loud = [bert.run(block, x, mask, True, cls_only) for _ in range(2)]
    np.testing.assert_array_equal(*quiet)
    assert np.abs(loud[0] - loud[1]).max() > 0.1
    assert np.abs(loud[0] - quiet[0]).max() > 0.1


def test_every_dropout_layer_of_the_block_is_asked():
    block = built("float32", dropout=0.5)
    asked = []
    layers = [
        inner
        for inner in keras_private.flatten(block)
        if hasattr(inner, "seed_generator")
    ]
    for number, layer in enumerate(layers):
        layer.call = lambda y, training, number=number: (
            asked.append(number) or y
        )
    x, mask = inputs("float32")
    bert.run(block, x, mask, True)
    dropouts = [
        number for number, layer in enumerate(layers) if "dropout" in layer.name
    ]
    assert len(dropouts) >= 3 and sorted(asked) == dropouts


def attention_of_cls(block, x, mask, training):
    """[CLS] alone, from the keys and values of every token."""
    layers = keras_private.block_layers(block)
    query, key, value = (
        tf.einsum("blh,hns->bnls", x, layer.kernel.value)
        + layer.bias.value[:, None]
        for layer in (layers.query, layers.key, layers.value)
    )
    scores = query[:, :, :1] @ tf.transpose(key, [0, 1, 3, 2])
    scores /= query.shape[-1] ** 0.5
    scores = tf.where(mask[:, None, None], scores, -1e30)
    weights = layers.weights_dropout(tf.nn.softmax(scores), training=training)
    mixed = tf.transpose(weights @ value, [0, 2, 1, 3])
    return layers.attention_output(mixed)


def test_cls_alone_has_the_dropout_masks_of_weights_over_keys_and_values():
    block = built("float64", dropout=0.5)
    x, mask = inputs("float64")
    attention = []
    layers = keras_private.block_layers(block)
    keras_private.replace_dropout([block], lambda ordered=True: SEED)
    layers.attention_dropout.call = lambda y, training: attention.append(y) or y
    bert.run(block, x, mask, True, cls_only=True)
    expected = attention_of_cls(block, x, mask, True)
    np.testing.assert_allclose(attention[0], expected, atol=1e-12)
    assert np.abs(attention_of_cls(block, x, mask, False) - expected).max() > 1


def test_the_bias_of_keys_has_no_gradient_at_cls_alone():
    block = built("float32")
    _, gradients = outcome(
        block, lambda b, x, mask: bert.run(b, x, mask, False, True)
    )
    names = [weight.path for weight in block.trainable_weights]
    by_name = dict(zip(names, gradients[1:], strict=True))
    for name, gradient in by_name.items():
        is_key = name.endswith("key/bias")
        assert np.any(gradient.numpy()) != is_key, name
