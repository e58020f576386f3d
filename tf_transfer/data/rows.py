"""A user's rows: columns by name, from CSV, TSV, JSON lines or Parquet.

A file's ending says how it is read: `.tsv` and `.tab` have tabs and ordinary
quotes, `.jsonl`, `.ndjson` and `.json` an object a line, `.parquet` is
Parquet's; anything else is CSV, as spreadsheets write it. pyarrow is imported
for Parquet alone, and only then.
"""

import dataclasses
import io
import json
import os
import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import tqdm

from tf_transfer.data import tables
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", ".tab", *JSON_LINES, *PARQUET)
SHOWN = 12  # columns that a message lists
BATCH = 50_000  # rows of Parquet that are turned into Python's at a time


@dataclasses.dataclass
class Rows:
    """Some columns of a file.

    Attributes:
        path: The file.
        columns: The cells of each column, as the file has them: text; in JSON
            and Parquet also numbers, lists, and None for nothing.
        lines: The line of each row in the file; of Parquet, its number.
    """

    path: str
    columns: dict[str, list[Any]]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def read_texts(self, column: str) -> list[str]:
        """The cells of a column as texts; see `text_of`."""
        return [text_of(self, row, column) for row in range(len(self))]

    def locate(self, row: int, column: str) -> str:
        """Where a cell stands, for messages."""
        what = "row" if is_parquet(self.path) else "line"
        return f"{self.path}, {what} {self.lines[row]}, column {cut(column)!r}"


def is_parquet(path: str) -> bool:
    """Whether a file is Parquet, by its ending."""
    return path.lower().endswith(PARQUET)


def is_json(path: str) -> bool:
    """Whether a file has a JSON object a line, by its ending."""
    return path.lower().endswith(JSON_LINES)


def read(
    path: str,
    names: Sequence[str] | None = None,
    encoding: str = "utf-8",
) -> Rows:
    """Reads columns of a file.

    Args:
        path: The file.
        names: Which columns; None for all.
        encoding: Of CSV and TSV; the other formats have theirs.

    Raises:
        UserError: There is no such file or column, or it cannot be read; with
            the line.
    """
    if not os.path.isfile(path):
        raise UserError(
            f"{path}: no such file. Give a CSV, TSV, JSON lines or Parquet "
            "file."
        )
    if is_parquet(path):
        return _read_parquet(path, names)
    if is_json(path):
        return _read_json(path, names)
    return _read_csv(path, names, encoding)


def check_columns(rows: Rows, names: Sequence[str]) -> None:
    """Raises `UserError` for a column that is not there."""
    _check_columns(rows.path, names, list(rows.columns), "")


def _check_columns(
    path: str, names: Sequence[str] | None, there: Sequence[str], line: str
) -> list[str]:
    """The columns that are read; raises `UserError` for one that is not."""
    if names is None:
        return list(there)
    for name in names:
        if name not in there:
            shown = ", ".join(map(repr, map(cut, list(there)[:SHOWN])))
            raise UserError(
                f"{path}{line}: has no column {cut(name)!r}. There are {shown}."
            )
    return list(dict.fromkeys(names))


def _bar(path: str, total: int | None, unit: str = " rows") -> tqdm.tqdm:
    return tqdm.tqdm(
        desc=f"reading {os.path.basename(path)}",
        total=total,
        unit=unit,
        leave=False,
        disable=None,
        delay=1,
    )


# === CSV and TSV ===


def _read_csv(path: str, names: Sequence[str] | None, encoding: str) -> Rows:
    lines = tables.read_lines(path, encoding)
    _, header = next(lines, (0, []))
    if not header:
        raise UserError(f"{path}: is empty.")
    kept = _check_columns(path, names, header, ", line 1")
    positions = [header.index(name) for name in kept]
    columns: list[list[str]] = [[] for _ in kept]
    numbers: list[int] = []
    for number, cells in lines:
        if len(cells) != len(header):
            raise UserError(
                f"{path}, line {number}: has {len(cells)} cells, the header "
                f"{len(header)}. Mend the line, or its quotes."
            )
        numbers.append(number)
        for column, position in zip(columns, positions):
            column.append(cells[position])
    return Rows(path, dict(zip(kept, columns)), numbers)


# === JSON lines ===


def _read_json(path: str, names: Sequence[str] | None) -> Rows:
    kept = list(names) if names is not None else []
    columns: dict[str, list[Any]] = {name: [] for name in kept}
    numbers: list[int] = []
    for number, row in _json_objects(path):
        if not numbers and names is not None:
            _check_columns(path, names, list(row), f", line {number}")
        if names is None:
            for name in row:
                columns.setdefault(name, [None] * len(numbers))
        numbers.append(number)
        for name, column in columns.items():
            column.append(row.get(name))
    return Rows(path, columns, numbers)


