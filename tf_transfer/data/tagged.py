"""Sentences whose words are tagged with entities of any types.

From CoNLL columns, a word a line, its tag last and an empty line behind each
sentence; or from JSON lines and Parquet, a list of words and one of tags a row.
Schemes are IOB1, IOB2 and BIOES (with L for E and U for S: BILOU); what comes
out is IOB2.
"""

import dataclasses
import re
from collections.abc import Iterable

from tf_transfer.data import conll
from tf_transfer.data import entities
from tf_transfer.data import rows as rows_lib
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

_TAG = re.compile(r"O|[BIESLU]-\S+")
# Letters of BIOES and BILOU, and what they are in IOB2.
_IOB2 = {"S": "B", "U": "B", "E": "I", "L": "I"}


@dataclasses.dataclass
class Tagged:
    """The sentences of a file.

    Attributes:
        path: The file.
        words: The words of each sentence.
        tags: The tags of each, in IOB2.
        lines: The line of each word of each sentence, or its row.
    """

    path: str
    words: list[list[str]]
    tags: list[list[str]]
    lines: list[list[int]]

    def __len__(self) -> int:
        return len(self.words)

    def locate(self, sentence: int, word: int) -> str:
        """Where a word stands, for messages."""
        what = "row" if rows_lib.is_parquet(self.path) else "line"
        return f"{self.path}, {what} {self.lines[sentence][word]}"


def read(path: str, words_column: str, tags_column: str) -> Tagged:
    """Reads tagged sentences.

    Args:
        path: The file.
        words_column: Of JSON lines and Parquet: the words.
        tags_column: Of these, their tags.

    Raises:
        UserError: With the file and the line.
    """
    if rows_lib.is_json(path) or rows_lib.is_parquet(path):
        found = _read_lists(path, words_column, tags_column)
    else:
        found = _read_columns(path)
    _check_tags(found)
    found.tags = _to_iob2(found)
    return found


def types_of(sentences: Iterable[list[str]]) -> tuple[str, ...]:
    """The types of entity in some tags, sorted."""
    tags = {tag for sentence in sentences for tag in sentence}
    return tuple(sorted({tag[2:] for tag in tags if tag != "O"}))


def _read_columns(path: str) -> Tagged:
    words, tags, lines = [], [], []
    for sentence in conll.read_rows(path, min_columns=2):
        words.append([cells[0] for _, cells in sentence])
        tags.append([cells[-1] for _, cells in sentence])
        lines.append([number for number, _ in sentence])
    return Tagged(path, words, tags, lines)


def _read_lists(path: str, words_column: str, tags_column: str) -> Tagged:
    found = rows_lib.read(path, [words_column, tags_column])
    words, tags, lines = [], [], []
    for row in range(len(found)):
        words.append(rows_lib.words_of(found, row, words_column))
        tags.append(rows_lib.words_of(found, row, tags_column))
        if len(words[-1]) != len(tags[-1]):
            raise UserError(
                f"{found.locate(row, tags_column)}: has {len(tags[-1])} tags "
                f"of {len(words[-1])} words. Give one a word."
            )
        lines.append([found.lines[row]] * len(words[-1]))
    return Tagged(path, words, tags, lines)


def _check_tags(found: Tagged) -> None:
    """Raises `UserError`, with the line, for what is no tag."""
    for number, sentence in enumerate(found.tags):
        for word, tag in enumerate(sentence):
            if not _TAG.fullmatch(tag):
                raise UserError(
                    f"{found.locate(number, word)}: {cut(tag)!r} is not a tag. "
                    "Give O, or B- or I- (E-, S-) and a type, such as B-GENE."
                )


def _to_iob2(found: Tagged) -> list[list[str]]:
    """The tags in IOB2, from any of the schemes."""
    used = {tag[0] for sentence in found.tags for tag in sentence}
    if used & set(_IOB2):
        _check_bioes(found)
        return [
            [_IOB2.get(tag[0], tag[0]) + tag[1:] for tag in sentence]
            for sentence in found.tags
        ]
    names = entities.tag_names(types_of(found.tags))
    lines = [line for sentence in found.lines for line in sentence]
    what = "row" if rows_lib.is_parquet(found.path) else "line"
    return conll.to_iob2(
        found.tags, found.path, lambda word: f"{what} {lines[word]}", names
    )


def _check_bioes(found: Tagged) -> None:
    """Raises `UserError` where an entity of BIOES has no beginning or end."""
    for number, sentence in enumerate(found.tags):
        is_open = ""  # the type of an entity that has begun
        for word, tag in enumerate([*sentence, "O"]):
            continues = tag[0] in "IEL"
            if bool(is_open) != continues or (continues and tag[2:] != is_open):
                at = min(word, len(sentence) - 1)
                raise UserError(
                    f"{found.locate(number, at)}: {cut(sentence[at])!r} breaks "
                    "an entity of BIOES, which begins with B- and ends with "
                    "E-, or is S- alone. Mend the tag, or the one before it."
                )
            if tag[0] == "B":
                is_open = tag[2:]
            elif tag[0] in "EL":
                is_open = ""
