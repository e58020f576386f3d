"""Tables: the one reader of CSV, TSV, JSON lines, Parquet, Excel; the writer.

The file extension selects the format: `.tsv` and `.tab` have tabs and ordinary
quotes, `.jsonl`, `.ndjson` and `.json` one JSON object per line, `.parquet` and
`.pq` are Parquet, `.xlsx` is Excel; any other file is CSV, as spreadsheets
write it. `.gz`, `.bz2` or `.xz` behind it is unpacked. The content shows
another separator or encoding, and lines above the header, which are then
printed. A corpus whose files differ gives its own `Dialect`, and is UTF-8.
Parquet needs pyarrow, and Excel openpyxl.
"""

import bz2
import codecs
import contextlib
import csv
import dataclasses
import difflib
import functools
import gzip
import io
import itertools
import json
import lzma
import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, IO, NamedTuple

import numpy as np

from tf_transfer.data import texts as texts_lib
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, escape_formula

TABS = (".tsv", ".tab")
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx", ".xlsm")
EXTENSIONS = (".csv", *TABS, *JSON_LINES, *PARQUET, *EXCEL)
# Functions that unpack an open file, by the file extension.
UNPACK: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
# First bytes of a file, extensions that fit them, and the problem of others.
SIGNATURES: tuple[tuple[bytes, tuple[str, ...], str], ...] = (
    (
        b"\xd0\xcf\x11\xe0",
        (),
        "is an Excel file of before 2007 (.xls), or has a password. Save it as "
        ".xlsx without a password, or as CSV.",
    ),
    (
        b"PK\3\4",
        EXCEL,
        "is an Excel file or a ZIP archive. Give it the extension .xlsx, or "
        "unpack it.",
    ),
    (b"PAR1", PARQUET, "is Parquet. Give it the extension .parquet."),
    (b"\x1f\x8b", (".gz",), "is packed by gzip. Give it the extension .gz."),
)
SHOWN = 12  # names that a message lists
SHOWN_ROWS = 10  # bad rows that a message lists
SAMPLE = 20  # rows that show the separator, and may be above the header
# What a spreadsheet writes where a formula has no value.
EXCEL_ERRORS = (
    "#N/A",
    "#NV",
    "#REF!",
    "#NAME?",
    "#VALUE!",
    "#DIV/0!",
    "#NULL!",
    "#NUM!",
    "#SPILL!",
    "#CALC!",
)

# The line of each row, and the cells of each column.
Content = tuple[list[int], dict[str, list[Any]]]


class BadRow(NamedTuple):
    """A row of a file that cannot be used.

    Attributes:
        path: The file.
        number: Its line, or its number in Parquet and Excel.
        problem: What is wrong, such as `is empty`.
        advice: A sentence.
        column: The column of the wrong cell; empty for the row.
        text: The cells that were read, for a person.
    """

    path: str
    number: int
    problem: str
    advice: str
    column: str = ""
    text: str = ""

    def __str__(self) -> str:
        column = f", column {cut(self.column)!r}" if self.column else ""
        return f"{_name_row(self.path, self.number)}{column}: {self.problem}."


