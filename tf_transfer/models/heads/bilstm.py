"""A bidirectional LSTM and a dense layer, for sequence labelling.

    h_t = [LSTM(x_t, h_t-1), LSTM(x_t, h_t+1)]        logits_t = W h_t + b

"We perform a named entity recognition tasks, by adding a bi-LSTM on top of the
BERT model." One layer of 256 units a direction is ours; the paper gives no
size.
"""

import tensorflow as tf

from tf_transfer.models.heads.base import Head


class BiLSTMHead(Head):
    """A bidirectional LSTM over the tokens, and logits of each of them.

    Args:
        units: output units: tags.
        hidden: width of the encoder's states.
        lstm_units: in each direction.
        others: see `Head`.
    """

    def __init__(
        self, units, hidden, dropout, seed, dtype, lstm_units=256, **kwargs
    ):
        super().__init__(dropout, seed, dtype, **kwargs)

        # === Layers ===
        self.lstm = self.bidirectional(hidden, lstm_units, "lstm")
        self.outer = self.logits(2 * lstm_units, units)

    def call(self, states, mask, training=False):
        """Logits [batch, length, units].

        Args:
            states: float [batch, length, hidden].
            mask: bool [batch, length]. False on padding, which stands last.
        """
        x = self.dropout(states, training=training)
        x = self.dropout(self.lstm(x, mask=mask), training=training)
        return self.outer(tf.cast(x, tf.float32))
