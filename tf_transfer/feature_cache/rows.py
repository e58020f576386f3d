"""Texts as rows of the feature cache."""

import hashlib
from collections.abc import Mapping

import numpy as np

from tf_transfer.data import tokens as tokens_lib
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.tokens import Tokens


def hash_rows(tokens: Tokens) -> list[bytes]:
    """A hash of each text's ids, and of where its segment 1 begins."""
    flat = np.ascontiguousarray(tokens.flat, np.int32)
    return [
        hashlib.blake2b(
            flat[start : start + length].tobytes()
            + first_length.to_bytes(4, "little"),
            digest_size=16,
        ).digest()
        for start, length, first_length in zip(
            tokens.starts.tolist(),
            tokens.lengths.tolist(),
            tokens.first_lengths.tolist(),
        )
    ]


class Texts:
    """The texts of several splits, one split behind the other.

    Args:
        splits: Dict from a name to a split, training texts first.

    Attributes:
        split: One split with the texts of all; its labels mean nothing.
        hashes: Hash of each text; see `hash_rows`.
        slices: Dict from a split's name to the rows of its texts.
    """

    def __init__(self, splits: Mapping[str, EncodedSplit]) -> None:
        sizes = [len(split.tokens) for split in splits.values()]
        self.slices = {
            name: slice(end - size, end)
            for name, size, end in zip(splits, sizes, np.cumsum(sizes).tolist())
        }
        self.split = EncodedSplit(
            tokens_lib.concatenate([split.tokens for split in splits.values()]),
            np.zeros(sum(sizes)),
            np.concatenate(
                [
                    np.tile(split.ids, split.texts_per_example)
                    for split in splits.values()
                ]
            ),
        )
        self.hashes = hash_rows(self.split.tokens)

    def distinct(self, rows: np.ndarray) -> np.ndarray:
        """int64. Of ascending rows, the first with each hash."""
        first_rows = {self.hashes[row]: row for row in rows[::-1].tolist()}
        return np.array(sorted(first_rows.values()), np.int64)

    def locate(self, row: int) -> tuple[str, int]:
        """The name of a text's split, and its number in the source."""
        names = [name for name, rows in self.slices.items() if row < rows.stop]
        return names[0], int(self.split.ids[row])
