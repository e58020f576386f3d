"""Two dense layers: the head of the paper's finetune-only strategy.

    logits = W2 relu(W1 x + b1) + b2

"Under the strategy finetune-only": for sequence labelling, "the BERT word
embedding of each word passes through two fully connected layers"; elsewhere,
"we use '[CLS]' for prediction and add two fully connected layers". Ours, since
the paper names neither: the inner layer is as wide as the states and has a
ReLU; and [CLS] passes BERT's own pooler first, as with every head on [CLS].
"""

import tensorflow as tf

from tf_transfer.models.heads.base import Head


class DenseHead(Head):
    """Two dense layers on [CLS], or on every token.

    Args:
        units: output units.
        hidden: width of the encoder's states.
        pooling: `cls` or `tokens`; a pair stands packed in one row.
        inner: width of the first layer; 0 for that of the states.
        others: see `Head`.
    """

    def __init__(
        self,
        units,
        hidden,
        dropout,
        seed,
        dtype,
        pooling="cls",
        inner=0,
        **kwargs,
    ):
        super().__init__(dropout, seed, dtype, **kwargs)
        self.pooling = pooling
        inner = inner or hidden

        # === Layers ===
        self.inner = self.dense(hidden, inner, "inner", activation="relu")
        self.outer = self.logits(inner, units)

    def call(self, states, mask=None, training=False):
        """Logits [batch, units], or [batch, length, units] of all tokens.

        Args:
            states: float [batch, hidden] of `cls`, or [batch, length, hidden].
            mask: not read: a token's logits depend on no other token.
        """
        x = self.dropout(states, training=training)
        x = self.dropout(self.inner(x), training=training)
        return self.outer(tf.cast(x, tf.float32))
