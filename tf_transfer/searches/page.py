"""The answer of a search in words: ten lines on the screen, and a page.

The words are in `reports/templates/search.txt.jinja`, the page in
`search.html.jinja` next to it: one HTML file that needs no other.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tf_transfer.reports import (
    answer as reports,
    depth,
    error_tables,
    page as reports_page,
    wording,
)
from tf_transfer.reports.errors import describe_confusions
from tf_transfer.reports.study import Table
from tf_transfer.searches import answer
from tf_transfer.searches.answer import Row
from tf_transfer.searches.space import Choice, EVERYTHING
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import files, formatting

FILE = "search.html"
NAMES = {
    EVERYTHING: "everything",
    "head": "the output layer alone",
    "last_0": "the head alone",
    "last_1": "the last block",
}
OBJECTIVES = {
    "score": "the cheapest",
    "seconds_at_prediction": "the fastest to predict",
    "parameters": "the fewest trained parameters",
}
TRAIN, PREDICT = "Train it again", "To predict"
# Flags of a run that its command does without.
LEFT_OUT = (
    "--max_seconds=",
    "--max_epochs=",
    "--baseline=",
    "--score_test=",
    "--also_cache=",
)

Baselines = Mapping[str, reports.Scored]  # on validation, by name


def give(search: Any) -> None:
    """Prints the answer, and writes the page.

    Args:
        search: a `searches.search.Search` that is over for now.
    """
    rows = answer.rank_approaches(search)
    values = {
        "search": search,
        "rows": rows,
        "profile": search.probe.directory.profile(),
        "commands": {},
        "errors": [],
    }
    if rows:
        values |= _describe_answer(search, rows)
    else:
        values |= _describe_shortage(search)
    lines = write_lines(values)
    page = write_page(values, lines)
    commands = values["commands"]
    for name, command in commands.items():
        lines.append(f"{name}: {command}")
    if PREDICT in commands:
        lines[-1] += "; or --export=FOLDER."

    folder = search.history.folder
    path = os.path.join(search.settings.out, FILE)
    os.makedirs(folder, exist_ok=True)
    files.write_atomically(path, page.encode())
    # A report reads the answer here.
    files.write_json(os.path.join(folder, "answer.json"), {"lines": lines})
    print("\n" + "\n".join([*lines, f"The whole answer: {path}"]))


def _open(
    runs: Mapping[str, Planned], kind: str = "validation"
) -> dict[str, reports.Scored]:
    """Those among some runs that are finished; see `reports.open_scored`."""
    opened = {}
    for name, run in runs.items():
        scored = reports.open_scored(run.directory.path, kind)
        if scored is not None:
            opened[name] = scored
    return opened


# === Lines ===


def write_lines(values: Mapping[str, Any]) -> list[str]:
    """The answer without its commands, a sentence or more per line.

    Args:
        values: see `give`.
    """
    environment = reports_page.make_environment(escapes=False)
    environment.filters["approach"] = describe_approach
    environment.filters["duration"] = _duration
    environment.filters["counted"] = wording.count
    environment.filters["interval"] = reports.score_interval
    environment.filters["profile"] = reports.describe_profile
    template = environment.get_template("search.txt.jinja")
    lines = []
    for paragraph in re.split(r"\n\s*\n", template.render(values)):
        line = re.sub(r"\s*\n\s*", " ", paragraph).strip()
        if line:
            lines.append(line)
    return lines


def _describe_shortage(search: Any) -> dict[str, Any]:
    """The values of the templates that only a search without runs has.

    Args:
        search: see `give`.
    """
    shortage = None
    if search.planner:
        shortage = answer.least_budget(search)
    tested = _open(search.baselines, kind="")
    return {"shortage": shortage, "baselines": tested}


def _describe_answer(search: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """The values of the templates that only an answer has.

    Args:
        search: see `give`.
        rows: see `answer.rank_approaches`.
    """
    planner, baselines = search.planner, _open(search.baselines)
    model = search.refit or rows[0].run
    recommended = ""
    if baselines and not planner.beats_floor(rows[0].setting):
        recommended = max(baselines, key=lambda name: baselines[name].score)
        model = search.baselines[recommended]
    scored = reports.open_scored(model.directory.path)
    assert scored is not None

    leads, tests = {}, {}
    for name, other in _open(search.baselines, scored.kind).items():
        leads[name] = answer.compare(scored, other)
        tests[name] = reports.format_score(other)
    if not recommended:
        tests[rows[0].name] = reports.format_score(scored)
    if scored.kind != "test":
        tests = {}

    top = _open({row.name: row.run for row in rows[:2]})
    lead_over_next = None
    if len(top) == 2:
        lead_over_next = answer.compare(*top.values())

    best = planner.best_of_approaches()[0].choice
    everything = None
    for row in rows:
        if is_everything(row.name):
            everything = row
    errors = model.directory.errors()
    return {
        "baselines": baselines,
        "scored": scored,
        "recommended": recommended,
        "best": next(row for row in rows if row.setting.choice == best),
        "objective": OBJECTIVES[search.settings.objective],
        "leads": leads,
        "tests": tests,
        "majority": reports.majority(scored),
        "everything": everything,
        "lead_over_next": lead_over_next,
        "explorations": planner.explorations(search.settings.seconds),
        "commands": _list_commands(model, scored, recommended),
        "confusions": describe_confusions(errors.get(scored.kind, {})),
        "errors": list(error_tables.tabulate(errors, "The answer")),
    }


def describe_approach(name: str) -> str:
    """An approach in words."""
    base, _, options = name.partition(", ")
    words = NAMES.get(base, f"the last {base.removeprefix('last_')} blocks")
    if options:
        words += f" ({options})"
    return words


def is_everything(name: str) -> bool:
    """Whether an approach trains every weight."""
    base, _, options = name.partition(", ")
    return base == EVERYTHING and not re.search("method=|keep_blocks=", options)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 180 else formatting.duration(seconds)


# === Commands ===


def _list_commands(
    model: Planned, scored: reports.Scored, recommended: str
) -> dict[str, str]:
    """The commands that train the answer and that predict, by name.

    Args:
        model: the run of the answer.
        scored: its scores.
        recommended: the baseline that is the answer, or "".
    """
    words = ["python", "-m", model.experiment.command_module]
    for word in model.words:
        if not word.startswith(LEFT_OUT):
            words.append(word)
    if not recommended:
        words.append(f"--max_epochs={scored.record['epochs_run']}")
    commands = {TRAIN: shlex.join(words)}
    if recommended in ("", reports.PROBE):
        words = ["python", "-m", "tf_transfer.predict", f"--run={scored.path}"]
        for _ in model.experiment.data.task.texts:
            words.append("--text=...")
        commands[PREDICT] = shlex.join(words)
    return commands


# === The page ===


def write_page(values: Mapping[str, Any], lines: Sequence[str]) -> str:
    """The page, as HTML.

    Args:
        values: see `give`.
        lines: the answer; see `write_lines`.
    """
    task, tables = values["search"].settings.task_name, []
    if values["rows"]:
        tables = [_list_approaches(values)]
    profiles = {}
    if values["profile"]:
        profiles[task] = values["profile"]
    environment = reports_page.make_environment(escapes=True)
    return environment.get_template("search.html.jinja").render(
        title=f"{task}: what to train",
        lines=lines,
        commands=values["commands"],
        errors=values["errors"],
        depth_profile=depth.draw(profiles),
        tables=tables,
        most_shown=reports_page.MOST_SHOWN,
    )


def _list_approaches(values: Mapping[str, Any]) -> Table:
    """The approaches and the baselines; the answer is the first row.

    Args:
        values: see `give`.
    """
    costs = values["search"].planner.costs
    lines = []
    for row in values["rows"]:
        line = {
            "trains": describe_approach(row.name),
            "validation": reports.show_score(row.score, row.interval),
            "test": values["tests"].get(row.name),
            "seeds": len(row.setting.scores),
            "rate": row.rate,
            "epochs": row.setting.epochs,
            "schedule": _schedule(row.choice),
            "an epoch, s": round(costs.epoch_seconds(row.name), 2),
            "of the search, s": round(row.seconds),
            "trained parameters": row.record["trainable_parameters"],
            "run": row.run.directory.path,
        }
        lines.append(line)
    for name, baseline in values["baselines"].items():
        line = {
            "trains": name,
            "validation": reports.format_score(baseline),
            "test": values["tests"].get(name),
            "run": baseline.path,
        }
        if name == values["recommended"]:
            lines.insert(0, line)
        else:
            lines.append(line)
    if values["majority"] is not None:
        kind = values["scored"].kind
        score = f"{values['majority']:.1f}"
        lines.append({"trains": reports.MAJORITY, kind: score})
    return Table(
        "approaches",
        "The best setting of each approach, and the baselines; the answer is "
        "the first row. Scores in points; intervals of 95 %, over seeds where "
        "there are three, else over texts",
        pd.DataFrame(lines),
    )


def _schedule(choice: Choice) -> str:
    return "falling" if choice.linear_epochs else "constant"
