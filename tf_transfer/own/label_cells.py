"""How the cells of a column hold labels.

A cell holds one label, or several: a list, text with a separator, or a vector
of 0 and 1.
"""

import ast
import contextlib
import decimal
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tf_transfer.data.columns import Cell, normalize_cell, NUMBER, Table
from tf_transfer.data.task import SEPARATOR
from tf_transfer.own.task_file import TaskFile
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut, quote_names

# What a cell of 0 and 1 stands for.
YES_NO = {"0": False, "1": True, "false": False, "true": True}
# What may separate the labels of a cell; of equals, the first is chosen.
SEPARATORS = ";|\n\t,；，、"
# What may also separate them, or be a part of one label.
MARKS = " /+&-_:#~"
# The ends of two labels in brackets, as in <a><b>.
_BRACKETS = re.compile(r"[\w\s](><|\]\[|\)\(|\}\{)[\w\s]")
# NumPy writes a list of texts without commas.
_GAP = re.compile(r"""(['"])\s+(['"])""")
_VALUE = re.compile(NUMBER.pattern + "|True|False")
# How arrays are printed, such as tensor([1, 0], dtype=torch.int8).
_ARRAY = re.compile(r"[a-z.]+\((\[[^\[\]]*\])(, *\w+=[\w.']+)*\)")


def label_of(cell: Cell) -> str:
    """A label as text; see `normalize_cell`.

    Raises:
        ValueError: The cell is neither a text nor a number.
    """
    if not isinstance(cell, str | int | float | decimal.Decimal | None):
        raise ValueError(f"{cell!r:.60} is neither a text nor a number")
    return normalize_cell(cell)


def split_labels(cell: Cell, separator: str) -> list[str]:
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


class LabelCells(NamedTuple):
    """How the cells of a column hold several labels.

    Attributes:
        separator: The text between the labels of a cell; empty for none.
        names: Of cells that are vectors, the label of each number; empty
            where cells list their labels.
    """

    separator: str = ""
    names: tuple[str, ...] = ()

    def read(self, cell: Cell) -> list[str]:
        """The labels in a cell.

        Raises:
            ValueError: A label is neither a text nor a number, or the cell is
                not the vector that it should be.
        """
        labels = split_labels(cell, self.separator)
        if not self.names:
            return labels
        values = [YES_NO.get(label) for label in labels]
        if len(values) != len(self.names) or None in values:
            raise ValueError(
                f"{cell!r:.60} is not a list of {len(self.names)} numbers, "
                "each 0 or 1"
            )
        return [*itertools.compress(self.names, values)]


def choose_label_cells(task_file: TaskFile, table: Table) -> LabelCells:
    """How the cells of a task's column hold several labels; prints a guess.

    Args:
        task_file: The description of the task.
        table: The rows of its training files.

    Raises:
        UserError: A cell can be read in several ways.
    """
    column, labels = task_file.label[0], task_file.labels or ()
    cells, separator = table.columns[column], task_file.separator
    chosen = find_label_cells(cells, separator, labels)
    if chosen.names:
        option = task_file.name_option("`labels` of a task file", "labels")
        notify(
            task_file,
            "cells are read as 0 and 1 for each of "
            f"{quote_names(chosen.names)}",
            f"{option} gives other names.",
        )
        return chosen
    if separator:
        return chosen
    doubtful = None if labels else find_doubtful(cells, chosen.separator)
    if doubtful is not None:
        row, meaning = doubtful
        option = task_file.name_option("--label_separator", "separator")
        raise UserError(
            f"{table.locate(row)}, column {cut(column)!r}: "
            f"{cut(str(cells[row]))!r} may be {meaning}. Write several labels "
            'as a list, such as ["a", "b"]; or 0 and 1 for each label as lists '
            "of one length, such as [1, 0, 1]; or give the text between two "
            f"labels as {option}: one that does not occur, such as ';', if "
            "each cell is one label."
        )
    if chosen.separator not in ("", SEPARATOR):
        notify(task_file, f"labels are separated by {chosen.separator!r}")
    return chosen


