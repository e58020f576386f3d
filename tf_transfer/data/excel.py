"""Excel: the first sheet of a file, as the text that its CSV would have.

Needs openpyxl.
"""

import io
import re
import warnings
import zipfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tf_transfer.data import delimited, file_formats, number_formats
from tf_transfer.data.columns import BadRow
from tf_transfer.data.delimited import Rows
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from openpyxl.cell import Cell

# Names of Strict Open XML, and the usual ones, which openpyxl knows.
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_USUAL = rb"http://schemas.openxmlformats.org/\1/2006/"


def read_rows(path: str, bad: list[BadRow], needed: frozenset[str]) -> Rows:
    """Yields (number, cells) of the first sheet's rows, from the header on.

    The rows are those that the sheet holds, whatever size the file states.

    Args:
        path: The file.
        bad: Gets the rows with more cells than the header.
        needed: Columns of the header; rows above it are left out.

    Raises:
        UserError: The file is damaged, or openpyxl is missing.
    """
    try:
        import openpyxl
    except ImportError:
        raise UserError(
            f"{path}: Excel needs openpyxl: pip install 'tf_transfer[excel]'. "
            "Or save the sheet as CSV."
        ) from None
    unread: set[str] = set()  # formats
    try:
        with warnings.catch_warnings():  # of files without styles, and others
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(
                _translate_strict(path), read_only=True, data_only=True
            )
        sheet, *others = book.worksheets
        if others:
            screen.notify_once(
                f"{path}: only its first sheet, {sheet.title!r}, is read."
            )
        sheet.reset_dimensions()
        cells = enumerate(sheet.iter_rows(), 1)
        rows = ((number, _read_cells(row, unread)) for number, row in cells)
        filled = ((number, row) for number, row in rows if row)
        width = 0  # of the header; empty cells may follow
        for number, row in delimited.drop_titles(path, filled, needed):
            width = width or len(row)
            if len(row) > width:
                problem = f"has {len(row)} cells, and the header has {width}"
                bad.append(BadRow(path, number, problem, "Fix the row."))
            else:
                yield number, row + [""] * (width - len(row))
    except Exception as error:  # openpyxl's depend on what is damaged
        raise file_formats.damaged_error(path, "an Excel file", error) from None
    if unread:
        screen.notify_once(
            f"{path}: has numbers of the format {', '.join(sorted(unread))}, "
            "which are read as plain numbers. Save the sheet as CSV to have "
            "them as they are shown."
        )


def _translate_strict(path: str) -> str | io.BytesIO:
    """The file; of Strict Open XML its content with the usual names."""
    try:
        with zipfile.ZipFile(path) as archive:
            if not _STRICT.search(archive.read("_rels/.rels")):
                return path
            parts = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, KeyError):  # openpyxl says what is wrong
        return path
    translated = io.BytesIO()
    with zipfile.ZipFile(translated, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, _STRICT.sub(_USUAL, part))
    translated.seek(0)
    return translated


def _read_cells(cells: "Iterable[Cell]", unread: set[str]) -> list[str]:
    """The cells of a row as texts, without empty ones at its end."""
    row = [_read_cell(cell, unread) for cell in cells]
    while row and not row[-1].strip():
        row.pop()
    return row


def _read_cell(cell: "Cell", unread: set[str]) -> str:
    """A cell's text; a format that is not read is added to `unread`."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, number_formats.Moment):
        return number_formats.format_moment(value, cell.number_format)
    if not isinstance(value, int | float):
        return str(value)
    text = number_formats.format_number(value, cell.number_format)
    if text is None:
        unread.add(cell.number_format)
        return f"{value:.15g}"
    return text
