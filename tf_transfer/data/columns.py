"""The columns of a table, whose cells know their file and line.

A cell is converted to a text, words, a score or a label; cells that cannot be
are `BadRows`, an error with file, line and column of each.
"""

import dataclasses
import datetime
import decimal
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from tf_transfer.data import file_formats, texts as texts_lib
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_names

# A value in a table: text in CSV, else the type that the reader returns.
Cell = (
    str
    | int
    | float
    | decimal.Decimal
    | datetime.date
    | datetime.time
    | datetime.timedelta
    | bytes
    | None
    | Collection["Cell"]
)
C = TypeVar("C")
Parsed = TypeVar("Parsed")

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
SHOWN_ROWS = 10  # bad rows that a message lists
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
        row = file_formats.name_row(self.path, self.number)
        return f"{row}{column}: {self.problem}."


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
    columns: Mapping[str, Sequence[Cell]]
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
        if file_formats.is_plain(path):
            number += offset
        return file_formats.name_row(path, number)

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

        def parse(cell: Cell) -> str:
            if cell is None or not str(cell).strip():
                raise ValueError("is empty")
            if texts_lib.is_blank(str(cell)):
                raise ValueError(
                    f"has only invisible characters: {cut(str(cell))}"
                )
            if not isinstance(cell, str):
                raise ValueError(f"{cell!r:.60} is not a text")
            return cell

        return self.convert(column, parse)

    def words(self, column: str) -> list[list[str]]:
        """The cells of a column as words: lists, or text with blanks.

        Raises:
            BadRows: Cells are empty, or are neither.
        """

        def parse(cell: Cell) -> list[str]:
            if isinstance(cell, str):
                cell = cell.split()
            if not cell or not isinstance(cell, list):
                raise ValueError("has no words. Give a list")
            return [*map(_parse_word, cell)]

        return self.convert(column, parse)

    def lists(self, column: str) -> list[list[str]]:
        """The cells of a column of `tagged.read_table`: lists of texts."""
        cells = self.columns[column]
        return [[*map(str, cell)] for cell in cells if isinstance(cell, list)]

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

        def parse(cell: Cell) -> float:
            score = parse_number(cell)
            if not (math.isfinite(score) and low <= score <= high):
                raise ValueError(f"{cell!r:.60} is not {kind}")
            return score

        return self.convert(column, parse)

    def convert(
        self, column: str, parse: Callable[[Cell], Parsed]
    ) -> list[Parsed]:
        """The parsed cells of a column.

        Args:
            column: The name of the column.
            parse: Function of a cell; it raises `ValueError`, whose text is
                the problem, for an invalid one. Errors of a spreadsheet are
                invalid.

        Raises:
            BadRows: Cells are invalid.
        """
        return self._convert(column, parse, self.columns[column])

    def _convert(
        self, column: str, parse: Callable[[C], Parsed], cells: Iterable[C]
    ) -> list[Parsed]:
        """See `convert`; `cells`, one for each row, are parsed."""
        advice = "Fix the row, or remove it."
        if self.flags.get(column):
            advice = (
                "Fix the row, or remove it, or give another "
                f"{self.flags[column]}."
            )
        values: list[Parsed] = []
        bad: list[BadRow] = []
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
        numbers = self._convert(
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
        for row, numbers in enumerate(self._convert(column, parse, sets)):
            several[row, numbers] = 1
        return several


def _parse_word(word: Cell) -> str:
    if not isinstance(word, str) or not word.strip():
        raise ValueError(f"{word!r:.60} is not a word")
    return word


def _find_label(word: str, ids: dict[str, int]) -> int:
    if word not in ids:
        raise ValueError(
            f"{cut(word)!r} is not one of the labels: {quote_names([*ids])}"
        )
    return ids[word]


def concatenate_tables(tables: Sequence[Table]) -> Table:
    """The rows of several tables with the same columns, in order."""
    first = tables[0]
    columns = {
        name: [cell for table in tables for cell in table.columns[name]]
        for name in first.columns
    }
    places = [place for table in tables for place in table.places]
    return Table(first.path, places, columns, first.flags)


def parse_number(cell: Cell) -> float:
    """The number in a cell; NaN where it holds none.

    A number is what files call one: of Python's own, such as 5_0 or ５, none
    is.
    """
    if isinstance(cell, str) and NUMBER.fullmatch(cell.strip()):
        return float(cell)
    if isinstance(cell, bool):
        return math.nan
    if not isinstance(cell, int | float | decimal.Decimal):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf


def normalize_cell(cell: Cell) -> str:
    """A label as text, independent of the format of its file.

    1, 1.0, "1" and "1.0" are the same label, and so are True, "True" and
    "TRUE", which are `true`.
    """
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, decimal.Decimal):  # 1.50 is 1.5
        cell = format(cell.normalize(), "f")
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    text = str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    # pandas writes whole numbers so if their column has an empty cell.
    return re.sub(r"^(-?[0-9]+)\.0$", r"\1", text)