class BadRows(UserError):
    """Rows cannot be used: the message lists the first, and counts all.

    Args:
        rows: The rows.
        advice: What else to do.

    Attributes:
        rows: The rows.
    """

    def __init__(self, rows: Sequence[BadRow], advice: str = "") -> None:
        self.rows, first = rows, rows[0]
        if len(rows) == 1:
            super().__init__(f"{first} {first.advice} {advice}".rstrip())
            return
        advice = advice or first.advice
        lines = [f"{first.path}: {len(rows):,} rows cannot be used. {advice}"]
        lines += map(str, rows[:SHOWN_ROWS])
        if len(rows) > SHOWN_ROWS:
            lines.append("...")
        super().__init__("\n  ".join(lines))


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How a file of delimited text is written.

    Attributes:
        delimiter: Separates the cells of a row.
        quoting: `strict`, CSV as spreadsheets write it; `lax`, CSV in which a
            quote inside a cell is an ordinary character; `none`, every quote
            is one, and each line is a row.
        header: Names of the columns if the file has no header line.
        is_ragged: Whether rows may have more or fewer cells than the header,
            as long as they have the columns that are read.
    """

    delimiter: str = ","
    quoting: str = "strict"
    header: tuple[str, ...] = ()
    is_ragged: bool = False


CSV = Dialect()
# Delimiters as messages name them.
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
TSV = Dialect("\t", "none")


@dataclasses.dataclass
class Table:
    """Columns of files, whose cells know their file and line.

    Attributes:
        path: The first file.
        places: The file and the line of each row; in Parquet and Excel, its
            number.
        columns: The cells of each column, as the files have them: text; in
            JSON and Parquet also numbers, lists, and None for no value.
        flags: The flag or key that names a column, such as `--text_column`.
    """

    path: str
    places: list[tuple[str, int]]
    columns: dict[str, list[Any]]
    flags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def locate(self, row: int, offset: int = 0) -> str:
        """The file and the line of a row, for messages.

        Args:
            row: The number of the row.
            offset: Lines of a text file from the row's first line on.
        """
        path, number = self.places[row]
        if is_plain(path):
            number += offset
        return _name_row(path, number)

    def take(self, rows: Sequence[int]) -> "Table":
        """The table of some rows."""
        columns = {
            name: [cells[row] for row in rows]
            for name, cells in self.columns.items()
        }
        places = [self.places[row] for row in rows]
        return Table(self.path, places, columns, self.flags)

    def without(self, bad: Iterable[BadRow]) -> "Table":
        """The table without some rows."""
        left_out = {(row.path, row.number) for row in bad}
        return self.take(
            [n for n, at in enumerate(self.places) if at not in left_out]
        )

    def texts(self, column: str) -> list[str]:
        """The cells of a column as texts.

        Raises:
            BadRows: Cells are empty, or no texts.
        """

        def parse(cell: Any) -> str:
            if cell is None or not str(cell).strip():
                raise ValueError("is empty")
            if texts_lib.is_blank(str(cell)):
                raise ValueError(f"has only invisible characters: {cut(cell)}")
            if not isinstance(cell, str):
                raise ValueError(f"{cell!r:.60} is not a text")
            return cell

        return self.convert(column, parse)

    def words(self, column: str) -> list[list[str]]:
        """The cells of a column as words: lists, or text with blanks.

        Raises:
            BadRows: Cells are empty, or are neither.
        """

        def parse(cell: Any) -> list[str]:
            words = cell.split() if isinstance(cell, str) else cell
            if not words or not isinstance(words, list):
                raise ValueError("has no words. Give a list")
            for word in words:
                if not isinstance(word, str) or not word.strip():
                    raise ValueError(f"{word!r:.60} is not a word")
            return words

        return self.convert(column, parse)

    def scores(
        self, column: str, low: float = -math.inf, high: float = math.inf
    ) -> list[float]:
        """The cells of a column as finite numbers from `low` to `high`.

        Raises:
            BadRows: Cells are not.
        """
        kind = "a number"
        if math.isfinite(high):
            kind = f"a score from {low:g} to {high:g}"

        def parse(cell: Any) -> float:
            try:
                score = math.nan if isinstance(cell, bool) else float(cell)
            except (TypeError, ValueError, OverflowError):
                score = math.nan
            if not (math.isfinite(score) and low <= score <= high):
                raise ValueError(f"{cell!r:.60} is not {kind}")
            return score

        return self.convert(column, parse)

    def convert(
        self,
        column: str,
        parse: Callable[[Any], Any],
        cells: Iterable[Any] | None = None,
    ) -> list[Any]:
        """The parsed cells of a column.

        Args:
            column: The name of the column.
            parse: Function of a cell; it raises `ValueError`, whose text is
                the problem, for an invalid one. Errors of a spreadsheet are
                invalid.
            cells: What is parsed in place of the cells, one for each row.

        Raises:
            BadRows: Cells are invalid.
        """
        advice = "Fix the row, or remove it."
        if self.flags.get(column):
            advice = (
                "Fix the row, or remove it, or give another "
                f"{self.flags[column]}."
            )
        values: list[Any] = []
        bad: list[BadRow] = []
        if cells is None:
            cells = self.columns[column]
        for row, cell in enumerate(cells):
            try:
                if isinstance(cell, str) and cell.strip() in EXCEL_ERRORS:
                    raise ValueError(f"{cell.strip()} is a spreadsheet's error")
                values.append(parse(cell))
            except ValueError as error:
                text = " | ".join(str(c[row]) for c in self.columns.values())
                bad.append(
                    BadRow(*self.places[row], str(error), advice, column, text)
                )
        if bad:
            raise BadRows(bad)
        return values

    def label_ids(
        self, column: str, words: Sequence[str], labels: Sequence[str]
    ) -> np.ndarray:
        """int64 [rows]. Labels as numbers.

        Args:
            column: The column of the labels, for messages.
            words: The label of each row.
            labels: All labels in the order of their ids.

        Raises:
            BadRows: Labels are unknown.
        """
        ids = {label: number for number, label in enumerate(labels)}
        numbers = self.convert(
            column, lambda word: _find_label(word, ids), words
        )
        return np.array(numbers, np.int64)

    def label_sets(
        self,
        column: str,
        sets: Sequence[Sequence[str]],
        labels: Sequence[str],
    ) -> np.ndarray:
        """int64 [rows, labels] of 0 and 1, from the labels of each row.

        Args:
            column: The column of the labels, for messages.
            sets: The labels of each row.
            labels: All labels.

        Raises:
            BadRows: Rows have another label.
        """
        ids = {label: number for number, label in enumerate(labels)}

        def parse(words: Sequence[str]) -> list[int]:
            return [_find_label(word, ids) for word in words]

        several = np.zeros((len(self), len(labels)), np.int64)
        for row, numbers in enumerate(self.convert(column, parse, sets)):
            several[row, numbers] = 1
        return several


def _find_label(word: str, ids: dict[str, int]) -> int:
    if word not in ids:
        raise ValueError(
            f"{cut(word)!r} is not one of the labels: {list_names([*ids])}"
        )
    return ids[word]


def join(tables: Sequence[Table]) -> Table:
    """The rows of several tables with the same columns, in order."""
    first = tables[0]
    joined = Table(
        first.path, [], {name: [] for name in first.columns}, first.flags
    )
    for table in tables:
        joined.places += table.places
        for name, cells in joined.columns.items():
            cells += table.columns[name]
    return joined


def extension_of(path: str) -> str:
    """The extension that names a file's format, in small letters."""
    stem, extension = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if extension in UNPACK else extension