def notify(task_file: TaskFile, message: str, advice: str = "") -> None:
    """Prints once how the column of the labels is read."""
    path, column = task_file.train.paths[0], task_file.label[0]
    option = task_file.name_option("--label_separator", "separator")
    advice = advice or f"{option} gives another separator."
    screen.notify_once(f"{path}, column {cut(column)!r}: {message}. {advice}")


def find_label_cells(
    cells: Sequence[Cell], separator: str, labels: Sequence[str]
) -> LabelCells:
    """How the cells of a column hold several labels.

    Lists of one length, two or more, that hold only 0 and 1 are vectors,
    unless the known labels have a 0 or 1.

    Args:
        cells: All cells of the column.
        separator: The text between two labels; empty to find it.
        labels: The known labels, which name the numbers of vectors; empty for
            none.
    """
    separator = separator or find_separator(cells, labels)
    rows = []
    for cell in cells:
        with contextlib.suppress(ValueError):
            rows.append(split_labels(cell, separator))
    rows = [row for row in rows if row]
    length = len(rows[0]) if rows else 0
    is_vector = (
        length > 1
        and all(len(row) == length for row in rows)
        and YES_NO.keys() >= {*itertools.chain(*rows)}
        and YES_NO.keys().isdisjoint(labels)
    )
    if not is_vector:
        return LabelCells(separator)
    numbered = tuple(f"label_{number}" for number in range(length))
    return LabelCells(separator, tuple(labels) or numbered)


def find_separator(cells: Iterable[Cell], labels: Sequence[str]) -> str:
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


def find_doubtful(
    cells: Sequence[Cell], separator: str
) -> tuple[int, str] | None:
    """A cell that can be read in several ways, where nothing says which.

    Such are lists of 0 and 1 of several lengths; and without a separator 101,
    "1 0 1", "<plot><music>", and "plot music" where "plot" and "music" are
    labels, too.

    Args:
        cells: All cells of a column, which are no vectors.
        separator: The text between two labels; empty for none.

    Returns:
        The number of the cell, and what it may be; None without one.
    """
    read = [*map(_read_list, cells)]
    for row, cell in enumerate(read):
        with contextlib.suppress(ValueError):
            labels = split_labels(cell, separator)
            if len({*labels}) < len(labels) and YES_NO.keys() >= {*labels}:
                return row, "labels, or 0 and 1 for each label"
    if separator or any(isinstance(c, list | tuple | set | dict) for c in read):
        return None
    return _find_doubtful_text([*map(normalize_cell, read)])


def _find_doubtful_text(texts: Sequence[str]) -> tuple[int, str] | None:
    """See `find_doubtful`: of cells that are no lists."""
    known = {*filter(None, texts)}
    if all(re.fullmatch(r"[01\s]+", text) for text in known):
        for row, text in enumerate(texts):
            if len(text) > 1:
                return row, "one label, or 0 and 1 for each label"
    for row, text in enumerate(texts):
        if _BRACKETS.search(text):
            return row, "one label, or several in brackets"
    for mark in MARKS:
        parts = [[*filter(None, map(str.strip, t.split(mark)))] for t in texts]
        recur = len({*itertools.chain(*parts)}) < len(known)
        for row, some in enumerate(parts):
            if len(some) > 1 and (recur or known.issuperset(some)):
                return row, f"one label, or {len(some)}"
    return None


def _read_list(cell: Cell) -> Cell:
    """The list that a text stands for; any other cell as it is."""
    if not isinstance(cell, str):
        return cell
    text = cell.strip()
    array = _ARRAY.fullmatch(text)
    if array:
        text = array[1]
    if not text.startswith(("[", "(", "{")):
        return text
    for parse in (json.loads, ast.literal_eval):
        try:
            items = parse(_GAP.sub(r"\1, \2", text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(items, list | tuple | set):
            return items
        if isinstance(items, dict):
            return items  # no label: an error says so
    words = text[1:-1].split()
    if text[0] == "[" and words and all(map(_VALUE.fullmatch, words)):
        # As NumPy writes numbers and truth values: [1. 0. 1.] and [True False].
        return [w if w in ("True", "False") else float(w) for w in words]
    # A list without quotes, such as [a, b].
    return re.sub(r"^\[(.*)\]$", r"\1", text, flags=re.DOTALL)
