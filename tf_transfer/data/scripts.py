"""Scripts, such as Cyrillic, in which texts are and a vocabulary is not.

A vocabulary of another language spells such texts letter by letter, or byte by
byte, so that few of their tokens are unknown.
"""

import collections
import functools
import unicodedata
from collections.abc import Iterable

LEAST_SHARE = 0.01  # of the letters of texts, for a script to be reported
# The least share of a script's words among a vocabulary's tokens. A word has
# two letters; a Chinese character is a word. These shares are ours: of the
# uncased BERT's tokens, 0.03 % are Cyrillic words and 1.6 % Chinese characters.
LEAST_WORDS = 0.001
LEAST_CHINESE = 0.02
CHINESE = "CJK"


def find_missing_scripts(
    texts: Iterable[str], words: "collections.Counter[str]"
) -> dict[str, float]:
    """The scripts of texts that a vocabulary lacks.

    Args:
        texts: The texts.
        words: What `count_words` returned.

    Returns:
        The share of each one among the texts' letters, such as
        `{"CYRILLIC": 0.9}`.
    """
    characters: collections.Counter[str] = collections.Counter()
    for text in texts:
        characters.update(text)
    letters: collections.Counter[str] = collections.Counter()
    for character, count in characters.items():
        letters[_script(character)] += count
    del letters[""]
    lacking = {}
    for script, count in letters.items():
        share = count / letters.total()
        least = LEAST_CHINESE if script == CHINESE else LEAST_WORDS
        if share > LEAST_SHARE and words[script] < least * words.total():
            lacking[script] = share
    return lacking


def count_words(vocabulary: Iterable[str]) -> "collections.Counter[str]":
    """The number of words of each script; "" for all other tokens."""
    words: collections.Counter[str] = collections.Counter()
    for token in vocabulary:
        letters = collections.Counter(map(_script, token))
        del letters[""]
        [(script, count)] = letters.most_common(1) or [("", 0)]
        words[script if count > 1 or script == CHINESE else ""] += 1
    return words


@functools.cache
def _script(character: str) -> str:
    """The first word of a letter's name; "" for other characters."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lo"):
        return ""
    return unicodedata.name(character, "").partition(" ")[0]
