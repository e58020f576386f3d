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

from typing import Any

import keras
import keras_hub
import tensorflow as tf

from tf_transfer.models.blocks import bert
from tf_transfer.models.methods import added
from tf_transfer.models.prefix import mean_pool
from tf_transfer.stacking.heads.bimpm import BiMPMHead

FEEDFORWARD_RATIO = 4  # width of the feed-forward layer / width of the block


class SimTransformerHead(BiMPMHead):
    """BiMPM's matching, and a transformer block over its vectors.

    Args:
        transformer_units: Width of a block; a multiple of twice
            `transformer_heads`.
        transformer_layers: Blocks, one on the other.
        transformer_heads: Attention heads of a block.
        others: See `BiMPMHead`.
    """

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        transformer_units: int = 256,
        transformer_layers: int = 1,
        transformer_heads: int = 4,
        **kwargs: Any,
    ) -> None:
        # Before the constructor, which builds the aggregation.
        self.transformer_layers = transformer_layers
        self.transformer_heads = transformer_heads
        super().__init__(
            units,
            hidden,
            dropout,
            seed,
            dtype,
            aggregation_units=transformer_units,
            **kwargs,
        )

    def build_aggregation(self, width: int, units: int) -> int:
        """Projection and blocks; returns the width of a text's vector."""
        self.projection = self.build_dense(width, units, "projection")
        self.blocks = [
            self._build_block(
                units, f"block_{number + 1}" if number else "block"
            )
            for number in range(self.transformer_layers)
        ]
        return units

    def _build_block(self, units: int, name: str) -> keras.layers.Layer:
        """A block with new random kernels, each seen as a matrix.

        The block would give one seed to several layers, and Keras would count
        the axis of attention heads as inputs.
        """
        block = self.build_layer(
            keras_hub.layers.TransformerEncoder(
                intermediate_dim=FEEDFORWARD_RATIO * units,
                num_heads=self.transformer_heads,
                dropout=self.dropout.rate,
                activation="relu",
                dtype=self.dtype_policy,
                name=name,
            ),
            units,
        )
        for _, layer in added.dense_layers(block):
            kernel, _ = added.matrix(layer)
            drawn = self.next_initializer()(kernel.shape)
            layer.kernel.assign(keras.ops.reshape(drawn, layer.kernel.shape))
        return block

    def aggregate(
        self, x: tf.Tensor, mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """One vector of each text, float32 [2 * batch, units]."""
        y = self.projection(x)
        y += tf.cast(encode_positions(tf.shape(y)[1], y.shape[2]), y.dtype)
        y = self.dropout(y, training=training)
        for block in self.blocks:
            y = bert.run(block, y, mask, training)
        return mean_pool(y, mask)


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
