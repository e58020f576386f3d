"""A user's own data: a CSV or TSV file with a text and a label a row.

The first line names the columns. In a `.tsv` file tabs separate and quotes are
ordinary characters; any other file is CSV, as spreadsheets write it.
"""

import collections
import csv
import dataclasses
import hashlib
import html
import os
import re
import sys
import urllib.parse

import numpy as np

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

MOST_CLASSES = 1000
SHOWN = 12  # columns that an error lists


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns mean what.

    Attributes:
        id: None for `id`, where there is one; empty for the lines' numbers.
        keyword: empty for none.
    """

    text: str
    label: str
    id: str | None = ""
    keyword: str = ""


@dataclasses.dataclass
class Table:
    """Labelled texts in the order of their file.

    Attributes:
        path: str.
        ids: list of str; line numbers where there is no column for them.
        texts: list of str.
        labels: int64 [rows].
        words: tuple of str. The labels as the file has them, sorted; numbers
            by value.
        identity: str. The file's hash, and how it was read.
    """

    path: str
    ids: list
    texts: list
    labels: np.ndarray
    words: tuple
    identity: str

    def __len__(self):
        return len(self.texts)


def read(path, columns, encoding="utf-8", clean=False):
    """The `Table` of a file.

    Args:
        columns: `Columns`.
        clean: whether links, mentions and HTML entities are replaced.

    Raises:
        UserError: naming the file, the line and what to do.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"--data={path}: no such file. Give a CSV or TSV file whose first "
            "line names its columns."
        )
    ids, texts, words = [], [], []
    rows = _rows(path, columns, encoding)
    _, places = next(rows)
    for line, row in rows:
        text, label = _text(row, clean), row["label"].strip()
        for value, flag, name in (
            (row["text"].strip(), "text", columns.text),
            (label, "label", columns.label),
        ):
            if not value:
                raise UserError(
                    f"{path}, line {line}, column {name!r}: is empty. Remove "
                    f"the row, or give another --{flag}_column."
                )
        ids.append(row["id"].strip() if "id" in row else str(line))
        texts.append(text)
        words.append(sys.intern(label))
    if "id" in places:
        _check_ids(path, columns.id or "id", ids)
    labels, known = _label_ids(path, columns.label, words)
    identity = (
        f"{files.sha256(path)} {columns} {_python_name(encoding)} {clean}"
    )
    return Table(path, ids, texts, labels, known, identity)


def read_texts(path, columns, encoding="utf-8", clean=False):
    """The texts of a file that may have no labels, empty ones too."""
    rows = _rows(path, dataclasses.replace(columns, label="", id=""), encoding)
    next(rows)
    return [_text(row, clean) for _, row in rows]


def read_cells(path, encoding="utf-8"):
    """The header and the rows of a file, as lists of cells, empty lines out."""
    with open(path, encoding=_python_name(encoding), newline="") as file:
        header, *rows = (row for row in csv.reader(file, **_form(path)) if row)
    return header, rows


def _text(row, clean):
    text = row["text"].strip()
    if "keyword" in row:
        text = _with_keyword(row["keyword"], text)
    return cleaned(text) if clean else text


def _rows(path, columns, encoding):
    """Yields (line number, dict from flag to cell), the header first."""
    lines = read_lines(path, encoding)
    number, header = next(lines, (0, None))
    if not header:
        raise UserError(f"{path}: is empty.")
    places = _places(path, header, columns)
    yield number, places
    for number, cells in lines:
        if len(cells) != len(header):
            raise UserError(
                f"{path}, line {number}: has {len(cells)} cells, the header "
                f"{len(header)}. Mend the line"
                + ("." if _is_tsv(path) else ", or its quotes.")
            )
        yield number, {flag: cells[place] for flag, place in places.items()}


def read_lines(path, encoding="utf-8"):
    """Yields (line number, list of cells) of every line that is not empty.

    Raises:
        UserError: it is not of this encoding, or not CSV; with the line.
    """
    _check_encoding(path, encoding)
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding=_python_name(encoding), newline="") as file:
        reader = csv.reader(file, **_form(path))
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise UserError(
                f"{path}, line {reader.line_num}: is not CSV ({error})."
            ) from None


