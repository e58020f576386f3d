"""Our gradients are those of TensorFlow, and the values are the same."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transfer.models import activations
from tf_transfer.models.blocks import arithmetic

X = np.random.default_rng(0).normal(scale=3, size=(4, 5, 16))
NAMES = [
    name
    for name, function in activations.ACTIVATIONS.items()
    if function in activations.DIFFERENTIABLE
]


def differentiate(function, *inputs):
    """Values, and gradients of a weighted sum of them for all inputs."""
    inputs = [tf.convert_to_tensor(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        y = function(*inputs)
        weights = np.random.default_rng(1).normal(size=y.shape)
        total = tf.reduce_sum(y * tf.cast(weights, y.dtype))
    return y, tape.gradient(total, inputs)


def test_both_gelus_have_a_gradient_of_ours():
    assert NAMES == ["gelu", "gelu_new"]


@pytest.mark.parametrize("name", NAMES)
def test_an_activation_has_kerass_values_and_gradient(name):
    theirs = activations.ACTIVATIONS[name]
    ours = activations.DIFFERENTIABLE[theirs]
    values, [gradient] = differentiate(ours, X)
    _, [expected] = differentiate(theirs, X)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(ours(single), theirs(single))
    np.testing.assert_allclose(values, theirs(X), rtol=1e-6, atol=1e-8)


def test_layer_normalisation_has_its_gradient():
    layer = keras.layers.LayerNormalization(epsilon=1e-3, dtype="float64")
    layer.build(X.shape)
    rng = np.random.default_rng(2)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))
    wanted = rng.normal(size=X.shape)

    def normalise(training):
        inputs = [tf.constant(X), *(w.value for w in layer.weights)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = arithmetic.normalise(layer, inputs[0], training)
            total = tf.reduce_sum(y * wanted)
        return y, tape.gradient(total, inputs)

    values, gradients = normalise(training=True)
    same, expected = normalise(training=False)
    np.testing.assert_array_equal(values, same)
    np.testing.assert_allclose(values, layer(X), rtol=1e-10)
    assert len(gradients) == 3
    for ours, theirs in zip(gradients, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
