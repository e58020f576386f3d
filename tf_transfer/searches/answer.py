"""The answer of a search: a recommendation, on the screen and as a page.

The folds choose it; only the chosen candidate's test score is read. The words
are in `reports/templates/search.txt.jinja`. The page, in `search.html.jinja`
next to it, is one HTML file that needs no other.
"""

import dataclasses
import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from tf_transfer.comparison import decisions
from tf_transfer.comparison.finished_runs import open_scored
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import Reader
from tf_transfer.data import suspects as suspects_lib
from tf_transfer.data.error_analysis import describe_confusions
from tf_transfer.data.metrics import Coverage, measure_coverage
from tf_transfer.data.suspects import SuspectRow
from tf_transfer.reports import (
    advice,
    figures,
    page as reports_page,
    tables as tables_lib,
)
from tf_transfer.sweeps.grid import Planned
from tf_transfer.training.record_types import Answer as StoredAnswer, Profile
from tf_transfer.training.run_paths import ANSWER
from tf_transfer.utils import files, formatting, screen

if TYPE_CHECKING:
    from tf_transfer.searches.controller import Search

FILE = "search.html"
PREDICT, MORE = "To predict", "With more time"
MORE_TIME = 2  # times the budget
TITLES = {  # of the tables of the page, by name
    "approaches": "Approaches",
    "suspects": "Labels to check",
    "coverage": "Sure answers",
}
SHOWN_SUSPECTS = 10  # on the page


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer of a search.

    Attributes:
        lines: The text, one or more sentences each.
        sentence: The recommendation, with its reason.
        table: The rows of the candidates, by the titles of the columns.
        commands: The next commands, by a title.
        model: The recommended run; None if no run has ended.
        suspects: Labels that look wrong by the folds, the clearest first.
        coverage: How accurate the surest answers of the folds are.
    """

    lines: list[str]
    sentence: str = ""
    table: list[dict[str, str]] = dataclasses.field(default_factory=list)
    commands: dict[str, str] = dataclasses.field(default_factory=dict)
    model: Planned | None = None
    suspects: Sequence[SuspectRow] = ()
    coverage: Sequence[Coverage] = ()


# === The answer ===


def report(search: "Search") -> Answer:
    """Prints the answer, and writes the page; returns the answer."""
    rows = search.race.compare(search.too_long)
    answer = _describe(search, rows) if rows else _describe_nothing(search)
    out = search.settings.out
    if answer.suspects:
        suspects_lib.write_csv(
            os.path.join(out, suspects_lib.FILE), answer.suspects
        )
    path = os.path.join(out, FILE)
    os.makedirs(search.clock.folder, exist_ok=True)
    files.write_atomically(path, _write_page(search, answer).encode())
    run = ""
    if answer.model:
        run = os.path.relpath(answer.model.directory.path, out)
    # Reports, predictions and `train` read the answer here.
    stored = StoredAnswer(lines=answer.lines, run=run, table=answer.table)
    files.write_json(os.path.join(out, ANSWER), stored)
    lines = advice.show_lines(answer.lines, answer.table)
    screen.say(f"\n{lines}\nThe whole answer: {path}")
    return answer


def _describe(search: "Search", rows: Sequence[decisions.Row]) -> Answer:
    """The answer of a search with results."""
    max_loss = search.settings.max_loss
    chosen = decisions.choose(rows, max_loss)
    model = search.refit or search.plan.make_run(chosen.name, 0)
    tested = open_scored(model.directory.path, "test")
    if tested:
        chosen = dataclasses.replace(chosen, test=tested.ranged)
        rows = [chosen if row.name == chosen.name else row for row in rows]
    sentence = advice.advise(pick_compared(rows, chosen.name), max_loss)
    if len(rows) == 1:
        sentence = f"Use {chosen.name}: nothing else ended in time."
    commands = _list_commands(search, model)
    profile = _find_profile(search)
    suspects, coverage = _check_labels(search, chosen.name)
    lines = _write_lines(
        search,
        chosen=chosen,
        sentence=sentence,
        metric=model.experiment.data.task.metric,
        tested=tested,
        labelled=search.labelled if search.refit else 0,
        lacks_refit=search.settings.refit and search.refit is None,
        flags=search.plan.by_name[chosen.name].flags,
        untried=list_untried(search),
        profile=advice.describe_profile(profile) if profile else "",
        labels=advice.describe_labels(profile) if profile else "",
        is_over=search.race.next(math.inf) is None,
        cut=_find_cut(search),
        confusions=_describe_errors(model),
        suspects=suspects_lib.describe(suspects),
        commands=commands,
    )
    table = advice.make_table(rows, max_loss)
    return Answer(lines, sentence, table, commands, model, suspects, coverage)


def pick_compared(
    rows: Sequence[decisions.Row], name: str
) -> list[decisions.Row]:
    """The rows that the sentence is about.

    They are the answer, the best, the baselines, and the best of those that are
    likely to be above the majority baseline: one such row is needed for a
    recommendation.

    Args:
        rows: Of all candidates, the best first.
        name: Of the answer.
    """
    likely = [row.name for row in rows if row.is_likely]
    names = {name, rows[0].name, *likely[:1]}
    return [row for row in rows if row.name in names or row.is_baseline]


def _describe_nothing(search: "Search") -> Answer:
    """The answer of a search without a finished run."""
    untried = list_untried(search)
    has_failed = bool(search.race.failed)
    return Answer(
        _write_lines(
            search,
            chosen=None,
            untried=untried,
            has_failed=has_failed,
        )
    )


def list_untried(search: "Search") -> dict[str, str]:
    """The time that each candidate without a run needs; no variants."""
    race = search.race
    return {
        name: formatting.duration(race.count_needed(name))
        for name, candidate in race.candidates.items()
        if not candidate.variant_of and name not in race.results
    }


def _find_profile(search: "Search") -> Profile | None:
    """The probe's depth profile; None without one."""
    run = search.plan.make_run(search.race.baselines[-1], 0)
    return run.directory.profile()


