"""Packed ids are those of BERT's and RoBERTa's own code."""

import numpy as np
import pytest

from tf_transfer.data import tokens

BERT = tokens.SpecialTokens(start=101, end=102, pad=0, between=(102,))
ROBERTA = tokens.SpecialTokens(start=0, end=2, pad=1, between=(2, 2))
FAMILIES = pytest.mark.parametrize(
    "special", [BERT, ROBERTA], ids=["bert", "roberta"]
)

A, B = [11, 12, 13], [21, 22]


def ids_of(row, special, max_length):
    ids, first = tokens.pack(row, special, max_length)
    return ids.tolist(), first


# === Packing ===


@pytest.mark.parametrize(
    "special, row, expected, first_length",
    [
        (BERT, [A], [101, 11, 12, 13, 102], 5),
        (BERT, [A, B], [101, 11, 12, 13, 102, 21, 22, 102], 5),
        (BERT, [[]], [101, 102], 2),
        (BERT, [[], B], [101, 102, 21, 22, 102], 2),
        (ROBERTA, [A], [0, 11, 12, 13, 2], 5),
        (ROBERTA, [A, B], [0, 11, 12, 13, 2, 2, 21, 22, 2], 5),
    ],
)
def test_packing_follows_the_family(special, row, expected, first_length):
    assert ids_of(row, special, 128) == (expected, first_length)


@FAMILIES
@pytest.mark.parametrize("texts", [1, 2])
def test_packed_ids_are_integers(special, texts):
    ids, _ = tokens.pack([np.arange(5, dtype=np.int32)] * texts, special, 8)
    assert ids.dtype.kind == "i"


@FAMILIES
def test_a_text_is_cut_at_its_end_to_the_longest_length(special):
    ids, first_length = ids_of([list(range(10, 30))], special, 8)
    assert ids == [special.start, *range(10, 16), special.end]
    assert first_length == 8


@FAMILIES
def test_a_pair_is_cut_to_the_longest_length(special):
    ids, _ = ids_of([[11] * 9, [22] * 9], special, 10)
    assert len(ids) == 10
    assert ids[0] == special.start and ids[-1] == special.end
    assert ids.count(11) in (ids.count(22), ids.count(22) + 1)


# === Cutting pairs ===


def cut_as_bert_does(first, second, room):
    """`_truncate_seq_pair` of BERT's run_classifier.py, step by step."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        if len(first) > len(second):
            first.pop()
        else:
            second.pop()
    return first, second


def random_pairs(count, longest):
    """Pairs of id sequences of random lengths, from 0 on."""
    rng = np.random.default_rng(3)
    for sizes in rng.integers(0, longest + 1, (count, 2)):
        yield [rng.integers(1000, 2000, size).tolist() for size in sizes]


@pytest.mark.parametrize("room", [0, 1, 2, 7, 12, 40])
def test_pairs_are_cut_as_bert_cuts_them(room):
    for first, second in random_pairs(300, 20):
        found = tokens.truncate(first, second, room)
        assert found == cut_as_bert_does(first, second, room)


# === Whole splits ===


def tokenize(texts):
    """A token a word: the number of its letters."""
    return [np.array([len(w) for w in text.split()], int) for text in texts]


def test_encoding_lays_texts_one_after_another(monkeypatch):
    monkeypatch.setattr(tokens, "CHUNK", 2)
    texts = ["one three seventeen", "", "a bb ccc dddd"]
    found = tokens.encode(tokenize, BERT, [texts], 5)
    assert len(found) == 3
    assert found.flat.tolist() == [
        *(101, 3, 5, 9, 102),
        *(101, 102),
        *(101, 1, 2, 3, 102),
    ]
    assert found.lengths.tolist() == [5, 2, 5]
    assert found.starts.tolist() == [0, 5, 7]
    assert found.first_lengths.tolist() == [5, 2, 5]
    assert found.flat.dtype == np.int32


def test_encoding_pairs_joins_the_texts_of_a_row():
    found = tokens.encode(tokenize, BERT, [["a bb", "a"], ["ccc", "ccc a"]], 9)
    rows = np.split(found.flat, found.starts[1:])
    assert [row.tolist() for row in rows] == [
        [101, 1, 2, 102, 3, 102],
        [101, 1, 102, 3, 1, 102],
    ]
    assert found.first_lengths.tolist() == [4, 3]
