"""A trained tagger as a Keras model that takes words."""

from typing import Any

import keras
import tensorflow as tf

from tf_transfer.data import word_pieces
from tf_transfer.models.network import Network


class WordModel(keras.Model):
    """Words in, probabilities of their tags out: tokenizing is in the graph.

    Call it on string [sentences, words], a sentence's words first and empty
    texts behind them. A word that begins behind `max_length` tokens gets no
    entity: cut longer sentences first.

    Args:
        network: the trained network.
        head: the name of the head that answers.
        max_length: as the network was trained with.
    """

    def __init__(self, network: Network, head: str, max_length: int) -> None:
        super().__init__(name=head)
        self.built = True  # of layers that have their weights
        self._network = network
        self._head = head
        self._room = max_length - 2
        self._unknown = word_pieces.unknown_id(network.encoder.tokenizer)
        # Tracked, so that weights and vocabulary tables are saved.
        self.parts = network.layers
        self.tokenizer = network.encoder.tokenizer

    def call(self, words: Any) -> tf.Tensor:
        """Probabilities, float32 [sentences, words, tags]."""
        return tf.nn.softmax(self.logits(words))

    def signatures(self) -> dict[str, Any]:
        """The serving signature: `words` to `logits`."""

        def serve(words: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"logits": self.logits(words)}

        spec = tf.TensorSpec([None, None], tf.string, name="words")
        return {
            "serving_default": tf.function(serve).get_concrete_function(
                words=spec
            )
        }

    def logits(self, words: tf.Tensor) -> tf.Tensor:
        """float32 [sentences, words, tags]; zeros where there is no word."""
        encoder = self._network.encoder
        special = encoder.special
        is_word = words != ""
        counts = tf.reduce_sum(tf.cast(is_word, tf.int64), axis=1)
        pieces = self._tokenize(words, is_word)
        sentences = tf.RaggedTensor.from_row_lengths(pieces, counts)
        sizes = tf.RaggedTensor.from_row_lengths(pieces.row_lengths(), counts)
        # [CLS] stands before the first word.
        first = 1 + tf.cumsum(
            sizes.to_tensor(shape=tf.shape(words, tf.int64)),
            axis=1,
            exclusive=True,
        )
        kept = sentences.merge_dims(1, 2)[:, : self._room]
        rows = kept.nrows()
        ids = tf.concat(
            [
                _column(special.start, rows),
                tf.cast(kept, tf.int32),
                _column(special.end, rows),
            ],
            axis=1,
        )
        lengths = ids.row_lengths()
        dense = ids.to_tensor(special.pad)
        position = tf.range(tf.shape(dense, tf.int64)[1])[None]
        batch = {
            "ids": dense,
            "segments": tf.zeros_like(dense),
            "mask": position < lengths[:, None],
        }
        logits = self._network.logits(self._head, batch, training=False)
        is_inside = is_word & (first <= self._room)
        found = tf.gather(
            logits, tf.where(is_inside, first, 0), axis=1, batch_dims=1
        )
        return tf.where(is_inside[:, :, None], found, 0.0)

    def _tokenize(
        self, words: tf.Tensor, is_word: tf.Tensor
    ) -> tf.RaggedTensor:
        """int32 [words of all sentences, (pieces)], one piece at least."""
        encoder = self._network.encoder
        if encoder.family == "roberta":  # a word but the first has its space
            spaced = tf.strings.join([" ", words[:, 1:]])
            words = tf.concat([words[:, :1], spaced], axis=1)
        pieces = encoder.tokenize_tensor(tf.boolean_mask(words, is_word))
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknown = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(is_empty)], self._unknown), is_empty
        )
        pieces = tf.concat([tf.cast(pieces, tf.int32), unknown], axis=1)
        return pieces[:, : self._room]


def _column(token: int, rows: tf.Tensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(
        tf.fill([rows], token), tf.ones([rows], tf.int64)
    )
