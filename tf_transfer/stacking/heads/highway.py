"""A highway LSTM, for text classification.

The paper gives the name HighwayLSTM alone, and the network is our choice: a
highway of Srivastava et al. (1505.00387, eq. 3) around a bidirectional LSTM,

    y_t = T(x_t) * h_t + (1 - T(x_t)) * C x_t        T(x) = sigmoid(W x + b)

where h_t are its states over x, and C projects x to their width. b starts at
-1, one of the values that Srivastava et al. name, so that the gate lets little
of the LSTM through at first. One dense layer predicts from the maximum over
the tokens.
"""

from typing import Any

import keras
import tensorflow as tf

from tf_transfer.models.heads.base_head import Head, max_pool

GATE_BIAS = -1.0


class HighwayLSTMHead(Head):
    """A bidirectional LSTM with a gate between its input and its output.

    Args:
        lstm_units: In each direction.
        others: See `Head`.
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

        # === Layers ===
        self.lstm = self.build_bilstm(hidden, lstm_units, "lstm")
        self.gate = self.build_dense(
            hidden,
            2 * lstm_units,
            "gate",
            activation="sigmoid",
            bias_initializer=keras.initializers.Constant(GATE_BIAS),
        )
        self.carry = self.build_dense(
            hidden, 2 * lstm_units, "carry", use_bias=False
        )
        self.output_layer = self.build_logits(2 * lstm_units)

    def call(
        self, states: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Logits, float32 [batch, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding, which comes last.
            training: Whether dropout is active.
        """
        x = self.dropout(states, training=training)
        gate = self.gate(x)
        y = gate * self.lstm(x, mask=mask) + (1 - gate) * self.carry(x)
        y = self.dropout(max_pool(y, mask), training=training)
        return self.output_layer(tf.cast(y, tf.float32))
