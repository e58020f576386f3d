"""Tables: the one reader of CSV, TSV, JSON lines and Parquet, and the writer.

The file extension selects the format: `.tsv` and `.tab` have tabs and ordinary
quotes, `.jsonl`, `.ndjson` and `.json` one JSON object per line, `.parquet` and
`.pq` are Parquet; any other file is CSV, as spreadsheets write it. A corpus
whose files differ gives its own `Dialect`. Only Parquet needs pyarrow.
"""

import csv
import dataclasses
import io
import itertools
import json
import math
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm
from absl import logging

from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, escape_formula

TABS = (".tsv", ".tab")
JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
EXTENSIONS = (".csv", *TABS, *JSON_LINES, *PARQUET)
SHOWN = 12  # names that a message lists
BATCH = 50_000  # rows of Parquet that are converted at a time
# Types of cells in Parquet, as pyarrow writes them.
CELL_TYPE = r"(large_)?string|u?int\d+|(half)?float|double|bool|null"

Content = tuple[Sequence[int], dict[str, list[Any]]]  # line of each row, cells


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
        skips_short: Whether rows with too few cells are left out and counted,
            instead of refused.
    """

    delimiter: str = ","
    quoting: str = "strict"
    header: tuple[str, ...] = ()
    is_ragged: bool = False
    skips_short: bool = False


CSV = Dialect()
SEPARATORS = {",": "commas", "\t": "tabs"}  # delimiters as messages name them
TSV = Dialect("\t", "none")


@dataclasses.dataclass
class Table:
    """Columns of files, whose cells know their file and line.

    Attributes:
        files: The files in their order, each with the line of each row; in
            Parquet, its number.
        columns: The cells of each column, as the files have them: text; in
            JSON and Parquet also numbers, lists, and None for no value.
        flags: The flag or key that names a column, such as `--text_column`.
    """

    files: list[tuple[str, Sequence[int]]]
    columns: dict[str, list[Any]]
    flags: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(lines) for _, lines in self.files)

    def locate(self, row: int, offset: int = 0) -> str:
        """The file and the line of a row, for messages.

        Args:
            row: The number of the row.
            offset: Lines of a text file from the row's first line on.
        """
        places = ((path, n) for path, lines in self.files for n in lines)
        path, number = next(itertools.islice(places, row, None))
        if is_parquet(path):
            return f"{path}, row {number}"
        line = number + offset if is_plain(path) else number
        return f"{path}, line {line}"

    def error(self, row: int, column: str, problem: str) -> UserError:
        """An error that names the file, the line and the column of a cell."""
        return UserError(
            f"{self.locate(row)}, column {cut(column)!r}: {problem}"
        )

    def empty(self, row: int, column: str) -> UserError:
        """The error for a cell that must not be empty."""
        flag = self.flags.get(column)
        other = f", or give another {flag}" if flag else ""
        return self.error(row, column, f"is empty. Remove the row{other}.")

    def texts(self, column: str) -> list[str]:
        """The cells of a column as texts.

        Raises:
            UserError: A cell is empty, or not a text.
        """
        for row, cell in enumerate(self.columns[column]):
            if cell is None or not str(cell).strip():
                raise self.empty(row, column)
        return self.convert(
            column,
            lambda cell: cell if isinstance(cell, str) else None,
            "is not a text. Give the column of the texts.",
        )

    def words(self, column: str) -> list[list[str]]:
        """The cells of a column as words: lists, or text with blanks.

        Raises:
            UserError: A cell is empty, or is neither.
        """

        sentences = []
        for row, cell in enumerate(self.columns[column]):
            words = cell.split() if isinstance(cell, str) else cell
            if not words or not isinstance(words, list):
                raise self.error(row, column, "has no words. Give a list.")
            for word in words:
                if not isinstance(word, str) or not word.strip():
                    raise self.error(
                        row, column, f"{word!r:.60} is not a word."
                    )
            sentences.append(words)
        return sentences

    def scores(
        self, column: str, low: float = -math.inf, high: float = math.inf
    ) -> list[float]:
        """The cells of a column as finite numbers from `low` to `high`.

        Raises:
            UserError: A cell is not.
        """
        kind = "a number"
        if math.isfinite(high):
            kind = f"a score from {low:g} to {high:g}"

        def parse(cell: Any) -> float | None:
            try:
                score = math.nan if isinstance(cell, bool) else float(cell)
            except (TypeError, ValueError):
                return None
            is_valid = math.isfinite(score) and low <= score <= high
            return score if is_valid else None

        problem = f"is not {kind}. Fix the row, or remove it."
        return self.convert(column, parse, problem)

    def convert(
        self, column: str, parse: Callable[[Any], Any], problem: str
    ) -> list[Any]:
        """The parsed cells of a column.

        Args:
            column: The name of the column.
            parse: Function of a cell; it returns None for an invalid one.
            problem: The problem of an invalid cell, for the message.

        Raises:
            UserError: A cell is invalid.
        """
        values = [parse(cell) for cell in self.columns[column]]
        for row, value in enumerate(values):
            if value is None:
                cell = self.columns[column][row]
                raise self.error(row, column, f"{cell!r:.60} {problem}")
        return values

    def label_ids(
        self,
        column: str,
        words: Sequence[str],
        labels: Sequence[str],
        rows: Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """int64 [words]. Some labels as numbers.

        Args:
            column: The column of the labels, for messages.
            words: The labels; one for each row, unless `rows` is given.
            labels: All labels in the order of their ids.
            rows: The row of each word.

        Raises:
            UserError: A label is unknown.
        """
        ids = {label: number for number, label in enumerate(labels)}
        for index, word in enumerate(words):
            if word not in ids:
                raise self.error(
                    index if rows is None else rows[index],
                    column,
                    f"{cut(word)!r} is not one of the labels: "
                    f"{list_names(labels)}. Fix the row, or remove it.",
                )
        return np.array([ids[word] for word in words], np.int64)

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
            UserError: A row has another label.
        """
        owners = np.repeat(range(len(self)), [*map(len, sets)])
        words = [*itertools.chain(*sets)]
        several = np.zeros((len(self), len(labels)), np.int64)
        several[owners, self.label_ids(column, words, labels, owners)] = 1
        return several

    def check_columns(self, flags: Mapping[str, str | None]) -> None:
        """Raises `UserError` if a column is missing; see `read_table`."""
        path = self.files[0][0]
        where = f"{path}, line 1" if is_plain(path) else path
        _choose_columns(where, flags, list(self.columns))


