"""The report as a page, in HTML and Markdown: the result first."""

import base64
import collections
import dataclasses
import math
import re
from collections.abc import Sequence
from typing import TypeVar

import jinja2
import markupsafe
import numpy as np
import pandas as pd

from tf_transfer.comparison import decisions
from tf_transfer.reports import (
    advice,
    approaches,
    figures,
    run_frame as runs_lib,
    verdicts as verdicts_lib,
)
from tf_transfer.reports.figures import Figure
from tf_transfer.reports.study import module_of, Study
from tf_transfer.reports.summary import describe_origin, Summary
from tf_transfer.reports.tables import Table, tabulate_answer, Value
from tf_transfer.reports.verdicts import Verdict
from tf_transfer.utils import formatting

_Shown = TypeVar("_Shown", Table, Figure)
SAMPLE = "sample"  # of `--data`
MOST_SHOWN = 1000  # rows of a table on the page; its CSV file has all
INTERVAL = re.compile(r"([-+\d.,]+) (\([-+\d., to]+\))")
MARKS = {  # before the word, for those who do not see its colour
    verdicts_lib.AGREES: "✓",
    verdicts_lib.CONTRADICTS: "✗",
    verdicts_lib.INCONCLUSIVE: "?",
}


# === The page ===


@dataclasses.dataclass(frozen=True)
class Section:
    """The parts of a page on a study.

    Attributes:
        id: Of the HTML element; the names of its files begin with it.
        study: Its title and its differences from the paper are shown.
        advice: One sentence.
        paper_tables, paper_figures: The paper's, with the rows that have runs.
        not_run: A sentence on tables and rows without runs, or "".
        paper_verdicts: On the paper's claims, comparable with the paper.
        local_verdicts: On claims, for this encoder and data only.
        open_verdicts: Without enough runs to report.
        table, figure: Scores and costs; the figure may be None.
        profile: Depth profile of the probe, folded; None without a probe.
        notes: Sentences, folded.
    """

    id: str
    study: Study
    advice: str
    paper_tables: list[Table]
    paper_figures: list[Figure]
    not_run: str
    paper_verdicts: list[Verdict]
    local_verdicts: list[Verdict]
    open_verdicts: list[Verdict]
    table: Table
    figure: Figure | None
    profile: Figure | None
    notes: list[str]

    @property
    def is_complete(self) -> bool:
        """Whether runs fill all of the paper's tables, which then come first.

        Else the page begins with the approaches that were run.
        """
        return bool(self.paper_tables) and not self.not_run

    @property
    def all_tables(self) -> list[Table]:
        """All tables, the paper's first."""
        return [*self.paper_tables, self.table]

    @property
    def shown_figures(self) -> list[Figure]:
        """The figures that are not folded; a document also has them."""
        if self.figure is None:
            return self.paper_figures
        return [*self.paper_figures, self.figure]


