"""What a method adds to the blocks of an encoder, as Keras layers."""

import contextlib
import inspect
import math
import re
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from tf_transfer.models.blocks.layers import block_layers
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.freezing import Trainable
from tf_transfer.models.methods import base_method
from tf_transfer.models.methods.base_method import Method, NewWeight


class AddedWeights(keras.layers.Layer):
    """What a method adds to one block.

    The weights are float32 in every precision, and cast where they are used.

    Args:
        method: The method.
        widths: Inputs and outputs of the block's dense layers.
        number: Number of the block, from 1.
        seed: Seed of the initial weights.

    Attributes:
        method: As given.
    """

    def __init__(
        self, method: Method, widths: base_method.Widths, number: int, seed: int
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
        return f"{self.method!r} {inspect.getsource(type(self.method))}"

    def low_rank(
        self, name: str, dtype: tf.DType
    ) -> base_method.LowRank | None:
        """See `Method.low_rank`; the weights are cast to `dtype`."""
        low_rank = self.method.low_rank(self.by_name, name)
        if low_rank is None:
            return None
        a = tf.cast(low_rank.a.value, dtype)
        b = tf.cast(low_rank.b.value, dtype)
        return base_method.LowRank(a, b, low_rank.scale)


def _initializer(
    new: NewWeight, seeds: list[int]
) -> str | keras.initializers.Initializer:
    if new.bound == 0:
        return "zeros"
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    return keras.initializers.RandomUniform(-new.bound, new.bound, seed)


def build(
    encoder: Encoder, trainable: Trainable, seed: int
) -> dict[int, AddedWeights]:
    """Builds a method's layers; call it in the strategy's scope.

    Args:
        encoder: The encoder.
        trainable: Names the blocks and the method.
        seed: Seed of the initial weights.

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
    """Inside, the added weights are merged into the blocks' own."""
    kept: list[tuple[keras.layers.Layer, list[np.ndarray]]] = []
    added = encoder.added
    try:
        for number, one in added.items():
            for name, layer in dense_layers(encoder.blocks[number - 1]):
                low_rank = one.method.low_rank(one.by_name, name)
                if low_rank is None:
                    continue
                kernel, *bias = layer.get_weights()
                kept.append((layer, [kernel, *bias]))
                a, b = low_rank.a.numpy(), low_rank.b.numpy()
                product = low_rank.scale * (a @ b)
                kernel = kernel + product.reshape(kernel.shape)
                layer.set_weights([kernel, *bias])
        encoder.added = {}
        yield
    finally:
        encoder.added = added
        for layer, values in kept:
            layer.set_weights(values)


def dense_layers(
    block: keras.layers.Layer,
) -> list[tuple[str, keras.layers.Layer]]:
    """The dense layers of a block, by their names in `base_method.DENSE`."""
    layers = block_layers(block)
    return [(name, getattr(layers, name)) for name in base_method.DENSE]


def _shape(layer: keras.layers.Layer) -> tuple[int, int]:
    """Inputs and outputs of a dense layer, however many axes it has."""
    shape = layer.kernel.shape
    inner = 1  # the first axis that the outputs have
    if isinstance(layer, keras.layers.EinsumDense):
        _, kernel, outputs = re.split(",|->", layer.equation)
        inner = sum(axis not in outputs for axis in kernel)
    return math.prod(shape[:inner]), math.prod(shape[inner:])


def matrix(layer: keras.layers.Layer) -> tuple[np.ndarray, np.ndarray | None]:
    """Kernel [inputs, outputs] of a dense layer; bias [outputs], or None."""
    kernel = np.asarray(layer.kernel).reshape(_shape(layer))
    if layer.bias is None:
        return kernel, None
    return kernel, np.asarray(layer.bias).reshape(-1)
