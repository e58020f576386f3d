"""What a method adds to the blocks of an encoder, as Keras layers."""

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.methods import base
from tf_transfer.models.methods.base import Method, NewWeight


class _Values:
    """The values of some weights by name, cast when they are asked for."""

    def __init__(self, weights: dict[str, Any], dtype: tf.DType) -> None:
        self._weights = weights
        self._dtype = dtype

    def __getitem__(self, name: str) -> tf.Tensor:
        return tf.cast(self._weights[name].value, self._dtype)


class AddedWeights(keras.layers.Layer):
    """What a method adds to one block.

    The weights are float32 in every precision, and cast where they are used.

    Args:
        method: the method.
        widths: inputs and outputs of the block's dense layers.
        number: number of the block, from 1.
        seed: seed of the initial weights.

    Attributes:
        method: as given.
    """

    def __init__(
        self, method: Method, widths: base.Widths, number: int, seed: int
    ) -> None:
        kind = type(method).__name__.lower()
        super().__init__(name=f"{kind}_block_{number}", dtype="float32")
        self.method = method
        self.by_name = {
            name: self.add_weight(
                name=name,
                shape=new.shape,
                initializer=_initializer(new, [seed, number, index]),
            )
            for index, (name, new) in enumerate(
                method.new_weights(widths).items()
            )
        }
        self.built = True

    @property
    def identity(self) -> str:
        """What it computes apart from its weights, for keys of the cache."""
        code = inspect.getsource(type(self.method))
        return f"{self.method!r} {code} {inspect.getsource(_initializer)}"

    def dense(self, name: str, dtype: tf.DType) -> base.Change:
        """See `Method.dense`; the weights are cast to `dtype`."""
        return self.method.dense(_Values(self.by_name, dtype), name)

    def sublayer(
        self,
        name: str,
        x: tf.Tensor,
        normalise: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        """See `Method.sublayer`."""
        shape, flat = tf.shape(x), [-1, x.shape[-1]]
        y = self.method.sublayer(
            _Values(self.by_name, x.dtype),
            name,
            tf.reshape(x, flat),
            lambda z: tf.reshape(normalise(tf.reshape(z, shape)), flat),
        )
        return tf.reshape(y, shape)


def _initializer(new: NewWeight, seeds: list[int]) -> Any:
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    if new.initial == "uniform":
        return keras.initializers.RandomUniform(-new.scale, new.scale, seed)
    if new.initial == "normal":
        return keras.initializers.TruncatedNormal(stddev=new.scale, seed=seed)
    return new.initial


def build(
    encoder: Encoder, trainable: Any, seed: int
) -> dict[int, AddedWeights]:
    """Builds a method's layers; call it in the strategy's scope.

    Args:
        encoder: the encoder.
        trainable: `freezing.Trainable`: names the blocks and the method.
        seed: seed of the initial weights.

    Returns:
        dict from a block's number to its layer; empty if the method adds no
        weights.
    """
    added = {}
    for number in range(trainable.first, trainable.last + 1):
        widths = {
            name: _shape(layer)
            for name, layer in dense_layers(encoder.blocks[number - 1])
        }
        if trainable.method.new_weights(widths):
            added[number] = AddedWeights(trainable.method, widths, number, seed)
    return added


@contextlib.contextmanager
def merged(encoder: Encoder) -> Iterator[None]:
    """Inside, the added weights are merged into the blocks' own.

    The weights of a method that does not merge stay as they are.
    """
    kept: list[tuple[Any, Any]] = []
    added = encoder.added
    if not all(one.method.merges for one in added.values()):
        yield
        return
    try:
        for number, one in added.items():
            weights = {n: w.value.numpy() for n, w in one.by_name.items()}
            for name, layer in dense_layers(encoder.blocks[number - 1]):
                change = one.method.dense(weights, name)
                kept.append((layer, layer.get_weights()))
                values = change.merge(*matrix(layer))
                layer.set_weights(
                    [
                        np.reshape(value, weight.shape)
                        for value, weight in zip(values, layer.weights)
                    ]
                )
        encoder.added = {}
        yield
    finally:
        encoder.added = added
        for layer, values in kept:
            layer.set_weights(values)


def dense_layers(block: keras.layers.Layer) -> list[tuple[str, Any]]:
    """The dense layers of a block, by their names in `base.DENSE`."""
    layers = keras_private.block_layers(block)
    return [(name, getattr(layers, name)) for name in base.DENSE]


def _shape(layer: Any) -> tuple[int, int]:
    """Inputs and outputs of a dense layer, however many axes it has."""
    outputs = math.prod(layer.bias.shape)
    return math.prod(layer.kernel.shape) // outputs, outputs


def matrix(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Kernel [inputs, outputs] and bias [outputs] of a dense layer."""
    kernel, bias = (np.asarray(weight) for weight in layer.get_weights())
    return kernel.reshape(_shape(layer)), bias.reshape(-1)