def _is_tsv(path):
    return path.lower().endswith((".tsv", ".tab"))


def _form(path):
    if _is_tsv(path):
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    return {"dialect": "excel", "strict": True}


def _places(path, header, columns):
    places = {}
    for flag in ("text", "label", "id", "keyword"):
        name = getattr(columns, flag)
        if flag == "id" and name is None and "id" in header:
            name = "id"
        if not name:
            continue
        if name not in header:
            shown = ", ".join(map(repr, header[:SHOWN]))
            raise UserError(
                f"{path}, line 1: has no column {name!r}. Give one of "
                f"{shown} as --{flag}_column."
            )
        places[flag] = header.index(name)
    return places


def _python_name(encoding):
    """UTF-8 with or without a byte-order mark."""
    is_utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    return "utf-8-sig" if is_utf8 else encoding


def _check_encoding(path, encoding):
    """Raises `UserError`, with the line, where bytes are not of an encoding."""
    try:
        "".encode(encoding)
    except LookupError:
        raise UserError(
            f"--encoding={encoding}: no such encoding. Give utf-8, latin-1, "
            "cp1252, ..."
        ) from None
    line = 0
    with open(path, "rb") as file:
        if "16" in encoding or "32" in encoding:  # lines cannot be told apart
            lines = [file.read()]
        else:
            lines = file
        for line, content in enumerate(lines, 1):
            try:
                content.decode(encoding)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {line}: is not {encoding} (byte "
                    f"0x{content[error.start]:02x}). Give the file's own "
                    "--encoding, such as latin-1 or cp1252."
                ) from None


def _check_ids(path, column, ids):
    if column and len(set(ids)) < len(ids):
        [(twice, count)] = collections.Counter(ids).most_common(1)
        raise UserError(
            f"{path}, column {column!r}: has {twice!r} {count} times. Give "
            "another --id_column, or none: --id_column= numbers the lines."
        )


def _label_ids(path, column, words):
    counts = collections.Counter(words)
    where = f"{path}, column {column!r}"
    if not counts:
        raise UserError(f"{path}: holds no examples.")
    if len(counts) == 1:
        raise UserError(
            f"{where}: has one label only, {words[0]!r}: there is nothing to "
            "tell apart. Give another --label_column."
        )
    if len(counts) > min(MOST_CLASSES, len(words) / 2):
        raise UserError(
            f"{where}: has {len(counts)} different labels in {len(words)} "
            "rows: this is no column of classes. Give another --label_column."
        )
    once = [word for word, count in counts.items() if count == 1]
    if once:
        raise UserError(
            f"{where}: one example only has label {once[0]!r}: it cannot be "
            "both trained on and tested. Remove it, or mend its label."
        )
    known = tuple(sorted(counts, key=_by_value))
    places = {word: place for place, word in enumerate(known)}
    return np.fromiter((places[w] for w in words), np.int64, len(words)), known


def _by_value(word):
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)


# === Texts ===


def cleaned(text):
    """A tweet with its HTML entities resolved and what names nobody.

    Links become `http`, mentions `@user`.
    """
    text = html.unescape(text)
    text = re.sub(r"https?://\S+", "http", text)
    return re.sub(r"(?<!\w)@\w+", "@user", text)


def _with_keyword(keyword, text):
    keyword = urllib.parse.unquote(keyword).strip()
    return f"{keyword}: {text}" if keyword else text


# === Duplicates ===


def groups(texts):
    """A number for each text; texts that differ in case and space share it.

    Returns:
        int64 [texts], from 0 on, in the order of first appearance.
    """
    known = {}
    return np.fromiter(
        (
            known.setdefault(
                _digest(" ".join(text.lower().split())), len(known)
            )
            for text in texts
        ),
        np.int64,
        len(texts),
    )


def _digest(text):
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """How many rows repeat a text, and how many texts have several labels."""

    rows: int
    conflicting: int


def count_duplicates(groups, labels):
    """`Duplicates` of grouped texts."""
    count = int(groups.max()) + 1
    low = np.full(count, np.iinfo(np.int64).max)
    high = np.full(count, -1)
    np.minimum.at(low, groups, labels)
    np.maximum.at(high, groups, labels)
    return Duplicates(len(groups) - count, int(np.sum(low != high)))