@dataclasses.dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        sections: Of studies that compare something.
        tables: Of all runs.
        summary: Of the runs.
        origin: When, where and by which code the runs were made.
    """

    sections: list[Section]
    tables: list[Table]
    summary: Summary
    origin: str

    @property
    def shown_figures(self) -> list[Figure]:
        """See `Section.shown_figures`."""
        return [f for section in self.sections for f in section.shown_figures]

    @property
    def all_figures(self) -> list[Figure]:
        """All figures, folded ones last."""
        profiles = (section.profile for section in self.sections)
        return [*self.shown_figures, *filter(None, profiles)]

    @property
    def all_tables(self) -> list[Table]:
        """All tables, those of all runs last."""
        tables = [t for section in self.sections for t in section.all_tables]
        return tables + self.tables


def make_page(studies: Sequence[Study], summary: Summary) -> Page:
    """The page of some studies.

    Args:
        studies: See `study.collect`.
        summary: See `summary.summarize`.
    """
    shown = [one for one in studies if one.compares or one.name == "A"]
    return Page(
        [*map(make_section, shown)],
        _list_runs(studies) if studies else [],  # only searches have none
        summary,
        describe_origin(summary),
    )


def make_section(study: Study) -> Section:
    """The section on a study."""
    name = f"{study.experiment}_{study.name}"
    module = module_of(study.experiment)
    paper_tables: list[Table] = []
    paper_figures: list[Figure] = []
    if module is not None:
        paper_tables = module.list_tables(study)
        paper_figures = module.list_figures(study)
    with_runs = [table.keep_runs() for table in paper_tables]
    filled = [table for table in with_runs if len(table.frame)]
    table, figure = _show_costs(name, study)
    profile = figures.draw_profile(figures.profiles_of(study.runs))
    if profile is not None:
        [profile] = _prefix(name, [profile])
    paper, local, undecided = _sort_verdicts(study.verdicts)
    return Section(
        name,
        study,
        _advise(study),
        _prefix(name, filled),
        _prefix(name, paper_figures),
        _describe_not_run(study, paper_tables, filled),
        paper,
        local,
        undecided,
        table,
        figure,
        profile,
        _list_notes(study),
    )


def _describe_not_run(
    study: Study, tables: Sequence[Table], filled: Sequence[Table]
) -> str:
    """The sentence on tables and rows without runs; "" if there are none.

    Args:
        study: The study.
        tables: The paper's.
        filled: Those of them that have runs.
    """
    names = {table.name for table in filled}
    empty = [table.title for table in tables if table.name not in names]
    count = sum(len(table.frame) for table in filled)
    left_out = sum(len(t.frame) for t in tables if t.name in names) - count
    parts = []
    if empty:
        parts.append(formatting.join_words(empty))
    if left_out:
        rows = formatting.count(left_out, "row")
        parts.append(f"{rows} of the tables that are here")
    if not parts:
        return ""
    command = formatting.quote_command(
        "python", "-m", "tf_transfer.sweep", f"experiments/{study.experiment}"
    )
    listed = "; ".join(parts)
    return f"Not run: {listed}. `{command}` runs all that the paper has."


def _advise(study: Study) -> str:
    """The sentence of a study; the probe is ours, and heads no paper's page."""
    if len(study.runs) == 1:
        return "One run: there is nothing to compare it with."
    rows = study.rows
    others = [one for one in study.approaches if not one.is_probe]
    if study.paper is not None and len(others) < len(study.approaches):
        rows = approaches.make_rows(others)
    sentence = advice.advise(rows, study.margin)
    if set(study.runs.data) == {SAMPLE}:
        return f"On the hand-written sample scores mean nothing. {sentence}"
    return sentence


def _prefix(name: str, shown: Sequence[_Shown]) -> list[_Shown]:
    """Tables or figures whose files begin with the name of a section."""
    return [dataclasses.replace(x, name=f"{name}_{x.name}") for x in shown]


def _show_costs(name: str, study: Study) -> tuple[Table, Figure | None]:
    """The table of all approaches, and the figure of those with a cost."""
    rows = study.rows
    if study.paper is not None:
        rows = [_mark_probe(row) for row in rows]
    by_task = study.runs.groupby("text")
    metrics = {f"{task}: {x}" for task, x in by_task.metric.first().items()}
    caption = (
        f"Scores in points ({', '.join(sorted(metrics))}), means over seeds or "
        "folds; in brackets 95 % intervals. "
        f"{advice.explain_table(study.margin)}"
    )
    if any(row.lacks_build for row in rows):
        caption += ". A time per epoch leaves out the build of a feature cache"
    majorities = [
        f"{majority:.1f} on {task}"
        for task, majority in by_task.majority.first().dropna().items()
    ]
    if majorities:
        caption += f". The majority baseline scores {', '.join(majorities)}"
    frame = pd.DataFrame(advice.make_table(rows, study.margin))
    table = Table(f"{name}_approaches", caption, frame)
    figure = figures.draw_costs(rows, study.margin)
    if figure is not None:
        figure = dataclasses.replace(figure, name=f"{name}_{figure.name}")
    return table, figure


def _mark_probe(row: decisions.Row) -> decisions.Row:
    """Marks the probe's row as not in the paper."""
    if row.name.startswith(advice.PROBE):
        return dataclasses.replace(row, name=f"{row.name} (not in the paper)")
    return row


# === Claims ===


def _sort_verdicts(
    verdicts: Sequence[Verdict],
) -> tuple[list[Verdict], list[Verdict], list[Verdict]]:
    """Comparable verdicts, those for this encoder and data only, the others."""
    paper, local, undecided = [], [], []
    for verdict in verdicts:
        if not verdict.study:
            undecided.append(verdict)
        elif verdict.word != verdicts_lib.NOT_COMPARABLE:
            paper.append(verdict)
        elif verdict.outcome != verdicts_lib.NO_RESULT:
            local.append(verdict)
        else:
            undecided.append(verdict)
    return paper, local, undecided


def describe_note(verdict: Verdict) -> str:
    """The note on a claim, and the source of its margin."""
    claim = verdict.claim
    margin = f"The margin: {claim.margin_from}." if claim.margin_from else ""
    return " ".join(filter(None, (claim.note, margin)))


