"""Every word is where it is said to be, in every row it can be in."""

import time
import types

import numpy as np

from tf_transfer.data import tokens, word_pieces
from tf_transfer.data.task import Sentences

SPECIAL = tokens.SpecialTokens(start=1, end=2, pad=0, between=(2,))
UNKNOWN = 3
SENTENCES = [["Anna", "in", "Rome"], ["!"], ["a", "b", "c"]]


def tokenize(texts):
    """A piece two letters: the sum of their numbers; none for `!`."""
    return [cut("" if text == "!" else text) for text in texts]


def cut(word):
    pairs = [word[n : n + 2] for n in range(0, len(word), 2)]
    return np.array([sum(map(ord, pair)) for pair in pairs], int)


def encode(sentences, max_length=8, **options):
    return word_pieces.encode(
        tokenize, SPECIAL, UNKNOWN, sentences, max_length, **options
    )


def rows_of(found):
    """Lists of piece ids, a row each."""
    ends = found.tokens.starts + found.tokens.lengths
    return [
        found.tokens.flat[a:b].tolist()
        for a, b in zip(found.tokens.starts, ends)
    ]


def ids(text):
    return tokenize([text])[0].tolist()


# === Rows ===


def test_a_sentence_is_its_words_pieces_between_special_tokens():
    found = encode(SENTENCES)
    assert rows_of(found) == [
        [1, *ids("An"), *ids("na"), *ids("in"), *ids("Ro"), *ids("me"), 2],
        [1, UNKNOWN, 2],
        [1, *ids("a"), *ids("b"), *ids("c"), 2],
    ]
    assert found.tokens.first_lengths.tolist() == found.tokens.lengths.tolist()
    assert found.tokens.flat.dtype == np.int32
    assert found.sentences.tolist() == [0, 1, 2]


def test_every_word_is_where_its_first_piece_is():
    found = encode(SENTENCES)
    assert found.word_starts.tolist() == [0, 3, 4]
    assert found.first_pieces.tolist() == [1, 3, 4, 8, 11, 12, 13]
    expected = [ids(word)[0] for word in ("An", "in", "Ro")] + [UNKNOWN]
    assert found.tokens.flat[found.first_pieces[:4]].tolist() == expected


def test_a_long_sentence_is_cut_between_words(caplog):
    sentence = ["ab", "abcd", "ab", "abcd", "abcdef", "ab"]
    found = encode([["ab"], sentence, ["ab"]], max_length=6, name="train")
    words = [["ab"], sentence[:3], ["abcd"], ["abcdef", "ab"], ["ab"]]
    assert rows_of(found) == [
        [1, *(n for word in row for n in ids(word)), 2] for row in words
    ]
    assert found.sentences.tolist() == [0, 1, 1, 1, 2]
    assert found.word_starts.tolist() == [0, 1, 7]
    assert "train: cut 1 of 3 sentences between words" in caplog.text


def test_a_sentence_that_just_fits_is_not_cut(caplog):
    found = encode([["ab"] * 4, ["abcdefgh"]], max_length=6)
    assert found.tokens.lengths.tolist() == [6, 6]
    assert not caplog.text


def test_a_word_longer_than_a_row_keeps_its_first_pieces():
    long = "abcdefghijkl"
    found = encode([["ab", long, "ab"], [long]], max_length=5)
    assert rows_of(found) == [
        [1, *ids("ab"), 2],
        [1, *ids(long)[:3], 2],
        [1, *ids("ab"), 2],
        [1, *ids(long)[:3], 2],
    ]


def test_a_sentence_without_words_has_a_row():
    found = encode([[], ["ab"] * 5, [], []], max_length=6)
    assert found.tokens.lengths.tolist() == [2, 6, 3, 2, 2]
    assert found.sentences.tolist() == [0, 1, 1, 2, 3]
    assert found.word_starts.tolist() == [0, 0, 5, 5]


def test_no_sentences_have_no_rows():
    found = encode([])
    assert (
        len(found.tokens)
        == len(found.first_pieces)
        == len(found.word_starts)
        == 0
    )


def test_each_different_word_is_tokenised_once():
    asked = []

    def spy(texts):
        asked.extend(texts)
        return tokenize(texts)

    for spaced in (False, True):
        sentences = [["ab", "cd", "ab"], ["cd", "cd"]]
        word_pieces.encode(spy, SPECIAL, UNKNOWN, sentences, 8, spaced)
    assert asked == ["ab", "cd", *("ab", " cd", " ab", "cd")]


# === Labels ===


def test_labels_stand_on_first_pieces():
    encoder = types.SimpleNamespace(
        special=SPECIAL,
        tokenizer=types.SimpleNamespace(encode=tokenize, unknown=UNKNOWN),
        family="bert",
    )
    names = "abcde"
    tags = [["b", "a", "d"], ["a"], ["e", "c", "b"]]
    split = word_pieces.encode_sentences(
        Sentences(np.arange(3), SENTENCES, tags), names, encoder, 8, "train"
    )
    none = word_pieces.IGNORED
    assert none < 0
    assert split.labels.tolist() == [
        *(none, 1, none, 0, 3, none, none),
        *(none, 0, none),
        *(none, 4, 2, 1, none),
    ]


# === Time ===


def test_a_split_of_the_size_of_conll_takes_no_time():
    drawn = np.random.default_rng(0).integers(0, 20_000, (14_000, 14))
    sentences = [[f"w{word}" for word in row] for row in drawn.tolist()]
    began = time.process_time()
    encode(sentences, 128)
    assert time.process_time() - began < 3  # it takes 0.3 s