def _json_objects(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) of every line that is not empty."""
    with open(path, "rb") as file, _bar(path, None) as bar:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                row = json.loads(text) if text.strip() else None
                if "\\ud" in text.lower():  # perhaps half a character
                    json.dumps(row, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:
                raise UserError(
                    f"{path}, line {number}: holds half a character "
                    f"({error.object[error.start]!a}), such as of a cut "
                    "emoji. Remove it."
                ) from None
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{path}, line {number}: is not UTF-8 (byte "
                    f"0x{line[error.start]:02x}), which JSON is. Convert it."
                ) from None
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{path}, line {number}: is not JSON ({error}). Give an "
                    "object a line."
                ) from None
            if row is None and not text.strip():
                continue
            if not isinstance(row, dict):
                raise UserError(
                    f"{path}, line {number}: is not a JSON object. Give one a "
                    'line, such as {"text": "...", "label": "..."}.'
                )
            bar.update()
            yield number, row


# === Parquet ===


def _read_parquet(path: str, names: Sequence[str] | None) -> Rows:
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        reason = str(error).split("\n")[0].split(". ")[0]
        raise UserError(
            f"{path}: is not Parquet, or damaged ({reason})."
        ) from None
    with file:
        schema = file.schema_arrow
        kept = _check_columns(path, names, schema.names, "")
        for name in kept if names is not None else ():
            _check_type(path, name, schema.field(name).type)
        columns: dict[str, list[Any]] = {name: [] for name in kept}
        total = file.metadata.num_rows
        with _bar(path, total) as bar:
            for batch in file.iter_batches(BATCH, columns=kept):
                for name, column in columns.items():
                    column.extend(batch.column(name).to_pylist())
                bar.update(batch.num_rows)
    return Rows(path, columns, range(1, total + 1))


def _check_type(path: str, name: str, kind: Any) -> None:
    """Raises `UserError` for a column that holds neither text nor labels."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    good = (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_null(kind)
    )
    if not good:
        raise UserError(
            f"{path}, column {cut(name)!r}: holds {kind}. Give text, numbers, "
            "or lists of them."
        )


# === Cells ===


def text_of(rows: Rows, row: int, column: str) -> str:
    """A cell as text.

    Raises:
        UserError: It is empty, or no text.
    """
    cell = rows.columns[column][row]
    if isinstance(cell, str):
        if cell.strip():
            return cell
    elif cell is not None:
        raise UserError(
            f"{rows.locate(row, column)}: is no text but {cell!r:.60}. Give "
            "the column of the texts."
        )
    raise UserError(
        f"{rows.locate(row, column)}: is empty. Remove the row, or name "
        "another column."
    )


def words_of(rows: Rows, row: int, column: str) -> list[str]:
    """A cell as the words of a sentence: a list, or text with blanks.

    Raises:
        UserError: It is empty, or neither.
    """
    cell = rows.columns[column][row]
    words = cell.split() if isinstance(cell, str) else cell
    if not words or not isinstance(words, list):
        raise UserError(
            f"{rows.locate(row, column)}: holds no words. Give a list of them."
        )
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise UserError(
                f"{rows.locate(row, column)}: {word!r:.60} is no word."
            )
    return words


def word_of(cell: Any) -> str:
    """A label as text, whatever the file's format makes of it.

    1, 1.0, "1" and "1.0" are the same one; True and "True" are `true`.
    """
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if cell is None or cell != cell:
        return ""
    text = str(cell).strip()
    if text in ("True", "False"):
        return text.lower()
    # What pandas writes of numbers in a column with an empty cell.
    return text[:-2] if re.fullmatch(r"-?[0-9]+\.0", text) else text


# === Writing ===


def write(columns: dict[str, Sequence[Any]], ending: str) -> bytes:
    """The content of a file with these columns, in the format of an ending."""
    if ending in PARQUET:
        import pyarrow
        from pyarrow import parquet

        sink = io.BytesIO()
        arrays = {}
        for name, cells in columns.items():
            try:
                arrays[name] = pyarrow.array(list(cells))
            except (pyarrow.ArrowException, OverflowError):
                raise UserError(
                    f"column {cut(name)!r}: holds values of several types, "
                    "which Parquet cannot. Write .csv or .jsonl."
                ) from None
        parquet.write_table(pyarrow.table(arrays), sink)
        return sink.getvalue()
    if ending in JSON_LINES:
        names = list(columns)
        lines = (
            json.dumps(dict(zip(names, cells)), ensure_ascii=False, default=str)
            for cells in zip(*columns.values())
        )
        return "".join(f"{line}\n" for line in lines).encode()
    return "".join(_table_lines(columns, ending)).encode()


def _table_lines(
    columns: dict[str, Sequence[Any]], ending: str
) -> Iterable[str]:
    import csv

    if ending in (".tsv", ".tab"):  # quotes are ordinary characters there
        yield "\t".join(columns) + "\n"
        for cells in zip(*columns.values()):
            words = (" ".join(_cell(cell).split()) for cell in cells)
            yield "\t".join(words) + "\n"
        return
    buffer = io.StringIO(newline="")
    rows = [[_cell(cell) for cell in cells] for cells in zip(*columns.values())]
    # A lone carriage return ends a row for some readers, and is not quoted.
    has_return = any("\r" in cell for row in rows for cell in row)
    writer = csv.writer(
        buffer,
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if has_return else csv.QUOTE_MINIMAL,
    )
    writer.writerow(columns)
    writer.writerows(rows)
    yield buffer.getvalue()


def _cell(cell: Any) -> str:
    if isinstance(cell, (list, tuple)):
        return ";".join(map(str, cell))
    return "" if cell is None else str(cell)
