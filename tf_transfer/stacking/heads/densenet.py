"""DenseNet and [CLS], for text classification.

"The DenseNet structure contains four independent blocks and each block has
four CNNs connected by residual [...] we concat the output vector of DenseNet
with [CLS] for prediction." The name asks for the first, "residual" for the
second of

    x_l = H_l([x_0, x_1, ..., x_l-1])      Huang et al., 1608.06993, eq. 2
    x_l = H_l(x_l-1) + x_l-1               the same, eq. 1, residual

so a convolution here does both: it reads the states x_0 and the outputs of all
convolutions before it in its block, and, from the second on, adds the output
of the one before to its own. Blocks are independent: each reads x_0, the
encoder's states, and no other block. Also our choice: H_l is a convolution
over 3 tokens with 64 channels (the growth) and a ReLU, without batch
normalisation; the maximum over the tokens turns the outputs of a block into a
vector; [CLS] is its state above the encoder's last block; and x_0 are the
states of that block. "We initialize word embedding in the word representation
layer with BERT" may mean embeddings alone: `reads_embeddings`.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_transfer.models.heads.base_head import Head, max_pool


class DenseNetHead(Head):
    """Blocks of densely connected convolutions, concatenated with [CLS].

    Args:
        blocks: Independent blocks.
        depth: Convolutions of a block.
        growth: Channels of a convolution.
        kernel: Tokens that a convolution reads at once.
        reads_embeddings: Whether x_0 are the encoder's embeddings.
        others: See `Head`.
    """

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        blocks: int = 4,
        depth: int = 4,
        growth: int = 64,
        kernel: int = 3,
        reads_embeddings: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)
        self.depth = depth
        self.further_inputs = ("embedded",) if reads_embeddings else ()

        # === Layers ===
        self.convolutions = []
        for block in range(blocks):
            for index in range(depth):
                convolution = keras.layers.Conv1D(
                    growth,
                    kernel,
                    padding="same",
                    activation="relu",
                    kernel_initializer=self.next_initializer(),
                    dtype=self.dtype_policy,
                    name=f"block_{block + 1}_convolution_{index + 1}",
                )
                self.build_layer(convolution, hidden + index * growth)
                self.convolutions.append(convolution)
        self.output_layer = self.build_logits(hidden + blocks * depth * growth)

    def call(
        self,
        states: tf.Tensor,
        mask: tf.Tensor,
        training: bool = False,
        embedded: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding.
            training: Whether dropout is active.
            embedded: float [batch, length, hidden]. The encoder's embeddings,
                in place of the states of all tokens.
        """
        states = self.dropout(states, training=training)
        # Padding is 0, as is what a convolution reads beyond a row's end: so
        # logits do not depend on how far a text is padded.
        real = tf.cast(mask, states.dtype)[:, :, None]
        states *= real
        vectors = [states[:, 0]]
        if embedded is not None:
            states = self.dropout(embedded, training=training) * real
        for start in range(0, len(self.convolutions), self.depth):
            block = self.convolutions[start : start + self.depth]
            outputs = self._run_block(block, states, real, training)
            vectors.append(max_pool(outputs, mask))
        x = tf.concat(vectors, axis=1)
        return self.output_layer(tf.cast(x, tf.float32))

    def _run_block(
        self,
        block: Sequence[keras.layers.Conv1D],
        states: tf.Tensor,
        real: tf.Tensor,
        training: bool,
    ) -> tf.Tensor:
        """Concatenated outputs of the convolutions of a block.

        Args:
            block: Its convolutions.
            states: float [batch, length, hidden], 0 on padding.
            real: float [batch, length, 1]. 0 on padding, elsewhere 1.
            training: Whether dropout is active.

        Returns:
            float [batch, length, depth * growth].
        """
        outputs: list[tf.Tensor] = []
        for convolution in block:
            x = convolution(tf.concat([states, *outputs], axis=2))
            x = self.dropout(x, training=training) * real
            if outputs:
                x += outputs[-1]
            outputs.append(x)
        return tf.concat(outputs, axis=2)
