"""Reads the tab-separated files of the official GLUE download."""

from collections.abc import Sequence

import numpy as np
from absl import logging

from tf_transfer.data.task import Examples
from tf_transfer.data.task import SCORE_RANGE
from tf_transfer.data.task import Task
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut


def read_tsv(task: Task, path: str, split: str) -> Examples:
    """Reads one official file.

    Quotes are ordinary characters, a byte-order mark may stand first. Hidden
    test sets have a header even where the training file has none.

    Args:
        task: Says what the columns and the labels are called.
        path: The file.
        split: Its split; the labels of `test...` are hidden.

    Raises:
        UserError: With the file, the line and the column.
    """
    is_hidden = split.startswith("test")
    header: Sequence[str] | None = None if is_hidden else task.header
    lines = read_lines(path)
    first_line = 1
    if header is None:
        header, lines, first_line = lines[0].split("\t"), lines[1:], 2
    columns = [_find_column(header, name, path) for name in task.texts]
    if not is_hidden:
        columns.append(_find_column(header, task.label, path))
    needed = max(columns) + 1
    rows, broken = [], 0
    labels: list[int | float] = []
    for number, line in enumerate(lines, first_line):
        cells = line.split("\t")
        if len(cells) < needed:
            if task.skip_broken:
                broken += 1
                continue
            raise UserError(
                f"{path}, line {number}: has {len(cells)} columns, needs "
                f"{needed}. Columns are separated by tabs: mend or remove "
                "the line."
            )
        rows.append([cells[column] for column in columns[: len(task.texts)]])
        if not is_hidden:
            where = f"{path}, line {number}, column {task.label!r}"
            labels.append(_parse_label(task, cells[columns[-1]], where))
    if not rows:
        raise UserError(f"{path}: holds no examples.")
    if broken:
        logging.warning(
            "%s: left out %d broken rows (too few columns).", path, broken
        )
    return Examples(
        np.arange(len(rows)),
        [list(column) for column in zip(*rows)],
        None if is_hidden else np.asarray(labels, task.label_dtype),
    )


def read_lines(path: str) -> list[str]:
    """The lines of a text file, without empty ones at its end.

    Raises:
        UserError: It is empty, or not UTF-8.
    """
    text = read_text(path)
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise UserError(f"{path}: is empty.")
    return lines


def read_text(path: str) -> str:
    """The content of a text file.

    Raises:
        UserError: It is not UTF-8; with the line.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{path}, line {line}: is not UTF-8 (byte "
            f"0x{content[error.start]:02x}). Convert the file to UTF-8."
        ) from None


def check_score(score: float, word: str, where: str) -> float:
    """The score, if it is within `SCORE_RANGE`.

    Args:
        score: What `word` says; NaN where it is not a number.
        word: The label in the file.
        where: The file, the line and the column, for the message.

    Raises:
        UserError: It is not.
    """
    low, high = SCORE_RANGE
    if not low <= score <= high:
        raise UserError(
            f"{where}: {cut(word)!r} is not a score from {low:g} to {high:g}."
        )
    return score


def _find_column(header: Sequence[str], name: str, path: str) -> int:
    if name not in header:
        raise UserError(
            f"{path}, line 1: has no column {name!r}; its columns are "
            f"{', '.join(map(repr, map(cut, header[:12])))}."
        )
    return list(header).index(name)


def _parse_label(task: Task, word: str, where: str) -> int | float:
    if task.labels is None:
        try:
            score = float(word)
        except ValueError:
            score = float("nan")
        return check_score(score, word, where)
    if word not in task.labels:
        raise UserError(
            f"{where}: {cut(word)!r} is not one of {', '.join(task.labels)}."
        )
    return task.labels.index(word)
