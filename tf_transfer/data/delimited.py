"""Delimited text: CSV, TSV and their like.

A `Dialect` describes how a file is written. Where none is given, the content
shows the separator and the encoding, and lines above the header, which are then
printed.
"""

import contextlib
import csv
import dataclasses
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence

from tf_transfer.data import file_formats
from tf_transfer.data.columns import BadRow, BadRows
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import quote_names

Rows = Iterator[tuple[int, list[str]]]  # line number, cells
SAMPLE = 20  # rows that show the separator, and may be above the header


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


def read_rows(
    path: str,
    encoding: str = "",
    dialect: Dialect = CSV,
    bad: list[BadRow] | None = None,
    needed: frozenset[str] = frozenset(),
) -> Rows:
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
        rows = drop_titles(path, rows, needed)
    for line, row in rows:
        header = header or row
        if len(row) == len(header) or dialect.is_ragged:
            yield line, row
            continue
        wrong = wrong_width(path, line, row, header, dialect)
        if bad is None:
            raise BadRows([wrong])
        bad.append(wrong)


def wrong_width(
    path: str,
    line: int,
    row: Sequence[str],
    header: Sequence[str],
    dialect: Dialect,
) -> BadRow:
    """A row that has more or fewer cells than the header."""
    quotes = "" if dialect.quoting == "none" else ", or its quotes"
    # One cell may be the secret of a file that is no table.
    names = f": {quote_names(header)}" if len(header) > 1 else ""
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
) -> Rows:
    """Yields (line number, cells) of every row.

    Args:
        path: See `read_rows`.
        encoding: See `read_rows`.
        dialect: See `read_rows`.
        bad: See `read_rows`.

    Raises:
        UserError: The file has another encoding, or is not CSV; with the line.
    """
    if dialect.quoting == "none":
        for number, line in enumerate(
            file_formats.read_lines(path, encoding), 1
        ):
            if line or dialect.is_ragged:
                yield number, line.split(dialect.delimiter)
        return
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(
        file_formats.decode_lines(path, encoding, newline=""),
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


# === What the content shows ===


def sniff(
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
    usual = TSV if file_formats.extension_of(path) in file_formats.TABS else CSV
    codec = encoding or file_formats.find_encoding(path)
    dialect = usual
    for other in (usual, *map(Dialect, SEPARATORS)):
        if _separates(path, codec, other, needed):
            dialect = other
            break
    is_usual = dialect.delimiter == usual.delimiter
    if not is_usual or codec != (encoding or "utf-8"):
        name = SEPARATORS[dialect.delimiter]
        screen.notify_once(
            f"{path}: cells are separated by {name}; read as {codec}."
        )
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


def drop_titles(path: str, rows: Rows, needed: frozenset[str]) -> Rows:
    """Yields rows from the header on, such as below a title or `sep=;`."""
    first = [*itertools.islice(rows, SAMPLE)]
    start = _find_header((row for _, row in first), needed)
    if start:
        place = file_formats.name_row(path, first[start][0])
        screen.notify_once(
            f"{place}: is the header. What is above it is not read."
        )
    yield from itertools.chain(first[start:], rows)
