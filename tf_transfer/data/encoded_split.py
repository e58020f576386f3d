"""A split as token ids and labels, and the stored states of its texts."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.data.tokens import Tokens

if TYPE_CHECKING:
    import tensorflow as tf

IGNORED = -1  # the label of every token but a word's first piece


@dataclasses.dataclass
class StoredStates:
    """The stored output of a frozen prefix for the texts of a split.

    Attributes:
        vectors: [vectors, hidden], mapped from a file or in memory.
        starts: int64 [texts]. Each text's first vector.
        is_stored: bool [texts]. Which texts are stored.
        is_pooled: Whether a text has one vector, not one a token.
        num_cls: Vectors of [CLS] that stand before those of a text's tokens.
        tensor: `vectors` as a tensor on the host, which maps the same file.
    """

    vectors: np.ndarray
    starts: np.ndarray
    is_stored: np.ndarray
    is_pooled: bool
    num_cls: int = 0
    tensor: "tf.Tensor" = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Maps the file at once: it may be removed before it is read."""
        import tensorflow as tf

        with tf.device("CPU:0"):
            if isinstance(self.vectors, np.memmap):
                self.tensor = tf.raw_ops.ImmutableConst(
                    dtype=self.vectors.dtype,
                    shape=self.vectors.shape,
                    memory_region_name=self.vectors.filename,
                )
            else:
                self.tensor = tf.constant(self.vectors)

    def locate(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offsets of the texts' vectors in the full array, and in one of these.

        Args:
            lengths: int [texts]. Tokens of each text; all texts are stored.

        Returns:
            int64 [texts]: each text's first vector among those in use. int64
            [vectors in use]: their rows in `vectors`.
        """
        counts = lengths.astype(np.int64) + self.num_cls
        if self.is_pooled:
            counts = np.ones_like(counts)
        starts = np.cumsum(counts) - counts
        rows = np.repeat(self.starts - starts, counts) + np.arange(counts.sum())
        return starts, rows


@dataclasses.dataclass
class EncodedSplit:
    """Tokenised examples with their labels.

    Attributes:
        tokens: The texts. With two texts an example, all first ones stand
            before all second ones, here and in `states`.
        labels: int64 or float32 [examples]; zeros where hidden. With
            `word_starts` int64 [tokens], one for each of `tokens.flat`: the
            label of a token that stands for a word, `IGNORED` for all others.
        ids: int64 [examples]. Row numbers in the source.
        states: The output of the frozen prefix for the texts, or None where
            every block is run.
        texts_per_example: Texts of an example that are encoded separately: 2
            for a pair whose texts do not see each other.
        word_starts: int64 [sentences]. Where the task labels words: each
            sentence's first word. An example is then a sentence, or a piece
            of one that is too long for the encoder.
        groups: int64 [examples or sentences], or None; see `task.Examples`.
    """

    tokens: Tokens
    labels: np.ndarray
    ids: np.ndarray
    states: StoredStates | None = None
    texts_per_example: int = 1
    word_starts: np.ndarray | None = None
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def targets(self) -> np.ndarray:
        """The labels that are scored: of examples, or of words in order."""
        if self.word_starts is None:
            return self.labels
        labels: np.ndarray = self.labels[self.labels != IGNORED]
        return labels

    @property
    def words(self) -> np.ndarray:
        """int64 [examples]. Labels of each: 1, or those of its words."""
        if self.word_starts is None:
            return np.ones(len(self), np.int64)
        is_word = (self.labels != IGNORED).astype(np.int64)
        return np.add.reduceat(is_word, self.tokens.starts)

    def word_mask(self, rows: np.ndarray, length: int) -> np.ndarray:
        """Which outputs of a padded batch stand for words.

        Args:
            rows: int64 [n]. Examples.
            length: The length to which they were padded.

        Returns:
            bool [n, length].
        """
        tokens, position = self.tokens, np.arange(length)
        inside = position < tokens.lengths[rows, None]
        index = np.where(inside, tokens.starts[rows, None] + position, 0)
        is_word: np.ndarray = inside & (self.labels[index] != IGNORED)
        return is_word

    @property
    def lengths(self) -> np.ndarray:
        """int32 [examples]. Tokens of each one's longest text."""
        lengths = self.tokens.lengths.reshape(self.texts_per_example, -1)
        longest: np.ndarray = lengths.max(axis=0)
        return longest

    def take(self, rows: np.ndarray) -> "EncodedSplit":
        """The examples at `rows`, without stored states.

        Raises:
            ValueError: Words are labelled: there is a label for each of the
                tokens, and a sentence may be several examples.
        """
        if self.word_starts is not None:
            raise ValueError(
                "no examples can be taken from a split whose words are "
                "labelled: take sentences before they are encoded"
            )
        texts = np.concatenate(
            [rows + text * len(self) for text in range(self.texts_per_example)]
        )
        return EncodedSplit(
            self.tokens.take(texts),
            self.labels[rows],
            self.ids[rows],
            texts_per_example=self.texts_per_example,
            groups=None if self.groups is None else self.groups[rows],
        )
