"""Puts what was measured into a document, between its marks."""

from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError


def fill(path: str, name: str, text: str) -> None:
    """Replaces what stands between `<!-- begin: NAME -->` and its end.

    Args:
        path: of the document.
        name: of the marks.
        text: what stands there from now on.

    Raises:
        UserError: the document has no such marks.
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
