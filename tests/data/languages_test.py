"""The language of texts is found where an encoder does not read it."""

import pathlib
import random

import pytest

from tests.support.languages import SENTENCES
from tf_transfer.data import languages
from tf_transfer.models import tiny

ENGLISH = frozenset({"English"})
# Where the words of texts are, by data set; see the design's folder of data.
COLUMNS = ("glue", "glue_subset", "cs224n", "tweets", "conll2003")


def split(text):
    """The sentences of a text."""
    return [part for part in " ".join(text.split()).split(". ") if part]


@pytest.mark.parametrize("language", languages.FUNCTION_WORDS)
def test_four_sentences_are_enough(language):
    texts = split(SENTENCES[language])
    assert languages.find_unread(texts, ()) == language
    expected = "" if language == "English" else language
    assert languages.find_unread(texts, ENGLISH) == expected
    assert languages.find_unread(texts, {language, "English"}) == ""


def test_a_text_without_accents_or_small_letters_has_its_language():
    text = languages.fold(SENTENCES["French"]).upper()
    assert languages.find_unread([text], ENGLISH) == "French"


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["1 2 3", "4.5", "2026-11-28"] * 50,
        ["Je ne sais pas"],  # one short text says little
        ["José Martínez", "Ana de la Cruz", "Jan van der Berg"] * 20,
        ["for (i = 0; i < n; i++) { sum += x[i]; }", "def f(x): return x"] * 9,
        ["sehr gut", "ok", "A1-2", "très bien"],
        ["bug", "crash", "login page", "API error 500"] * 20,
    ],
)
def test_little_or_no_language_is_no_alarm(texts):
    assert languages.find_unread(texts, ENGLISH) == ""


def test_half_of_the_texts_in_english_are_no_alarm():
    english = split(SENTENCES["English"])
    for language in SENTENCES:
        texts = english + split(SENTENCES[language])
        assert languages.find_unread(texts, ENGLISH) == ""


def test_a_vocabulary_reads_the_languages_whose_words_it_has():
    words = [*languages.WORDS["English"], *languages.WORDS["German"], "##x"]
    assert languages.list_read(words) == {"English", "German"}
    marked = [f"▁{word}" for word in languages.WORDS["French"]]
    assert languages.list_read(marked) == {"French"}
    assert languages.list_read(tiny.vocabulary()) == frozenset()


def test_bytes_of_a_vocabulary_are_read_as_letters():
    """Its tokens are GPT-2's: a space is `Ġ`, and `é` is two bytes."""
    letters = {byte: letter for letter, byte in languages.BYTES.items()}
    assert letters[32] == "Ġ" and len(letters) == 256
    words = languages.FUNCTION_WORDS["French"].split()
    tokens = [
        "".join(letters[byte] for byte in f" {word}".encode()) for word in words
    ]
    assert "ĠÃ©tÃ©" in tokens
    assert languages.list_read(tokens) == {"French"}


@pytest.mark.shared
@pytest.mark.parametrize("folder", COLUMNS)
def test_english_data_sets_are_english(folder, shared_data):
    rng = random.Random(0)
    for path in sorted(pathlib.Path(shared_data, folder).rglob("*.*")):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        drawn = rng.sample(lines, min(len(lines), 500))
        for size in (500, 50, 5):
            for first in range(0, len(drawn), size):
                some = drawn[first : first + size]
                assert languages.find_unread(some, ENGLISH) == "", some
