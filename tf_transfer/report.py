"""Tables, figures and verdicts out of run directories, beside the paper's.

    python -m tf_transfer.report runs
    python -m tf_transfer.report runs --out=report --budgets=3600,7200

Prints the finished runs and writes report.md, report.html (one file), figures
as PNG and SVG, tables.csv and summary.json below --out. Reads run directories
only; or a summary.json, which gives the same report without the runs.
"""

import json
import os
import sys
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from absl import app
from absl import flags

from tf_transfer.config import command_line
from tf_transfer.reports import document
from tf_transfer.reports import operating
from tf_transfer.reports import options as options_lib
from tf_transfer.reports import sections
from tf_transfer.reports import studies
from tf_transfer.reports import summary as summary_lib
from tf_transfer.reports import words
from tf_transfer.reports.document import Part
from tf_transfer.training import tensorboard
from tf_transfer.utils.errors import UserError

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
SHOWN_LEFT_OUT = 20


def define_flags() -> None:
    """Defines the flags of this command."""
    module: dict[str, Any] = {"module_name": sys.argv[0]}
    flags.DEFINE_string(
        "out", "", "Where the report goes. Unset: RUNS/report.", **module
    )
    flags.DEFINE_list(
        "budgets",
        [],
        "Seconds, such as 3600,7200: what each approach has reached within "
        "them. Unset: quarters of the longest run.",
        **module,
    )
    flags.DEFINE_string(
        "quality",
        ",".join(map(str, operating.QUALITIES)),
        "Shares of the full score, such as 0.9 or 0.9,0.95: how many trained "
        "blocks reach them (runs of tf_transfer.freezing).",
        **module,
    )
    flags.DEFINE_string(
        "published",
        "experiments",
        "Folder with the papers' figures (glue/published.json, ...).",
        **module,
    )
    flags.DEFINE_string(
        "document",
        "",
        "Also replace what stands between the marks of this Markdown file, "
        "and keep summary.json and the figures beside it.",
        **module,
    )


def main(argv: Sequence[str]) -> None:
    """Reads the flags, prints the table, writes the report."""
    values = flags.FLAGS
    if len(argv) > 2:
        raise UserError(f"{argv[2]!r}: give one folder of runs.")
    root = argv[1] if len(argv) > 1 else "runs"
    options = options_lib.Options(
        budgets=tuple(_parse_seconds(word) for word in values.budgets),
        qualities=operating.parse_qualities(values.quality),
    )
    if values.document:
        read_document(values.document)  # before the work, as it may be wrong
    if os.path.isfile(root):
        summary = summary_lib.read(root)
    else:
        summary = summary_lib.summarize_folder(root, _show_progress)
    print(summary_lib.format_runs(summary["runs"]))
    _print_left_out(summary["left_out"])
    parts = compose(summary, values.published, options)
    out = values.out or os.path.join(
        root if os.path.isdir(root) else os.path.dirname(root), "report"
    )
    write(parts, summary, out)
    if os.path.isdir(root):
        tensorboard.write_overview(
            os.path.join(root, tensorboard.OVERVIEW),
            {f.name: (f.caption, f.files["png"]) for f in _figures(parts)},
        )
    if values.document:
        write_document(values.document, parts, summary)
    print(f"\nReport: {os.path.join(out, 'report.html')}")
    if os.path.isdir(root):
        print(f"To look closer: tensorboard --logdir {root}")


def _show_progress(items: Iterable[Any], **options: Any) -> Iterable[Any]:
    import tqdm

    return tqdm.tqdm(items, leave=False, disable=None, delay=1, **options)


def _parse_seconds(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"--budgets={word}: give seconds, such as 3600,7200.")
    return value


def _print_left_out(left_out: Sequence[tuple[str, str]]) -> None:
    for path, reason in left_out[:SHOWN_LEFT_OUT]:
        print(f"Not shown: {path} {reason}.")
    if len(left_out) > SHOWN_LEFT_OUT:
        print(f"Not shown: {len(left_out) - SHOWN_LEFT_OUT} more.")


# === What is in it ===


