"""A user's own data: a CSV or TSV file with a text and a label a row.

The first line names the columns. In a `.tsv` file tabs separate and quotes are
ordinary characters; any other file is CSV, as spreadsheets write it.
"""

import collections
import csv
import dataclasses
import hashlib
import html
import io
import os
import re
import sys
import urllib.parse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

MOST_CLASSES = 1000  # more labels than this are not a column of classes
SHOWN = 12  # columns that a message lists


@dataclasses.dataclass(frozen=True)
class Columns:
    """The names of the columns that are read.

    The names of the fields are part of the identity of a table.

    Attributes:
        text: Of the texts.
        label: Of the labels; empty for none.
        id: Of the ids; None for `id`, where there is such a column; empty for
            the numbers of the lines.
        keyword: Of a keyword that is put before the text; empty for none.
    """

    text: str
    label: str
    id: str | None = ""
    keyword: str = ""


@dataclasses.dataclass
class Table:
    """Labelled texts in the order of their file.

    Attributes:
        path: The file.
        ids: One a row; line numbers where there is no column for them.
        texts: One a row.
        labels: int64 [rows]. Indices of `label_names`.
        label_names: The labels as the file has them, sorted; numbers by
            value.
        identity: The file's hash, and how it was read.
    """

    path: str
    ids: list[str]
    texts: list[str]
    labels: np.ndarray
    label_names: tuple[str, ...]
    identity: str

    def __len__(self) -> int:
        return len(self.texts)


