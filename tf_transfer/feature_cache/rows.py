"""Rows on their way into a prefix cache: which texts, and in what portions."""

import time

import numpy as np

from tf_transfer.data import batches
from tf_transfer.data import tokens as tokens_lib
from tf_transfer.feature_cache import store as store_lib

SEGMENT_BYTES = 2**28  # committed at a time: what a kill loses at most
SEGMENT_SECONDS = 60


class Texts:
    """The texts of all splits of an objective, one behind the other.

    Attributes:
        split: `batches.Split` of all of them, training texts first.
        hashes: see `store_lib.row_hashes`.
        is_distinct: bool [texts]. False on a text that was there before.
    """

    def __init__(self, objective):
        self.parts = [("train", objective.train)]
        for kind, splits in objective.evaluation.items():
            self.parts += [(f"{name}{kind}", part) for name, part in splits]
        sizes = [len(part.tokens) for _, part in self.parts]
        self.begins = np.cumsum([0, *sizes])
        self.split = batches.Split(
            tokens_lib.join([part.tokens for _, part in self.parts]),
            np.zeros(sum(sizes)),
            np.concatenate(
                [np.tile(part.ids, part.sides) for _, part in self.parts]
            ),
        )
        self.hashes = store_lib.row_hashes(self.split.tokens)
        seen = {}
        for row, known in enumerate(self.hashes):
            seen.setdefault(known, row)
        self.is_distinct = np.zeros(len(self.hashes), bool)
        self.is_distinct[list(seen.values())] = True

    def rows_of(self, part):
        """Where a split's texts are."""
        for begin, (_, known) in zip(self.begins, self.parts):
            if known is part:
                return slice(begin, begin + len(part.tokens))
        raise KeyError("no such split")

    def where(self, row):
        """A text's split and its number in the source."""
        part = int(np.searchsorted(self.begins, row, side="right")) - 1
        return self.parts[part][0], self.split.ids[row]


class Segment:
    """Rows on their way into an entry."""

    def __init__(self, entry):
        self.entry = entry
        self._begin()

    def _begin(self):
        self.hashes, self.vectors, self.size, self.cost = [], [], 0, 0.0
        self.began = time.perf_counter()

    def add(self, known, vectors, cost):
        """Adds a row; commits if there is enough.

        Args:
            known: its hash.
            vectors: [vectors, hidden].
            cost: seconds that were spent on it before.
        """
        self.hashes.append(known)
        self.vectors.append(vectors)
        self.size += vectors.nbytes
        self.cost += cost
        if self.size >= SEGMENT_BYTES or self._seconds() > SEGMENT_SECONDS:
            self.commit()

    def _seconds(self):
        return time.perf_counter() - self.began

    def commit(self):
        """Makes what was added last."""
        if self.hashes:
            lengths = [len(vectors) for vectors in self.vectors]
            self.entry.append(
                self.hashes, lengths, self.vectors, self._seconds() + self.cost
            )
        self._begin()
