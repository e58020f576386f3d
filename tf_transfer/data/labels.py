"""The labels in a cell: one, a list, or text with a separator."""

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tf_transfer.data.columns import normalize_cell

# What may separate the labels of a cell; of equals, the first is chosen.
SEPARATORS = ";|\n\t,；，、"
# NumPy writes a list of texts without commas.
_GAP = re.compile(r"""(['"])\s+(['"])""")


def label_of(cell: Any) -> str:
    """A label as text; see `normalize_cell`.

    Raises:
        ValueError: The cell is neither a text nor a number.
    """
    if not isinstance(cell, str | int | float | None):
        raise ValueError(f"{cell!r:.60} is neither a text nor a number")
    return normalize_cell(cell)


def split_labels(cell: Any, separator: str) -> list[str]:
    """The labels in a cell.

    Args:
        cell: A list; or the text of one, as Python, NumPy or JSON write it; or
            text with a separator.
        separator: The text between two labels; empty for none.

    Raises:
        ValueError: A label is neither a text nor a number.
    """
    items = _read_list(cell)
    if isinstance(items, str) and separator:
        items = items.split(separator)
    if not isinstance(items, list | tuple | set):
        items = [items]
    return [*filter(None, map(label_of, items))]


def find_separator(cells: Iterable[Any], labels: Sequence[str]) -> str:
    """The separator whose labels recur most, on average; empty if none occurs.

    Args:
        cells: All cells of a column.
        labels: Labels that have no separator inside.
    """
    texts = [text for text in map(_read_list, cells) if isinstance(text, str)]

    def count_recurrence(separator: str) -> float:
        words = [w for text in texts for w in split_labels(text, separator)]
        return len(words) / max(len(set(words)), 1)

    candidates = [
        separator
        for separator in SEPARATORS
        if any(separator in text for text in texts)
        and not any(separator in label for label in labels)
    ]
    return max(candidates, key=count_recurrence, default="")


def _read_list(cell: Any) -> Any:
    """The list that a text stands for; any other cell as it is."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    if not text.startswith(("[", "(", "{")):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            items = parse(_GAP.sub(r"\1, \2", text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(items, list | tuple | set):
            return items
    # A list without quotes, such as [a, b].
    return re.sub(r"^\[(.*)\]$", r"\1", text, flags=re.DOTALL)
