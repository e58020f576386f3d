"""A trained tagger as a Keras model that takes words."""

from typing import Any

import tensorflow as tf

from tf_transfer.data import word_pieces
from tf_transfer.models.network import Network
from tf_transfer.models.text_model import pack, ServingModel


class WordModel(ServingModel):
    """Words in, probabilities of their tags out.

    Call it on string [sentences, words], a sentence's words first and empty
    texts behind them. A word that begins behind `max_length` tokens gets no
    entity: cut longer sentences first. The serving signature takes `words`.

    Args:
        network, head, max_length: see `ServingModel`.
    """

    def __init__(self, network: Network, head: str, max_length: int) -> None:
        super().__init__(network, head, max_length, ["words"], rank=2)
        self._room = max_length - 2
        self._unknown = word_pieces.unknown_id(network.encoder.tokenizer)

    def call(self, words: Any) -> tf.Tensor:
        """Probabilities, float32 [sentences, words, tags]."""
        return tf.nn.softmax(self.logits(words))

    def logits(self, *inputs: tf.Tensor) -> tf.Tensor:
        """float32 [sentences, words, tags]; zeros where there is no word."""
        [words] = inputs
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
        special = self._network.encoder.special
        logits = self.run_network(
            *pack([sentences.merge_dims(1, 2)], special, self._max_length)
        )
        is_inside = is_word & (first <= self._room)
        of_words = tf.gather(
            logits, tf.where(is_inside, first, 0), axis=1, batch_dims=1
        )
        return tf.where(is_inside[:, :, None], of_words, 0.0)

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
