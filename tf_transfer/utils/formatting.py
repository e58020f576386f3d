"""Figures and tables as a person reads them on a screen."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

# First characters of spreadsheet formulas; plain numbers are excepted.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
NUMBERS = re.compile(r"[-+\d.,%()± to]*")
MOST_QUOTED = 60  # characters of a value that a message quotes


def cut(value: Any) -> str:
    """A value as a message quotes it: not all of a long one, in one line."""
    text = str(value)
    if not text.isprintable():
        text = ascii(text)
    if len(text) > MOST_QUOTED:
        return f"{text[:MOST_QUOTED]}... ({len(text):,} characters)"
    return text


def escape_formula(cell: Any) -> Any:
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
    """Seconds as text, such as `1 h 20 min`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    days, hours = divmod(minutes // 60, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes % 60} min"