def _check_labels(
    search: "Search", name: str
) -> tuple[list[SuspectRow], list[Coverage]]:
    """Suspect labels and coverage on the folds; see `Answer`.

    The folds are those of the answer, or of the probe if it lacks some. Tasks
    without classes have none.
    """
    race, data = search.race, search.experiment.data
    found = race.join_folds(name) or race.join_folds(race.baselines[-1])
    if data.task.kind != "classes" or race.folds < 2 or found is None:
        return [], []
    texts = data.source.read("train")
    rows = {number: row for row, number in enumerate(texts.ids.tolist())}
    held = [rows[number] for number in found.ids.tolist()]
    named = suspects_lib.name_suspects(
        suspects_lib.find_suspects(found.labels, found.logits),
        data.task,
        [[column[row] for row in held] for column in texts.texts],
        data.source.locate("train", found.ids),
    )
    data.drop_texts()
    return named, measure_coverage(found.labels, found.logits)


def _find_cut(search: "Search") -> float:
    """The share of the training texts that is cut, from 0 to 1."""
    run = search.plan.make_run(search.race.baselines[-1], 0)
    result = run.directory.result() or {}
    return float(result.get("cut_texts") or 0.0)


def _describe_errors(model: Planned) -> str:
    """The most frequent confusions on the test, a sentence."""
    errors = model.directory.errors()
    for kind in ("test", "validation"):
        if kind in errors:
            return f"Errors on {kind}. {describe_confusions(errors[kind])}"
    return ""