def read(
    path: str, columns: Columns, encoding: str = "utf-8", clean: bool = False
) -> Table:
    """Reads a table.

    Args:
        path: The CSV or TSV file.
        columns: Its columns.
        encoding: Of the file.
        clean: Whether links, mentions and HTML entities are replaced; see
            `clean_text`.

    Raises:
        UserError: With the file, the line and what to do.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"--data={path}: no such file. Give a CSV or TSV file whose first "
            "line names its columns."
        )
    ids, texts, labels = [], [], []
    positions, rows = _open(path, columns, encoding)
    for line, row in rows:
        text = make_text(row["text"], row.get("keyword", ""), clean)
        label = row["label"].strip()
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
        labels.append(sys.intern(label))
    if "id" in positions:
        _check_ids(path, columns.id or "id", ids)
    label_names = _check_labels(path, columns.label, labels)
    label_ids = {name: number for number, name in enumerate(label_names)}
    identity = (
        f"{files.sha256(path)} {columns} {_python_name(encoding)} {clean}"
    )
    return Table(
        path,
        ids,
        texts,
        np.fromiter((label_ids[w] for w in labels), np.int64, len(labels)),
        label_names,
        identity,
    )


def read_texts(
    path: str, columns: Columns, encoding: str = "utf-8", clean: bool = False
) -> list[str]:
    """Reads the texts of a file that may have no labels, empty texts too."""
    columns = dataclasses.replace(columns, label="", id="")
    _, rows = _open(path, columns, encoding)
    return [
        make_text(row["text"], row.get("keyword", ""), clean) for _, row in rows
    ]


def read_cells(
    path: str, encoding: str = "utf-8"
) -> tuple[list[str], list[list[str]]]:
    """Reads the header and all rows of a file, without empty lines."""
    with open(path, encoding=_python_name(encoding), newline="") as file:
        header, *rows = (
            row for row in csv.reader(file, **_dialect(path)) if row
        )
    return header, rows


def answer_lines(
    path: str,
    columns: Columns,
    encoding: str,
    answer: Callable[[list[str]], list[tuple[str, float]]],
    is_cleaned: bool = False,
) -> list[str]:
    """The rows of a file with `label` and `score` added, as lines of CSV.

    Args:
        path: The file.
        columns: Its columns.
        encoding: Of the file.
        answer: From texts to the (label, score) of each.
        is_cleaned: Whether texts are cleaned; see `clean_text`.

    Raises:
        UserError: It holds no texts, or cannot be read.
    """
    texts = read_texts(path, columns, encoding, is_cleaned)
    if not texts:
        raise UserError(f"--input={path}: holds no texts.")
    header, rows = read_cells(path, encoding)
    prefix = "predicted_" if {"label", "score"} & set(header) else ""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow((*header, f"{prefix}label", f"{prefix}score"))
    for cells, (label, score) in zip(rows, answer(texts), strict=True):
        writer.writerow((*cells, label, f"{score:.4f}"))
    return buffer.getvalue().removesuffix("\n").split("\n")


def make_text(text: str, keyword: str = "", clean: bool = False) -> str:
    """A text as a model reads it.

    Args:
        text: The cell.
        keyword: Of the keyword's column.
        clean: Whether the text is cleaned; see `clean_text`.
    """
    keyword = urllib.parse.unquote(keyword).strip()
    text = text.strip()
    text = f"{keyword}: {text}" if keyword else text
    return clean_text(text) if clean else text


def _open(
    path: str, columns: Columns, encoding: str
) -> tuple[dict[str, int], Iterator[tuple[int, dict[str, str]]]]:
    """Reads the header of a file.

    Returns:
        The position of each field of `Columns` that the file has; and an
        iterator over (line number, cell of each of them).
    """
    lines = read_lines(path, encoding)
    _, header = next(lines, (0, []))
    if not header:
        raise UserError(f"{path}: is empty.")
    positions = _find_columns(path, header, columns)
    return positions, _rows(path, lines, len(header), positions)


def _rows(
    path: str,
    lines: Iterator[tuple[int, list[str]]],
    width: int,
    positions: dict[str, int],
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, cells in lines:
        if len(cells) != width:
            raise UserError(
                f"{path}, line {number}: has {len(cells)} cells, the header "
                f"{width}. Mend the line"
                + ("." if _is_tsv(path) else ", or its quotes.")
            )
        yield number, {name: cells[at] for name, at in positions.items()}


def read_lines(
    path: str, encoding: str = "utf-8"
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of every line that is not empty.

    Raises:
        UserError: It is not in this encoding, or not CSV; with the line.
    """
    _check_encoding(path, encoding)
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding=_python_name(encoding), newline="") as file:
        reader = csv.reader(file, **_dialect(path))
        begin = 1  # of the row: an open quote is noticed lines below
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
                begin = reader.line_num + 1
        except csv.Error as error:
            raise UserError(
                f"{path}, line {begin}: is not CSV ({error}). Close its "
                "quotes; a quote inside of a cell is doubled."
            ) from None


def _is_tsv(path: str) -> bool:
    return path.lower().endswith((".tsv", ".tab"))


def _dialect(path: str) -> dict[str, Any]:
    if _is_tsv(path):
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    return {"dialect": "excel", "strict": True}


def _find_columns(
    path: str, header: list[str], columns: Columns
) -> dict[str, int]:
    positions = {}
    for flag in ("text", "label", "id", "keyword"):
        name = getattr(columns, flag)
        if flag == "id" and name is None and "id" in header:
            name = "id"
        if not name:
            continue
        if name not in header:
            shown = ", ".join(map(repr, map(cut, header[:SHOWN])))
            raise UserError(
                f"{path}, line 1: has no column {cut(name)!r}. Give one of "
                f"{shown} as --{flag}_column."
            )
        positions[flag] = header.index(name)
    return positions


def _python_name(encoding: str) -> str:
    """UTF-8 with or without a byte-order mark."""
    is_utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    return "utf-8-sig" if is_utf8 else encoding