def describe_published(verdict: Verdict) -> str:
    """The claim of the paper, in figures."""
    claim = verdict.claim
    size = ""
    if claim.published:
        size = f"{claim.published:+.4g} {claim.unit}"
    if claim.kind == "equal":
        size = size or "no difference"
        return f"{size}; our margin: {claim.margin:g} {claim.unit}"
    return size or ("higher" if claim.direction > 0 else "lower")


def describe_value(verdict: Verdict) -> str:
    """The value of the runs: `+0.98 points (+0.41 to +1.55), n = 3`."""
    if not verdict.study or not verdict.runs:
        return ""
    runs = f"n = {verdict.runs}"
    if verdict.tasks:
        runs += f", on {formatting.join_words(verdict.tasks)} only"
    if math.isnan(verdict.value):
        return runs
    claim = verdict.claim
    text = f"{verdict.value:+.2f} {claim.unit}"
    if claim.factor not in (0, 1):
        text += f" against {100 * claim.factor:g} % of it"
    if not math.isnan(verdict.low):
        text += f" ({verdict.low:+.2f} to {verdict.high:+.2f})"
    return f"{text}, {runs}"


# === Notes and lists below ===


def _list_notes(study: Study) -> list[str]:
    """The paper's notes, and the warnings of the runs."""
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
        for warning in record.warnings or ()
    )
    for warning, count in counts.items():
        notes.append(f"{warning} ({formatting.count(count, 'run')})")
    return notes


def _list_runs(studies: Sequence[Study]) -> list[Table]:
    """All runs, and all epochs of all runs."""
    runs = pd.concat([study.runs for study in studies])
    runs = runs.drop_duplicates("path")  # studies share baselines
    shown = pd.DataFrame(
        {
            "experiment": runs.experiment,
            "study": runs.study,
            "task": runs.text,
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


# === Rendering ===


def to_html(page: Page) -> str:
    """The page as one HTML file, with its figures inside."""
    template = make_environment(True).get_template("report.html.jinja")
    return template.render(page=page, most_shown=MOST_SHOWN)


def to_markdown(
    page: Page, figures: str = "", paper_first: bool = False
) -> str:
    """The short form of the page as Markdown.

    Args:
        page: What to show.
        figures: Folder of the figures, as the document links to them.
        paper_first: Whether each study begins with the paper's tables and
            claims, as in a document on the paper, and not with its sentence.
    """
    template = make_environment(False).get_template("report.md.jinja")
    text = template.render(page=page, figures=figures, paper_first=paper_first)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def to_csv(frame: pd.DataFrame) -> str:
    """A table as CSV, without anything that a spreadsheet takes for a formula.

    A text that begins like one gets an apostrophe in front.
    """
    escape = formatting.escape_formula
    safe = frame.map(escape).rename(columns=escape)
    return str(safe.to_csv(index=False))


def make_environment(escapes: bool) -> jinja2.Environment:
    """The environment of templates; `escapes` for HTML, not for Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tf_transfer.reports"),
        autoescape=escapes,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        answer_table=tabulate_answer,
        cell=_split_interval if escapes else show_cell,
        counted=formatting.count,
        duration=formatting.duration,
        inline=_inline,
        svg=lambda figure: base64.b64encode(figure.svg).decode(),
        markdown=_escape_markdown,
        mark=lambda verdict: MARKS.get(verdict.word, ""),
        note=describe_note,
        numbers=_find_numbers,
        value=describe_value,
        published=describe_published,
    )
    return environment


def show_cell(value: Value) -> str:
    """A cell of a table as text; an unknown value is empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _split_interval(value: Value) -> markupsafe.Markup:
    """A cell as HTML; an interval goes to a line of its own where it must."""
    text = show_cell(value)
    if match := INTERVAL.fullmatch(text):
        return markupsafe.Markup("{} <small>{}</small>").format(*match.groups())
    return markupsafe.escape(text)


def _find_numbers(frame: pd.DataFrame) -> list[bool]:
    """For each column, whether its cells begin with numbers."""
    return [
        pd.api.types.is_numeric_dtype(column)
        or all(
            re.match(r"[-+]?\d|$|[†‡]$", show_cell(value))
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


def _escape_markdown(text: Value) -> str:
    """A text that neither ends a table's cell nor begins a tag or a link."""
    text = show_cell(text).replace("&", "&amp;").replace("<", "&lt;")
    text = text.replace("\\", "\\\\").replace("|", "\\|")
    return " ".join(text.replace("](", "]\\(").splitlines())
