"""Tagged words to pieces: what an encoder reads, and where each word is in it.

A tokeniser cuts words into pieces, `[CLS] Li ##verpool won [SEP]`. A word is
read off its first piece: there stands its label, and there is its prediction
taken. Sentences too long for the encoder are cut between words into several
rows, and their predictions come together again.
"""

import dataclasses

import numpy as np
from absl import logging

from tf_transfer.data import entities
from tf_transfer.data import tokens

IGNORED = -1  # the label of what is no first piece


@dataclasses.dataclass
class Pieces:
    """The sentences of a split in rows of pieces.

    Attributes:
        tokens: `tokens.Tokens` [rows].
        sentences: int64 [rows]. The sentence that each row is of.
        firsts: int64 [words]. Each word's first piece in `tokens.flat`.
        starts: int64 [sentences]. Each sentence's first word.
    """

    tokens: tokens.Tokens
    sentences: np.ndarray
    firsts: np.ndarray
    starts: np.ndarray


def encode(
    tokenize, special, unknown, sentences, max_length, spaced=False, name=""
):
    """Cuts words into pieces, and sentences into rows.

    Args:
        tokenize: function from a list of str to a list of int sequences.
        special: `tokens.Special`.
        unknown: id of the one piece of a word that has none, such as one of
            control characters alone.
        sentences: list of lists of words.
        max_length: longest row; a longer word keeps its first pieces.
        spaced: whether a word but the first of its sentence begins with its
            space, as in byte-level vocabularies (RoBERTa).
        name: what a message calls the sentences.

    Returns:
        `Pieces`.
    """
    sizes = np.fromiter(map(len, sentences), np.int64, len(sentences))
    starts = np.cumsum(sizes) - sizes
    source, places, counts = _tokenize(tokenize, unknown, sentences, spaced)
    room = max_length - 2
    counts = np.minimum(counts, room)
    before = np.cumsum([0, *counts])
    heads, owners = _cut(before, starts, sizes, room)
    if len(heads) > len(starts):
        logging.warning(
            "%s: cut %d of %d sentences between words, to rows of at most %d "
            "pieces; their tags are joined again.",
            name,
            np.sum(np.bincount(owners) > 1),
            len(starts),
            max_length,
        )
    packed, firsts = _pack(special, source, places, before, heads)
    return Pieces(packed, owners, firsts, starts)


def unknown_id(tokenizer):
    """The id of a keras-nlp tokeniser's unknown token."""
    return int(tokenizer.token_to_id(getattr(tokenizer, "oov_token", "<unk>")))


def _tokenize(tokenize, unknown, sentences, spaced):
    """Pieces of every word; each different word is cut once.

    Returns:
        Pieces of all different words int32 [pieces]; and for each word where
        its own begin there, and how many it has: int64 [words].
    """
    known = {}
    numbers = [
        known.setdefault(" " + word if spaced and place else word, len(known))
        for words in sentences
        for place, word in enumerate(words)
    ]
    found = tokenize(list(known)) if known else []
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    places = np.cumsum(lengths) - lengths
    places[lengths == 0] = lengths.sum()  # where the unknown one stands
    source = np.concatenate([*found, [unknown]]).astype(np.int32)
    numbers = np.asarray(numbers, np.int64)
    return source, places[numbers], np.maximum(lengths, 1)[numbers]


def _cut(before, starts, sizes, room):
    """Which word begins each row: a row takes as many words as fit.

    Args:
        before: int64 [words + 1]. Pieces before each word.
        starts, sizes: int64 [sentences]. First word, and number of words.
        room: most pieces of a row.

    Returns:
        First word of each row and its sentence, int64 [rows].
    """
    ends = starts + sizes
    heads, owners = [starts], [np.arange(len(starts))]
    for sentence in np.flatnonzero(before[ends] - before[starts] > room):
        word = starts[sentence]
        while before[ends[sentence]] - before[word] > room:
            word = np.searchsorted(before, before[word] + room, "right") - 1
            heads.append([word])
            owners.append([sentence])
    heads, owners = np.concatenate(heads), np.concatenate(owners)
    order = np.argsort(heads, kind="stable")  # empty sentences stay in order
    return heads[order], owners[order]


def _pack(special, source, places, before, heads):
    """Rows of pieces between special tokens.

    Args:
        source, places: pieces, and where in them those of each word begin.
        before: int64 [words + 1]. Pieces before each word.
        heads: int64 [rows]. First word of each row.

    Returns:
        `tokens.Tokens`, and where in its `flat` each word begins.
    """
    ends = np.append(heads[1:], len(places))
    lengths = before[ends] - before[heads] + 2
    starts = np.cumsum(lengths) - lengths
    row = np.repeat(np.arange(len(heads)), ends - heads)
    firsts = before[:-1] + 2 * row + 1
    flat = np.empty(lengths.sum(), np.int32)
    flat[starts], flat[starts + lengths - 1] = special.start, special.end
    every = np.arange(before[-1])
    counts = np.diff(before)
    flat[np.repeat(firsts - before[:-1], counts) + every] = source[
        np.repeat(places - before[:-1], counts) + every
    ]
    lengths = lengths.astype(np.int32)
    return tokens.Tokens(flat, starts, lengths, lengths), firsts


# === Labels and predictions ===


def spread(pieces, ids):
    """Labels of pieces: those of words on first pieces, `IGNORED` elsewhere.

    Args:
        pieces: `Pieces`.
        ids: int [words]. Tags as numbers.

    Returns:
        int64 [pieces of all rows], beside `tokens.flat`.
    """
    labels = np.full(len(pieces.tokens.flat), IGNORED, np.int64)
    labels[pieces.firsts] = ids
    return labels


def of_words(pieces, rows):
    """What stands on first pieces, out of what stands on all.

    Args:
        pieces: `Pieces`.
        rows: array [rows, length, ...]. Tags or logits of the pieces of each
            row, padded at its end.

    Returns:
        Array [words, ...], all rows of a sentence one behind the other.
    """
    starts = pieces.tokens.starts
    row = np.searchsorted(starts, pieces.firsts, "right") - 1
    return np.asarray(rows)[row, pieces.firsts - starts[row]]


def join(pieces, rows, names):
    """The tags of each sentence out of those of all pieces.

    Args:
        pieces: `Pieces`.
        rows: int [rows, length]. Tags as numbers, padded at the end.
        names: `entities.tag_names`.

    Returns:
        List of sentences, each a list of str.
    """
    tagged = entities.Tagged(of_words(pieces, rows), pieces.starts)
    return entities.decode(tagged, names)
