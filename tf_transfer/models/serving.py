"""A trained network as a Keras model that takes texts, or words.

Tokenizing is in the graph.
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text

from tf_transfer.data import tokens
from tf_transfer.data.task import SEPARATOR, Task
from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models.network import Network


class ServingModel(keras.Model):
    """A trained network behind its tokenizer, in one graph.

    A subclass implements `logits`.

    Args:
        network: The trained network.
        task: The task that answers, whose name is that of its head.
        max_length: As the network was trained with.
        inputs: The names of the string tensors that `logits` takes.
        rank: Of each of them.
    """

    def __init__(
        self,
        network: Network,
        task: Task,
        max_length: int,
        inputs: Sequence[str],
        rank: int,
    ) -> None:
        super().__init__(name=task.name)
        self.built = True  # of layers that have their weights
        self._network = network
        self._head = network.heads[task.name]
        self._task = task
        self._max_length = max_length
        self._inputs = tuple(inputs)
        self._rank = rank
        # Tracked, so that weights and vocabulary tables are saved.
        self.parts = network.layers
        self.tokenizer = network.encoder.tokenizer
        self.special = network.encoder.special

    def logits(self, *inputs: tf.Tensor) -> tf.Tensor:
        """float32 [batch, ..., units] of string tensors."""
        raise NotImplementedError

    def call(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tf.Tensor:
        """Probabilities float32 [batch, ..., labels], or scores [batch, 1]."""
        texts = inputs if isinstance(inputs, (tuple, list)) else [inputs]
        return self.activate(self.logits(*texts))

    def activate(self, logits: tf.Tensor) -> tf.Tensor:
        """Probabilities, or scores, of logits."""
        if self._task.kind == "score":
            return logits
        if self._task.kind == "labels":
            return tf.sigmoid(logits)
        if logits.shape[-1] == 1:
            logits = tf.concat([tf.zeros_like(logits), logits], axis=1)
        return tf.nn.softmax(logits)

    def answers(
        self, logits: tf.Tensor, inputs: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The answers of the serving signature; see the subclasses."""
        output, task = self.activate(logits), self._task
        if task.kind == "score":
            low, high = task.score_range or (-np.inf, np.inf)
            return {"score": tf.clip_by_value(output[:, 0], low, high)}
        names = tf.constant(task.labels)
        if task.kind == "labels":
            rows = tf.tile(names[None], [tf.shape(output)[0], 1])
            label = tf.strings.reduce_join(
                tf.ragged.boolean_mask(rows, output > 0.5),
                axis=1,
                separator=SEPARATOR,
            )
        else:
            label = tf.gather(names, tf.argmax(output, axis=-1))
        if task.is_tagging:
            tags = tf.where(inputs != "", label, "")
            return {"probabilities": output, "tags": tags}
        return {"probabilities": output, "label": label}

    def signatures(self) -> dict[str, Callable[..., dict[str, tf.Tensor]]]:
        """The serving signature, from the inputs to `logits` and `answers`."""
        specs = {
            name: tf.TensorSpec([None] * self._rank, tf.string, name=name)
            for name in self._inputs
        }

        def serve(**named: tf.Tensor) -> dict[str, tf.Tensor]:
            inputs = [named[name] for name in specs]
            logits = self.logits(*inputs)
            return {"logits": logits, **self.answers(logits, inputs[0])}

        program = tf.function(serve, autograph=False)  # traced sooner
        return {"serving_default": program.get_concrete_function(**specs)}

    def run_network(
        self, ids: tf.RaggedTensor, first_lengths: tf.Tensor
    ) -> tf.Tensor:
        """Logits of what `pack` returns, padded to the longest text."""
        texts, pad = self._head.texts_per_example, self.special.pad
        count = ids.nrows() // texts
        # Instead of no text at all, the network gets an empty one.
        added = tf.where(count == 0, texts, 0)
        filler = tf.RaggedTensor.from_tensor(tf.fill([added, 1], pad))
        ids = tf.concat([ids, filler], axis=0)
        first_lengths = tf.pad(first_lengths, [[0, added]])
        dense = ids.to_tensor(pad)
        position = tf.range(tf.shape(dense, tf.int64)[1])[None]
        mask = position < ids.row_lengths()[:, None]
        is_second = position >= first_lengths[:, None]
        segments = tf.cast(is_second & mask, tf.int32)
        batch = {"ids": dense, "segments": segments, "mask": mask}
        logits = self._network.logits(self.name, batch, training=False)
        return logits[:count]


