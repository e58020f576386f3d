"""Writes measurements into a document, between its marks."""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError


def fill(path: str, name: str, text: str) -> None:
    """Replaces the text between `<!-- begin: NAME -->` and its end.

    Args:
        path: Of the document.
        name: Of the marks.
        text: The new text.

    Raises:
        UserError: The document has no such marks.
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    with open(path, encoding="utf-8") as file:
        before, found, rest = file.read().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise UserError(
            f"--document={path}: has no {begin} with its {end}. Add them "
            "where the table belongs."
        )
    text = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    files.write_atomically(path, text.encode())


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Writes a Markdown table; the second row is the rule below the first."""
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def measure_or_fill(
    measure: Callable[[str], Any],
    make_table: Callable[[Any], str],
    out: str,
    document: str,
    name: str,
) -> None:
    """Measures and prints a table, or writes a measurement into a document.

    Args:
        measure: Function from `out` to the measurement, which is stored there
            as JSON.
        make_table: Function from the measurement to Markdown.
        out: Folder.
        document: Its path; empty to measure.
        name: Of the marks in it.

    Raises:
        UserError: See `fill`.
    """
    path = os.path.join(out, "measured.json")
    if not document:
        cases = measure(out)
        os.makedirs(out, exist_ok=True)
        files.write_json(path, cases)
        print(make_table(cases))
        return
    with open(path, encoding="utf-8") as file:
        fill(document, name, make_table(json.load(file)))
