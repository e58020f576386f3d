"""Two dense layers: the head of the paper's finetune-only strategy.

    logits = W2 relu(W1 x + b1) + b2

"Under the strategy finetune-only": for sequence labelling, "the BERT word
embedding of each word passes through two fully connected layers"; for the
other tasks, "we use '[CLS]' for prediction and add two fully connected
layers". The paper names neither width nor activation. Our choice: the inner
layer is as wide as the encoder's states and has a ReLU; and [CLS] passes
BERT's pooler first, as in every head on [CLS].
"""

from typing import Any

import tensorflow as tf

from tf_transfer.models.heads.base import Head


class DenseHead(Head):
    """Two dense layers on [CLS]. A pair is packed into one row.

    Args:
        inner_units: width of the first layer; None for `hidden`.
        others: see `Head`.
    """

    pooling = "cls"

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        inner_units: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)
        width = inner_units or hidden

        # === Layers ===
        self.inner = self.build_dense(hidden, width, "inner", activation="relu")
        self.output_layer = self.build_logits(width)

    def call(
        self,
        states: tf.Tensor,
        mask: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            states: float [batch, hidden].
            mask: not read.
            training: whether dropout is active.
        """
        x = self.dropout(states, training=training)
        x = self.dropout(self.inner(x), training=training)
        return self.output_layer(tf.cast(x, tf.float32))


class TokenDenseHead(DenseHead):
    """Two dense layers on every token.

    It reads states, float [batch, length, hidden], and returns logits,
    float32 [batch, length, units]. It ignores the mask, since the logits of a
    token depend on no other token.
    """

    pooling = "tokens"
