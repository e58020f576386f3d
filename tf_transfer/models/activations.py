"""Activations of the feed-forward layers, and their gradients for training.

TensorFlow would differentiate each operation of a GELU, which takes a third
longer. OpenVINO reads no gradient of our own, so blocks that only run have
Keras's functions. The values of both are equal, bit for bit.
"""

import functools
import math
from collections.abc import Callable

import keras
import tensorflow as tf

Activation = Callable[[tf.Tensor], tf.Tensor]

# By transformers' names. The first published BERT has `gelu_new`, and so has
# keras-hub's; transformers gives the same weights `gelu`.
ACTIVATIONS: dict[str, Activation] = {
    "gelu": keras.activations.gelu,
    "gelu_new": functools.partial(keras.activations.gelu, approximate=True),
    "relu": keras.activations.relu,
    "silu": keras.activations.silu,
}


def _gelu(x: tf.Tensor) -> tuple[tf.Tensor, Activation]:
    """Computes x P(x) and its gradient.

    P is a normal variable's distribution function. The derivative is
    P(x) + x p(x), with its density p.

    Args:
        x: float32, of any shape.
    """
    cumulative = 0.5 * tf.math.erfc(x * -math.sqrt(0.5))

    def differentiate(dy: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(x)) / math.sqrt(2 * math.pi)
        return dy * (cumulative + x * density)

    return x * cumulative, differentiate


def _gelu_new(x: tf.Tensor) -> tuple[tf.Tensor, Activation]:
    """Computes x (1 + t) / 2 with t = tanh(a (x + b x^3)), and its gradient.

    The derivative is (1 + t + x (1 - t^2) a (1 + 3 b x^2)) / 2.

    Args:
        x: float32, of any shape.
    """
    a, b = math.sqrt(2 / math.pi), 0.044715
    tanh = tf.tanh(a * (x + b * tf.pow(x, 3)))

    def differentiate(dy: tf.Tensor) -> tf.Tensor:
        inner = a + 3 * a * b * tf.square(x)
        slope = (1 - tf.square(tanh)) * inner
        return dy * (0.5 + 0.5 * (tanh + x * slope))

    return 0.5 * x * (1 + tanh), differentiate


# By those of `ACTIVATIONS` that they stand for in training.
DIFFERENTIABLE: dict[Activation, Activation] = {
    ACTIVATIONS["gelu"]: tf.custom_gradient(_gelu),
    ACTIVATIONS["gelu_new"]: tf.custom_gradient(_gelu_new),
}
