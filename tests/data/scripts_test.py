"""A script that a vocabulary lacks is found, whatever its tokens are."""

import pytest

from tests.models import encoders
from tf_transfer.data import scripts
from tf_transfer.models import tiny

LATIN = tiny.vocabulary()
CYRILLIC = ["##ов", "книга", "ка", "##на", "я"]


@pytest.mark.parametrize(
    "texts, vocabulary, lacking",
    [
        (["The film was 5/5 ☺"], LATIN, {}),
        (["книга", "film"], LATIN, {"CYRILLIC": 5 / 9}),
        (["книга"], [*LATIN, *"абвгдежзийклмнопрст"], {"CYRILLIC": 1}),
        (["книга"], LATIN + CYRILLIC, {}),
        (["a" * 200 + "ж"], LATIN, {}),  # less than a hundredth
        (["中文"], LATIN, {"CJK": 1}),
        (["中文"], [*LATIN, *"中文字符汉"], {}),  # each is a word
        (["1 + 1 = 2", ""], LATIN, {}),
    ],
)
def test_scripts_without_words_in_the_vocabulary(texts, vocabulary, lacking):
    words = scripts.count_words(vocabulary)
    assert words.total() == len(vocabulary)
    assert scripts.find_missing_scripts(texts, words) == pytest.approx(lacking)


def test_bytes_of_a_vocabulary_are_read_as_letters():
    """Its tokens are byte pairs: `ж` is two of them."""
    tokenizer = encoders.roberta_tokenizer()
    words = [*tokenizer.vocabulary, "ÐºÐ½Ð¸Ð³Ð°"]
    spelled = type(tokenizer)(words, tokenizer.merges, tokenizer.special, 3)
    assert spelled.words_by_script["CYRILLIC"] == 1
    assert tokenizer.words_by_script["CYRILLIC"] == 0
