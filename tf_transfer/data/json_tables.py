"""JSON: objects on lines, or one document, as pandas and others write it.

A document is an array of objects; an object with such an array, such as
`{"data": [...]}`; or what `pandas.DataFrame.to_json` writes with
`orient="split"`, `"index"` or `"columns"`.
"""

import json
from collections.abc import Collection, Iterator

from tf_transfer.data import file_formats
from tf_transfer.data.columns import BadRow
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.files import Json
from tf_transfer.utils.formatting import quote_names
from tf_transfer.utils.json_files import Record


def read_rows(
    path: str, bad: list[BadRow], needed: Collection[str]
) -> Iterator[tuple[int, Record]]:
    """Yields (number, object) of every row.

    Args:
        path: The file.
        bad: Gets the rows that are no objects.
        needed: The columns that may not be missing.

    Raises:
        UserError: A document is no JSON, or not a table.
    """
    lines = file_formats.read_lines(path)
    if file_formats.is_json_document(path):
        lines = map(json.dumps, _read_document(path, needed))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _parse_object(line)
        except ValueError as error:
            problem, advice = error.args
            bad.append(BadRow(path, number, problem, advice, text=line))
            continue
        yield number, row


def _read_document(path: str, needed: Collection[str]) -> list[Json]:
    """The rows of a file that is one array or object."""
    try:
        content = json.loads("\n".join(file_formats.read_lines(path)))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}). Fix it.") from None
    if isinstance(content, list):
        if content and isinstance(content[0], list):
            raise UserError(
                f"{path}: is an array of arrays, so its columns have no names. "
                'Write an array of objects; in pandas, orient="records".'
            )
        return content
    names, rows = content.get("columns"), content.get("data")
    if isinstance(names, list) and isinstance(rows, list):
        for number, row in enumerate(rows, 1):
            if len(row) != len(names):
                raise UserError(
                    f"{path}, row {number}: has {len(row)} cells, needs "
                    f"{len(names)}: {quote_names(names)}. Fix the row."
                )
        return [dict(zip(names, row)) for row in rows]
    arrays: list[list[Json]]
    arrays = [value for value in content.values() if _is_array(value)]
    if len(arrays) == 1:
        return arrays[0]
    if not all(isinstance(value, dict) for value in content.values()):
        return [content]
    first: Record = next(iter(content.values()), {})
    is_by_row = all(map(str.isdecimal, content))  # pandas numbers the rows
    if needed:
        is_by_row = (
            not content.keys() >= {*needed} and {*needed} <= first.keys()
        )
    if is_by_row:
        return [*content.values()]
    keys = dict.fromkeys(key for cells in content.values() for key in cells)
    return [
        {name: cells.get(key) for name, cells in content.items()}
        for key in keys
    ]


def _is_array(value: Json) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(item, dict) for item in value)


def _parse_object(line: str) -> Record:
    """The object of a line; raises `ValueError` of a problem and an advice."""
    try:
        row = json.loads(line)
        if "\\ud" in line.lower():  # perhaps half of a surrogate pair
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"has half a character ({error.object[error.start]!a}), such as of "
            "a cut emoji",
            "Remove it.",
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"is not JSON ({error})",
            "Give one object per line, or an array of objects.",
        ) from None
    if not isinstance(row, dict):
        raise ValueError(
            "is not a JSON object",
            'Give one per line, such as {"text": "...", "label": "..."}.',
        )
    return row
