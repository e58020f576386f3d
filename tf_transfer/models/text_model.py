"""A network that takes raw strings, for export."""

import tensorflow as tf
import tensorflow_text  # noqa: F401 (the tokeniser's operations)


class TextModule(tf.Module):
    """Strings in, logits out: tokenising and packing inside the graph.

    Args:
        network: `heads.Network`.
        name: the head that answers.
        texts: 1 or 2. Texts of an example.
        max_length: as the network was trained with.
    """

    def __init__(self, network, name, texts, max_length):
        super().__init__()
        self._network = network
        self._head = name
        self._texts = texts
        self._max_length = max_length
        # Tracked, so that weights and vocabulary tables are saved.
        self.layers = network.layers
        self.tokenizer = network.encoder.tokenizer

    def signatures(self):
        """The serving signature: `text_1` (and `text_2`) to `logits`."""
        names = [f"text_{number}" for number in range(1, self._texts + 1)]

        def serve(**texts):
            return {"logits": self._logits([texts[name] for name in names])}

        specs = {n: tf.TensorSpec([None], tf.string, name=n) for n in names}
        return {
            "serving_default": tf.function(serve).get_concrete_function(**specs)
        }

    def _logits(self, texts):
        pieces = [self.tokenizer.tokenize(text) for text in texts]
        special = self._network.encoder.special
        if self._network.heads[self._head].sides == 2:
            packed = [pack([p], special, self._max_length) for p in pieces]
            ids, firsts = (tf.concat(part, axis=0) for part in zip(*packed))
        else:
            ids, firsts = pack(pieces, special, self._max_length)
        lengths = ids.row_lengths()
        dense = ids.to_tensor(special.pad)
        place = tf.range(tf.shape(dense)[1], dtype=tf.int64)[None]
        mask = place < lengths[:, None]
        segments = tf.cast((place >= firsts[:, None]) & mask, tf.int32)
        batch = {"ids": dense, "segments": segments, "mask": mask}
        return self._network.logits(self._head, batch, training=False)


def pack(pieces, special, max_length):
    """What `tokens.pack` does, for ragged tensors inside a graph.

    Args:
        pieces: list of one or two int32 ragged tensors [batch, (length)].

    Returns:
        Ragged ids [batch, (length)], and int64 [batch], the tokens of
        segment 0.
    """
    rows = pieces[0].nrows()

    def column(ids):
        return tf.RaggedTensor.from_uniform_row_length(
            tf.tile(tf.constant(ids, tf.int32), [rows]), len(ids)
        )

    start, end = column([special.start]), column([special.end])
    if len(pieces) == 1:
        kept = pieces[0][:, : max_length - 2]
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


def _cut(ragged, lengths):
    place = tf.ragged.range(ragged.row_lengths())
    wanted = tf.repeat(lengths, ragged.row_lengths())
    keep = tf.RaggedTensor.from_row_splits(
        place.values < wanted, ragged.row_splits
    )
    return tf.ragged.boolean_mask(ragged, keep)
