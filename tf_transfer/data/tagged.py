"""Sentences whose words are tagged with entities of any types.

The files have CoNLL columns, one word per line, its tag last and an empty line
behind each sentence; or they are JSON lines or Parquet, with a list of words
and one of tags per row. The schemes are IOB1, IOB2 and BIOES (with L for E and
U for S: BILOU); all tags are converted to IOB2. In IOB2 every entity begins
with B-. In IOB1 it begins with I-, and B- only separates it from another of its
type right before it.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from tf_transfer.data import entities, file_formats, table_files
from tf_transfer.data.columns import Table
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

_BLANKS = re.compile(r"[ \t]+")
_TAG = re.compile(r"O|[BIESLU]-\S+")
# Letters of BIOES and BILOU, and their letters in IOB2.
_IOB2 = {"S": "B", "U": "B", "E": "I", "L": "I"}


def read_table(
    path: str,
    words_column: str,
    tags_column: str,
    others: Mapping[str, str | None] | None = None,
) -> Table:
    """Reads tagged sentences.

    Args:
        path: The file.
        words_column: The column of the words, in JSON lines and Parquet; and
            the name of that column in the table.
        tags_column: The same of the tags.
        others: Further columns of JSON lines and Parquet, each with the flag
            or key that names it.

    Returns:
        A row per sentence, a list of words and of tags in IOB2 each.

    Raises:
        UserError: A row is invalid; the message has file and line.
    """
    names = dict.fromkeys((words_column, tags_column), "")
    if not file_formats.is_plain(path):
        table = table_files.read_table(path, {**names, **(others or {})})
        _check_names(table, tags_column)
        columns = {name: table.words(name) for name in names}
    elif not others:
        table = read_columns(path, {words_column: 0, tags_column: -1})
        columns = {name: table.lists(name) for name in names}
    else:
        [(name, flag)] = others.items()
        raise UserError(
            f"{path}: has one word per line, and no column {cut(name)!r}. Give "
            f"JSON lines or Parquet, or leave {flag} out."
        )
    for row, (words, tags) in enumerate(zip(*columns.values())):
        if len(words) != len(tags):
            raise UserError(
                f"{table.locate(row)}, column {cut(tags_column)!r}: has "
                f"{len(tags)} tags for {len(words)} words. Give one tag per "
                "word."
            )
        for word, tag in enumerate(tags):
            if not _TAG.fullmatch(tag):
                raise UserError(
                    f"{table.locate(row, word)}: {cut(tag)!r} is not a tag. "
                    "Give O, or B- or I- (E-, S-) and a type, such as B-GENE."
                )
    columns[tags_column] = _convert(table, columns[tags_column])
    return dataclasses.replace(table, columns={**table.columns, **columns})


def _check_names(table: Table, column: str) -> None:
    """Raises `UserError` if tags are numbers, as in Hugging Face's datasets."""
    for row, tags in enumerate(table.columns[column]):
        if isinstance(tags, list) and any(isinstance(tag, int) for tag in tags):
            raise UserError(
                f"{table.locate(row)}, column {cut(column)!r}: tags are "
                "numbers. Replace them by names such as B-PER; a Hugging Face "
                f"data set has them in `features[{column!r}].feature.names`."
            )


def types_of(sentences: Iterable[list[str]]) -> tuple[str, ...]:
    """The types of entity in some tags, sorted."""
    tags = itertools.chain(*sentences)
    return tuple(sorted({tag[2:] for tag in tags} - {""}))


def check_types(
    table: Table, sentences: Sequence[list[str]], types: Sequence[str]
) -> None:
    """Raises `UserError`, with the line, if a tag has none of some types.

    Args:
        table: The table of the sentences.
        sentences: The tags of each.
        types: The types of entity.
    """
    valid_tags = {*entities.tag_names(types)}
    for row, tags in enumerate(sentences):
        for word, tag in enumerate(tags):
            if tag not in valid_tags:
                raise UserError(
                    f"{table.locate(row, word)}: {cut(tag[2:])!r} is not one "
                    f"of the types of entity: {', '.join(types)}. Fix the tag, "
                    "or remove the sentence."
                )


# === CoNLL columns ===


def read_columns(path: str, columns: Mapping[str, int]) -> Table:
    """Reads columns of a file with one word per line.

    Args:
        path: The file.
        columns: The number of each column by its name in the table: 0 for
            words, -1 for their tags.

    Returns:
        A row per sentence, with a list of cells of each column.

    Raises:
        UserError: There are no sentences, or a line is invalid.
    """
    sentences = [*read_sentences(path, len(columns))]
    places = [(path, line) for line, _ in sentences]
    cells = {
        name: [[word[number] for word in rows] for _, rows in sentences]
        for name, number in columns.items()
    }
    return Table(path, places, cells)


