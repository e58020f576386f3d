"""Figures and tables as a person reads them on a screen."""

import csv
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import TypeVar

# First characters of spreadsheet formulas; plain numbers are excepted.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
NUMBERS = re.compile(r"[-+\d.,%()± to]*")
MOST_QUOTED = 60  # characters of a value that a message quotes
MOST_NAMED = 4  # of a list
MOST_NAMES_QUOTED = 12

Cell = TypeVar("Cell")


def cut(text: str) -> str:
    """A text as a message quotes it: not all of a long one, in one line."""
    if not text.isprintable():
        text = ascii(text)
    if len(text) > MOST_QUOTED:
        return f"{text[:MOST_QUOTED]}... ({len(text):,} characters)"
    return text


def quote_names(names: Sequence[str]) -> str:
    """The first names of a list, quoted, for messages."""
    return ", ".join(repr(cut(name)) for name in names[:MOST_NAMES_QUOTED])


def quote_command(*words: str) -> str:
    """A command that a shell splits into these words."""
    return shlex.join(words)


def split_names(text: str) -> list[str]:
    """Names with commas between; a name with a comma is in double quotes."""
    if text and "," not in text:
        return [text]
    rows = csv.reader(text.splitlines(keepends=True), skipinitialspace=True)
    return [name for row in rows for name in row]


def escape_formula(cell: Cell) -> Cell | str:
    """A cell of a table; a text that begins as a formula gets an apostrophe.

    Other cells, numbers included, stay.
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    return cell if NUMBERS.fullmatch(cell) else f"'{cell}"


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells as text, its columns aligned."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) for cell, width in zip(cells, widths)
        ).rstrip()
        for cells in rows
    )


def size(count: float) -> str:
    """Bytes as text, such as `141 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds as text, such as `34 s`, `12 min` or `1 h 20 min`."""
    minutes = round(seconds / 60)
    if seconds < 180:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    days, hours = divmod(minutes // 60, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min"


def count(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def join_words(words: Sequence[str]) -> str:
    """`a, b and c`; of many, the first and how many more."""
    if len(words) < 2:
        return "".join(words)
    if len(words) > MOST_NAMED + 1:
        words = [*words[:MOST_NAMED], f"{len(words) - MOST_NAMED} more"]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def list_first(
    clauses: Sequence[str], mark: str = "; ", most: int = MOST_NAMED
) -> str:
    """The first clauses with a mark between them, and how many more."""
    if len(clauses) > most:
        clauses = [*clauses[:most], f"and {len(clauses) - most} more"]
    return mark.join(clauses)
