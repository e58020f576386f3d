"""Texts as rows of the feature cache, and the segments they are stored in."""

import time
from collections.abc import Mapping

import numpy as np

from tf_transfer.data import batches
from tf_transfer.data import tokens as tokens_lib
from tf_transfer.feature_cache import store as store_lib

SEGMENT_BYTES = 2**28  # committed at a time: a kill loses at most one segment
SEGMENT_SECONDS = 60


class Texts:
    """The texts of several splits, one behind the other.

    Args:
        splits: dict from a name to a split, training texts first.

    Attributes:
        split: one split with the texts of all; its labels mean nothing.
        hashes: of each text; see `store.hash_rows`.
        is_distinct: bool [texts]. False on a text that occurred before.
    """

    split: batches.EncodedSplit
    hashes: list[bytes]
    is_distinct: np.ndarray

    def __init__(self, splits: Mapping[str, batches.EncodedSplit]) -> None:
        self._names = list(splits)
        sizes = [len(split.tokens) for split in splits.values()]
        self._starts = np.cumsum([0, *sizes])
        self.split = batches.EncodedSplit(
            tokens_lib.join([split.tokens for split in splits.values()]),
            np.zeros(sum(sizes)),
            np.concatenate(
                [
                    np.tile(split.ids, split.texts_per_example)
                    for split in splits.values()
                ]
            ),
        )
        self.hashes = store_lib.hash_rows(self.split.tokens)
        first_rows: dict[bytes, int] = {}
        for row, row_hash in enumerate(self.hashes):
            first_rows.setdefault(row_hash, row)
        self.is_distinct = np.zeros(len(self.hashes), bool)
        self.is_distinct[list(first_rows.values())] = True

    def rows_of(self, name: str) -> slice:
        """The rows of a split's texts."""
        index = self._names.index(name)
        return slice(self._starts[index], self._starts[index + 1])

    def locate(self, row: int) -> tuple[str, int]:
        """The name of a text's split, and its number in the source."""
        index = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._names[index], int(self.split.ids[row])


class Segment:
    """Rows that are computed and not yet stored.

    Args:
        entry: where they will be stored.
    """

    def __init__(self, entry: store_lib.Entry) -> None:
        self.entry = entry
        self._clear()

    def _clear(self) -> None:
        self._hashes: list[bytes] = []
        self._vectors: list[np.ndarray] = []
        self._bytes = 0
        self._seconds_before = 0.0
        self._started = time.perf_counter()

    def add(self, row_hash: bytes, vectors: np.ndarray, seconds: float) -> None:
        """Adds a row; commits if there is enough.

        Args:
            row_hash: see `store.hash_rows`.
            vectors: [vectors, hidden].
            seconds: that were spent on the row before, in another entry.

        Raises:
            DiskFull: the segment was not stored.
        """
        self._hashes.append(row_hash)
        self._vectors.append(vectors)
        self._bytes += vectors.nbytes
        self._seconds_before += seconds
        if self._bytes >= SEGMENT_BYTES or self._seconds() > SEGMENT_SECONDS:
            self.commit()

    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    def commit(self) -> None:
        """Stores the rows that were added since the last time.

        Raises:
            DiskFull: the segment was not stored.
        """
        if self._hashes:
            self.entry.append(
                self._hashes,
                [len(vectors) for vectors in self._vectors],
                self._vectors,
                self._seconds() + self._seconds_before,
            )
        self._clear()
