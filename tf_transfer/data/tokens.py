"""Texts to ragged token ids, once a run.

Ids stay ragged: one flat array and where each text begins. Padding happens in
the input pipeline, to the bucket of the batch.
"""

import dataclasses
import sys

import numpy as np
import tqdm

CHUNK = 1000  # texts tokenised at a time


@dataclasses.dataclass(frozen=True)
class Special:
    """The special tokens of a family of encoders.

    `start` A `end`, or `start` A `*between` B `end` for a pair. Segment ids
    are 1 from behind `between` on where the family has segments.
    """

    start: int
    end: int
    pad: int
    between: tuple


@dataclasses.dataclass
class Tokens:
    """Packed token ids of a split.

    Attributes:
        flat: int32 [sum of lengths]. All ids, text after text.
        starts: int64 [texts]. Where each text begins in `flat`.
        lengths: int32 [texts]. Tokens of each text, special ones included.
        firsts: int32 [texts]. Tokens of segment 0.
    """

    flat: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    firsts: np.ndarray

    def __len__(self):
        return len(self.lengths)

    def take(self, rows):
        """Some of the texts, over the same flat array."""
        return Tokens(
            self.flat, self.starts[rows], self.lengths[rows], self.firsts[rows]
        )


def join(parts):
    """The texts of several `Tokens`, one behind the other."""
    offsets = np.cumsum([0, *(len(part.flat) for part in parts)])
    return Tokens(
        np.concatenate([part.flat for part in parts]),
        np.concatenate([p.starts + o for p, o in zip(parts, offsets)]),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.firsts for part in parts]),
    )


def encode(tokenize, special, texts, max_length, name=""):
    """Tokenises and packs texts or pairs of texts.

    Args:
        tokenize: function from a list of str to a list of int sequences.
        special: `Special`.
        texts: list of one or two lists of str.
        max_length: longest result; pairs lose tokens from the longer text
            first, as in BERT's own code.
        name: what the progress bar says.

    Returns:
        `Tokens`.
    """
    pieces, lengths, firsts = [], [], []
    total = len(texts[0])
    with tqdm.tqdm(
        total=total,
        desc=f"tokenising {name}",
        unit=" texts",
        leave=False,
        disable=None,
        file=sys.stderr,
        delay=1,
    ) as bar:
        for begin in range(0, total, CHUNK):
            columns = [
                tokenize(column[begin : begin + CHUNK]) for column in texts
            ]
            for row in zip(*columns):
                ids, first = pack(row, special, max_length)
                pieces.append(ids)
                lengths.append(len(ids))
                firsts.append(first)
            bar.update(len(columns[0]))
    lengths = np.asarray(lengths, np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    return Tokens(
        np.concatenate(pieces).astype(np.int32),
        ends - lengths,
        lengths,
        np.asarray(firsts, np.int32),
    )


def pack(row, special, max_length):
    """One or two sequences of ids, special tokens added, cut to length.

    Returns:
        int32 array of the packed ids, and the number of those in segment 0.
    """
    between = special.between if len(row) == 2 else ()
    room = max_length - 2 - len(between)
    if len(row) == 1:
        first, second = row[0][:room], ()
    else:
        first, second = truncate(row[0], row[1], room)
    packed = np.concatenate(
        [[special.start], first, between, second, [special.end]]
    ).astype(np.int32)  # an empty part is float
    if len(row) == 1:
        return packed, len(packed)
    return packed, 1 + len(first) + min(1, len(between))


def truncate(first, second, room):
    """Cuts the longer of two sequences until both fit.

    Where they are equally long the second gives way, as in BERT's own
    `_truncate_seq_pair`.
    """
    excess = len(first) + len(second) - room
    if excess <= 0:
        return first, second
    longer = max(len(first), len(second)) - min(len(first), len(second))
    lead = min(excess, longer)  # taken from the longer one alone
    rest = excess - lead
    cut_first = lead if len(first) > len(second) else 0
    cut_second = lead - cut_first
    cut_first += rest // 2
    cut_second += rest - rest // 2
    return first[: len(first) - cut_first], second[: len(second) - cut_second]
