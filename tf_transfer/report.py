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

from absl import app
from absl import flags

from tf_transfer.config import command_line
from tf_transfer.reports import operating
from tf_transfer.reports import options as options_lib
from tf_transfer.reports import words
from tf_transfer.utils.errors import UserError

BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
SHOWN_LEFT_OUT = 20


def define_flags():
    """The flags of this command."""
    module = {"module_name": sys.argv[0]}
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
        "blocks keep them (runs of tf_transfer.freezing).",
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
        "Also replace the generated part of this Markdown file, and keep "
        "summary.json and the figures beside it.",
        **module,
    )


def main(argv):
    """Reads the flags, prints the table, writes the report."""
    from tf_transfer.reports import summary as summary_lib

    values = flags.FLAGS
    if len(argv) > 2:
        raise UserError(f"{argv[2]!r}: give one folder of runs.")
    root = argv[1] if len(argv) > 1 else "runs"
    options = options_lib.Options(
        budgets=tuple(_seconds(word) for word in values.budgets),
        qualities=operating.parse_qualities(values.quality),
    )
    if os.path.isfile(root):
        summary = summary_lib.read(root)
    else:
        summary = summary_lib.make(root, _bar)
    print(summary_lib.screen_table(summary["runs"]))
    _tell_left_out(summary["left_out"])
    parts = compose(summary, values.published, options)
    out = values.out or os.path.join(
        root if os.path.isdir(root) else os.path.dirname(root), "report"
    )
    write(parts, summary, out)
    if os.path.isdir(root):
        show_in_tensorboard(parts, root)
    if values.document:
        write_document(values.document, parts, summary)
    print(f"\nReport: {os.path.join(out, 'report.html')}")
    if os.path.isdir(root):
        print(f"To look closer: tensorboard --logdir {root}")


def _bar(items, **options):
    import tqdm

    return tqdm.tqdm(items, leave=False, disable=None, delay=1, **options)


def _seconds(word):
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"--budgets={word}: give seconds, such as 3600,7200.")
    return value


def _tell_left_out(left_out):
    for path, reason in left_out[:SHOWN_LEFT_OUT]:
        print(f"Not shown: {path} {reason}.")
    if len(left_out) > SHOWN_LEFT_OUT:
        print(f"Not shown: {len(left_out) - SHOWN_LEFT_OUT} more.")


# === What is in it ===


def compose(
    summary, published_folder="experiments", options=options_lib.Options()
):
    """The parts of a report.

    Args:
        summary: what `summary.make` gave.
        published_folder: see `--published`.
        options: `options.Options`.
    """
    from tf_transfer.reports import document
    from tf_transfer.reports import sections

    parts = [
        document.Heading(1, "Report"),
        document.Text(made(summary)),
    ]
    for module, section, found in sections.each(summary["runs"]):
        published = options_lib.read_published(published_folder, module)
        groups = section.alike(found) if hasattr(section, "alike") else [found]
        for group in groups:
            if len(group) > 1:
                parts += told_apart(module, group)
        for study in found:
            title = f"{module}: {study.model}"
            if hasattr(section, "title"):
                title = section.title(study)
            if len(found) > 1:
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


def made(summary):
    """When, where and by which code the runs were made, as a sentence."""
    facts = summary["made"]
    versions = facts["versions"]
    count = len(summary["runs"])
    packages = ", ".join(
        f"{name} {versions[name]}"
        for name in ("tensorflow", "keras", "keras-hub")
        if name in versions
    )
    commits = ", ".join(f"`{commit[:10]}`" for commit in facts["commits"])
    return (
        f"{words.runs(count)}, reported on {facts['on']}. Machine: "
        f"{facts['machine']}. {packages}."
        + (f" Commit {commits}." if commits else "")
    )


def told_apart(module, found):
    """What says that studies differ, and are not averaged together."""
    from tf_transfer.reports import document
    from tf_transfer.reports import studies

    rows = [
        (name, *(json.dumps(value) for value in values))
        for name, values in studies.differences(found).items()
    ]
    names = [f"{s.name} ({words.runs(len(s.records))})" for s in found]
    return [
        document.Heading(2, f"{module}: {len(found)} studies"),
        document.Text(
            "These runs differ in more than approach, rate and seed. Each "
            "study is reported by itself; nothing is averaged across."
        ),
        document.Table(
            f"studies_{module}", "What differs", ("setting", *names), rows
        ),
    ]


# === Writing ===


def write(parts, summary, out):
    """Writes the report below `out`."""
    from tf_transfer.reports import document
    from tf_transfer.reports import summary as summary_lib

    os.makedirs(out, exist_ok=True)
    _write(out, "report.md", document.markdown(parts))
    _write(out, "report.html", document.one_html(parts, "tf_transfer"))
    _write(out, "tables.csv", document.tables_csv(parts))
    _write(out, "summary.json", summary_lib.as_text(summary))
    figures = [p for p in parts if isinstance(p, document.Figure)]
    for figure in figures:
        for kind in ("png", "svg"):
            with open(os.path.join(out, f"{figure.name}.{kind}"), "wb") as file:
                file.write(getattr(figure, kind))


def show_in_tensorboard(parts, root):
    """Puts the figures where TensorBoard finds them beside the runs."""
    from tf_transfer.reports import document
    from tf_transfer.training import tensorboard

    tensorboard.write_overview(
        os.path.join(root, tensorboard.OVERVIEW),
        {
            part.name: (part.caption, part.png)
            for part in parts
            if isinstance(part, document.Figure)
        },
    )


def _write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def write_document(path, parts, summary):
    """Puts the report between the marks of a Markdown file.

    Raises:
        UserError: the file has no such marks.
    """
    from tf_transfer.reports import document
    from tf_transfer.reports import summary as summary_lib

    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise UserError(
            f"--document={path}: has no generated part. Put the lines "
            f"{BEGIN} and {END} where it should go."
        )
    folder = os.path.dirname(path)
    _write(folder, os.path.basename(path), with_generated(text, parts))
    _write(folder, "summary.json", summary_lib.as_text(summary))
    for part in parts:
        if isinstance(part, document.Figure):
            with open(os.path.join(folder, f"{part.name}.png"), "wb") as file:
                file.write(part.png)


def with_generated(text, parts):
    """A document whose generated part is these parts, the title left out."""
    from tf_transfer.reports import document

    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{document.markdown(parts[1:])}\n{END}{after}"


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: command_line.guarded(lambda: main(argv)))