def join(tables: Sequence[Table]) -> Table:
    """The rows of several tables with the same columns, in order."""
    columns = {
        name: [*itertools.chain(*(table.columns[name] for table in tables))]
        for name in tables[0].columns
    }
    files = [file for table in tables for file in table.files]
    return Table(files, columns, tables[0].flags)


def is_parquet(path: str) -> bool:
    """Whether a file is Parquet, by its extension."""
    return path.lower().endswith(PARQUET)


def is_plain(path: str) -> bool:
    """Whether a file is delimited text, by its extension."""
    return not path.lower().endswith((*JSON_LINES, *PARQUET))


def read_table(
    path: str,
    columns: Mapping[str, str | None] | None = None,
    encoding: str = "",
    dialect: Dialect | None = None,
) -> Table:
    """Reads columns of a file.

    Args:
        path: The file.
        columns: The names of the columns, each with the flag or key that
            names it, or "", or None if the column may be missing. Without
            names, all columns are read.
        encoding: The encoding that the user gives for delimited text; empty
            if the file has to be UTF-8.
        dialect: The dialect of delimited text; None for that of the extension.

    Raises:
        UserError: The file or a column is missing, or a row cannot be read;
            with the line.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"{path}: no such file. Give a CSV, TSV, JSON lines or Parquet "
            "file."
        )
    if dialect is None and is_parquet(path):
        lines, cells = _read_parquet(path, columns)
    elif dialect is None and not is_plain(path):
        lines, cells = _read_json(path, columns)
    else:
        dialect = dialect or (TSV if path.lower().endswith(TABS) else CSV)
        lines, cells = _read_delimited(path, columns, encoding, dialect)
    return Table([(path, lines)], cells, columns or {})


def list_names(names: Sequence[str]) -> str:
    """The first names of a list, quoted, for messages."""
    return ", ".join(repr(cut(name)) for name in names[:SHOWN])


def _choose_columns(
    where: str,
    columns: Mapping[str, str | None] | None,
    header: Sequence[str],
    separator: str = "",
) -> list[str]:
    """The columns of a file that are read.

    Args:
        where: The file, and the line of its header.
        columns: See `read_table`.
        header: The columns of the file.
        separator: What separates the cells of delimited text.

    Raises:
        UserError: One is missing; or all are read, and two have one name.
    """
    if columns is None:
        columns = dict.fromkeys(header)
        for name in columns:
            if header.count(name) > 1:
                raise UserError(
                    f"{where}: has {header.count(name)} columns {cut(name)!r}. "
                    "Rename all but one."
                )
    for name, flag in columns.items():
        if name not in header and flag is not None:
            advice = f" Give one of them as {flag}." if flag else ""
            if separator and len(header) == 1:
                advice += f" Cells are separated by {separator}."
            raise UserError(
                f"{where}: has no column {cut(name)!r}. Its "
                f"columns are {list_names(header)}.{advice}"
            )
    return [name for name in columns if name in header]


# === Delimited text ===


def _read_delimited(
    path: str,
    columns: Mapping[str, str | None] | None,
    encoding: str,
    dialect: Dialect,
) -> Content:
    rows = read_rows(path, encoding, dialect)
    _, header = next(rows, (0, []))
    if not header:
        raise UserError(f"{path}: is empty.")
    names = _choose_columns(
        f"{path}, line 1", columns, header, SEPARATORS[dialect.delimiter]
    )
    positions = [header.index(name) for name in names]
    needed = max(positions) + 1
    cells: dict[str, list[str]] = {name: [] for name in names}
    lines, skipped = [], 0
    for line, row in rows:
        if len(row) >= needed:
            lines.append(line)
            for column, position in zip(cells.values(), positions):
                column.append(row[position])
        elif dialect.skips_short:
            skipped += 1
        else:
            raise _width_error(path, line, row, header[:needed], dialect)
    if skipped:
        logging.warning(
            "%s: left out %d broken rows (too few cells).", path, skipped
        )
    return lines, cells


def read_rows(
    path: str, encoding: str = "", dialect: Dialect = CSV
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells): of the header first, then of every row.

    Args:
        path: A file of delimited text.
        encoding: See `read_table`.
        dialect: The dialect of the file.

    Raises:
        UserError: A row cannot be read, or has not as many cells as the header.
    """
    header: Sequence[str] = dialect.header
    if header:
        yield 0, [*header]
    for line, row in _split_rows(path, encoding, dialect):
        header = header or row
        if len(row) != len(header) and not dialect.is_ragged:
            raise _width_error(path, line, row, header, dialect)
        yield line, row


