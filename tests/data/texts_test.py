"""Texts: prepared for a model, and compared with each other."""

import numpy as np
import pytest

from tf_transfer.data import texts as texts_lib


@pytest.mark.parametrize(
    "text, expected",
    [
        ("see https://t.co/Ab1 now", "see http now"),
        ("@Anna_1: &lt;3 &amp; you", "@user: <3 & you"),
        ("me@home.org stays", "me@home.org stays"),
    ],
)
def test_cleaning(text, expected):
    assert texts_lib.clean_text(text) == expected
    assert texts_lib.make_text(f" {text} ", clean=True) == expected


def test_a_keyword_comes_first():
    assert texts_lib.make_text(" a b", "x%20y ") == "x y: a b"


def test_duplicates_differ_in_case_and_space_alone():
    texts = ["A b", "c", " a  B ", "C", "d", "c"]
    groups = texts_lib.group_texts(texts)
    assert groups.tolist() == [0, 1, 0, 1, 2, 1]
    labels = np.array([1, 0, 1, 1, 0, 0])
    assert texts_lib.count_duplicates(groups, labels) == (3, 1)


@pytest.mark.parametrize(
    "one, other",
    [
        ("café", "cafe\u0301"),
        ("Ｇｏｏｄ film", "good\u00a0film"),
        ("go\u00adod fi\u200blm", "good film"),
        ("ﬁlm ❤️", "film ❤"),
        ("a\0b\ufffd", "ab"),
    ],
)
def test_duplicates_may_differ_in_their_unicode_form(one, other):
    assert texts_lib.normalize(one) == texts_lib.normalize(other)
    assert texts_lib.group_texts([one, "x", other]).tolist() == [0, 1, 0]


def test_accents_and_signs_distinguish_texts():
    texts = ["schon", "schön", "a b", "ab", "a👍", "a👎", "."]
    assert texts_lib.group_texts(texts).tolist() == [*range(7)]


@pytest.mark.parametrize("text", ["", " \u00a0", "\u200b\0", "\ufffd\ufe0f"])
def test_a_text_of_invisible_characters_is_blank(text):
    assert texts_lib.is_blank(text)
    assert not texts_lib.is_blank(f"{text}.")