def is_plain(path: str) -> bool:
    """Whether a file is delimited text, by its extension."""
    return extension_of(path) not in (*JSON_LINES, *PARQUET, *EXCEL)


def _name_row(path: str, number: int) -> str:
    extension = extension_of(path)
    has_lines = extension not in (*PARQUET, *EXCEL)
    if extension in JSON_LINES:
        has_lines = not _is_array(path)
    return f"{path}, {'line' if has_lines else 'row'} {number}"


@functools.cache
def notify(message: str) -> None:
    """Prints how a file is read, once: its texts may be read several times."""
    print(message, file=sys.stderr, flush=True)


def read_table(
    path: str,
    columns: Mapping[str, str | None] | None = None,
    encoding: str = "",
    dialect: Dialect | None = None,
    bad_rows: list[BadRow] | None = None,
    takes_all: bool = False,
) -> Table:
    """Reads columns of a file.

    Args:
        path: The file.
        columns: The names of the columns, each with the flag or key that
            names it, or "", or None if the column may be missing.
        encoding: The encoding of delimited text; empty for that of its
            content, and with a dialect for UTF-8.
        dialect: The dialect of delimited text; None for that of the extension,
            or another separator that the content shows.
        bad_rows: Gets the rows that cannot be read, which are left out.
        takes_all: Whether all other columns are read, too.

    Raises:
        UserError: The file or a column is missing, or rows cannot be read,
            without `bad_rows`; with the line.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"{path}: no such file. Give a CSV, TSV, JSON lines, Parquet or "
            "Excel file."
        )
    bad: list[BadRow] = [] if bad_rows is None else bad_rows
    wanted = Wanted(columns or {}, takes_all or columns is None)
    extension = extension_of(path)
    _check_signature(path)
    if dialect is None and is_plain(path):
        dialect, encoding = _sniff(path, encoding, wanted.needed)
    if dialect is not None:
        rows = read_rows(path, encoding, dialect, bad, wanted.needed)
        numbers, cells = _take_columns(path, rows, wanted, dialect, bad)
    elif extension in PARQUET:
        numbers, cells = _read_parquet(path, wanted)
    elif extension in JSON_LINES:
        numbers, cells = _read_json(path, wanted, bad)
    else:
        rows = _read_excel(path, bad, wanted.needed)
        numbers, cells = _take_columns(path, rows, wanted, CSV, bad)
    if bad and bad_rows is None:
        raise BadRows(bad)
    places = [(path, number) for number in numbers]
    return Table(path, places, cells, wanted.flags)


def _check_signature(path: str) -> None:
    """Raises `UserError` for a file of another format than its extension's."""
    with files.open_regular(path) as file:
        start = file.read(4)
    for signature, extensions, problem in SIGNATURES:
        is_other = not path.lower().endswith(extensions)
        if is_other and start.startswith(signature):
            raise UserError(f"{path}: {problem}")


