"""The answer of a search in words: ten lines on the screen, and a page.

The words are in `reports/templates/search.txt.jinja`, the page in
`search.html.jinja` next to it: one HTML file that needs no other.
"""

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tf_transfer.data.errors import describe_confusions
from tf_transfer.reports import (
    advice,
    figures,
    page as reports_page,
    predictions,
    tables as tables_lib,
)
from tf_transfer.searches import answer
from tf_transfer.searches.answer import Row
from tf_transfer.searches.space import Choice
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import files, formatting

FILE = "search.html"
OBJECTIVES = {
    "score": "the cheapest",
    "seconds_at_prediction": "the fastest to predict",
    "parameters": "the fewest trained parameters",
}
TRAIN, PREDICT = "Train it again", "To predict"


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
    table = [advice.align(values["table"])] if values["table"] else []
    lines = [lines[0], *table, *lines[1:], f"The whole answer: {path}"]
    print("\n" + "\n".join(lines))


# === Lines ===


def write_lines(values: Mapping[str, Any]) -> list[str]:
    """The answer without its commands, a sentence or more per line.

    Args:
        values: see `give`.
    """
    environment = reports_page.make_environment(escapes=False)
    environment.filters["approach"] = answer.describe_approach
    environment.filters["duration"] = _duration
    environment.filters["counted"] = formatting.count
    environment.filters["profile"] = advice.describe_profile
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
    rows = advice.compare_runs(
        {name: run.directory.path for name, run in search.baselines.items()}
    )
    return {"shortage": shortage, "table": advice.make_table(rows)}


def _describe_answer(search: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """The values of the templates that only an answer has.

    Args:
        search: see `give`.
        rows: see `answer.rank_approaches`.
    """
    planner, max_loss = search.planner, search.settings.max_loss
    compared, chosen = answer.recommend(search, rows)
    model = search.refit or rows[0].run
    if chosen.is_baseline:
        model = search.baselines[chosen.name]
    scored = predictions.open_scored(model.directory.path)
    assert scored is not None
    if search.refit:  # it has another test score than the run that was chosen
        compared[0] = dataclasses.replace(compared[0], test=scored.ranged)
    names = {rows[0].words, *search.baselines}
    candidates = [row for row in compared if row.name in names]
    best = planner.best_of_approaches()[0].choice
    errors = model.directory.errors()
    return {
        "scored": scored,
        "chosen": chosen,
        "sentence": advice.advise(candidates, max_loss),
        "compared": compared,
        "table": advice.make_table(compared, max_loss),
        "best": next(row for row in rows if row.setting.choice == best),
        "objective": OBJECTIVES[search.settings.objective],
        "explorations": planner.explorations(search.settings.seconds),
        "commands": _list_commands(model, scored, chosen),
        "confusions": describe_confusions(errors.get(scored.kind, {})),
        "errors": list(tables_lib.tabulate_errors(errors, "The answer")),
    }


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 180 else formatting.duration(seconds)


# === Commands ===


def _list_commands(
    model: Planned, scored: predictions.Scored, chosen: advice.Row
) -> dict[str, str]:
    """The commands that train the answer and that predict, by name.

    Args:
        model: the run of the answer.
        scored: its scores.
        chosen: the row of the answer.
    """
    changes = {}
    if not chosen.is_baseline:
        changes["max_epochs"] = scored.record["epochs_run"]
    words = model.experiment.command(**changes)
    commands = {TRAIN: shlex.join(words)}
    if not chosen.is_baseline or chosen.name == advice.PROBE:
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
        depth_profile=figures.draw_profile(profiles),
        tables=tables,
        most_shown=reports_page.MOST_SHOWN,
    )


def _list_approaches(values: Mapping[str, Any]) -> tables_lib.Table:
    """The table of the answer, with the setting of each approach.

    Args:
        values: see `give`.
    """
    costs = values["search"].planner.costs
    settings = {}
    for row in values["rows"]:
        settings[row.words] = {
            "rate": row.rate,
            "epochs": row.setting.epochs,
            "schedule": _schedule(row.choice),
            "an epoch, s": round(costs.epoch_seconds(row.name), 2),
            "of the search, s": round(row.seconds),
            "trained parameters": row.record["trainable_parameters"],
            "run": row.run.directory.path,
        }
    lines = []
    for line in values["table"]:
        lines.append({**line, **settings.get(line["approach"], {})})
    max_loss = values["search"].settings.max_loss
    return tables_lib.Table(
        "approaches",
        "The best setting of each approach, and the baselines. Scores in "
        "points, in brackets with 95 % intervals, over seeds where there are "
        f"three, else over texts. {advice.describe(max_loss)}",
        pd.DataFrame(lines),
    )


def _schedule(choice: Choice) -> str:
    return "falling" if choice.linear_epochs else "constant"