def _width_error(
    path: str,
    line: int,
    row: Sequence[str],
    header: Sequence[str],
    dialect: Dialect,
) -> UserError:
    quotes = "" if dialect.quoting == "none" else ", or its quotes"
    return UserError(
        f"{path}, line {line}: has {len(row)} cells, needs {len(header)}: "
        f"{list_names(header)}. Fix the line{quotes}; cells are separated by "
        f"{SEPARATORS[dialect.delimiter]}."
    )


def _split_rows(
    path: str, encoding: str, dialect: Dialect
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of every row.

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
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}, line {begin}: is not CSV ({error}). Close its quotes; "
            "a quote inside a cell is doubled."
        ) from None


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
        with open(path, encoding=codec_of(encoding), newline=newline) as file:
            yield from _bar(path, file)
    except LookupError:
        raise UserError(
            f"--encoding={encoding}: no such encoding. Give utf-8, latin-1, "
            "cp1252, ..."
        ) from None
    except UnicodeError:  # also for UTF-16 without a byte-order mark
        raise _encoding_error(path, encoding) from None


def _encoding_error(path: str, encoding: str) -> UserError:
    """The error that names the first byte of another encoding."""
    content = pathlib.Path(path).read_bytes()
    start = 0
    try:
        content.decode(codec_of(encoding))
    except UnicodeDecodeError as error:
        start = error.start
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


def _bar(path: str, parts: Iterable[Any], rows: int = 1) -> Iterable[Any]:
    """A progress bar over the parts of a file, each of this many rows."""
    return tqdm.tqdm(
        parts,
        desc=f"reading {os.path.basename(path)}",
        unit=" rows",
        unit_scale=rows,
        leave=False,
        disable=None,
        delay=1,
    )


# === JSON lines ===


