"""Pooled states of the frozen encoder above every block, from one pass.

Of a text they are [CLS] and the mean of all tokens, below block 1 and above
each block. A pair is read twice: both texts in one row, and each by itself.
They are stored like any output of a frozen prefix
(docs/guides/feature_cache.md).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_transfer.baselines.probe import States
from tf_transfer.data.encoded_split import EncodedSplit, IGNORED, StoredStates
from tf_transfer.data.task import Examples, Sentences
from tf_transfer.data.tokens import Tokens
from tf_transfer.feature_cache.feature_cache import BuildCost, FeatureCache
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.heads import pooled
from tf_transfer.models.prefix import FrozenPrefix, pooled_columns


@dataclasses.dataclass
class PooledStates:
    """The pooled states of the texts of a split.

    Attributes:
        mapped: What is stored, by texts of an example that are read each by
            itself, 1 or 2. With 2, all first texts stand before all second.
        hidden: Width of the encoder's states.
        pooler: Kernel and bias of the encoder's pooler; None if it has none.
        tokens: Of the rows of one text, or of both.
        labels: See `task.Examples`.
        groups: int64 [examples], or None; see `task.Examples`.
        sentences: None: no words are labelled.
    """

    mapped: Mapping[int, StoredStates]
    hidden: int
    pooler: list[np.ndarray] | None
    tokens: Tokens
    labels: np.ndarray
    groups: np.ndarray | None = None
    sentences: np.ndarray | None = None

    def matrix(
        self, states: States, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """float32 [examples, width], read from the file.

        Args:
            states: The states to read.
            rows: int [examples]. Row numbers; None for all.
        """
        mapped = self.mapped[states.texts_per_row]
        starts = mapped.starts.reshape(states.texts_per_row, -1)
        if rows is not None:
            starts = starts[:, rows]
        if states.pooling == "block_means":
            vectors = mapped.vectors[starts[0]].astype(np.float32)
            return np.asarray(pooled.take_block_means(vectors, self.hidden))
        pooling = "cls_state" if states.pooling == "cls" else states.pooling
        columns = pooled_columns(states.block, pooling, self.hidden)
        vectors = [
            mapped.vectors[begins, columns].astype(np.float32)
            for begins in starts
        ]
        if states.pooling == "cls":
            assert self.pooler is not None
            kernel, bias = self.pooler
            vectors = [np.tanh(x @ kernel + bias) for x in vectors]
        u: np.ndarray = vectors[0]
        if not states.pair_features:
            return u
        v = vectors[1]
        return np.asarray(pooled.combine(u, v, states.pair_features))


class WordStates:
    """The states of the words of a split: of the first token of each.

    Args:
        mapped: The stored states of all tokens, by block.
        split: The sentences as tokens.

    Attributes:
        labels: int64 [words].
        sentences: int64 [words]. The sentence of each.
        groups: int64 [sentences], or None; see `task.Examples`.
        tokens: Of the sentences.
    """

    def __init__(
        self, mapped: Mapping[int, StoredStates], split: EncodedSplit
    ) -> None:
        assert split.word_starts is not None
        self.labels, self.groups = split.targets, split.groups
        self.tokens = split.tokens
        first = split.labels != IGNORED
        self.sentences: np.ndarray | None = np.repeat(
            np.arange(len(split.word_starts)),
            np.diff(split.word_starts, append=len(self.labels)),
        )
        lengths = self.tokens.lengths
        self._row = np.repeat(np.arange(len(lengths)), lengths)[first]
        self._token = np.flatnonzero(first) - self.tokens.starts[self._row]
        self._mapped = mapped

    def matrix(
        self, states: States, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """float32 [words, width]; see `PooledStates.matrix`."""
        mapped = self._mapped[states.block]
        positions = mapped.starts[self._row] + self._token
        positions = positions if rows is None else positions[rows]
        vectors: np.ndarray = mapped.vectors[positions].astype(np.float32)
        return vectors


class Reader:
    """Reads the states of a task's texts, each once.

    Args:
        cache: Stores them.
        encoder: Whole and frozen.
        encode: Function (examples, texts per row, name) to tokens.
        has_pooler: Whether the encoder was pretrained with one.

    Attributes:
        cache: That of the arguments.
        cost: The seconds that the states cost so far.
    """

    def __init__(
        self,
        cache: FeatureCache,
        encoder: Encoder,
        encode: Callable[[Examples | Sentences, int, str], EncodedSplit],
        has_pooler: bool,
    ) -> None:
        self.cache = cache
        self._encoder = encoder
        self._encode = encode
        self._pooler = encoder.pooler.get_weights() if has_pooler else None
        self.cost = BuildCost(0.0, 0.0, 0.0)

    def texts(
        self, splits: Mapping[str, Examples | Sentences]
    ) -> dict[str, PooledStates]:
        """Pooled states of texts, by split.

        Args:
            splits: Examples by the name of their split.
        """
        columns = len(next(iter(splits.values())).texts)
        encoded = {
            texts_per_row: {
                name: self._encode(examples, texts_per_row, name)
                for name, examples in splits.items()
            }
            for texts_per_row in range(1, columns + 1)
        }
        blocks = len(self._encoder.blocks)
        stored = {
            texts_per_row: self._map(blocks, "pooled_blocks", parts)
            for texts_per_row, parts in encoded.items()
        }
        return {
            name: PooledStates(
                {number: stored[number][name] for number in stored},
                self._encoder.hidden,
                self._pooler,
                encoded[1][name].tokens,
                encoded[1][name].labels,
                examples.groups,
            )
            for name, examples in splits.items()
        }

    def words(
        self, splits: Mapping[str, Examples | Sentences], blocks: Sequence[int]
    ) -> dict[str, WordStates]:
        """States of words, by split.

        Args:
            splits: Sentences by the name of their split.
            blocks: Above which.
        """
        encoded = {
            n: self._encode(examples, 1, n) for n, examples in splits.items()
        }
        first, *others = sorted(blocks, reverse=True)
        # The pass of the highest stores the others too.
        stored = {first: self._map(first, "tokens", encoded, others)}
        original = self.cost.original
        for block in others:
            stored[block] = self._map(block, "tokens", encoded)
        self.cost.original = original
        return {
            name: WordStates({b: stored[b][name] for b in blocks}, split)
            for name, split in encoded.items()
        }

    def _map(
        self,
        block: int,
        output: str,
        encoded: dict[str, EncodedSplit],
        also: Sequence[int] = (),
    ) -> dict[str, StoredStates]:
        """The stored states above a block, by split; built if missing."""
        prefix = FrozenPrefix(block, output, self.cache.options.dtype)
        splits, cost = self.cache.attach(
            prefix, encoded, needs_all=True, also=also
        )
        self.cost.paid += cost.paid
        self.cost.original += cost.original
        self.cost.traced += cost.traced
        return {n: split.states for n, split in splits.items() if split.states}
