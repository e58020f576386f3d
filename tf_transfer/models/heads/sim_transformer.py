"""Sim-Transformer: BiMPM with a transformer in place of its last BiLSTM.

"We combine the matching layer of BIMPM and with a transformer, a model we call
Sim-Transformer by replacing the output layer of the matching layer, originally
a bi-LSTM model, with a transformer model." The first BiLSTM stays.

    y = x P + positions    z = block(y)    a text's vector: the mean of its z

Ours, since the paper gives no size: matching vectors are projected to 256; one
block of 4 heads, its feed-forward layer of 1,024 with a ReLU; the positions
are the sines and cosines of Vaswani et al. (1706.03762, section 3.5), who
normalise after each sum, too; and the mean is that of all tokens but padding.
"""

import math

import keras
import keras_nlp
import tensorflow as tf

from tf_transfer.feature_cache.prefix import mean_pool
from tf_transfer.models import blocks
from tf_transfer.models.heads.bimpm import BiMPMHead

HEADS = 4
INNER = 4  # the feed-forward layer's width, in those of the block


class SimTransformerHead(BiMPMHead):
    """BiMPM's matching, and a transformer block over its vectors.

    Args:
        aggregation: width of the block; a multiple of 8.
        others: see `BiMPMHead`.
    """

    def __init__(self, *args, aggregation=256, **kwargs):
        super().__init__(*args, aggregation=aggregation, **kwargs)

    def build_aggregation(self, width, units):
        """Builds what reads matching vectors; returns the width of a text."""
        self.projection = self.dense(width, units, "projection")
        self.block = self.add(
            keras_nlp.layers.TransformerEncoder(
                intermediate_dim=INNER * units,
                num_heads=HEADS,
                dropout=self.dropout.rate,
                activation="relu",
                dtype=self.dtype_policy,
                name="block",
            ),
            units,
        )
        self._draw_block()
        return units

    def _draw_block(self):
        """Kaiming, with each kernel seen as a matrix.

        Left to themselves, layers of a block would have one seed, and Keras
        would take the axis of heads for inputs.
        """
        attention = self.block._self_attention_layer
        for layer in (
            attention.query_dense,
            attention.key_dense,
            attention.value_dense,
            attention.output_dense,
            self.block._feedforward_intermediate_dense,
            self.block._feedforward_output_dense,
        ):
            shape = layer.kernel.shape
            outputs = math.prod(layer.bias.shape)
            matrix = self.kaiming()((math.prod(shape) // outputs, outputs))
            layer.kernel.assign(keras.ops.reshape(matrix, shape))

    def aggregate(self, x, mask, training):
        """A vector of each text, float32 [2 * batch, width]."""
        y = self.projection(x)
        y += tf.cast(positions(tf.shape(y)[1], y.shape[2]), y.dtype)
        y = self.dropout(y, training=training)
        return mean_pool(blocks.run(self.block, y, mask, training), mask)


def positions(length, width):
    """Sines and cosines of Vaswani et al., float32 [length, width].

    At place p, sin(p / 10000^(2i / width)) at 2i and its cosine at 2i + 1.
    """
    place = tf.range(length, dtype=tf.float32)
    rates = 10000.0 ** (-tf.range(0, width, 2, dtype=tf.float32) / width)
    angles = place[:, None] * rates
    waves = tf.stack([tf.sin(angles), tf.cos(angles)], axis=2)
    return tf.reshape(waves, [length, width])
