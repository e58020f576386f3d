"""BiMPM on an encoder (arXiv 1702.03814), for pairs of texts.

    states -> context BiLSTM (1, 2) -> four matchings, forward and backward
           -> aggregation BiLSTM, its last states of both texts -> two dense

The paper's first change "is to remove the first bi-LSTM of BIMPM, which is the
input layer for the matching layer": `context_units=0`. The encoder's states
have no direction, so that there is one matching then, not two; and the state
of [CLS], which BERT trains to stand for the text, is the one that full
matching takes as the last. That is ours.

Ours as well, since the paper gives no size: 100 units a direction and 5
perspectives, as in the configuration for Quora of BiMPM's authors (who match
there by two of the four only); [CLS] and [SEP] are matched like all tokens; the
first of the two dense layers is half as wide as what it reads, with a ReLU.
"""

import keras
import tensorflow as tf

from tf_transfer.models.heads.base import Head
from tf_transfer.models.heads.matching import Matching
from tf_transfer.models.heads.matching import MATCHINGS


class BiMPMHead(Head):
    """Bilateral multi-perspective matching of two texts.

    Args:
        units: output units.
        hidden: width of the encoder's states.
        context_units: of the first BiLSTM, in each direction; 0 for none.
        perspectives: of each matching.
        aggregation: units of the last BiLSTM, in each direction.
        others: see `Head`.
    """

    sides = 2

    def __init__(
        self,
        units,
        hidden,
        dropout,
        seed,
        dtype,
        context_units=100,
        perspectives=5,
        aggregation=100,
        **kwargs,
    ):
        super().__init__(dropout, seed, dtype, **kwargs)

        # === Layers ===
        self.context = None
        if context_units:
            self.context = self.bidirectional(hidden, context_units, "context")
        directions = ("forward", "backward") if context_units else ("states",)
        self.matchings = [
            self._matching(context_units or hidden, perspectives, direction)
            for direction in directions
        ]
        size = sum(matching.size for matching in self.matchings)
        width = 2 * self.build_aggregation(size, aggregation)
        self.inner = self.dense(width, width // 2, "inner", activation="relu")
        self.outer = self.logits(width // 2, units)

    def _matching(self, width, perspectives, direction):
        initializers = [self.kaiming() for _ in MATCHINGS]
        with keras.name_scope(self.name):
            return Matching(
                width,
                perspectives,
                initializers,
                self.dtype_policy,
                name=f"{direction}_matching",
            )

    def build_aggregation(self, width, units):
        """Builds what reads matching vectors; returns the width of a text."""
        self.aggregation = self.bidirectional(
            width, units, "aggregation", return_sequences=False
        )
        return 2 * units

    def aggregate(self, x, mask, training):
        """A vector of each text, from its matching vectors.

        Args:
            x: float [2 * batch, length, width].
            mask: bool [2 * batch, length].

        Returns:
            float [2 * batch, width].
        """
        return self.aggregation(x, mask=mask)

    def call(self, states, mask, training=False):
        """Logits [batch, units].

        Args:
            states: float [2 * batch, length, hidden]. The first texts of all
                pairs before the second ones.
            mask: bool [2 * batch, length]. False on padding, which stands
                last.
        """
        x = self.dropout(states, training=training)
        x = self.dropout(self._match(x, mask, training), training=training)
        p, q = tf.split(self.aggregate(x, mask, training), 2)
        x = self.dropout(tf.concat([p, q], axis=1), training=training)
        x = self.dropout(self.inner(x), training=training)
        return self.outer(tf.cast(x, tf.float32))

    def _match(self, x, mask, training):
        """Matching vectors, float [2 * batch, length, width]."""
        if self.context is None:
            [matching] = self.matchings
            return matching(x, x[:, 0], mask)
        x = self.dropout(self.context(x, mask=mask), training=training)
        end = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1) - 1
        forward, backward = tf.split(x, 2, axis=2)
        last = tf.gather(forward, end, batch_dims=1), backward[:, 0]
        matched = [
            matching(states, state, mask)
            for matching, states, state in zip(
                self.matchings, (forward, backward), last, strict=True
            )
        ]
        return tf.concat(matched, axis=2)
