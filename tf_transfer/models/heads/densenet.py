"""DenseNet beside [CLS], for text classification.

"The DenseNet structure contains four independent blocks and each block has
four CNNs connected by residual [...] we concat the output vector of DenseNet
with [CLS] for prediction." The paper's name and its words ask for both of

    x_l = H_l([x_0, x_1, ..., x_l-1])      Huang et al., 1608.06993, eq. 2
    x_l = H_l(x_l-1) + x_l-1               the same, eq. 1, residual

so a convolution here reads all that stands before it in its block, and from
the second on, its output is added to the one before. Each block reads the
encoder's states, x_0, and nothing of the others. Ours, too: H_l is a
convolution over 3 tokens with 64 channels (the growth) and a ReLU, without
batch normalisation; and the maximum over the tokens makes a vector of what
the convolutions of a block put out. [CLS] is its state above the last block.
"""

import keras
import tensorflow as tf

from tf_transfer.models.heads.base import Head
from tf_transfer.models.heads.base import max_pool


class DenseNetHead(Head):
    """Blocks of densely connected convolutions, and [CLS] beside them.

    Args:
        units: output units.
        hidden: width of the encoder's states.
        blocks: that stand side by side.
        depth: convolutions of a block.
        growth: channels of a convolution.
        kernel: tokens that a convolution reads at once.
        others: see `Head`.
    """

    def __init__(
        self,
        units,
        hidden,
        dropout,
        seed,
        dtype,
        blocks=4,
        depth=4,
        growth=64,
        kernel=3,
        **kwargs,
    ):
        super().__init__(dropout, seed, dtype, **kwargs)
        self.depth = depth

        # === Layers ===
        self.convolutions = [
            self._convolution(
                hidden + place * growth,
                growth,
                kernel,
                f"block_{block + 1}_convolution_{place + 1}",
            )
            for block in range(blocks)
            for place in range(depth)
        ]
        self.outer = self.logits(hidden + blocks * depth * growth, units)

    def _convolution(self, width, growth, kernel, name):
        return self.add(
            keras.layers.Conv1D(
                growth,
                kernel,
                padding="same",
                activation="relu",
                kernel_initializer=self.kaiming(),
                dtype=self.dtype_policy,
                name=name,
            ),
            width,
        )

    def call(self, states, mask, training=False):
        """Logits [batch, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding.
        """
        states = self.dropout(states, training=training)
        # Beyond a text's end a convolution reads zeros, however far it goes.
        real = tf.cast(mask, states.dtype)[:, :, None]
        states *= real
        vectors = [states[:, 0]]
        for start in range(0, len(self.convolutions), self.depth):
            block = self.convolutions[start : start + self.depth]
            outputs = self._run(block, states, real, training)
            vectors.append(max_pool(outputs, mask))
        return self.outer(tf.cast(tf.concat(vectors, axis=1), tf.float32))

    def _run(self, block, states, real, training):
        """What the convolutions of a block put out, side by side.

        Args:
            states: float [batch, length, hidden], 0 on padding.
            real: float [batch, length, 1]. 0 on padding, elsewhere 1.

        Returns:
            float [batch, length, depth * growth].
        """
        outputs = []
        for convolution in block:
            x = convolution(tf.concat([states, *outputs], axis=2))
            x = self.dropout(x, training=training) * real
            outputs.append(x + outputs[-1] if outputs else x)
        return tf.concat(outputs, axis=2)
