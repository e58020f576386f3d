"""Two dense layers: the head of the paper's finetune-only strategy.

    logits = W2 relu(W1 x + b1) + b2

"Under the strategy finetune-only": for sequence labelling, "the BERT word
embedding of each word passes through two fully connected layers"; for the
other tasks, "we use '[CLS]' for prediction and add two fully connected
layers", though it also says "a fully connected layer". The paper names neither
width nor activation. Our choice: the inner layer is as wide as the encoder's
states, or has `inner_units`, and a ReLU; [CLS] passes BERT's pooler first, or
not; initial weights are Kaiming's; and a pair is packed into one row, or each
text is read by itself: then x = (u, v, |u - v|).
"""

from typing import Any

import tensorflow as tf

from tf_transfer.models.heads.base_head import Head


class DenseHead(Head):
    """Two dense layers on [CLS].

    Args:
        inner_units: Width of the first layer; 0 for `hidden`.
        pooling: `cls` or `cls_state`; see `Head`.
        texts_per_example: 2 where each text of a pair is read by itself.
        others: See `Head`.
    """

    pooling = "cls"

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        inner_units: int = 0,
        pooling: str = "",
        texts_per_example: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)
        self.pooling = pooling or type(self).pooling
        self.texts_per_example = texts_per_example
        width = inner_units or hidden
        read = 3 * hidden if texts_per_example == 2 else hidden

        # === Layers ===
        self.inner = self.build_dense(read, width, "inner", activation="relu")
        self.output_layer = self.build_logits(width)

    def call(
        self,
        states: tf.Tensor,
        mask: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            states: float [texts_per_example * batch, hidden]. The first texts
                of all examples, followed by the second ones.
            mask: Not read.
            training: Whether dropout is active.
        """
        if self.texts_per_example == 2:
            u, v = tf.split(states, 2)
            states = tf.concat([u, v, tf.abs(u - v)], axis=1)
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


class TokenLinearHead(Head):
    """One dense layer on every token, which holds the weights of a probe.

    It reads and returns what `TokenDenseHead` does.
    """

    pooling = "tokens"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.output_layer = self.build_logits(self.hidden)

    def call(
        self,
        states: tf.Tensor,
        mask: tf.Tensor | None = None,
        training: bool = False,
    ) -> tf.Tensor:
        """Logits, float32 [batch, length, units]."""
        return self.output_layer(tf.cast(states, tf.float32))
