"""Tagged words to word pieces: what an encoder reads, and where each word is.

A tokeniser cuts words into pieces, `[CLS] Li ##verpool won [SEP]`. A word is
represented by its first piece: its label stands there, and its prediction is
taken there. Sentences too long for the encoder are cut between words into
several rows; their words stay in order, so predictions come together again.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from absl import logging

from tf_transfer.data import entities
from tf_transfer.data.encoded_split import EncodedSplit, IGNORED
from tf_transfer.data.task import Sentences
from tf_transfer.data.tokens import SpecialTokens, Tokenize, Tokens


@dataclasses.dataclass
class Pieces:
    """The sentences of a split as rows of word pieces.

    Attributes:
        tokens: The rows.
        sentences: int64 [rows]. The sentence that each row is of.
        first_pieces: int64 [words]. Each word's first piece in `tokens.flat`.
        word_starts: int64 [sentences]. Each sentence's first word.
    """

    tokens: Tokens
    sentences: np.ndarray
    first_pieces: np.ndarray
    word_starts: np.ndarray


def encode(
    tokenize: Tokenize,
    special: SpecialTokens,
    unknown: int,
    sentences: Sequence[Sequence[str]],
    max_length: int,
    spaced: bool = False,
    name: str = "",
) -> Pieces:
    """Cuts words into pieces, and sentences into rows.

    Args:
        tokenize: From texts to the ids of each.
        special: The special tokens.
        unknown: Id of the one piece of a word that has none, such as one of
            control characters alone.
        sentences: The words of each.
        max_length: Longest row in tokens; a longer word keeps its first
            pieces.
        spaced: Whether a word but the first of its sentence begins with its
            space, as in byte-level vocabularies (RoBERTa).
        name: What a message calls the sentences.
    """
    sizes = np.fromiter(map(len, sentences), np.int64, len(sentences))
    word_starts = np.cumsum(sizes) - sizes
    source, positions, counts = _tokenize(tokenize, unknown, sentences, spaced)
    room = max_length - 2
    counts = np.minimum(counts, room)
    offsets = np.cumsum([0, *counts])
    first_words, owners = _cut(offsets, word_starts, sizes, room)
    if len(first_words) > len(word_starts):
        cut = np.bincount(owners) > 1
        logging.warning(
            "%s: cut %d of %d sentences between words, to rows of at most %d "
            "pieces; their tags are joined again.",
            name,
            cut.sum(),
            len(cut),
            max_length,
        )
    packed, first_pieces = _pack(
        special, source, positions, offsets, first_words
    )
    return Pieces(packed, owners, first_pieces, word_starts)


class WordTokenizer(Protocol):
    """The part of `models.tokenizer.Tokenizer` that is read here."""

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """int32 [pieces] of each text, without special tokens."""

    @property
    def unknown(self) -> int:
        """The id of the unknown token."""


class SentenceEncoder(Protocol):
    """The part of `models.encoder.Encoder` that is read here."""

    @property
    def special(self) -> SpecialTokens:
        """The ids of special tokens."""

    @property
    def tokenizer(self) -> WordTokenizer:
        """The encoder's own."""

    @property
    def family(self) -> str:
        """The type of its blocks, such as `bert`."""


def encode_sentences(
    sentences: Sentences,
    tags: Sequence[str],
    encoder: SentenceEncoder,
    max_length: int,
    name: str,
) -> EncodedSplit:
    """Encodes tagged sentences.

    Args:
        sentences: The words and their tags.
        tags: All tags; see `entities.tag_names`.
        encoder: The encoder that reads them.
        max_length: Longest row in tokens.
        name: What a message calls the sentences.
    """
    pieces = encode(
        encoder.tokenizer.encode,
        encoder.special,
        encoder.tokenizer.unknown,
        sentences.words,
        max_length,
        spaced=encoder.family != "bert",
        name=name,
    )
    labels = np.full(len(pieces.tokens.flat), IGNORED, np.int64)
    labels[pieces.first_pieces] = entities.encode(sentences.tags, tags).ids
    return EncodedSplit(
        pieces.tokens,
        labels,
        sentences.ids[pieces.sentences],
        word_starts=pieces.word_starts,
        groups=sentences.groups,
    )


def _tokenize(
    tokenize: Tokenize,
    unknown: int,
    sentences: Sequence[Sequence[str]],
    spaced: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts every word into pieces; each different word is cut once.

    Returns:
        The pieces of all different words, int32 [pieces]; and for each word
        where its own begin there, and how many it has, int64 [words].
    """
    number_of: dict[str, int] = {}
    numbers = []
    for words in sentences:
        for index, word in enumerate(words):
            if spaced and index:
                word = " " + word
            numbers.append(number_of.setdefault(word, len(number_of)))
    ids = tokenize(list(number_of)) if number_of else []
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    positions = np.cumsum(lengths) - lengths
    positions[lengths == 0] = lengths.sum()  # where the unknown one stands
    source = np.concatenate([*ids, [unknown]]).astype(np.int32)
    word_of = np.asarray(numbers, np.int64)
    return source, positions[word_of], np.maximum(lengths, 1)[word_of]


def _cut(
    offsets: np.ndarray, starts: np.ndarray, sizes: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses the first word of each row: a row takes as many as fit.

    Args:
        offsets: int64 [words + 1]. Pieces of all words before each.
        starts: int64 [sentences]. First word of each.
        sizes: int64 [sentences]. Number of words of each.
        room: Most pieces of a row.

    Returns:
        First word of each row and its sentence, int64 [rows].
    """
    rows = []
    for sentence, word in enumerate(starts.tolist()):
        rows.append((word, sentence))
        end = offsets[word + sizes[sentence]]
        while end - offsets[word] > room:
            reached = offsets[word] + room
            word = int(np.searchsorted(offsets, reached, "right")) - 1
            rows.append((word, sentence))
    first_words, owners = np.array(rows, np.int64).reshape(-1, 2).T
    return first_words, owners


def _pack(
    special: SpecialTokens,
    source: np.ndarray,
    positions: np.ndarray,
    offsets: np.ndarray,
    first_words: np.ndarray,
) -> tuple[Tokens, np.ndarray]:
    """Rows of pieces between special tokens.

    Args:
        special: The special tokens.
        source: int32. The pieces of all different words.
        positions: int64 [words]. Where those of each word begin in `source`.
        offsets: int64 [words + 1]. Pieces of all words before each.
        first_words: int64 [rows]. First word of each row.

    Returns:
        The rows, and where in their `flat` each word begins.
    """
    ends = np.append(first_words[1:], len(positions))
    lengths = offsets[ends] - offsets[first_words] + 2
    starts = np.cumsum(lengths) - lengths
    row = np.repeat(np.arange(len(first_words)), ends - first_words)
    first_pieces = offsets[:-1] + 2 * row + 1
    flat = np.empty(lengths.sum(), np.int32)
    flat[starts] = special.start
    flat[starts + lengths - 1] = special.end
    # Where each piece of a word is in `source`, and where it goes.
    counts = np.diff(offsets)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    read = np.repeat(positions, counts) + place
    written = np.repeat(first_pieces, counts) + place
    flat[written] = source[read]
    lengths = lengths.astype(np.int32)
    nothing_lost = np.zeros_like(lengths)
    return Tokens(flat, starts, lengths, lengths, nothing_lost), first_pieces