def read_sentences(
    path: str, min_columns: int
) -> Iterator[tuple[int, list[list[str]]]]:
    """Yields the line of each sentence's first word, and the cells of all.

    Raises:
        UserError: There are none, or a line has fewer columns, or not as
            many as the others.
    """
    width, first_line = 0, 0
    sentence: list[list[str]] = []
    start = 0  # the line of the sentence's first word
    for number, line in enumerate(file_formats.read_lines(path), 1):
        cells = _BLANKS.split(line.strip(" \t"))
        if cells[0] in ("", "-DOCSTART-"):
            if sentence:
                yield start, sentence
            sentence = []
            continue
        if not width:
            width, first_line = len(cells), number
        if len(cells) != width or width < min_columns:
            needed = f"line {first_line} {width}"
            if width < min_columns:
                needed = "needs 2"
            raise UserError(
                f"{path}, line {number}: has {len(cells)} columns, {needed}. "
                "Give a word and its tags, separated by blanks, and an empty "
                "line behind each sentence."
            )
        if not sentence:
            start = number
        sentence.append(cells)
    if sentence:
        yield start, sentence
    if not width:
        raise UserError(f"{path}: holds no sentences.")


# === Schemes ===


def _convert(table: Table, sentences: list[list[str]]) -> list[list[str]]:
    """Tags in IOB2, from any of the schemes."""
    letters = {tag[0] for tags in sentences for tag in tags}
    if letters.isdisjoint(_IOB2):
        names = entities.tag_names(types_of(sentences))
        return to_iob2(sentences, table.locate, names)
    _check_bioes(table, sentences)
    return [
        [_IOB2.get(tag[0], tag[0]) + tag[1:] for tag in tags]
        for tags in sentences
    ]


def _check_bioes(table: Table, sentences: list[list[str]]) -> None:
    """Raises `UserError` if an entity of BIOES has no beginning or end."""
    for row, tags in enumerate(sentences):
        open_type = ""  # of an entity that has begun and not ended
        for word, tag in enumerate([*tags, "O"]):
            letter, kind = tag[0], tag[2:]
            continued = kind if letter in "IEL" else ""
            if continued != open_type:
                word = min(word, len(tags) - 1)
                raise UserError(
                    f"{table.locate(row, word)}: {cut(tags[word])!r} breaks an "
                    "entity of BIOES, which begins with B- and ends with E-, "
                    "or is S- alone. Fix the tag, or the one before it."
                )
            if letter == "B":
                open_type = kind
            elif letter != "I":
                open_type = ""


def to_iob2(
    sentences: list[list[str]],
    locate: Callable[[int, int], str],
    names: Sequence[str],
) -> list[list[str]]:
    """The same entities in IOB2, from IOB1 or IOB2.

    The first tag of a stretch of one type is always B- in IOB2 and always I-
    in IOB1. If both occur, the scheme is that of most stretches, and the first
    of the others is wrong.

    Args:
        sentences: The tags of each sentence.
        locate: From the numbers of a sentence and of its word to the place in
            the source, for messages.
        names: All tags; see `entities.tag_names`.

    Raises:
        UserError: Both schemes occur; the message has a line of each.
    """
    tagged = entities.encode(sentences, names)
    starts = entities.find_stretches(tagged)
    is_inside = tagged.ids[starts] % 2 == 0
    if not is_inside.any():
        return sentences

    def locate_word(word: int) -> str:
        sentence = int(np.searchsorted(tagged.starts, word, "right")) - 1
        return locate(sentence, int(word - tagged.starts[sentence]))

    if not is_inside.all():
        is_iob1 = 2 * is_inside.sum() > len(starts)
        is_wrong = is_inside != is_iob1
        word, other = starts[is_wrong][0], starts[~is_wrong][0]
        scheme, letter = ("IOB1", "I") if is_iob1 else ("IOB2", "B")
        tag = names[tagged.ids[word]]
        raise UserError(
            f"{locate_word(word)}: begins an entity with {tag}, but "
            f"{locate_word(other)} with {names[tagged.ids[other]]}, as do "
            f"{(~is_wrong).sum()} of the {len(starts)} that show the scheme: "
            f"the tags are {scheme}, which has {letter}{tag[1:]} here. Fix the "
            "tag, or the one before it."
        )
    logging.warning(
        "%s: tags are IOB1, where entities begin with I-, as here. They are "
        "read as IOB2.",
        locate_word(starts[0]),
    )
    tagged.ids[starts] -= 1  # from I- to B-
    return entities.decode(tagged, names)
