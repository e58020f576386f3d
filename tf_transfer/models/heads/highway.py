"""A highway LSTM, for text classification.

    y_t = T(x_t) * h_t + (1 - T(x_t)) * C x_t        T(x) = sigmoid(W x + b)

where h_t are the states of a bidirectional LSTM over x: the highway of
Srivastava et al. (1505.00387, eq. 3) around it. The paper says "HighwayLSTM"
and cites BIBREF34, which is missing from our copy, since that has no list of
references. Our choice: one layer of 256 units in each direction; C, which
projects the input to the width of the output; b starts at -1, one of the
values that Srivastava et al. name, so that the gate lets mostly the input
through at first; and the maximum over the tokens, from which one dense layer
predicts.
"""

from typing import Any

import keras
import tensorflow as tf

from tf_transfer.models.heads.base import Head, max_pool

GATE_BIAS = -1.0


class HighwayLSTMHead(Head):
    """A bidirectional LSTM with a gate between its input and its output.

    Args:
        lstm_units: in each direction.
        others: see `Head`.
    """

    def __init__(
        self,
        units: int,
        hidden: int,
        dropout: float,
        seed: int,
        dtype: str,
        lstm_units: int = 256,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)
        width = 2 * lstm_units

        # === Layers ===
        self.lstm = self.build_bilstm(hidden, lstm_units, "lstm")
        self.gate = self.build_dense(
            hidden,
            width,
            "gate",
            activation="sigmoid",
            bias_initializer=keras.initializers.Constant(GATE_BIAS),
        )
        self.carry = self.build_dense(hidden, width, "carry", use_bias=False)
        self.output_layer = self.build_logits(width)

    def call(
        self, states: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding, which comes last.
            training: whether dropout is active.
        """
        x = self.dropout(states, training=training)
        gate = self.gate(x)
        y = gate * self.lstm(x, mask=mask) + (1 - gate) * self.carry(x)
        y = self.dropout(max_pool(y, mask), training=training)
        return self.output_layer(tf.cast(y, tf.float32))
