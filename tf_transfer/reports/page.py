"""The report as a page: the results first, everything else folded away."""

import base64
import collections
import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

import jinja2
import markupsafe
import numpy as np
import pandas as pd

from tf_transfer.reports import (
    advice,
    contrast,
    depth,
    figures as figures_lib,
    runs as runs_lib,
)
from tf_transfer.reports.contrast import Verdict
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import module_of, Study
from tf_transfer.reports.tables import Table
from tf_transfer.utils import formatting

SAMPLE = "sample"  # of `--data`
MOST_SHOWN = 1000  # rows of a table on the page; its CSV file has all
INTERVAL = re.compile(r"([-+\d.,]+) (\([-+\d., to]+\))")
MARKS = {  # before the word, for those who do not see its colour
    contrast.AGREES: "✓",
    contrast.CONTRADICTS: "✗",
    contrast.INCONCLUSIVE: "?",
    contrast.NOT_COMPARABLE: "–",
}


@dataclasses.dataclass(frozen=True)
class Part:
    """What the page shows of a study.

    Attributes:
        id: of the HTML element, and what its files' names begin with.
        study: its title and its differences from the paper are shown.
        short: the sentences of *In short*.
        figure: the first one, or None.
        table: what each approach scores, loses and costs.
        tables, figures, notes: folded, the paper's own among them.
        shown: the tables that a document has, too.
        judged: verdicts on the paper's claims.
        local: those for this encoder and data only, in none of the paper's
            words.
        few: those that need more runs, or runs that train.
        unrun: those without runs to compare.
    """

    id: str
    study: Study
    short: list[str]
    figure: Figure | None
    table: Table
    tables: list[Table]
    shown: list[Table]
    figures: list[Figure]
    notes: list[str]
    judged: list[Verdict]
    local: list[Verdict]
    few: list[Verdict]
    unrun: list[Verdict]


@dataclasses.dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        parts: of studies that compare something.
        tables: of all runs.
        summary: what the runs were read into.
        origin: when, where and by which code the runs were made.
    """

    parts: list[Part]
    tables: list[Table]
    summary: dict[str, Any]
    origin: str

    @property
    def first_figures(self) -> list[Figure]:
        """The figure at the top of each part that has one."""
        return [part.figure for part in self.parts if part.figure is not None]

    @property
    def all_figures(self) -> list[Figure]:
        """All figures, folded ones last."""
        folded = [figure for part in self.parts for figure in part.figures]
        return self.first_figures + folded

    @property
    def all_tables(self) -> list[Table]:
        """All tables, those of all runs last."""
        return [
            table for part in self.parts for table in (part.table, *part.tables)
        ] + self.tables


def make_page(studies: Sequence[Study], summary: dict[str, Any]) -> Page:
    """The page of some studies.

    Args:
        studies: see `study.collect`.
        summary: see `summary.summarize`.
    """
    parts = []
    for study in studies:
        is_judged = any(verdict.study for verdict in study.verdicts)
        # With training everything, or an encoder with the TF-IDF baseline.
        compares = any(row.difference.is_known for row in study.rows)
        compares |= study.runs.baseline.nunique() == 2
        if compares or is_judged or study.name == "A":
            parts.append(make_part(study))
    return Page(parts, _list_runs(studies), summary, describe_origin(summary))


def make_part(study: Study) -> Part:
    """What the page shows of a study.

    Args:
        study: its runs.
    """
    name = f"{study.experiment}_{study.name}"
    tables: list[Table] = []
    figures: list[Figure] = []
    module = module_of(study.experiment)
    if module is not None:
        tables = module.list_tables(study)
        figures = module.list_figures(study)
    if profiles := depth.profiles_of(study.runs):
        figures.append(depth.draw(profiles))
    first = figures_lib.draw_costs(study.rows, study.margin)
    if first is not None:
        first = dataclasses.replace(first, name=f"{name}_{first.name}")
    return Part(
        name,
        study,
        write_short(study),
        first,
        tabulate(study),
        [dataclasses.replace(t, name=f"{name}_{t.name}") for t in tables],
        tables,
        [dataclasses.replace(f, name=f"{name}_{f.name}") for f in figures],
        _list_notes(study),
        **_sort_verdicts(study),
    )


# === In short ===


def write_short(study: Study) -> list[str]:
    """The sentences at the top of a study's part of the report."""
    sentences = []
    if set(study.runs.data) == {SAMPLE}:
        sentences.append(
            "These runs are on the hand-written sample: their scores mean "
            "nothing."
        )
    sentences.append(advice.advise(study.rows, study.margin))
    return sentences + describe_verdicts(study)


