"""A report as a list of parts, and its forms: Markdown, HTML, text and CSV."""

import base64
import csv
import dataclasses
import functools
import html
import io
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence

from tf_transfer.utils import formatting


@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading of a level from 1 on."""

    level: int
    text: str


@dataclasses.dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclasses.dataclass(frozen=True)
class Items:
    """A list; numbered where the items are footnotes."""

    items: Sequence[str]
    numbered: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of strings; an empty cell stands for an unknown value.

    Attributes:
        name: what `tables.csv` calls it.
        rows: each as long as `columns`.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture: `name`.png and `name`.svg.

    Attributes:
        render: returns the content of a file by its ending, `png` and `svg`.
    """

    name: str
    caption: str
    render: Callable[[], dict[str, bytes]]

    @functools.cached_property
    def files(self) -> dict[str, bytes]:
        """What `render` returns; it is called when a file is first needed."""
        return self.render()


Part = Heading | Text | Items | Table | Figure


def footnotes(notes: Iterable[str]) -> list[Part]:
    """Numbered footnotes under a line that says so."""
    return [Text("Footnotes:"), Items(tuple(notes), numbered=True)]


def to_markdown(parts: Iterable[Part]) -> str:
    """The parts as Markdown; pictures are expected beside the document."""
    written = []
    for part in parts:
        if isinstance(part, Heading):
            written.append(f"{'#' * part.level} {part.text}")
        elif isinstance(part, Text):
            written.append(part.text)
        elif isinstance(part, Items):
            written.append(
                "\n".join(
                    f"{number}. {item}" if part.numbered else f"- {item}"
                    for number, item in enumerate(part.items, 1)
                )
            )
        elif isinstance(part, Table):
            lines = [_cells(part.columns), _cells(["---"] * len(part.columns))]
            lines += [_cells(row) for row in part.rows]
            written.append(f"{part.caption}\n\n" + "\n".join(lines))
        else:
            written.append(f"![{part.caption}]({part.name}.png)")
    return "\n\n".join(written) + "\n"


def _cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_text(parts: Iterable[Part]) -> str:
    """The parts as text for a screen; figures are left out."""
    written = []
    for part in parts:
        if isinstance(part, Heading):
            written.append(f"{part.text}\n{'-' * len(part.text)}")
        elif isinstance(part, Text):
            written.append(part.text)
        elif isinstance(part, Items):
            written.append("\n".join(f"- {item}" for item in part.items))
        elif isinstance(part, Table):
            rows = [part.columns, *part.rows]
            written.append(f"{part.caption}\n\n{formatting.aligned(rows)}")
    return "\n\n".join(written).replace("**", "").replace("`", "") + "\n"


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem;
       margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
h1, h2, h3 { line-height: 1.2; margin-top: 2rem; }
div.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .3rem 0; font-weight: 600; }
th, td { padding: .25rem .7rem; text-align: right; white-space: nowrap;
         border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
figcaption { color: #555; }
"""


def to_html(parts: Iterable[Part], title: str) -> str:
    """The parts as one HTML file that contains its figures."""
    body = "\n".join(_html(part) for part in parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(part: Part) -> str:
    if isinstance(part, Heading):
        return f"<h{part.level}>{_inline(part.text)}</h{part.level}>"
    if isinstance(part, Text):
        return f"<p>{_inline(part.text)}</p>"
    if isinstance(part, Items):
        tag = "ol" if part.numbered else "ul"
        items = "".join(f"<li>{_inline(item)}</li>" for item in part.items)
        return f"<{tag}>{items}</{tag}>"
    if isinstance(part, Table):
        head = "".join(f"<th>{_inline(cell)}</th>" for cell in part.columns)
        rows = "\n".join(
            "<tr>" + "".join(f"<td>{_inline(c)}</td>" for c in row) + "</tr>"
            for row in part.rows
        )
        return (
            f'<div class="table"><table><caption>{_inline(part.caption)}'
            f"</caption>\n<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{rows}\n</tbody></table></div>"
        )
    image = base64.b64encode(part.files["svg"]).decode()
    return (
        f'<figure><img alt="{html.escape(part.caption)}" '
        f'src="data:image/svg+xml;base64,{image}">'
        f"<figcaption>{_inline(part.caption)}</figcaption></figure>"
    )


def _inline(text: str) -> str:
    """Escaped text, with Markdown's `code` and **bold** as HTML."""
    pieces = html.escape(text, quote=False).split("`")
    text = "".join(
        f"<code>{piece}</code>" if number % 2 else piece
        for number, piece in enumerate(pieces)
    )
    pieces = text.split("**")
    return "".join(
        f"<b>{piece}</b>" if number % 2 else piece
        for number, piece in enumerate(pieces)
    )


def to_csv(parts: Iterable[Part]) -> str:
    """Every cell of every table on a line of its own, for programs to read.

    Cells of a row share its number. `value` and `deviation` are numbers where
    the cell holds one (percent as percent), else empty; `text` is the cell as
    the tables show it, without the marks of footnotes.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("table", "row", "column", "value", "deviation", "text"))
    for part in parts:
        if not isinstance(part, Table):
            continue
        for number, row in enumerate(part.rows, 1):
            for column, cell in zip(part.columns, row):
                text = _unmarked(cell)
                position = (part.name, number, _unmarked(column))
                writer.writerow((*position, *_numbers(text), text))
    return buffer.getvalue()


def _unmarked(text: str) -> str:
    return re.sub(r"\s*(\[\d+\])+$", "", text).replace("**", "")


def _numbers(text: str) -> tuple[str, str]:
    """(value, deviation) of a cell such as `82.79 ± 0.31 %`."""
    number = r"[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?"
    match = re.fullmatch(rf"({number})(?: ± ({number}))?(?: %| s)?", text)
    if not match:
        return "", ""
    value, deviation = (group or "" for group in match.groups())
    return value.replace(",", ""), deviation.replace(",", "")
