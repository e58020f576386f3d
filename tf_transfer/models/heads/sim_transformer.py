"""Sim-Transformer: BiMPM with a transformer in place of its last BiLSTM.

    y = x P + positions    z = block(y)    a text's vector: the mean of its z

"We combine the matching layer of BIMPM and with a transformer, a model we call
Sim-Transformer by replacing the output layer of the matching layer, originally
a bi-LSTM model, with a transformer model." We read that as: the first BiLSTM
stays.

Also our choice, since the paper gives no size: matching vectors x are
projected to 256; one block of 4 attention heads, with a feed-forward layer of
1,024 and a ReLU; positions are the sines and cosines of Vaswani et al.
(1706.03762, section 3.5), and the block normalises after each sum, as theirs
does; and the mean is that of all tokens but padding.
"""

import math
from typing import Any

import keras
import keras_nlp
import tensorflow as tf

from tf_transfer.feature_cache.prefix import mean_pool
from tf_transfer.models import blocks
from tf_transfer.models import keras_private
from tf_transfer.models.heads.bimpm import BiMPMHead

ATTENTION_HEADS = 4
FEEDFORWARD_RATIO = 4  # width of the feed-forward layer / width of the block


class SimTransformerHead(BiMPMHead):
    """BiMPM's matching, and a transformer block over its vectors.

    Args:
        aggregation_units: width of the block; a multiple of 8.
        others: see `BiMPMHead`.
    """

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        aggregation_units: int = 256,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units,
            hidden,
            dropout,
            seed,
            dtype,
            aggregation_units=aggregation_units,
            **kwargs,
        )

    def build_aggregation(self, width: int, units: int) -> int:
        """Builds projection and block; returns the width of a text's vector."""
        self.projection = self.build_dense(width, units, "projection")
        self.block = self.build_layer(
            keras_nlp.layers.TransformerEncoder(
                intermediate_dim=FEEDFORWARD_RATIO * units,
                num_heads=ATTENTION_HEADS,
                dropout=self.dropout.rate,
                activation="relu",
                dtype=self.dtype_policy,
                name="block",
            ),
            units,
        )
        self._initialize_block()
        return units

    def _initialize_block(self) -> None:
        """Draws the block's kernels anew, each seen as a matrix.

        The block would give one seed to several layers, and Keras would count
        the axis of attention heads as inputs.
        """
        layers = keras_private.block_layers(self.block)
        for layer in (
            layers.query,
            layers.key,
            layers.value,
            layers.attention_output,
            layers.inner,
            layers.outer,
        ):
            shape = layer.kernel.shape
            outputs = math.prod(layer.bias.shape)
            inputs = math.prod(shape) // outputs
            matrix = self.next_initializer()((inputs, outputs))
            layer.kernel.assign(keras.ops.reshape(matrix, shape))

    def aggregate(
        self, x: tf.Tensor, mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """One vector of each text, float32 [2 * batch, units]."""
        y = self.projection(x)
        y += tf.cast(encode_positions(tf.shape(y)[1], y.shape[2]), y.dtype)
        y = self.dropout(y, training=training)
        return mean_pool(blocks.run(self.block, y, mask, training), mask)


def encode_positions(length: int | tf.Tensor, width: int) -> tf.Tensor:
    """Sines and cosines of Vaswani et al., float32 [length, width].

    At position p: sin(p / 10000^(2i / width)) at index 2i, its cosine at
    2i + 1.
    """
    position = tf.range(length, dtype=tf.float32)
    rates = 10000.0 ** (-tf.range(0, width, 2, dtype=tf.float32) / width)
    angles = position[:, None] * rates
    waves = tf.stack([tf.sin(angles), tf.cos(angles)], axis=2)
    return tf.reshape(waves, [length, width])
