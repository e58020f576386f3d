"""The head of a probe that reads words too: see `baselines.token_tfidf`."""

from typing import Any

import keras
import tensorflow as tf

from tf_transfer.data.tokens import NEIGHBOURS, number_neighbours
from tf_transfer.models.heads.pooled import PooledHead


class WordsHead(PooledHead):
    """The sum of two linear models: of states, and of TF-IDF of the tokens.

    Its last weight has a row for each token and each pair of neighbours: the
    logits that it adds, times its idf, and the idf.

    Args:
        units, hidden, pooling: See `PooledHead`.
        vocabulary: The number of tokens that the encoder knows.
        **kwargs: Of `keras.layers.Layer`, such as `name`.
    """

    further_inputs = ("ids", "mask")

    def __init__(
        self,
        units: int,
        hidden: int,
        pooling: str,
        vocabulary: int,
        **kwargs: Any,
    ) -> None:
        # No dropout. The seed is of weights that a regression replaces.
        super().__init__(units, hidden, pooling, 0.0, 0, "float32", **kwargs)
        self.vocabulary = vocabulary
        self.supports_masking = True  # else Keras warns
        self.terms = keras.layers.Embedding(
            vocabulary + NEIGHBOURS,
            units + 1,
            "zeros",
            dtype="float32",
            name=f"{self.name}_terms",
        )
        self.terms.build()

    def call(  # type: ignore[override]
        self,
        pooled: tf.Tensor,
        ids: tf.Tensor,
        mask: tf.Tensor,
        training: bool = False,
    ) -> tf.Tensor:
        """Logits, float32 [texts, units].

        Args:
            pooled: float [texts, hidden].
            ids: [texts, length]. The tokens.
            mask: [texts, length]. False on padding.
            training: Unused.
        """
        ids = tf.cast(ids, tf.int64)
        pairs = number_neighbours(ids[:, :-1], ids[:, 1:])
        rows = self.terms(tf.concat([ids, self.vocabulary + pairs], axis=1))
        # A pair is padding if its second token is.
        is_term = tf.concat([mask, mask[:, 1:]], axis=1)
        rows *= tf.cast(is_term, tf.float32)[:, :, None]
        length = tf.norm(rows[:, :, -1], axis=1, keepdims=True)
        added = tf.reduce_sum(rows[:, :, :-1], axis=1)
        logits = super().call(pooled, training)
        return logits + tf.math.divide_no_nan(added, length)
