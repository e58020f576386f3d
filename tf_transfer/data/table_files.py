"""Tables: the one reader of CSV, TSV, JSON, Parquet, Excel; the writer.

The file extension selects the format: `.tsv` and `.tab` have tabs and ordinary
quotes, `.jsonl`, `.ndjson` and `.json` are JSON, `.parquet` and `.pq` Parquet,
`.feather`, `.arrow` and `.ipc` Feather, `.xlsx` is Excel; any other file is
CSV, as spreadsheets write it. `delimited` reads CSV and TSV, `json_tables`
JSON, and `excel` Excel.
"""

import csv
import difflib
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tf_transfer.data import delimited, excel, file_formats, json_tables
from tf_transfer.data.columns import BadRow, BadRows, Cell, Table
from tf_transfer.data.delimited import Dialect, Rows
from tf_transfer.data.file_formats import JSON_LINES
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, escape_formula, quote_names
from tf_transfer.utils.json_files import Record

# The line of each row, and the cells of each column.
Content = tuple[list[int], Mapping[str, Sequence[Cell]]]


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
    extension = file_formats.extension_of(path)
    file_formats.check_signature(path)
    if dialect is None and file_formats.is_plain(path):
        dialect, encoding = delimited.sniff(path, encoding, wanted.needed)
    if dialect is not None:
        rows = delimited.read_rows(path, encoding, dialect, bad, wanted.needed)
        numbers, cells = _take_columns(path, rows, wanted, dialect, bad)
    elif extension in (*file_formats.PARQUET, *file_formats.ARROW):
        numbers, cells = _read_arrow(path, wanted)
    elif extension in JSON_LINES:
        numbers, cells = _read_json(path, wanted, bad)
    else:
        rows = excel.read_rows(path, bad, wanted.needed)
        numbers, cells = _take_columns(path, rows, wanted, delimited.CSV, bad)
    places = [(path, number) for number in numbers]
    table = Table(path, places, cells, wanted.flags)
    repeated = _find_headers(table)
    bad += repeated
    if bad and bad_rows is None:
        raise BadRows(bad)
    return table.without(repeated) if repeated else table


def _find_headers(table: Table) -> list[BadRow]:
    """The rows that repeat the header, such as of files put together."""
    header = tuple(table.columns)
    if len(header) < 2:  # one cell may be a text like any other
        return []
    return [
        BadRow(*place, "repeats the header", "Remove the row.")
        for place, row in zip(table.places, zip(*table.columns.values()))
        if row == header
    ]


# === Columns ===


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
        if self.flags:
            for name in [name for name in names if name not in self.flags]:
                if header.count(name) > 1:
                    _notify_of_column(where, name, "occurs twice")
                    names.remove(name)
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
    advice = f"Its columns are {quote_names(header)}."
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


def _take_columns(
    path: str,
    rows: Rows,
    wanted: Wanted,
    dialect: Dialect,
    bad: list[BadRow],
) -> Content:
    """The columns of rows, of which the first is the header."""
    number, header = next(rows, (0, []))
    if not header:
        raise UserError(f"{path}: is empty.")
    where = file_formats.name_row(path, number or 1)
    names = wanted.choose(
        where, header, delimited.SEPARATORS[dialect.delimiter]
    )
    positions = [header.index(name) for name in names]
    needed = max(positions) + 1
    numbers: list[int] = []
    columns: list[list[str]] = [[] for _ in names]
    for number, row in rows:
        if len(row) < needed:  # of a ragged file
            bad.append(
                delimited.wrong_width(
                    path, number, row, header[:needed], dialect
                )
            )
            continue
        numbers.append(number)
        for cells, position in zip(columns, positions):
            cells.append(row[position])
    return numbers, dict(zip(names, columns))


# === JSON ===


def _read_json(path: str, wanted: Wanted, bad: list[BadRow]) -> Content:
    numbers: list[int] = []
    rows: list[Record] = []
    header: dict[str, None] = {}
    for number, row in json_tables.read_rows(path, bad, wanted.needed):
        numbers.append(number)
        rows.append(row)
        header.update(dict.fromkeys(row))
    names = [*wanted.flags]
    if rows:
        names = wanted.choose(
            file_formats.name_row(path, numbers[0]), [*header]
        )
    return numbers, {name: [row.get(name) for row in rows] for name in names}


# === Parquet and Feather ===


def _read_arrow(path: str, wanted: Wanted) -> Content:
    """The columns of a file that pyarrow reads."""
    from pyarrow import feather, parquet

    is_parquet = file_formats.extension_of(path) in file_formats.PARQUET
    cells: dict[str, list[Cell]] = {}
    try:
        if is_parquet:
            with parquet.ParquetFile(path) as file:
                names = wanted.choose(path, file.schema_arrow.names)
                table = file.read(names)
        else:
            table = feather.read_table(path)
            names = wanted.choose(path, table.column_names)
        table.validate()
        for name in names:
            try:
                cells[name] = table.column(name).to_pylist()
            except (OverflowError, ValueError) as error:  # of a far date
                if name in wanted.flags:
                    raise
                _notify_of_column(path, name, f"cannot be read ({error})")
        return [*range(1, table.num_rows + 1)], cells
    except UserError:
        raise
    except Exception as error:  # pyarrow's depend on what is damaged
        name = "Parquet" if is_parquet else "Feather"
        raise file_formats.damaged_error(path, name, error) from None


def _notify_of_column(path: str, name: str, problem: str) -> None:
    """Prints that a column that is not needed is left out."""
    screen.notify_once(
        f"{path}: column {cut(name)!r} {problem}. It is left out."
    )


# === Writing ===


def write_table(columns: Mapping[str, Sequence[Cell]], extension: str) -> bytes:
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


def _cell_text(cell: Cell) -> str:
    if isinstance(cell, (list, tuple)):
        return ";".join(map(str, cell))
    return "" if cell is None else str(cell)
