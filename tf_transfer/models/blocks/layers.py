"""The layers of a block: keras-hub's, or ours where it has none."""

import dataclasses

import keras
import tensorflow as tf

from tf_transfer.models import keras_private
from tf_transfer.models.activations import ACTIVATIONS
from tf_transfer.models.keras_private import BlockLayers


@dataclasses.dataclass(frozen=True)
class BlockShape:
    """The shape of a block, and what it leaves out.

    Attributes:
        hidden: Width of the hidden states.
        heads: Attention heads.
        inner: Width inside the feed-forward layers.
        activation: One of `activations.ACTIVATIONS`.
        epsilon: Of every layer normalisation.
        dropout: Rate of every dropout.
        has_biases: Whether dense layers have biases.
        has_norm_biases: Whether layer normalisations have them.
        is_gated: Whether the first feed-forward layer has a gate beside each
            of its units.
    """

    hidden: int
    heads: int
    inner: int
    activation: str
    epsilon: float
    dropout: float
    has_biases: bool = True
    has_norm_biases: bool = True
    is_gated: bool = False


class Block(keras.layers.Layer):
    """A block's weights and dropout. It computes nothing: a family does.

    Args:
        shape: Of the block.
        name: Of the layer.
        dtype: Keras dtype policy.
        has_first_norm: Whether there is a normalisation at the attention.
        has_final_norm: Whether the states of the whole encoder are normalised
            behind this block.

    Attributes:
        parts: The layers, by the names of those of keras-hub's block.
        final_norm: The last normalisation, or None.
    """

    def __init__(
        self,
        shape: BlockShape,
        name: str,
        dtype: str,
        has_first_norm: bool = True,
        has_final_norm: bool = False,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self._shape = shape
        self._has_first_norm = has_first_norm
        self._has_final_norm = has_final_norm
        self.build()

    def build(self, input_shape: object = None) -> None:
        """Makes every layer; inside, so that a weight's path begins here."""
        shape, hidden = self._shape, self._shape.hidden
        for name in ("query", "key", "value"):
            setattr(self, name, self._build_heads(name))
        self.attention_output = self._build_output()
        inner = shape.inner * (2 if shape.is_gated else 1)
        self.inner = self._build_dense("inner", hidden, inner)
        self.inner.activation = ACTIVATIONS[shape.activation]
        self.outer = self._build_dense("outer", shape.inner, hidden)
        self.attention_norm = None
        if self._has_first_norm:
            self.attention_norm = self.build_norm("attention_norm")
        self.feedforward_norm = self.build_norm("feedforward_norm")
        self.final_norm = None
        if self._has_final_norm:
            self.final_norm = self.build_norm("final_norm")
        for name in ("weights", "attention", "feedforward"):
            dropout = keras.layers.Dropout(
                shape.dropout, dtype=self.dtype_policy, name=f"{name}_dropout"
            )
            setattr(self, f"{name}_dropout", dropout)
        names = [field.name for field in dataclasses.fields(BlockLayers)]
        parts = {name: getattr(self, name) for name in names}
        if not shape.dropout:
            parts["weights_dropout"] = None
        self.parts = BlockLayers(**parts)
        self.built = True

    def _build_heads(self, name: str) -> keras.layers.Layer:
        shape = self._shape
        layer = keras.layers.EinsumDense(
            "abc,cde->abde",
            (None, shape.heads, shape.hidden // shape.heads),
            bias_axes="de" if shape.has_biases else None,
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, None, shape.hidden))
        return layer

    def _build_output(self) -> keras.layers.Layer:
        shape = self._shape
        layer = keras.layers.EinsumDense(
            "abcd,cde->abe",
            (None, shape.hidden),
            bias_axes="e" if shape.has_biases else None,
            dtype=self.dtype_policy,
            name="attention_output",
        )
        size = shape.hidden // shape.heads
        layer.build((None, None, shape.heads, size))
        return layer

    def _build_dense(
        self, name: str, inputs: int, units: int
    ) -> keras.layers.Layer:
        layer = keras.layers.Dense(
            units,
            use_bias=self._shape.has_biases,
            dtype=self.dtype_policy,
            name=name,
        )
        layer.build((None, inputs))
        return layer

    def build_norm(self, name: str) -> keras.layers.Layer:
        """A layer normalisation of the block's width."""
        return build_norm(self._shape, name, self.dtype_policy)


def build_norm(
    shape: BlockShape, name: str, dtype: str | keras.DTypePolicy
) -> keras.layers.Layer:
    """A layer normalisation of a width and epsilon."""
    layer = keras.layers.LayerNormalization(
        epsilon=shape.epsilon,
        center=shape.has_norm_biases,
        dtype=dtype,
        name=name,
    )
    layer.build((None, None, shape.hidden))
    return layer


def block_layers(block: keras.layers.Layer) -> BlockLayers:
    """The layers of a block, ours or keras-hub's.

    Raises:
        PrivateAttributeError: The installed keras-hub has other names.
    """
    if isinstance(block, Block):
        return block.parts
    return keras_private.block_layers(block)


class PredictionHead(keras.layers.Layer):
    """What ModernBERT has below a classifier: dense, activation, LayerNorm.

    Args:
        shape: Of a block.
        activation: One of `activations.ACTIVATIONS`.
        dtype: Keras dtype policy.
        seed: Of the kernel.
    """

    def __init__(
        self, shape: BlockShape, activation: str, dtype: str, seed: int
    ) -> None:
        super().__init__(name="pooled_dense", dtype=dtype)
        self._shape, self._activation, self._seed = shape, activation, seed
        self.build()

    def build(self, input_shape: object = None) -> None:
        """Makes both layers; inside, so that a weight's path begins here."""
        self.dense = keras.layers.Dense(
            self._shape.hidden,
            activation=ACTIVATIONS[self._activation],
            use_bias=False,
            kernel_initializer=keras.initializers.TruncatedNormal(
                stddev=0.02, seed=self._seed
            ),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build((None, self._shape.hidden))
        self.norm = build_norm(self._shape, "norm", self.dtype_policy)
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Floats [batch, hidden] of the states of [CLS]."""
        return self.norm(self.dense(x))
