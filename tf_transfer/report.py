"""Reports the results of runs next to the papers': one page, tables, figures.

    python -m tf_transfer.report runs
    python -m tf_transfer.report runs --out=report --margin=0.5
    python -m tf_transfer.report runs other_machine/report/summary.json
    python -m tf_transfer.report runs --archive=study.zip

Prints what to train and what each approach scores and costs. Writes report.html
(one file that needs no other), report.md, summary.json, figures as PNG and SVG,
and all tables as CSV files below --out. Reads run directories only; or a
summary.json, which gives the same report without the runs; or several of both,
as one.
"""

import dataclasses
import functools
import gc
import os
import pathlib
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tf_transfer.config import command_line
from tf_transfer.config.fields import Fields, json_setting, setting
from tf_transfer.reports import summary as summary_lib
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.reports.page import Page

# The first mark may name the folder of a document's summary and figures.
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
MARKED = re.compile(
    r"(?P<begin><!-- generated(?: into (?P<folder>\S+))?: begin -->)"
    r".*(?P<end><!-- generated: end -->)",
    re.DOTALL,
)
SHOWN_LEFT_OUT = 20
SHOWN_STUDIES = 3
SHOWN_ROWS = 12


@dataclasses.dataclass(frozen=True)
class Settings(Fields):
    """The settings of this command."""

    out: str = setting(
        "",
        "Folder of the report. Unset: report, in the first folder of runs or "
        "in the folder of the first summary.",
    )
    margin: float = setting(
        1.0,
        "Largest loss in points, against training everything, that you accept "
        "for a cheaper approach.",
        at_least=0,
    )
    baseline: bool = setting(
        True, "Show the probe of the frozen encoder, which no paper has."
    )
    published: str = setting(
        "experiments",
        "Folder with the papers' claims and figures (glue/claims.toml, ...).",
    )
    document: str = setting(
        "",
        "Markdown file: also write the short form of the report between its "
        "marks, and summary.json and figures into its folder, or into the "
        "folder that the first mark names.",
    )
    archive: str = setting(
        "",
        "ZIP file: also pack what a report reads of the runs, without weights. "
        "Unpacked, the folder in it gives the same report.",
    )
    json: bool = json_setting()


def main(argv: Sequence[str]) -> None:
    """Reads the flags, prints the table, writes the report."""
    settings = command_line.from_flags(Settings).resolve()
    roots = argv[1:] or ["runs"]
    command_line.answer(
        functools.partial(_report, settings, roots), settings.json
    )


def _report(settings: Settings, roots: Sequence[str]) -> Record:
    """Reports on runs; returns the answer of `--json`."""
    root = next(filter(os.path.isdir, roots), roots[0])
    if settings.document:
        read_document(settings.document)  # fails before the work if it is wrong
    # All records stay in use: searching them for garbage repeatedly took a
    # quarter of the time of a report of 5,000 runs.
    gc.disable()
    summaries = []
    for path in roots:
        if os.path.isfile(path):
            summaries.append(summary_lib.read_summary(path))
        else:
            summaries.append(summary_lib.summarize_folder(path))
    summary = summary_lib.merge(summaries)
    gc.freeze()
    gc.enable()
    runs, left_out = summary["runs"], summary["left_out"]
    print(formatting.count(len(runs), "finished run"))
    for path, reason in left_out[:SHOWN_LEFT_OUT]:
        print(f"Not shown: {path} {reason}.")
    if len(left_out) > SHOWN_LEFT_OUT:
        print(f"Not shown: {len(left_out) - SHOWN_LEFT_OUT} more.")
    if not settings.baseline:
        runs = [run for run in runs if not run.approach.startswith("probe")]
    shown: summary_lib.Summary = {**summary, "runs": runs}
    page = compose(shown, settings.published, settings.margin)
    _print_advice(page)
    folder = root if os.path.isdir(root) else os.path.dirname(root)
    out = settings.out or os.path.join(folder, "report")
    write(page, summary, out)
    if settings.document:
        write_document(settings.document, page, summary)
    if settings.archive:
        _pack(roots, summary, settings.archive)
    print(f"\nReport: {os.path.join(out, 'report.html')}")
    if os.path.isdir(root):
        from tf_transfer.training import tensorboard

        tensorboard.write_columns(root)
        words = "tensorboard", "--logdir", root
        print(f"To look closer: {formatting.quote_command(*words)}")
    return {
        "report": os.path.join(out, "report.html"),
        "runs": len(runs),
        "left_out": dict(left_out),
        "searches": summary["searches"],
        "studies": [
            {
                "title": section.study.title,
                "advice": section.advice,
                "table": section.table.frame.to_dict("records"),
            }
            for section in page.sections
        ],
    }