class TextModel(ServingModel):
    """Strings in, probabilities or scores out.

    Call it, or `predict`, on string [batch] of one text per example, or on a
    tuple of two of them for pairs. The serving signature takes `text_1` (and
    `text_2`). It returns `logits`, and `score` [batch], or `probabilities`
    [batch, labels] and `label` [batch], the name of the label.

    Args:
        network, task, max_length: See `ServingModel`.
        long_texts: See `tokens.pack`.
    """

    def __init__(
        self,
        network: Network,
        task: Task,
        max_length: int,
        long_texts: str,
    ) -> None:
        names = [f"text_{n}" for n, _ in enumerate(task.texts, 1)]
        super().__init__(network, task, max_length, names, 1)
        self._long_texts = long_texts

    def logits(self, *inputs: tf.Tensor) -> tf.Tensor:
        """float32 [batch, units] of one or two string tensors [batch]."""
        encoder = self._network.encoder
        texts = [tf.reshape(text, [-1]) for text in inputs]
        rows = [[encoder.tokenizer(text) for text in texts]]
        if self._head.texts_per_example == 2:
            rows = [[pieces] for pieces in rows[0]]
        packed = [
            pack(row, self.special, self._max_length, self._long_texts)
            for row in rows
        ]
        ids, first_lengths = (tf.concat(both, axis=0) for both in zip(*packed))
        return self.run_network(ids, first_lengths)


class WordModel(ServingModel):
    """Words in, probabilities of their tags out.

    Call it on string [sentences, words], a sentence's words first and empty
    texts behind them. A word that begins behind `max_length` tokens gets no
    entity: cut longer sentences first. The serving signature takes `words`,
    and returns `logits`, `probabilities` and `tags` [sentences, words], with
    empty texts where there is no word.

    Args:
        network, task, max_length: See `ServingModel`.
    """

    def __init__(self, network: Network, task: Task, max_length: int) -> None:
        super().__init__(network, task, max_length, ["words"], rank=2)
        self._room = max_length - 2
        self._unknown = network.encoder.tokenizer.unknown

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
        pieces = [sentences.merge_dims(1, 2)]
        logits = self.run_network(*pack(pieces, self.special, self._max_length))
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
        if encoder.family != "bert":  # a word but the first has its space
            spaced = tf.strings.join([" ", words[:, 1:]])
            words = tf.concat([words[:, :1], spaced], axis=1)
        pieces = encoder.tokenizer(tf.boolean_mask(words, is_word))
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
    """Packs pieces like `tokens.pack`, for ragged tensors inside a graph.

    Args:
        pieces: List of one or two int32 ragged tensors [batch, (length)].
        special: See `tokens.pack`.
        max_length: See `tokens.pack`.
        long_texts: See `tokens.pack`.

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
        lengths = pieces[0].row_lengths()
        position = tf.ragged.range(lengths)
        is_kept = position < head
        is_kept |= position >= lengths[:, None] - (room - head)
        kept = tf.ragged.boolean_mask(pieces[0], is_kept)
        packed = tf.concat([start, kept, end], axis=1)
        return packed, packed.row_lengths()
    between = column(special.between)
    room -= len(special.between)
    # The longer loses until both are equal; then the second loses first.
    first, second = tensorflow_text.RoundRobinTrimmer(room).trim(pieces)
    packed = tf.concat([start, first, between, second, end], axis=1)
    if special.has_one_segment:
        return packed, packed.row_lengths()
    return packed, first.row_lengths() + 1 + min(1, len(special.between))
