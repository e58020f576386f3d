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
    brief,
    contrast,
    depth,
    first_figure,
    frames,
    overview,
    wording,
)
from tf_transfer.reports.contrast import Verdict
from tf_transfer.reports.overview import Row
from tf_transfer.reports.study import Figure, module_of, Study, Table
from tf_transfer.reports.tables import draw_figures, fill_tables
from tf_transfer.utils import formatting

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
        table: the overview.
        headline: the table of a document: that of the experiment's
            `tables.toml` or else the overview.
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
    headline: Table
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
        rows = study.rows
        is_judged = any(verdict.study for verdict in study.verdicts)
        # With training everything, or an encoder with the TF-IDF baseline.
        compares = any(row.base is not None for row in rows)
        compares |= study.runs.baseline.nunique() == 2
        if compares or is_judged or study.name == "A":
            parts.append(make_part(study, rows))
    return Page(parts, _list_runs(studies), summary, describe_origin(summary))


def make_part(study: Study, rows: Sequence[Row]) -> Part:
    """What the page shows of a study.

    Args:
        study: its runs.
        rows: see `overview.make_rows`.
    """
    name = f"{study.experiment}_{study.name}"
    figures = draw_figures(study)
    module = module_of(study.experiment)
    own = getattr(module, "figures", None)
    if own is not None:
        figures += own(study)
    own_tables: list[Table] = []
    if module is not None and hasattr(module, "list_tables"):
        own_tables = module.list_tables(study)
        figures += module.list_figures(study)
    if profiles := depth.profiles_of(study.runs):
        figures.append(depth.draw(profiles))
    shown = own_tables + fill_tables(study, "document")
    tables = [*shown, *fill_tables(study, "table")]
    headline = fill_tables(study, "headline")
    first = first_figure.draw(study, rows)
    if first is not None:
        first = dataclasses.replace(first, name=f"{name}_{first.name}")
    table = tabulate(name, rows)
    return Part(
        name,
        study,
        brief.write(study, rows),
        first,
        table,
        headline[0] if headline else table,
        [dataclasses.replace(t, name=f"{name}_{t.name}") for t in tables],
        shown,
        [dataclasses.replace(f, name=f"{name}_{f.name}") for f in figures],
        _list_notes(study),
        **_sort_verdicts(study),
    )


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
        runs += f", on {wording.join(verdict.tasks)} only"
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


def tabulate(name: str, rows: Sequence[Row]) -> Table:
    """The overview of a study."""
    frame = pd.DataFrame([_show_row(row) for row in rows])
    optional = frame[["minus everything", "time, s", "time, %"]]
    empty = optional.columns[(optional == "").all()]
    caption = (
        f"{overview.name_split(rows)} scores in points "
        f"({_name_metrics(rows)}): means over n seeds or folds, with 95 % "
        f"intervals over {overview.name_parts(rows)}. Times are those to the "
        "stopping point, with that of caching the frozen blocks; shares are "
        "of the time and the weights of training everything"
    )
    majorities = {
        row.task: f"{row.majority:.1f} on {row.task}"
        for row in rows
        if not math.isnan(row.majority)
    }
    if majorities:
        caption += (
            f". The majority baseline scores {', '.join(majorities.values())}"
        )
    if any(row.seconds.is_known and not row.is_timed for row in rows):
        caption += f". {overview.TIMED_APART}"
    return Table(
        f"{name}_overview", caption, frame.drop(columns=empty), open=True
    )


def _show_row(row: Row) -> dict[str, Any]:
    """The cells of a row of the overview."""
    seconds = wording.ranged(overview.Ranged(row.seconds.value), 0)
    if seconds and not row.is_timed:
        seconds += "*"
    difference = row.note or wording.ranged(row.gain, sign="+")
    if row.failed:
        difference = contrast.FAILED
    return {
        "task": row.task,
        "trains": row.trains,
        "n": row.n,
        "score": wording.ranged(row.score),
        "minus everything": difference,
        "time, s": seconds,
        "time, %": wording.ranged(row.share, 0),
        "weights, %": _round_share(row.trained),
    }


def _name_metrics(rows: Sequence[Row]) -> str:
    """`f1`, or `mrpc: f1, rte: accuracy` where tasks have several."""
    of_tasks = {row.task: row.runs.metric.iloc[0] for row in rows}
    if len({*of_tasks.values()}) == 1:
        return next(iter(of_tasks.values()))
    return ", ".join(f"{task}: {metric}" for task, metric in of_tasks.items())


def _round_share(percent: float) -> float:
    """To a tenth; what is less to its first digit, since it is not nothing."""
    return float(f"{percent:.1g}") if percent < 0.1 else round(percent, 1)


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
        notes.append(f"{warning} ({wording.count(count, 'run')})")
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
    epochs = frames.epochs_frame(runs)[
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
        f"{wording.count(trained, 'run')}, reported on {made['on']}. "
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