def compose(
    summary: summary_lib.Summary,
    published_folder: str = "experiments",
    options: options_lib.Options = options_lib.Options(),
) -> list[Part]:
    """The parts of a report.

    Args:
        summary: what `summary.summarize` returned.
        published_folder: see `--published`.
        options: what the reader asks for.
    """
    parts: list[Part] = [
        document.Heading(1, "Report"),
        document.Text(describe_origin(summary)),
    ]
    groups = sections.group_by_experiment(summary["runs"])
    for experiment, section, members in groups:
        published = options_lib.read_published(published_folder, experiment)
        comparable = [members]
        if hasattr(section, "comparable_groups"):
            comparable = section.comparable_groups(members)
        for group in comparable:
            if len(group) > 1:
                parts += show_differences(experiment, group)
        for study in members:
            title = f"{experiment}: {study.model}"
            if hasattr(section, "title"):
                title = section.title(study)
            if len(members) > 1:
                title += f", study {study.name}"
            parts.append(document.Heading(2, title))
            parts += section.sections(study, summary, published, options)
    if summary["left_out"]:
        parts += [
            document.Heading(2, "Left out"),
            document.Items(
                tuple(f"`{path}` {why}" for path, why in summary["left_out"])
            ),
        ]
    return parts


def describe_origin(summary: summary_lib.Summary) -> str:
    """When, where and by which code the runs were made, as a sentence."""
    made = summary["made"]
    packages = ", ".join(
        f"{name} {made['versions'][name]}"
        for name in ("tensorflow", "keras", "keras-hub")
        if name in made["versions"]
    )
    commits = ", ".join(f"`{commit[:10]}`" for commit in made["commits"])
    return (
        f"{words.count_runs(len(summary['runs']))}, reported on {made['on']}. "
        f"Machine: {made['machine']}. {packages}."
        + (f" Commit {commits}." if commits else "")
    )


def show_differences(
    experiment: str, group: Sequence[studies.Study]
) -> list[Part]:
    """In which settings studies differ, so that they are not averaged."""
    rows = [
        (name, *(json.dumps(value) for value in values))
        for name, values in studies.differing_settings(group).items()
    ]
    names = [f"{s.name} ({words.count_runs(len(s.records))})" for s in group]
    return [
        document.Heading(2, f"{experiment}: {len(group)} studies"),
        document.Text(
            "These runs differ in more than approach, rate and seed. Each "
            "study is reported by itself; nothing is averaged across."
        ),
        document.Table(
            f"studies_{experiment}", "What differs", ("setting", *names), rows
        ),
    ]


# === Writing ===


def write(
    parts: Sequence[Part], summary: summary_lib.Summary, out: str
) -> None:
    """Writes the report below the folder `out`."""
    os.makedirs(out, exist_ok=True)
    _write(out, "report.md", document.to_markdown(parts))
    _write(out, "report.html", document.to_html(parts, "tf_transfer"))
    _write(out, "tables.csv", document.to_csv(parts))
    _write(out, "summary.json", summary_lib.to_json(summary))
    _write_figures(out, parts, ("png", "svg"))


def write_document(
    path: str, parts: Sequence[Part], summary: summary_lib.Summary
) -> None:
    """Puts the report between the marks of a Markdown file."""
    folder, name = os.path.split(path)
    _write(folder, name, replace_generated(read_document(path), parts))
    _write(folder, "summary.json", summary_lib.to_json(summary))
    _write_figures(folder, parts, ("png",))


def read_document(path: str) -> str:
    """The text of a Markdown file that a report goes into.

    Raises:
        UserError: the file has no marks.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise UserError(
            f"--document={path}: has no marks for the report. Put the lines "
            f"{BEGIN} and {END} where it should go."
        )
    return text


def replace_generated(text: str, parts: Sequence[Part]) -> str:
    """A document with these parts between its marks, without their title."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{document.to_markdown(parts[1:])}\n{END}{after}"


def _figures(parts: Iterable[Part]) -> list[document.Figure]:
    return [part for part in parts if isinstance(part, document.Figure)]


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def _write_figures(
    folder: str, parts: Iterable[Part], endings: Iterable[str]
) -> None:
    for figure in _figures(parts):
        for ending in endings:
            path = os.path.join(folder, f"{figure.name}.{ending}")
            with open(path, "wb") as file:
                file.write(figure.files[ending])


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: command_line.guarded(lambda: main(argv)))