def _list_commands(search: "Search", model: Planned) -> dict[str, str]:
    """The commands that predict and that continue the search, by a title."""
    predict = ["python", "-m", "tf_transfer.predict"]
    predict.append(f"--run={model.directory.path}")
    predict += ["--text=..."] * len(model.experiment.data.task.texts)
    settings = search.settings
    own = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.metadata.get("read_by") == Reader.STUDY
    }
    own["budget"] = f"{MORE_TIME * settings.seconds:g}s"
    more = ["python", "-m", "tf_transfer.search"]
    more += settings_lib.offered_flags(settings, own)
    quote = formatting.quote_command
    return {PREDICT: quote(*predict), MORE: quote(*more)}


# === Lines and page ===


def _write_lines(search: "Search", **values: object) -> list[str]:
    """The answer, a sentence or more per line.

    Args:
        search: The search.
        values: See `templates/search.txt.jinja`.
    """
    environment = reports_page.make_environment(escapes=False)
    template = environment.get_template("search.txt.jinja")
    text = template.render(
        settings=search.settings,
        race=search.race,
        spent=search.clock(),
        **values,
    )
    lines = []
    for paragraph in re.split(r"\n\s*\n", text):
        line = re.sub(r"\s*\n\s*", " ", paragraph).strip()
        if line:
            lines.append(line)
    return lines


def _write_page(search: "Search", answer: Answer) -> str:
    """The page, as HTML."""
    task, tables, errors = search.settings.task_name, [], []
    profiles = {}
    if answer.table:
        tables = [_make_table(search, answer), *_tabulate_labels(answer)]
    if answer.model:
        found = answer.model.directory.errors()
        errors = [*tables_lib.tabulate_errors(found, "The answer")]
        profile = _find_profile(search)
        if profile:
            profiles[task] = profile
    environment = reports_page.make_environment(escapes=True)
    return environment.get_template("search.html.jinja").render(
        title=f"{task}: what to train",
        lines=answer.lines[: len(answer.lines) - len(answer.commands)],
        commands=answer.commands,
        errors=errors,
        depth_profile=figures.draw_profile(profiles),
        tables=tables,
        titles=TITLES,
        most_shown=reports_page.MOST_SHOWN,
    )


def _make_table(search: "Search", answer: Answer) -> tables_lib.Table:
    """The table of the answer, with the settings of each candidate."""
    lines = []
    for line in answer.table:
        name = line["approach"]
        candidate = search.race.candidates[name]
        runs = [*search.race.results[name].values()]
        lines.append(
            {
                **line,
                "rate": str(candidate.flags.get("lr", "")),
                "epochs": "" if candidate.is_baseline else candidate.epochs,
                "runs": len(runs),
                "trained parameters": runs[0].trainable_parameters,
            }
        )
    return tables_lib.Table(
        "approaches",
        "All candidates. Scores in points on the texts that folds held out, in "
        "brackets with 95 % intervals over these texts. "
        f"{advice.explain_table(search.settings.max_loss)}",
        pd.DataFrame(lines),
    )


def _tabulate_labels(answer: Answer) -> list[tables_lib.Table]:
    """The tables of the clearest suspects, and of the coverage."""
    suspects = [
        {
            **dataclasses.asdict(row),
            "text": formatting.cut(row.text),
            "probability": f"{row.probability:.0%}",
        }
        for row in answer.suspects[:SHOWN_SUSPECTS]
    ]
    coverage = [
        {
            "texts answered": f"{line.share:.0%}",
            "least confidence": f"{line.confidence:.2f}",
            "accuracy": f"{100 * line.accuracy:.1f}",
        }
        for line in answer.coverage
    ]
    return [
        tables_lib.Table(
            "suspects",
            "Labels that look wrong: the folds, which have not seen them, give "
            f"another one. {suspects_lib.FILE} has all "
            "(docs/guides/errors.md).",
            pd.DataFrame(suspects),
        ),
        tables_lib.Table(
            "coverage",
            "The accuracy of the surest answers on the texts that folds held "
            "out. `predict --min_confidence` leaves the others empty.",
            pd.DataFrame(coverage),
        ),
    ]