def describe_verdicts(study: Study) -> list[str]:
    """How many of the paper's claims have each word, in a sentence."""
    first = [v for v in study.verdicts if not v.claim.reading_of]
    judged = [verdict for verdict in first if verdict.study]
    if study.paper is None or not judged:
        return []
    counts = contrast.count_words(judged)
    words = [f"{number} {word}" for word, number in counts.items() if number]
    without_runs = len(first) - len(judged)
    if without_runs:
        words.append(f"{without_runs} without runs to compare")
    claimed = formatting.count(len(first), "claim")
    return [f"{claimed} ({study.paper.name}): {'; '.join(words)}."]


# === Claims ===


def _sort_verdicts(study: Study) -> dict[str, list[Verdict]]:
    """The verdicts by the list of `Part` that has them."""
    with_runs = [v for v in study.verdicts if v.study]
    others = [v for v in with_runs if v.word == contrast.NOT_COMPARABLE]
    local = [v for v in others if v.is_reported]
    few = [v for v in others if not v.is_reported]
    without_runs = [v for v in study.verdicts if not v.study]
    return {
        "judged": [v for v in with_runs if v.word != contrast.NOT_COMPARABLE],
        "local": [_use_neutral_words(v) for v in local],
        "few": [_use_neutral_words(v) for v in few],
        "unrun": [v for v in without_runs if not v.claim.reading_of],
    }


def _use_neutral_words(verdict: Verdict) -> Verdict:
    """A verdict in none of the paper's words.

    Differences of the study are listed once for all of its claims.
    """
    return dataclasses.replace(verdict, word=verdict.local, reason="")


def describe_note(verdict: Verdict) -> str:
    """What a reader must know of a claim, and where its margin comes from."""
    claim = verdict.claim
    margin = f"The margin: {claim.margin_from}." if claim.margin_from else ""
    return " ".join(filter(None, (claim.note, margin)))


def describe_published(verdict: Verdict) -> str:
    """What the paper claims, in figures."""
    claim = verdict.claim
    size = ""
    if claim.published:
        size = f"{claim.published:+.4g} {claim.unit}"
    if claim.kind == "equal":
        size = size or "no difference"
        return f"{size}; our margin: {claim.margin:g} {claim.unit}"
    return size or ("higher" if claim.direction > 0 else "lower")


def describe_ours(verdict: Verdict) -> str:
    """What the runs show: `+0.98 points (+0.41 to +1.55), n = 3`."""
    if not verdict.study or not verdict.runs:
        return ""
    runs = f"n = {verdict.runs}"
    if verdict.tasks:
        runs += f", on {formatting.join(verdict.tasks)} only"
    if math.isnan(verdict.value):
        return runs
    claim = verdict.claim
    text = f"{verdict.value:+.2f} {claim.unit}"
    if claim.factor not in (0, 1):
        text += f" against {100 * claim.factor:g} % of it"
    if not math.isnan(verdict.low):
        text += f" ({verdict.low:+.2f} to {verdict.high:+.2f})"
    if len(verdict.errors) > 1:
        errors = (f"{name} {e:.2f}" for name, e in verdict.errors.items())
        text += f"; standard errors: {', '.join(errors)}"
    return f"{text}, {runs}"


# === Tables ===


def tabulate(study: Study) -> Table:
    """The table of what each approach scores, loses and costs."""
    rows = study.rows
    known = study.runs.groupby("task")
    majorities = []
    for task, majority in known.majority.first().items():
        if not math.isnan(majority):
            majorities.append(f"{majority:.1f} on {task}")
    metrics = {*study.runs.metric}
    if len(metrics) > 1:
        metrics = {f"{t}: {m}" for t, m in known.metric.first().items()}
    caption = (
        f"Scores in points ({', '.join(sorted(metrics))}), means over seeds or "
        "folds; in brackets 95 % intervals. "
        f"{advice.describe(study.margin)}"
    )
    if majorities:
        caption += f". The majority baseline scores {', '.join(majorities)}"
    frame = pd.DataFrame(advice.make_table(rows, study.margin))
    name = f"{study.experiment}_{study.name}_approaches"
    return Table(name, caption, frame, open=True)


def _list_notes(study: Study) -> list[str]:
    """The paper's notes, and what the runs themselves warned of."""
    notes: list[str] = []
    recorded_by = study.runs.settings.iloc[0].get("recorded_by")
    if recorded_by:
        notes.append(
            f"These runs are records of {recorded_by}, not ours. What they do "
            "not have, such as times and predictions, is empty."
        )
    if study.paper:
        notes += study.paper.notes
    counts = collections.Counter(
        warning
        for record in study.runs.record
        for warning in record.get("warnings", ())
    )
    for warning, count in counts.items():
        notes.append(f"{warning} ({formatting.count(count, 'run')})")
    return notes