def _read_json(path: str, columns: Mapping[str, str | None] | None) -> Content:
    lines: list[int] = []
    cells: dict[str, list[Any]] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        row = _parse_object(where, line)
        if columns is None:
            for name in row:
                cells.setdefault(name, [None] * len(lines))
        elif not lines:
            names = _choose_columns(where, columns, list(row))
            cells = {name: [] for name in names}
        lines.append(number)
        for name, column in cells.items():
            column.append(row.get(name))
    return lines, cells


def _parse_object(where: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if "\\ud" in line.lower():  # perhaps half of a surrogate pair
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{where}: has half a character ({error.object[error.start]!a}), "
            "such as of a cut emoji. Remove it."
        ) from None
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{where}: is not JSON ({error}). Give one object per line."
        ) from None
    if not isinstance(row, dict):
        raise UserError(
            f"{where}: is not a JSON object. Give one per line, such as "
            '{"text": "...", "label": "..."}.'
        )
    return row


# === Parquet ===


def _read_parquet(
    path: str, columns: Mapping[str, str | None] | None
) -> Content:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            names = _choose_columns(path, columns, schema.names)
            for name in names if columns else ():
                _check_type(path, name, schema.field(name).type)
            cells: dict[str, list[Any]] = {name: [] for name in names}
            batches = file.iter_batches(BATCH, columns=names)
            for batch in _bar(path, batches, BATCH):
                for name, column in cells.items():
                    column.extend(batch.column(name).to_pylist())
            return range(1, file.metadata.num_rows + 1), cells
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise UserError(
            f"{path}: is not Parquet, or damaged ({reason})."
        ) from None


def _check_type(path: str, name: str, kind: Any) -> None:
    """Raises `UserError` for a column of neither text nor labels."""
    while hasattr(kind, "value_type"):  # of a list, or of categories
        kind = kind.value_type
    if not re.fullmatch(CELL_TYPE, str(kind)):
        raise UserError(
            f"{path}, column {cut(name)!r}: holds {kind}. Give text, numbers, "
            "or lists of them."
        )


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


def split_labels(cells: Iterable[Any], separator: str) -> list[list[str]]:
    """The labels in each cell: a list, or text with a separator."""
    lists = (
        cell if isinstance(cell, list) else word_of(cell).split(separator)
        for cell in cells
    )
    return [[*filter(None, map(word_of, some))] for some in lists]


# === Writing ===


def write_table(
    columns: dict[str, Sequence[Any]], extension: str, raw: bool = True
) -> bytes:
    """The content of a file with these columns, in the extension's format.

    Args:
        columns: The cells of each.
        extension: That of the file.
        raw: Whether cells of delimited text stay that a spreadsheet takes for
            formulas; see `formatting.escape_formula`.

    Raises:
        UserError: Parquet cannot hold the values of a column.
    """
    if extension in PARQUET:
        return _write_parquet(columns)
    rows = zip(*columns.values())
    if extension in JSON_LINES:
        lines = (
            json.dumps(dict(zip(columns, row)), ensure_ascii=False, default=str)
            for row in rows
        )
        return "".join(f"{line}\n" for line in lines).encode()
    table = [[*map(_cell_text, row)] for row in (columns, *rows)]
    if not raw:
        table = [[*map(escape_formula, row)] for row in table]
    if extension in TABS:  # a tab or a line break inside a cell cannot stay
        return "".join(
            "\t".join(re.sub(r"[\t\r\n]+", " ", cell) for cell in row) + "\n"
            for row in table
        ).encode()
    # A lone carriage return ends a row for some readers, and is not quoted.
    has_return = any("\r" in cell for row in table for cell in row)
    buffer = io.StringIO(newline="")
    csv.writer(
        buffer,
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL,
    ).writerows(table)
    return buffer.getvalue().encode()


def _write_parquet(columns: dict[str, Sequence[Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    arrays = {}
    for name, cells in columns.items():
        try:
            arrays[name] = pyarrow.array(list(cells))
        except (pyarrow.ArrowException, OverflowError):
            raise UserError(
                f"column {cut(name)!r}: has values of several types, which "
                "Parquet cannot hold. Write .csv or .jsonl."
            ) from None
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), sink)
    return sink.getvalue()


def _cell_text(cell: Any) -> str:
    if isinstance(cell, (list, tuple)):
        return ";".join(map(str, cell))
    return "" if cell is None else str(cell)