def _check_encoding(path: str, encoding: str) -> None:
    """Raises `UserError`, with the line, where bytes are not of an encoding."""
    try:
        "".encode(encoding)
    except LookupError:
        raise UserError(
            f"--encoding={encoding}: no such encoding. Give utf-8, latin-1, "
            "cp1252, ..."
        ) from None
    with open(path, "rb") as file:
        # As bytes, lines of UTF-16 and UTF-32 cannot be told apart.
        is_wide = "16" in encoding or "32" in encoding
        for line, content in enumerate([file.read()] if is_wide else file, 1):
            try:
                content.decode(encoding)
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {line}: is not {encoding} (byte "
                    f"0x{content[error.start]:02x}). Give the file's own "
                    "--encoding, such as latin-1 or cp1252."
                ) from None


def _check_ids(path: str, column: str, ids: list[str]) -> None:
    if len(set(ids)) < len(ids):
        [(twice, count)] = collections.Counter(ids).most_common(1)
        raise UserError(
            f"{path}, column {column!r}: has {cut(twice)!r} {count} times. "
            "Give another --id_column, or none: --id_column= numbers the lines."
        )


def _check_labels(path: str, column: str, labels: list[str]) -> tuple[str, ...]:
    """The different labels, sorted.

    Raises:
        UserError: No classifier can be trained and tested on them.
    """
    counts = collections.Counter(labels)
    where = f"{path}, column {column!r}"
    if not counts:
        raise UserError(f"{path}: holds no examples.")
    if len(counts) == 1:
        raise UserError(
            f"{where}: has one label only, {cut(labels[0])!r}: there is "
            "nothing to classify. Give another --label_column."
        )
    if len(counts) > min(MOST_CLASSES, len(labels) / 2):
        raise UserError(
            f"{where}: has {len(counts)} different labels in {len(labels)} "
            "rows: this is not a column of classes. Give another "
            "--label_column."
        )
    once = [label for label, count in counts.items() if count == 1]
    if once:
        raise UserError(
            f"{where}: one example only has label {cut(once[0])!r}: it cannot "
            "be both trained on and tested. Remove it, or mend its label."
        )
    return sort_labels(counts)


def sort_labels(words: Iterable[str]) -> tuple[str, ...]:
    """Different labels in the order of their ids: numbers by value first."""
    return tuple(sorted(words, key=_by_value))


def _by_value(label: str) -> tuple[int, float, str]:
    """Sorts numbers by value, before all that are not numbers."""
    try:
        return (0, float(label), label)
    except ValueError:
        return (1, 0.0, label)


# === Texts ===


def clean_text(text: str) -> str:
    """Resolves HTML entities; links become `http`, mentions `@user`."""
    text = html.unescape(text)
    text = re.sub(r"https?://\S+", "http", text)
    return re.sub(r"(?<!\w)@\w+", "@user", text)


# === Duplicates ===


def group_texts(texts: Sequence[str | Sequence[str]]) -> np.ndarray:
    """Numbers texts; those that differ in case and space only share a number.

    Args:
        texts: each a text, or the texts of a pair.

    Returns:
        int64 [texts], from 0 on, in the order of first appearance.
    """
    known: dict[bytes, int] = {}
    return np.fromiter(
        (
            known.setdefault(_digest(normalize(text)), len(known))
            for text in texts
        ),
        np.int64,
        len(texts),
    )


def normalize(text: str | Sequence[str]) -> str:
    """What texts, or pairs of texts, that count as equal have in common."""
    parts = [text] if isinstance(text, str) else text
    return "\0".join(" ".join(part.lower().split()) for part in parts)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """Texts that a table holds more than once.

    Attributes:
        rows: Rows that repeat a text.
        conflicting: Texts that have several labels.
    """

    rows: int
    conflicting: int


def count_duplicates(groups: np.ndarray, labels: np.ndarray) -> Duplicates:
    """Counts the duplicates of grouped texts.

    Args:
        groups: int64 [texts]. See `group_texts`.
        labels: int64 [texts].
    """
    count = int(groups.max()) + 1
    low = np.full(count, np.iinfo(np.int64).max)
    high = np.full(count, -1)
    np.minimum.at(low, groups, labels)
    np.maximum.at(high, groups, labels)
    return Duplicates(len(groups) - count, int(np.sum(low != high)))