def _list_runs(studies: Sequence[Study]) -> list[Table]:
    """All runs, and all epochs of all runs."""
    runs = pd.concat([study.runs for study in studies])
    shown = pd.DataFrame(
        {
            "experiment": runs.experiment,
            "study": runs.study,
            "task": runs.task,
            "approach": runs.approach,
            "cached": runs.cached,
            "lr": runs.lr.map("{:g}".format),
            "seed": runs.seed,
            "validation": runs.validation.round(2),
            "score": runs.score.round(2),
            "epochs": runs.epochs_run,
            "stopped by": runs.stop_reason,
            "seconds": runs.seconds.round(1),
            "timed": runs.timed,
            "run": runs.path,
        }
    )
    epochs = runs_lib.epochs_frame(runs)[
        ["epoch", "validation", "test", "seconds", "path"]
    ]
    epochs = epochs.rename(columns={"path": "run"}).round(2)
    return [
        Table("runs", "All runs, scores in points", shown),
        Table("epochs", "Every epoch of every run, scores in points", epochs),
    ]


def describe_origin(summary: dict[str, Any]) -> str:
    """When, where and by which code the runs were made, as a sentence."""
    made = summary["made"]
    packages = ", ".join(
        f"{name} {made['versions'][name]}"
        for name in ("tensorflow", "keras", "keras-hub")
        if name in made["versions"]
    )
    commits = ", ".join(commit[:10] for commit in made["commits"])
    # An ensemble is of runs that count already.
    trained = sum(not run.get("members") for run in summary["runs"])
    origin = (
        f"{formatting.count(trained, 'run')}, reported on {made['on']}. "
        f"Machine: {made['machine']}. {packages}."
    )
    if commits:
        origin += f" Commit {commits}."
    return origin


# === Rendering ===


def to_html(page: Page) -> str:
    """The page as one HTML file, with its figures inside."""
    template = make_environment(True).get_template("report.html.jinja")
    return template.render(page=page, most_shown=MOST_SHOWN)


def to_markdown(page: Page, figures: str = "") -> str:
    """The short form of the page as Markdown.

    Args:
        page: what to show.
        figures: folder of the figures, as the document links to them.
    """
    template = make_environment(False).get_template("report.md.jinja")
    text = template.render(page=page, figures=figures)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def to_csv(frame: pd.DataFrame) -> str:
    """A table as CSV, without anything that a spreadsheet takes for a formula.

    A text that begins like one gets an apostrophe in front.
    """
    escape = formatting.escape_formula
    safe = frame.map(escape).rename(columns=escape)
    return str(safe.to_csv(index=False))


def make_environment(escapes: bool) -> jinja2.Environment:
    """Where templates are read; `escapes` for HTML, not for Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tf_transfer.reports"),
        autoescape=escapes,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        cell=_split_interval if escapes else show_cell,
        inline=_inline,
        svg=lambda figure: base64.b64encode(figure.svg).decode(),
        markdown=_escape_markdown,
        mark=lambda verdict: MARKS.get(verdict.word, ""),
        note=describe_note,
        numbers=_find_numbers,
        ours=describe_ours,
        published=describe_published,
    )
    return environment


def show_cell(value: Any) -> str:
    """A cell of a table as text; an unknown value is empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _split_interval(value: Any) -> markupsafe.Markup:
    """A cell as HTML; an interval goes to a line of its own where it must."""
    text = show_cell(value)
    if match := INTERVAL.fullmatch(text):
        return markupsafe.Markup("{} <small>{}</small>").format(*match.groups())
    return markupsafe.escape(text)


def _find_numbers(frame: pd.DataFrame) -> list[bool]:
    """Of each column, whether its cells begin with numbers."""
    return [
        pd.api.types.is_numeric_dtype(column)
        or all(
            re.match(r"[-+]?\d|$", show_cell(value))
            for value in column.head(MOST_SHOWN)
        )
        for _, column in frame.items()
    ]


def _inline(text: str) -> markupsafe.Markup:
    """Escaped text, with Markdown's `code` as HTML."""
    pieces = str(markupsafe.escape(text)).split("`")
    return markupsafe.Markup(
        "".join(
            f"<code>{piece}</code>" if number % 2 else piece
            for number, piece in enumerate(pieces)
        )
    )


def _escape_markdown(text: Any) -> str:
    """A text that neither ends a table's cell nor begins a tag or a link."""
    text = show_cell(text).replace("&", "&amp;").replace("<", "&lt;")
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return " ".join(text.replace("](", "]\\(").splitlines())
