"""Texts to ragged token ids, once a run.

Ids stay ragged: one flat array and where each text begins. Padding happens in
the input pipeline, to the bucket of the batch.
"""

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tqdm

if TYPE_CHECKING:
    import tensorflow as tf

Ids = Sequence[int] | np.ndarray  # of the tokens of a text
Tokenize = Callable[[list[str]], Sequence[Ids]]

HEAD, TAIL = 128, 382  # tokens of a long text that Sun et al. 2019 keep
CHUNK = 1000  # texts tokenised at a time
NEIGHBOURS = 2**16  # numbers that pairs of neighbouring tokens share
FACTOR = 7919  # of the first token of a pair


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """The ids of the special tokens of a family of encoders.

    A text is packed as `start` A `end`, a pair as `start` A `*between` B
    `end`. Where the family has segments, segment 1 begins behind the first
    token of `between`; an encoder of one segment has no other one.
    """

    start: int
    end: int
    pad: int
    between: tuple[int, ...]
    has_one_segment: bool = False


@dataclasses.dataclass
class Tokens:
    """Packed token ids of a split.

    Attributes:
        flat: int32 [sum of lengths]. All ids, text after text.
        starts: int64 [texts]. Where each text begins in `flat`.
        lengths: int32 [texts]. Tokens of each text, special ones included.
        first_lengths: int32 [texts]. Tokens of segment 0.
        lost: int32 [texts]. Tokens that were cut off.
    """

    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    first_lengths: np.ndarray
    lost: np.ndarray

    def __len__(self) -> int:
        return len(self.lengths)

    def take(self, rows: np.ndarray) -> "Tokens":
        """The texts at `rows`, over the same flat array."""
        return Tokens(
            self.flat,
            self.starts[rows],
            self.lengths[rows],
            self.first_lengths[rows],
            self.lost[rows],
        )

    def count(self, token: int) -> tuple[float, int]:
        """The share of a token among all, and the number of texts with it."""
        is_token = self.flat == token
        has_token = np.logical_or.reduceat(is_token, self.starts)
        return float(is_token.mean()), int(has_token.sum())


def number_neighbours(
    left: "np.ndarray | tf.Tensor", right: "np.ndarray | tf.Tensor"
) -> "np.ndarray | tf.Tensor":
    """The number of a pair of tokens, below `NEIGHBOURS`; some pairs share it.

    Args:
        left: int64 ids; an array or tensor.
        right: The id behind each of these.
    """
    return (left * FACTOR + right) % NEIGHBOURS


def concatenate(pieces: Sequence[Tokens]) -> Tokens:
    """The texts of several `Tokens`, one behind the other."""
    starts = []
    offset = 0
    for piece in pieces:
        starts.append(piece.starts + offset)
        offset += len(piece.flat)
    return Tokens(
        np.concatenate([piece.flat for piece in pieces]),
        np.concatenate(starts),
        np.concatenate([piece.lengths for piece in pieces]),
        np.concatenate([piece.first_lengths for piece in pieces]),
        np.concatenate([piece.lost for piece in pieces]),
    )


def encode(
    tokenize: Tokenize,
    special: SpecialTokens,
    texts: Sequence[list[str]],
    max_length: int,
    name: str = "",
    long_texts: str = "head",
) -> Tokens:
    """Tokenises and packs texts or pairs of texts.

    Args:
        tokenize: From texts to the ids of each, without special tokens.
        special: The special tokens.
        texts: One or two columns, each a text an example.
        max_length: Longest result in tokens; pairs lose tokens from the
            longer text first, as in BERT's own code.
        name: What the progress bar calls the texts.
        long_texts: The tokens that are kept of a long text; see `pack`.
    """
    between = special.between if len(texts) == 2 else ()
    rows = []
    bar = tqdm.tqdm(
        total=len(texts[0]),
        desc=f"tokenising {name}",
        unit=" texts",
        leave=False,
        disable=None,
        file=sys.stderr,
        delay=1,
    )
    for begin in range(0, len(texts[0]), CHUNK):
        end = begin + CHUNK
        columns = [tokenize(column[begin:end]) for column in texts]
        bar.update(len(columns[0]))
        for row in zip(*columns):
            ids, first_length = pack(row, special, max_length, long_texts)
            whole = sum(map(len, row)) + len(between) + 2
            rows.append((ids, len(ids), first_length, whole - len(ids)))
    bar.close()
    packed, *counts = zip(*rows)
    lengths, first_lengths, lost = np.asarray(counts, np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    return Tokens(
        np.concatenate(packed).astype(np.int32),
        ends - lengths,
        lengths,
        first_lengths,
        lost,
    )


def pack(
    row: Sequence[Ids],
    special: SpecialTokens,
    max_length: int,
    long_texts: str = "head",
) -> tuple[np.ndarray, int]:
    """Packs one or two sequences of ids, and cuts them to length.

    Args:
        row: The ids of each.
        special: The special tokens.
        max_length: Longest result.
        long_texts: `head` keeps the beginning of a text; `head_tail` its
            beginning and its end, as 128 to 382 (Sun et al. 2019). A pair
            always keeps the beginnings.

    Returns:
        The packed ids, int32 [tokens], and how many of them are segment 0.
    """
    between = special.between if len(row) == 2 else ()
    room = max_length - 2 - len(between)
    first: Ids = row[0][:room]
    second: Ids = row[0][:0]
    if long_texts == "head_tail" and len(row) == 1 and len(row[0]) > room:
        head = head_of(room)
        first = np.concatenate([row[0][:head], row[0][head - room :]])
    if len(row) == 2:
        first, second = truncate(row[0], row[1], room)
    parts: list[Ids]
    parts = [[special.start], first, between, second, [special.end]]
    packed = np.concatenate(parts).astype(np.int32)  # an empty part is float
    if len(row) == 1 or special.has_one_segment:
        return packed, len(packed)
    return packed, 1 + len(first) + min(1, len(between))


def head_of(room: int) -> int:
    """Tokens of the beginning that `head_tail` keeps, of `room` in all."""
    return round(room * HEAD / (HEAD + TAIL))


def truncate(first: Ids, second: Ids, room: int) -> tuple[Ids, Ids]:
    """Cuts the longer of two sequences until both fit in `room` tokens.

    Where they are equally long the second is cut, as in BERT's own
    `_truncate_seq_pair`.
    """
    first_room = max(room - len(second), (room + 1) // 2)
    second_room = max(room - len(first), room // 2)
    return first[:first_room], second[:second_room]
