"""A trained network as a Keras model that takes texts, or words.

Tokenizing is in the graph.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text

from tf_transfer.data import tokens, word_pieces
from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models.network import Network

OPERATIONS = tensorflow_text  # importing it registers the tokenizer's


class ServingModel(keras.Model):
    """A trained network behind its tokenizer, in one graph.

    A subclass implements `logits`.

    Args:
        network: the trained network.
        head: the name of the head.
        max_length: as the network was trained with.
        inputs: the names of the string tensors that `logits` takes.
        rank: of each of them.
    """

    def __init__(
        self,
        network: Network,
        head: str,
        max_length: int,
        inputs: Sequence[str],
        rank: int,
    ) -> None:
        super().__init__(name=head)
        self.built = True  # of layers that have their weights
        self._network = network
        self._max_length = max_length
        self._inputs = tuple(inputs)
        self._rank = rank
        # Tracked, so that weights and vocabulary tables are saved.
        self.parts = network.layers
        self.tokenizer = network.encoder.tokenizer

    def logits(self, *inputs: tf.Tensor) -> tf.Tensor:
        """float32 [batch, ..., units] of string tensors."""
        raise NotImplementedError

    def signatures(self) -> dict[str, Any]:
        """The serving signature, from the inputs to `logits`."""
        specs = {
            name: tf.TensorSpec([None] * self._rank, tf.string, name=name)
            for name in self._inputs
        }

        def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"logits": self.logits(*(inputs[name] for name in specs))}

        return {
            "serving_default": tf.function(serve).get_concrete_function(**specs)
        }

    def run_network(
        self, ids: tf.RaggedTensor, first_lengths: tf.Tensor
    ) -> tf.Tensor:
        """Logits of what `pack` returns."""
        dense = ids.to_tensor(self._network.encoder.special.pad)
        position = tf.range(tf.shape(dense)[1], dtype=tf.int64)[None]
        mask = position < ids.row_lengths()[:, None]
        is_second = position >= first_lengths[:, None]
        segments = tf.cast(is_second & mask, tf.int32)
        batch = {"ids": dense, "segments": segments, "mask": mask}
        return self._network.logits(self.name, batch, training=False)


class TextModel(ServingModel):
    """Strings in, probabilities or scores out.

    Call it, or `predict`, on string [batch] of one text per example, or on a
    tuple of two of them for pairs. The serving signature takes `text_1` (and
    `text_2`).

    Args:
        network, head, max_length: see `ServingModel`.
        texts: 1 or 2. Texts of an example.
        is_score: whether the head answers a score, not classes.
        long_texts: see `tokens.pack`.
        several: whether each label has a probability of its own.
    """

    def __init__(
        self,
        network: Network,
        head: str,
        texts: int,
        max_length: int,
        is_score: bool,
        long_texts: str = "head",
        several: bool = False,
    ) -> None:
        names = [f"text_{number}" for number in range(1, texts + 1)]
        super().__init__(network, head, max_length, names, rank=1)
        self._is_score = is_score
        self._long_texts = long_texts
        self._several = several

    def call(self, inputs: Any) -> tf.Tensor:
        """Probabilities float32 [batch, classes], or scores [batch, 1]."""
        texts = inputs if isinstance(inputs, (tuple, list)) else [inputs]
        logits = self.logits(*(tf.reshape(text, [-1]) for text in texts))
        if self._is_score:
            return logits
        if self._several:
            return tf.sigmoid(logits)
        if logits.shape[1] == 1:
            logits = tf.concat([tf.zeros_like(logits), logits], axis=1)
        return tf.nn.softmax(logits)

    def logits(self, *inputs: tf.Tensor) -> tf.Tensor:
        """float32 [batch, units] of one or two string tensors [batch]."""
        encoder = self._network.encoder
        rows = [[encoder.tokenize_tensor(text) for text in inputs]]
        if self._network.heads[self.name].texts_per_example == 2:
            rows = [[pieces] for pieces in rows[0]]
        packed = [
            pack(row, encoder.special, self._max_length, self._long_texts)
            for row in rows
        ]
        ids, first_lengths = (tf.concat(both, axis=0) for both in zip(*packed))
        return self.run_network(ids, first_lengths)


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


def pack(
    pieces: list[tf.RaggedTensor],
    special: SpecialTokens,
    max_length: int,
    long_texts: str = "head",
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """What `tokens.pack` does, for ragged tensors inside a graph.

    Args:
        pieces: list of one or two int32 ragged tensors [batch, (length)].

    Returns:
        Ragged ids [batch, (length)], and int64 [batch], the tokens of
        segment 0.
    """
    rows = pieces[0].nrows()

    def column(ids: Sequence[int]) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_uniform_row_length(
            tf.tile(tf.constant(ids, tf.int32), [rows]), len(ids)
        )

    start, end = column([special.start]), column([special.end])
    room = max_length - 2
    if len(pieces) == 1:
        head = tokens.head_of(room) if long_texts == "head_tail" else room
        kept = _keep_ends(pieces[0], head, room - head)
        packed = tf.concat([start, kept, end], axis=1)
        return packed, packed.row_lengths()
    between = column(special.between)
    room -= len(special.between)
    first, second = (piece.row_lengths() for piece in pieces)
    # The longer loses until both are equal; then the second loses first.
    half = room // 2
    keep_first = tf.minimum(first, tf.maximum(room - second, room - half))
    keep_second = tf.minimum(second, tf.maximum(room - first, half))
    packed = tf.concat(
        [
            start,
            _keep_ends(pieces[0], keep_first[:, None]),
            between,
            _keep_ends(pieces[1], keep_second[:, None]),
            end,
        ],
        axis=1,
    )
    return packed, keep_first + 1 + min(1, len(special.between))


def _keep_ends(
    ragged: tf.RaggedTensor, head: int | tf.Tensor, tail: int = 0
) -> tf.RaggedTensor:
    """The first `head` and the last `tail` values of each row."""
    lengths = ragged.row_lengths()
    position = tf.ragged.range(lengths)
    keep = (position < head) | (position >= lengths[:, None] - tail)
    return tf.ragged.boolean_mask(ragged, keep)