@contextlib.contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    """Opens a file, and unpacks it if its extension says that it is packed."""
    extension = os.path.splitext(path.lower())[1]
    with files.open_regular(path) as file:
        if extension not in UNPACK:
            yield file
            return
        try:
            with UNPACK[extension](file) as content:
                yield content
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise _damaged(path, f"a {extension} file", error) from None


class Wanted(NamedTuple):
    """The columns that are read of a file.

    Attributes:
        flags: Their names, each with its flag; see `read_table`.
        takes_all: Whether all others are read, too.
    """

    flags: Mapping[str, str | None]
    takes_all: bool = False

    @property
    def needed(self) -> frozenset[str]:
        """The columns that may not be missing."""
        flags = self.flags.items()
        return frozenset(name for name, flag in flags if flag is not None)

    def choose(
        self, where: str, header: Sequence[str], separator: str = ""
    ) -> list[str]:
        """The columns of a file that are read.

        Args:
            where: The file, and the line of its header.
            header: The columns of the file.
            separator: What separates the cells of delimited text.

        Raises:
            UserError: A column is missing, or occurs twice.
        """
        names = [name for name in self.flags if name in header]
        if self.takes_all:
            names = [*dict.fromkeys(header)]
        for name in names:
            if header.count(name) > 1:
                raise UserError(
                    f"{where}: has {header.count(name)} columns {cut(name)!r}. "
                    "Rename all but one."
                )
        for name, flag in self.flags.items():
            if name not in header and flag is not None:
                advice = _describe_columns(name, flag, header, separator)
                raise UserError(
                    f"{where}: has no column {cut(name)!r}. {advice}"
                )
        return names


def _describe_columns(
    name: str, flag: str, header: Sequence[str], separator: str
) -> str:
    """The columns of a file, for the message that one is missing."""
    advice = f"Its columns are {list_names(header)}."
    if separator and len(header) == 1:  # of no table: perhaps a secret
        advice = f"With cells separated by {separator}, it has one column."
    near = difflib.get_close_matches(name, header, 1)
    if near:
        advice += f" Is {cut(near[0])!r} meant?"
    if flag == "--text_column" and any("," in column for column in header):
        advice += " Put a name that has a comma in double quotes."
    if flag:
        advice += f" Give one of them as {flag}."
    return advice


def list_names(names: Sequence[str]) -> str:
    """The first names of a list, quoted, for messages."""
    return ", ".join(repr(cut(name)) for name in names[:SHOWN])


# === Delimited text ===


def _sniff(
    path: str, encoding: str, needed: frozenset[str]
) -> tuple[Dialect, str]:
    """The dialect and the encoding that a file's content shows.

    The separator is that of the extension, or if it does not separate the
    first rows, another that does.

    Args:
        path: A file of delimited text.
        encoding: The encoding that the user gives, or empty.
        needed: The columns that may not be missing.
    """
    usual = TSV if extension_of(path) in TABS else CSV
    codec = encoding or _find_encoding(path)
    dialect = usual
    for other in (usual, *map(Dialect, SEPARATORS)):
        if _separates(path, codec, other, needed):
            dialect = other
            break
    is_usual = dialect.delimiter == usual.delimiter
    if not is_usual or codec != (encoding or "utf-8"):
        name = SEPARATORS[dialect.delimiter]
        notify(f"{path}: cells are separated by {name}; read as {codec}.")
    return dialect, codec


def _separates(
    path: str, encoding: str, dialect: Dialect, needed: frozenset[str]
) -> bool:
    """Whether most of the first rows have as many cells as the header, > 1."""
    rows: list[list[str]] = []
    with contextlib.suppress(UserError):
        read = _split_rows(path, encoding, dialect, [])
        rows += (row for _, row in itertools.islice(read, SAMPLE))
    widths = [*map(len, rows[_find_header(rows, needed) :])]
    if not widths or widths[0] == 1:
        return False
    return 2 * widths.count(widths[0]) > len(widths)