def _pack(
    roots: Sequence[str], summary: summary_lib.Summary, path: str
) -> None:
    """Writes and prints the archive of a folder of runs."""
    from tf_transfer.reports import archive

    if len(roots) > 1 or not os.path.isdir(roots[0]):
        raise UserError(f"--archive={path}: packs one folder of runs. Give it.")
    content = summary_lib.to_json(summary).encode()
    count = archive.pack(roots[0], content, path)
    print(f"{formatting.count(count, 'run')} packed: {path}")


def _print_advice(page: "Page") -> None:
    """Prints the answers of searches; then the first studies' advice."""
    from tf_transfer.reports import advice  # loads pandas

    for search in page.summary["searches"]:
        lines = advice.show_lines(search["lines"], search["table"])
        print(f"\nSearch in {search['path']}\n{lines}")
    for section in page.sections[:SHOWN_STUDIES]:
        print(f"\n{section.study.title}\n{textwrap.fill(section.advice, 79)}")
        frame = section.table.frame.head(SHOWN_ROWS)
        cells = frame.itertuples(index=False, name=None)
        print(formatting.aligned([(*frame.columns,), *cells]))
        rows = section.study.rows
        is_compared = any(row.difference.is_known for row in rows)
        if is_compared and not any(row.time.is_known for row in rows):
            print(
                "No times: the runs were timed under different conditions, for "
                "example during other programs. The page has their seconds."
            )
        more = len(section.table.frame) - len(frame)
        if more:
            print(f"{formatting.count(more, 'row')} more in the report.")


def compose(
    summary: summary_lib.Summary,
    published_folder: str = "experiments",
    margin: float = 1.0,
) -> "Page":
    """The page of a report.

    Args:
        summary: See `summary.summarize`.
        published_folder: See `--published`.
        margin: See `--margin`.
    """
    from tf_transfer.reports import (
        page,  # loads pandas and matplotlib
        study,
    )

    studies = study.collect(summary, published_folder, margin)
    return page.make_page(studies, summary)


# === Writing ===


def write(page: "Page", summary: summary_lib.Summary, out: str) -> None:
    """Writes the report into the folder `out`, all of it or nothing.

    An older report there is replaced; other files in the folder stay.

    Raises:
        FullDiskError: The disk is full; an older report is as before.
    """
    from tf_transfer.reports import page as lib

    contents = {
        "report.md": lib.to_markdown(page).encode(),
        "report.html": lib.to_html(page).encode(),
        "summary.json": summary_lib.to_json(summary).encode(),
        **_render_pngs(page),
    }
    for figure in page.all_figures:
        contents[f"{figure.name}.svg"] = figure.svg
    for table in page.all_tables:
        contents[f"tables/{table.name}.csv"] = lib.to_csv(table.frame).encode()
    _write(out, contents)


def write_document(
    path: str, page: "Page", summary: summary_lib.Summary
) -> None:
    """Puts the short form of a report between the marks of a Markdown file.

    Raises:
        FullDiskError: The disk is full; the file is as before.
    """
    text = read_document(path)
    contents = {
        "summary.json": summary_lib.to_json(summary).encode(),
        **_render_pngs(page),
    }
    _write(os.path.join(os.path.dirname(path), folder_of(text)), contents)
    files.write_atomically(path, fill_in(text, page).encode())


def read_document(path: str) -> str:
    """The text of a Markdown file that a report goes into.

    Raises:
        UserError: The file has no marks.
    """
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if len(MARKED.findall(text)) != 1 or text.count(END) != 1:
        raise UserError(
            f"--document={path}: has no marks for the report. Put the lines "
            f"{BEGIN} and {END} where it should go."
        )
    return text


def folder_of(text: str) -> str:
    """The folder of a document's summary and figures, from its first mark."""
    match = MARKED.search(text)
    return (match and match["folder"]) or ""


def fill_in(text: str, page: "Page") -> str:
    """A document with the short form of a report between its marks."""
    from tf_transfer.reports import page as lib

    folder = folder_of(text)
    body = lib.to_markdown(
        page, f"{folder}/" if folder else "", paper_first=True
    )
    return MARKED.sub(
        lambda match: f"{match['begin']}\n\n{body}\n{match['end']}", text
    )


def _render_pngs(page: "Page") -> dict[str, bytes]:
    """The figures that a document shows, by the names of their files."""
    return {f"{figure.name}.png": figure.png for figure in page.shown_figures}


def _write(out: str, contents: Mapping[str, bytes]) -> None:
    """Writes files into a folder, all of them or none."""
    with files.staged(out) as folder:
        for name, content in contents.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


if __name__ == "__main__":
    command_line.command(main, Settings)
