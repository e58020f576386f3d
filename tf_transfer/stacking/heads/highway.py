"""Highway LSTMs, for text classification.

The paper says "HighwayLSTM" and cites BIBREF34, which is missing from our copy,
since that has no list of references. `HighwayLSTMHead` is a gate around a
bidirectional LSTM:

    y_t = T(x_t) * h_t + (1 - T(x_t)) * C x_t        T(x) = sigmoid(W x + b)

where h_t are its states over x: the highway of Srivastava et al. (1505.00387,
eq. 3). `HighwayCellsHead` is that of Zhang et al. (1510.08983), whose gate d
lies between the memory cells c of two LSTMs, one on the other:

    d_t = sigmoid(W x_t + p * c_t-1 + q * c'_t + b)
    c_t = d_t * c'_t + f_t * c_t-1 + i_t * tanh(U x_t + V h_t-1 + a)

where c'_t is the cell of the lower LSTM. That the paper means one of them is
unverified.

Our choice: 256 units in each direction, and two LSTMs of each direction for
Zhang et al., without peepholes other than p and q; C, which projects the input
to the width of the output; b starts at -1, one of the values that Srivastava et
al. name, so that a gate lets little of the LSTM, or of the lower cell, through
at first; and the maximum over the tokens, from which one dense layer predicts.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_transfer.models.heads.base_head import Head, max_pool

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

        # === Layers ===
        self.build_encoder(hidden, lstm_units)
        self.output_layer = self.build_logits(2 * lstm_units)

    def build_encoder(self, hidden: int, units: int) -> None:
        """Builds the LSTM and its gate."""
        self.lstm = self.build_bilstm(hidden, units, "lstm")
        self.gate = self.build_dense(
            hidden,
            2 * units,
            "gate",
            activation="sigmoid",
            bias_initializer=keras.initializers.Constant(GATE_BIAS),
        )
        self.carry = self.build_dense(
            hidden, 2 * units, "carry", use_bias=False
        )

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
        y = max_pool(self.encode(x, mask), mask)
        y = self.dropout(y, training=training)
        return self.output_layer(tf.cast(y, tf.float32))

    def encode(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The states of all tokens, float [batch, length, 2 * lstm_units]."""
        gate = self.gate(x)
        states = self.lstm(x, mask=mask)
        return gate * states + (1 - gate) * self.carry(x)


class HighwayCellsHead(HighwayLSTMHead):
    """Two bidirectional LSTMs with a gate from cell to cell.

    Args:
        lstm_units: in each direction.
        others: see `Head`.
    """

    def build_encoder(self, hidden: int, units: int) -> None:
        """Builds the LSTMs of both directions, each with its own gate."""
        self.directions = []
        for direction in ("forward", "backward"):
            layer = keras.layers.RNN(
                HighwayCells(self, hidden, units, direction),
                return_sequences=True,
                go_backwards=direction == "backward",
                dtype=self.dtype_policy,
                name=direction,
            )
            self.directions.append(self.build_layer(layer, hidden))

    def encode(self, x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The states of all tokens, float [batch, length, 2 * lstm_units]."""
        forward, backward = self.directions
        before = forward(x, mask=mask)
        behind = tf.reverse(backward(x, mask=mask), [1])
        return tf.concat([before, behind], axis=2)


class HighwayCells(keras.layers.Layer):
    """A step of two LSTMs, one on the other, as a cell of `keras.layers.RNN`.

    Args:
        head: whose initialisation and dtype it has.
        width: of the input.
        units: of each LSTM.
        name: what the names of its weights begin with.
    """

    def __init__(self, head: Head, width: int, units: int, name: str) -> None:
        super().__init__(dtype=head.dtype_policy, autocast=False, name=name)
        self.state_size = 4 * [units]  # h and c of the lower and the upper LSTM

        # === Layers ===
        lower = keras.layers.LSTMCell(
            units,
            kernel_initializer=head.next_initializer(),
            recurrent_initializer=head.next_initializer(),
            dtype=self.dtype_policy,
            name=f"{name}_lower",
        )
        self.lower = head.build_layer(lower, width)
        self.upper = head.build_dense(2 * units, 4 * units, f"{name}_upper")
        self.gate = head.build_dense(
            units,
            units,
            f"{name}_gate",
            bias_initializer=keras.initializers.Constant(GATE_BIAS),
        )
        with keras.name_scope(head.name):
            self.peepholes = self.add_weight((2, units), "zeros", name="pq")

    def call(
        self, x: tf.Tensor, states: Sequence[tf.Tensor], training: bool = False
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The upper state h, float [batch, units], and all states after."""
        x, [_, below] = self.lower(x, states[:2])
        h, c = states[2:]
        gates = self.upper(tf.concat([x, h], axis=1))
        i, f, g, o = tf.split(gates, 4, axis=1)
        p, q = tf.unstack(tf.cast(self.peepholes, x.dtype))
        d = tf.sigmoid(self.gate(x) + p * c + q * below)
        kept = tf.sigmoid(f + 1) * c
        new = tf.sigmoid(i) * tf.tanh(g)
        cell = d * below + kept + new
        y = tf.sigmoid(o) * tf.tanh(cell)
        return y, [x, below, y, cell]