def _find_header(rows: Iterable[list[str]], needed: frozenset[str]) -> int:
    """The number of the first row that names the columns; else 0."""
    for number, row in enumerate(rows):
        if needed.issubset(row):
            return number
    return 0


def _drop_titles(
    path: str, rows: Iterator[tuple[int, list[str]]], needed: frozenset[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yields rows from the header on, such as below a title or `sep=;`."""
    first = [*itertools.islice(rows, SAMPLE)]
    start = _find_header((row for _, row in first), needed)
    if start:
        place = _name_row(path, first[start][0])
        notify(f"{place}: is the header. What is above it is not read.")
    yield from itertools.chain(first[start:], rows)


def _find_encoding(path: str) -> str:
    """The encoding of a text; UTF-8 if none fits.

    A text of another encoding has hardly a valid character of UTF-8. Where
    there are more of them, a few bytes are damaged, which is an error.
    """
    with _open(path) as file:
        content = file.read()
    text = content.decode("utf-8", "replace")
    wrong = text.count("\ufffd")
    if not wrong:
        return "utf-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    known = len(re.findall("[^\0-\x7f\ufffd]", text))
    if b"\0" in content or known >= wrong:
        return "utf-8"
    text = content.decode("cp1252", "replace")
    foreign = len(re.findall("[^\0-\x7f]", text))
    # Other alphabets have hardly a letter of ASCII.
    is_western = 2 * foreign < len(re.findall("[A-Za-z]", text))
    return "cp1252" if is_western and "\ufffd" not in text else "utf-8"


def _take_columns(
    path: str,
    rows: Iterator[tuple[int, list[str]]],
    wanted: Wanted,
    dialect: Dialect,
    bad: list[BadRow],
) -> Content:
    """The columns of rows, of which the first is the header."""
    number, header = next(rows, (0, []))
    if not header:
        raise UserError(f"{path}: is empty.")
    where = _name_row(path, number or 1)
    names = wanted.choose(where, header, SEPARATORS[dialect.delimiter])
    positions = [header.index(name) for name in names]
    needed = max(positions) + 1
    numbers: list[int] = []
    columns: list[list[str]] = [[] for _ in names]
    for number, row in rows:
        if len(row) < needed:  # of a ragged file
            bad.append(
                _wrong_width(path, number, row, header[:needed], dialect)
            )
            continue
        numbers.append(number)
        for cells, position in zip(columns, positions):
            cells.append(row[position])
    return numbers, dict(zip(names, columns))


def read_rows(
    path: str,
    encoding: str = "",
    dialect: Dialect = CSV,
    bad: list[BadRow] | None = None,
    needed: frozenset[str] = frozenset(),
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells): of the header first, then of every row.

    Args:
        path: A file of delimited text.
        encoding: The encoding; empty for UTF-8.
        dialect: The dialect of the file.
        bad: Gets the rows that cannot be read, or have not as many cells as
            the header. None: the first is an error.
        needed: Columns of the header; rows above it are left out.

    Raises:
        UserError: The header, or without `bad` a row, cannot be read.
    """
    header: Sequence[str] = dialect.header
    if header:
        yield 0, [*header]
    rows = _split_rows(path, encoding, dialect, bad)
    if not header:
        rows = _drop_titles(path, rows, needed)
    for line, row in rows:
        header = header or row
        if len(row) == len(header) or dialect.is_ragged:
            yield line, row
            continue
        wrong = _wrong_width(path, line, row, header, dialect)
        if bad is None:
            raise BadRows([wrong])
        bad.append(wrong)


def _wrong_width(
    path: str,
    line: int,
    row: Sequence[str],
    header: Sequence[str],
    dialect: Dialect,
) -> BadRow:
    quotes = "" if dialect.quoting == "none" else ", or its quotes"
    # One cell may be the secret of a file that is no table.
    names = f": {list_names(header)}" if len(header) > 1 else ""
    return BadRow(
        path,
        line,
        f"has {len(row)} cells, needs {len(header)}{names}",
        f"Fix the line{quotes}; cells are separated by "
        f"{SEPARATORS[dialect.delimiter]}.",
        text=dialect.delimiter.join(row),
    )


def _split_rows(
    path: str, encoding: str, dialect: Dialect, bad: list[BadRow] | None
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of every row.

    Args:
        path, encoding, dialect, bad: See `read_rows`.

    Raises:
        UserError: The file has another encoding, or is not CSV; with the line.
    """
    if dialect.quoting == "none":
        for number, line in enumerate(read_lines(path, encoding), 1):
            if line or dialect.is_ragged:
                yield number, line.split(dialect.delimiter)
        return
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(
        _decode_lines(path, encoding, newline=""),
        delimiter=dialect.delimiter,
        strict=dialect.quoting == "strict",
    )
    begin = 1  # of the row: an open quote is noticed at the end of the file
    while True:
        try:
            cells = next(reader)
            if cells:
                yield reader.line_num, cells
        except StopIteration:
            return
        except csv.Error as error:
            wrong = BadRow(
                path,
                begin,
                f"is not CSV ({error})",
                "Close its quotes; a quote inside a cell is doubled.",
            )
            # An open quote has taken all that follows.
            if bad is None or begin == 1 or "end of data" in str(error):
                raise BadRows([wrong]) from None
            bad.append(wrong)
        begin = reader.line_num + 1


def read_lines(path: str, encoding: str = "") -> Iterator[str]:
    """Yields the lines of a text file, except empty ones at its end.

    Args:
        path: The file.
        encoding: See `read_table`.

    Raises:
        UserError: The file has another encoding; with the line.
    """
    empty = 0
    for line in _decode_lines(path, encoding, newline="\n"):
        line = line.removesuffix("\n").removesuffix("\r")
        if line:
            yield from [*[""] * empty, line]
        empty = 0 if line else empty + 1


def codec_of(encoding: str) -> str:
    """Python's name of an encoding; UTF-8 may have a byte-order mark."""
    is_utf8 = encoding.lower().replace("_", "-") in ("", "utf-8", "utf8")
    return "utf-8-sig" if is_utf8 else encoding


def _decode_lines(path: str, encoding: str, newline: str) -> Iterator[str]:
    try:
        codec = codec_of(encoding)
        with (
            _open(path) as content,
            io.TextIOWrapper(content, codec, newline=newline) as file,
        ):
            yield from file
    except LookupError:
        raise UserError(
            f"--encoding={encoding}: no such encoding. Give utf-8, latin-1, "
            "cp1252, ..."
        ) from None
    except UnicodeError:  # also for UTF-16 without a byte-order mark
        raise _encoding_error(path, encoding) from None


def _encoding_error(path: str, encoding: str) -> UserError:
    """The error that names the first byte of another encoding."""
    with _open(path) as file:
        content = file.read()
    start = 0
    try:
        content.decode(codec_of(encoding))
    except UnicodeError as error:
        start = getattr(error, "start", 0)
    line = content.count(b"\n", 0, start) + 1
    advice = (
        "Give the file's own --encoding, such as latin-1 or cp1252."
        if encoding
        else "Convert the file to UTF-8."
    )
    return UserError(
        f"{path}, line {line}: is not {encoding or 'UTF-8'} (byte "
        f"0x{content[start]:02x}). {advice}"
    )


# === JSON lines ===


def _read_json(path: str, wanted: Wanted, bad: list[BadRow]) -> Content:
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    header: dict[str, None] = {}
    lines = read_lines(path)
    if _is_array(path):
        lines = _split_array(path)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _parse_object(line)
        except ValueError as error:
            problem, advice = error.args
            bad.append(BadRow(path, number, problem, advice, text=line))
            continue
        numbers.append(number)
        rows.append(row)
        header.update(dict.fromkeys(row))
    names = [*wanted.flags]
    if rows:
        names = wanted.choose(_name_row(path, numbers[0]), [*header])
    return numbers, {name: [row.get(name) for row in rows] for name in names}


def _is_array(path: str) -> bool:
    """Whether a JSON file is one array of objects."""
    with _open(path) as file:
        return bool(re.match(rb"(\xef\xbb\xbf)?\s*\[\s*\{", file.read(SAMPLE)))


def _split_array(path: str) -> Iterator[str]:
    """Yields the items of a JSON file that is one array, each in a line."""
    try:
        items = json.loads("\n".join(read_lines(path)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}). Fix it.") from None
    yield from map(json.dumps, items)


def _parse_object(line: str) -> dict[str, Any]:
    """The object of a line; raises `ValueError` of a problem and an advice."""
    try:
        row = json.loads(line)
        if "\\ud" in line.lower():  # perhaps half of a surrogate pair
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"has half a character ({error.object[error.start]!a}), such as of "
            "a cut emoji",
            "Remove it.",
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"is not JSON ({error})",
            "Give one object per line, or an array of objects.",
        ) from None
    if not isinstance(row, dict):
        raise ValueError(
            "is not a JSON object",
            'Give one per line, such as {"text": "...", "label": "..."}.',
        )
    return row


# === Parquet ===


def _read_parquet(path: str, wanted: Wanted) -> Content:
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = wanted.choose(path, file.schema_arrow.names)
            table = file.read(names)
            table.validate()
            cells = {name: table.column(name).to_pylist() for name in names}
            return [*range(1, table.num_rows + 1)], cells
    except UserError:
        raise
    except Exception as error:  # pyarrow's depend on what is damaged
        raise _damaged(path, "Parquet", error) from None


def _damaged(path: str, name: str, error: Exception) -> UserError:
    reason = cut(str(error).split("\n")[0].split(". ")[0])
    return UserError(
        f"{path}: is not {name}, or damaged ({type(error).__name__}: {reason})."
    )


# === Excel ===


def _read_excel(
    path: str, bad: list[BadRow], needed: frozenset[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of the first sheet, as the text that CSV would have.

    Args:
        path: The file.
        bad: Gets the rows with more cells than the header.
        needed: Columns of the header; rows above it are left out.
    """
    try:
        import openpyxl
    except ImportError:
        raise UserError(
            f"{path}: Excel needs openpyxl: pip install 'tf_transfer[excel]'. "
            "Or save the sheet as CSV."
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheet, *others = book.worksheets
        if others:
            notify(f"{path}: only its first sheet, {sheet.title!r}, is read.")
        cells = enumerate(sheet.iter_rows(values_only=True), 1)
        rows = ((number, _read_cells(row)) for number, row in cells)
        filled = ((number, row) for number, row in rows if row)
        width = 0  # of the header; empty cells may follow
        for number, row in _drop_titles(path, filled, needed):
            width = width or len(row)
            if len(row) > width:
                problem = f"has {len(row)} cells, and the header has {width}"
                bad.append(BadRow(path, number, problem, "Fix the row."))
            else:
                yield number, row + [""] * (width - len(row))
    except Exception as error:  # openpyxl's depend on what is damaged
        raise _damaged(path, "an Excel file", error) from None


def _read_cells(cells: Iterable[Any]) -> list[str]:
    """The cells of a row as texts, without empty ones at its end."""
    row = [*map(word_of, cells)]
    while row and not row[-1]:
        row.pop()
    return row


# === Labels ===


def word_of(cell: Any) -> str:
    """A label as text, independent of the format of its file.

    1, 1.0, "1" and "1.0" are the same label; True and "True" are `true`.
    """
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = str(cell).strip()
    if text in ("True", "False"):
        return text.lower()
    # pandas writes whole numbers so if their column has an empty cell.
    return re.sub(r"^(-?[0-9]+)\.0$", r"\1", text)


# === Writing ===


def write_table(columns: Mapping[str, Sequence[Any]], extension: str) -> bytes:
    """The content of a CSV or JSON lines file with these columns.

    Cells of CSV that a spreadsheet takes for formulas get an apostrophe; see
    `formatting.escape_formula`.

    Args:
        columns: The cells of each.
        extension: One of `JSON_LINES`, or of CSV.
    """
    rows = zip(*columns.values())
    if extension in JSON_LINES:
        lines = [
            json.dumps(dict(zip(columns, row)), ensure_ascii=False, default=str)
            for row in rows
        ]
        return "".join(f"{line}\n" for line in lines).encode()
    table = [
        [escape_formula(_cell_text(cell)) for cell in row]
        for row in (columns, *rows)
    ]
    # A lone carriage return ends a row for some readers, and is not quoted.
    has_return = any("\r" in cell for row in table for cell in row)
    buffer = io.StringIO(newline="")
    writer = csv.writer(
        buffer,
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL,
    )
    writer.writerows(table)
    return buffer.getvalue().encode()


def _cell_text(cell: Any) -> str:
    if isinstance(cell, (list, tuple)):
        return ";".join(map(str, cell))
    return "" if cell is None else str(cell)
