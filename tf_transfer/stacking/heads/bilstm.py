"""A bidirectional LSTM and a dense layer, for sequence labelling.

    h_t = [LSTM(x_t, h_t-1), LSTM(x_t, h_t+1)]        logits_t = W h_t + b

"We perform a named entity recognition tasks, by adding a bi-LSTM on top of the
BERT model." The paper gives no size. Our choice: one layer of 256 units in
each direction. Devlin et al. (1810.04805, section 5.3) put two layers of 768
on frozen BERT: `lstm_layers`, `lstm_units`.
"""

from typing import Any

import tensorflow as tf

from tf_transfer.models.heads.base_head import Head


class BiLSTMHead(Head):
    """A bidirectional LSTM over the tokens, and logits of each of them.

    Args:
        lstm_units: In each direction.
        lstm_layers: One on the other.
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
        lstm_layers: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, hidden, dropout, seed, dtype, **kwargs)

        # === Layers ===
        self.lstms = [self.build_bilstm(hidden, lstm_units, "lstm")]
        width = 2 * lstm_units
        for number in range(2, lstm_layers + 1):
            lstm = self.build_bilstm(width, lstm_units, f"lstm_{number}")
            self.lstms.append(lstm)
        self.output_layer = self.build_logits(width)

    def call(
        self, states: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Logits, float32 [batch, length, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding, which comes last.
            training: Whether dropout is active.
        """
        x = self.dropout(states, training=training)
        for lstm in self.lstms:
            x = self.dropout(lstm(x, mask=mask), training=training)
        return self.output_layer(tf.cast(x, tf.float32))
