"""A trained network as a Keras model that takes strings."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text

from tf_transfer.data import tokens
from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models.network import Network

OPERATIONS = tensorflow_text  # importing it registers the tokenizer's


class TextModel(keras.Model):
    """Strings in, probabilities or scores out: tokenizing is in the graph.

    Call it, or `predict`, on string [batch] of one text an example, or on a
    tuple of two of them for pairs.

    Args:
        network: the trained network.
        head: the name of the head that answers.
        texts: 1 or 2. Texts of an example.
        max_length: as the network was trained with.
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
        super().__init__(name=head)
        self.built = True  # of layers that have their weights
        self._network = network
        self._head = head
        self._texts = texts
        self._max_length = max_length
        self._is_score = is_score
        self._long_texts = long_texts
        self._several = several
        # Tracked, so that weights and vocabulary tables are saved.
        self.parts = network.layers
        self.tokenizer = network.encoder.tokenizer

    def call(self, inputs: Any) -> tf.Tensor:
        """Probabilities float32 [batch, classes], or scores [batch, 1]."""
        texts = inputs if isinstance(inputs, (tuple, list)) else [inputs]
        logits = self.logits([tf.reshape(text, [-1]) for text in texts])
        if self._is_score:
            return logits
        if self._several:
            return tf.sigmoid(logits)
        if logits.shape[1] == 1:
            logits = tf.concat([tf.zeros_like(logits), logits], axis=1)
        return tf.nn.softmax(logits)

    def signatures(self) -> dict[str, Any]:
        """The serving signature: `text_1` (and `text_2`) to `logits`."""
        names = [f"text_{number}" for number in range(1, self._texts + 1)]

        def serve(**texts: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"logits": self.logits([texts[name] for name in names])}

        specs = {n: tf.TensorSpec([None], tf.string, name=n) for n in names}
        return {
            "serving_default": tf.function(serve).get_concrete_function(**specs)
        }

    def logits(self, texts: Sequence[tf.Tensor]) -> tf.Tensor:
        """float32 [batch, units] of one or two string tensors [batch]."""
        encoder = self._network.encoder
        pieces = [encoder.tokenize_tensor(text) for text in texts]
        special = encoder.special
        if self._network.heads[self._head].texts_per_example == 2:
            packed = [
                pack([p], special, self._max_length, self._long_texts)
                for p in pieces
            ]
            ids, first_lengths = (
                tf.concat(part, axis=0) for part in zip(*packed)
            )
        else:
            ids, first_lengths = pack(
                pieces, special, self._max_length, self._long_texts
            )
        lengths = ids.row_lengths()
        dense = ids.to_tensor(special.pad)
        position = tf.range(tf.shape(dense)[1], dtype=tf.int64)[None]
        mask = position < lengths[:, None]
        is_second = position >= first_lengths[:, None]
        segments = tf.cast(is_second & mask, tf.int32)
        batch = {"ids": dense, "segments": segments, "mask": mask}
        return self._network.logits(self._head, batch, training=False)


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
    if len(pieces) == 1:
        kept = pieces[0][:, : max_length - 2]
        if long_texts == "head_tail":
            kept = _keep_ends(pieces[0], max_length - 2)
        packed = tf.concat([start, kept, end], axis=1)
        return packed, packed.row_lengths()
    between = column(special.between)
    room = max_length - 2 - len(special.between)
    first, second = (piece.row_lengths() for piece in pieces)
    # The longer loses until both are equal; then the second loses first.
    half = room // 2
    keep_first = tf.minimum(first, tf.maximum(room - second, room - half))
    keep_second = tf.minimum(second, tf.maximum(room - first, half))
    a = _cut(pieces[0], keep_first)
    b = _cut(pieces[1], keep_second)
    packed = tf.concat([start, a, between, b, end], axis=1)
    return packed, keep_first + 1 + min(1, len(special.between))


def _keep_ends(ragged: tf.RaggedTensor, room: int) -> tf.RaggedTensor:
    """The beginning and the end of the rows that are longer than `room`."""
    head = tokens.head_of(room)
    position = tf.ragged.range(ragged.row_lengths())
    lengths = tf.repeat(ragged.row_lengths(), ragged.row_lengths())
    from_end = lengths - position.values
    keep = (
        (lengths <= room) | (position.values < head) | (from_end <= room - head)
    )
    return tf.ragged.boolean_mask(
        ragged,
        tf.RaggedTensor.from_row_splits(keep, ragged.row_splits),
    )


def _cut(ragged: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    position = tf.ragged.range(ragged.row_lengths())
    wanted = tf.repeat(lengths, ragged.row_lengths())
    keep = tf.RaggedTensor.from_row_splits(
        position.values < wanted, ragged.row_splits
    )
    return tf.ragged.boolean_mask(ragged, keep)
