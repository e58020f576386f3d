"""Our arithmetic of a block is keras-nlp's, whole or at [CLS] alone."""

import keras
import keras_nlp
import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.models import blocks, keras_private

EXACT = {"float64": 1e-12, "float32": 2e-5}
HALF = {"mixed_bfloat16": 0.06, "mixed_float16": 0.01}


def approximate_gelu(x):
    return tf.nn.gelu(x, approximate=True)


def built(precision, activation="gelu", dropout=0.0):
    """The same block each time; every weight differs from its usual start."""
    block = keras_nlp.layers.TransformerEncoder(
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
    return (y * real)[:, :1], y * real, tape.gradient(loss, [x, *weights])


def keras_cls(block, x, mask):
    return block(x, padding_mask=mask)[:, :1]


def close(ours, theirs, tolerance):
    largest = np.abs(np.asarray(theirs, np.float64)).max()
    error = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    assert np.abs(error).max() <= tolerance * max(largest, 1)


@pytest.mark.parametrize("activation", ["gelu", approximate_gelu])
@pytest.mark.parametrize("precision", [*EXACT, *HALF])
@pytest.mark.parametrize("cls_only", [False, True])
def test_output_and_gradients_are_those_of_keras_nlp(
    precision, activation, cls_only
):
    block = built(precision, activation)
    tolerance = {**EXACT, **HALF}[precision]
    _, ours, our_gradients = outcome(
        block,
        lambda b, x, mask: blocks.run(b, x, mask, False, cls_only),
    )
    keras = keras_cls if cls_only else lambda b, x, m: b(x, padding_mask=m)
    _, theirs, their_gradients = outcome(block, keras)
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    close(ours, theirs, tolerance)
    for one, other in zip(our_gradients, their_gradients, strict=True):
        close(one, other, tolerance)


def test_padding_changes_nothing():
    block = built("float64")
    x, mask = inputs("float64")
    other = tf.where(mask[:, :, None], x, 17.0)
    one, two = (blocks.run(block, s, mask, False) for s in (x, other))
    np.testing.assert_array_equal(one[mask], two[mask])


@pytest.mark.parametrize("cls_only", [False, True])
def test_dropout_is_active_in_training_alone(cls_only):
    block = built("float32", dropout=0.5)
    x, mask = inputs("float32")
    quiet = [blocks.run(block, x, mask, False, cls_only) for _ in range(2)]
    loud = [blocks.run(block, x, mask, True, cls_only) for _ in range(2)]
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
    blocks.run(block, x, mask, True)
    dropouts = [
        number for number, layer in enumerate(layers) if "dropout" in layer.name
    ]
    assert len(dropouts) >= 3 and sorted(asked) == dropouts
