"""A report as a list of parts, and how it is written.

As Markdown, HTML, plain text for a screen, and CSV.
"""

import base64
import csv
import dataclasses
import html
import io
import re

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

    items: tuple
    numbered: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of strings; an empty one is unknown.

    Attributes:
        name: what `tables.csv` calls it.
        rows: list of tuples, as long as `columns`.
    """

    name: str
    caption: str
    columns: tuple
    rows: tuple


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture: `name`.png and `name`.svg.

    Attributes:
        png, svg: bytes.
    """

    name: str
    caption: str
    png: bytes
    svg: bytes


def markdown(parts, folder=""):
    """The parts as Markdown; figures are looked for in `folder`."""
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
        elif folder is not None:
            written.append(f"![{part.caption}]({folder}{part.name}.png)")
    return "\n\n".join(written) + "\n"


def _cells(cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def plain(parts):
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


def one_html(parts, title):
    """The parts as one HTML file, its figures inside."""
    body = "\n".join(_html(part) for part in parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(part):
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
    image = base64.b64encode(part.svg).decode()
    return (
        f'<figure><img alt="{html.escape(part.caption)}" '
        f'src="data:image/svg+xml;base64,{image}">'
        f"<figcaption>{_inline(part.caption)}</figcaption></figure>"
    )


def _inline(text):
    """Escaped, with `code` and **bold** as Markdown has them."""
    pieces = html.escape(text, quote=False).split("`")
    text = "".join(
        f"<code>{piece}</code>" if number % 2 else piece
        for number, piece in enumerate(pieces)
    )
    pieces = formatting.split("**")
    return "".join(
        f"<b>{piece}</b>" if number % 2 else piece
        for number, piece in enumerate(pieces)
    )


def tables_csv(parts):
    """Every cell of every table, a line each, for programs to read.

    Cells of a row share its number. `value` and `deviation` are numbers where
    the cell holds one (percent as percent), else empty; `text` is the cell as
    the tables show it. Marks of footnotes are left out.
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
                where = (part.name, number, _unmarked(column))
                writer.writerow((*where, *_numbers(text), text))
    return buffer.getvalue()


def _unmarked(text):
    return re.sub(r"\s*(\[\d+\])+$", "", text).replace("**", "")


def _numbers(text):
    """(value, deviation) of a cell such as `82.79 ± 0.31 %`."""
    number = r"[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?"
    found = re.fullmatch(rf"({number})(?: ± ({number}))?(?: %| s)?", text)
    if not found:
        return "", ""
    return tuple((part or "").replace(",", "") for part in found.groups())
