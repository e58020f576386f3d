"""Texts: prepared for a model, and compared with each other."""

import hashlib
import html
import re
import unicodedata
import urllib.parse
from collections.abc import Sequence

import numpy as np


def make_text(text: str, keyword: str = "", clean: bool = False) -> str:
    """A text as a model reads it.

    Args:
        text: The cell of the text column.
        keyword: The cell of the keyword column, which comes first.
        clean: Whether the text is cleaned; see `clean_text`.
    """
    keyword = urllib.parse.unquote(keyword).strip()
    if keyword:
        text = f"{keyword}: {text.strip()}"
    return clean_text(text) if clean else text


def clean_text(text: str) -> str:
    """Resolves HTML entities; links become `http`, mentions `@user`."""
    text = html.unescape(text.strip())
    text = re.sub(r"https?://\S+", "http", text)
    return re.sub(r"(?<!\w)@\w+", "@user", text)


def normalize(text: str | Sequence[str]) -> str:
    """A form that texts, or pairs of texts, share if they count as equal.

    It has Unicode's form NFKC, small letters, single blanks, and no invisible
    characters.
    """
    texts = [text] if isinstance(text, str) else text
    return "\0".join(" ".join(_unify(text).lower().split()) for text in texts)


def _unify(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    text = "".join(c for c in text if c.isspace() or not _is_invisible(c))
    return unicodedata.normalize("NFKC", text)


def is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen."""
    return all(
        character.isspace() or _is_invisible(character) for character in text
    )


def _is_invisible(character: str) -> bool:
    """Whether a character has no look, or stands for what was not decoded.

    These are control, format and private-use characters, variation selectors,
    and U+FFFD.
    """
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs")
        or "\ufe00" <= character <= "\ufe0f"
        or character == "\ufffd"
    )


def group_texts(texts: Sequence[str | Sequence[str]]) -> np.ndarray:
    """Numbers texts; texts of one form share a number (`normalize`).

    Args:
        texts: Each a text, or the texts of a pair.

    Returns:
        int64 [texts], from 0 on, in the order of first appearance.
    """
    numbers: dict[bytes, int] = {}
    digests = (
        hashlib.blake2b(normalize(text).encode(), digest_size=16).digest()
        for text in texts
    )
    return np.fromiter(
        (numbers.setdefault(digest, len(numbers)) for digest in digests),
        np.int64,
        len(texts),
    )


def count_duplicates(groups: np.ndarray, labels: np.ndarray) -> tuple[int, int]:
    """The number of rows that repeat a text, and of texts with several labels.

    Args:
        groups: int64 [texts]. See `group_texts`.
        labels: int64 [texts].
    """
    pairs = np.unique(np.stack([groups, labels], axis=1), axis=0)
    labels_per_text = np.bincount(pairs[:, 0])
    return (
        len(groups) - len(labels_per_text),
        int(np.sum(labels_per_text > 1)),
    )
