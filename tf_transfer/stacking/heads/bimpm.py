"""BiMPM on an encoder (arXiv 1702.03814), for pairs of texts.

    encoder's states
    -> context BiLSTM (eq. 1, 2)
    -> four matchings with the other text, forward and backward (eq. 3 to 9)
    -> aggregation BiLSTM: its last states of both texts
    -> two dense layers

"To Tune or Not To Tune?" takes it as it is; and as its own first change "is to
remove the first bi-LSTM of BIMPM, which is the input layer for the matching
layer". The encoder's states have no direction, so that there is then one
matching, not two; and its full matching, which compares with the last state of
the other text, takes that of [CLS], which BERT trains to represent the text.
That is our choice.

So is the rest, since the paper gives no size: 100 units in each direction and
5 perspectives, as BiMPM's authors configured it for Quora (with two of the
four matchings only); [CLS] and [SEP] are matched like all tokens; the first
dense layer is half as wide as its input and has a ReLU.
"""

from typing import Any

import keras
import tensorflow as tf

from tf_transfer.models.heads.base_head import Head
from tf_transfer.stacking.heads.matching import Matching, MATCHINGS


class BiMPMHead(Head):
    """Bilateral multi-perspective matching of two texts.

    Args:
        context_units: Of the first BiLSTM, in each direction; 0 for none.
        perspectives: Of each matching.
        aggregation_units: Of the last BiLSTM, in each direction.
        others: See `Head`.
    """

    texts_per_example = 2

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        context_units: int = 100,
        perspectives: int = 5,
        aggregation_units: int = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)

        # === Layers ===
        self.context = None
        width = hidden
        directions = ["states"]
        if context_units:
            self.context = self.build_bilstm(hidden, context_units, "context")
            width = context_units
            directions = ["forward", "backward"]
        self.matchings = []
        matched_width = 0
        for direction in directions:
            initializers = [self.next_initializer() for _ in MATCHINGS]
            with keras.name_scope(self.name):
                matching = Matching(
                    width,
                    perspectives,
                    initializers,
                    self.dtype_policy,
                    name=f"{direction}_matching",
                )
            self.matchings.append(matching)
            matched_width += matching.size
        text_width = self.build_aggregation(matched_width, aggregation_units)
        self.inner = self.build_dense(
            2 * text_width, text_width, "inner", activation="relu"
        )
        self.output_layer = self.build_logits(text_width)

    def build_aggregation(self, width: int, units: int) -> int:
        """Builds the layers from matching vectors to one vector per text.

        Args:
            width: Of a matching vector.
            units: `aggregation_units`.

        Returns:
            The width of the vector of a text.
        """
        self.aggregation = self.build_bilstm(
            width, units, "aggregation", return_sequences=False
        )
        return 2 * units

    def aggregate(
        self, x: tf.Tensor, mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """One vector of each text, from the matching vectors of its tokens.

        Args:
            x: float [2 * batch, length, width].
            mask: bool [2 * batch, length]. False on padding.
            training: Whether dropout is active.

        Returns:
            float [2 * batch, text width].
        """
        return self.aggregation(x, mask=mask)

    def call(
        self, states: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            states: float [2 * batch, length, hidden]. The first texts of all
                pairs, followed by the second ones.
            mask: bool [2 * batch, length]. False on padding, which comes last.
            training: Whether dropout is active.
        """
        x = self.dropout(states, training=training)
        x = self._match(x, mask, training)
        x = self.dropout(x, training=training)
        p, q = tf.split(self.aggregate(x, mask, training), 2)
        x = self.dropout(tf.concat([p, q], axis=1), training=training)
        x = self.dropout(self.inner(x), training=training)
        return self.output_layer(tf.cast(x, tf.float32))

    def _match(
        self, x: tf.Tensor, mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Matching vectors, float [2 * batch, length, width]."""
        if self.context is None:
            [matching] = self.matchings
            return matching(x, x[:, 0], mask)
        x = self.dropout(self.context(x, mask=mask), training=training)
        end = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1) - 1
        forward, backward = tf.split(x, 2, axis=2)
        last = tf.gather(forward, end, batch_dims=1)
        first, second = self.matchings
        matched = [
            first(forward, last, mask),
            second(backward, backward[:, 0], mask),
        ]
        return tf.concat(matched, axis=2)


class BiMPMWithoutContextHead(BiMPMHead):
    """BiMPM that matches the encoder's own states: no first BiLSTM."""

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            units, hidden, dropout, seed, dtype, context_units=0, **kwargs
        )
