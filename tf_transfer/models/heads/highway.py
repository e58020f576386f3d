"""A highway LSTM, for text classification.

    y_t = T(x_t) * h_t + (1 - T(x_t)) * C x_t        T(x) = sigmoid(W x + b)

with h_t of a bidirectional LSTM over x: the highway of Srivastava et al.
(1505.00387, eq. 2) around it. The paper says "HighwayLSTM" and no more, so
all of this is ours: one layer of 256 units a direction; C, which brings the
input to the width of the output; b at -1, as Srivastava et al. begin, so that
the input goes through at first; and the maximum over the tokens, from which
one dense layer predicts.
"""

import keras
import tensorflow as tf

from tf_transfer.models.heads.base import Head
from tf_transfer.models.heads.base import max_pool

GATE_BIAS = -1.0


class HighwayLSTMHead(Head):
    """A bidirectional LSTM with a gate between its input and its output.

    Args:
        units: output units.
        hidden: width of the encoder's states.
        lstm_units: in each direction.
        others: see `Head`.
    """

    def __init__(
        self, units, hidden, dropout, seed, dtype, lstm_units=256, **kwargs
    ):
        super().__init__(dropout, seed, dtype, **kwargs)
        width = 2 * lstm_units

        # === Layers ===
        self.lstm = self.bidirectional(hidden, lstm_units, "lstm")
        self.gate = self.dense(
            hidden,
            width,
            "gate",
            activation="sigmoid",
            bias_initializer=keras.initializers.Constant(GATE_BIAS),
        )
        self.carry = self.dense(hidden, width, "carry", use_bias=False)
        self.outer = self.logits(width, units)

    def call(self, states, mask, training=False):
        """Logits [batch, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding, which stands last.
        """
        x = self.dropout(states, training=training)
        gate = self.gate(x)
        y = gate * self.lstm(x, mask=mask) + (1 - gate) * self.carry(x)
        y = self.dropout(max_pool(y, mask), training=training)
        return self.outer(tf.cast(y, tf.float32))
