"""The answer of a search: what to use, as lines on the screen and as a page.

It is chosen on validation; test scores are read only of what was chosen, and
of the baselines. The functions are handed a `controller.Search` that is
over for now. The words are in `reports/templates/search.txt.jinja`, the page in
`search.html.jinja` next to it: one HTML file that needs no other.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any, TYPE_CHECKING

import numpy as np
import pandas as pd

from tf_transfer.comparison import decisions, finished_runs
from tf_transfer.comparison.compare import compare_runs, open_candidates
from tf_transfer.comparison.estimates import average, FEWEST_SEEDS, UNKNOWN
from tf_transfer.data.error_analysis import describe_confusions
from tf_transfer.reports import (
    advice,
    figures,
    page as reports_page,
    tables as tables_lib,
)
from tf_transfer.searches.ladder import Choice, OVERHEAD_SECONDS, Setting
from tf_transfer.sweeps.grid import Planned
from tf_transfer.training.record_types import Answer
from tf_transfer.training.results import OUT_OF_TIME
from tf_transfer.training.run_paths import ANSWER
from tf_transfer.utils import files, formatting, screen
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.searches.controller import Search

FILE = "search.html"
TRAIN, PREDICT = "Train it again", "To predict"
Values = dict[str, Any]  # of the templates, by name


# === The rows ===


@dataclasses.dataclass(frozen=True)
class Row:
    """The best setting of an approach.

    Attributes:
        setting: it, and its scores on validation.
        choice: its run with the best seed; of few texts, on the first fold.
        run: that run.
        record: the content of that run's `result.json`.
    """

    setting: Setting
    choice: Choice
    run: Planned
    record: Record

    @property
    def seconds(self) -> float:
        """Seconds of its training, with the build of its feature cache."""
        return finished_runs.count_seconds(self.record)

    @property
    def name(self) -> str:
        """Name of the approach."""
        return self.choice.approach


def rank_approaches(search: "Search") -> list[Row]:
    """The best setting of each approach, the answer first.

    The answer is the best setting, or the cheapest within `--max_loss` of it.
    The others follow by their score.
    """
    ladder, rows = search.ladder, []
    for setting in ladder.best_of_approaches() if ladder else ():
        choice = setting.choice
        if not search.has_folds:
            choice = ladder.best_seed(setting)
        run = search.runs.get(choice)
        record = run.directory.result() if run else None
        if run is None or record is None:
            continue
        rows.append(Row(setting, choice, run, record))
    max_loss = search.settings.max_loss
    if rows and max_loss:
        least = rows[0].setting.mean - max_loss
        close = [row for row in rows if row.setting.mean >= least]
        answer = min(close, key=lambda row: row.seconds)
        rows.sort(key=lambda row: row is not answer)
    return rows


def recommend(
    search: "Search", ranked: Sequence[Row]
) -> tuple[list[decisions.Row], decisions.Row]:
    """The rows of the approaches and the baselines, and the one to use.

    That is the answer or a baseline, by the rule of `decisions`; the reference
    is what is expected to score more.

    Args:
        search: see `rank_approaches`.
        ranked: what that returned.
    """
    scores = search.score_floor()
    paths = {row.name: row.run.directory.path for row in ranked}
    for name in scores:
        paths[name] = search.floor[name][0].directory.path
    reference = ""  # the best
    candidates = {*scores}
    if ranked:
        candidates.add(ranked[0].name)
        if ranked[0].setting.least_lead > 0:
            reference = ranked[0].name
    if scores and not reference:
        reference = max(
            scores, key=lambda name: np.mean([*scores[name].values()])
        )
    seeds = {row.name: row.setting.scores for row in ranked}
    records = {row.name: row.record for row in ranked}
    lucks, folds = {}, None
    if search.has_folds:
        folds = {**scores, **seeds}
    else:
        # The run that is compared has the best seed: its luck is taken off.
        for ours in ranked:
            best = ours.setting.scores[ours.choice.seed]
            lucks[ours.name] = best - ours.setting.mean
    opened = open_candidates(paths, "validation", lucks, folds)
    rows = []
    for row in compare_runs(opened, reference):
        by_seed = seeds.get(row.name, {})
        row = dataclasses.replace(row, seeds=len(by_seed))
        if search.has_folds:
            by_seed = by_seed or scores[row.name]
        record = records.get(row.name, {})
        is_cut = record.get("stop_reason") == OUT_OF_TIME
        if is_cut and row.name not in candidates:
            note = f"the time ended it after {record['epochs_run']} of "
            note += f"{search.ladder.approaches[row.name].epochs} epochs"
            row = dataclasses.replace(row, difference=UNKNOWN, note=note)
        if len(by_seed) >= FEWEST_SEEDS:
            validation = average([*by_seed.values()])
            row = dataclasses.replace(row, validation=validation)
        rows.append(row)
    compared = [row for row in rows if row.name in candidates]
    return rows, decisions.choose(compared, search.settings.max_loss)


def is_sound_refit(refit: Planned, row: Row | None) -> bool:
    """Whether a refit is done, with a training loss as low as before.

    Args:
        refit: the run.
        row: what it trains again; None for a baseline.
    """
    if refit.directory.result() is None:
        return False
    if row is None:
        return True
    loss = refit.directory.epochs()[-1]["train_loss"]
    epochs = row.run.directory.epochs()
    return loss <= epochs[row.record["best_epoch"] - 1]["train_loss"]


# === The answer ===


def report(search: "Search") -> Values:
    """Prints the answer, and writes the page.

    Returns:
        The values of the templates, and `lines`, those of the page; `scored`,
        the run of the answer, is None if no run has ended.
    """
    ranked = rank_approaches(search)
    values = {
        "search": search,
        "rows": ranked,
        "profile": search.probe.directory.profile(),
        "commands": {},
        "errors": [],
        "table": [],
        "scored": None,
        "more": None,
        "shortage": _describe_shortage(search, ranked),
        "untried": _list_untried(search),
        "cut": (search.probe.directory.result() or {}).get("cut_texts"),
        **_describe_answer(search, ranked),
    }
    lines = write_lines(values)
    page = write_page(values, lines)
    commands = values["commands"]
    for name, command in commands.items():
        lines.append(f"{name}: {command}")
    if PREDICT in commands:
        lines.append(
            "In place of --text: --input=FILE --output=FILE, or --export=FOLDER"
        )

    out, run = search.settings.out, ""
    path = os.path.join(out, FILE)
    os.makedirs(search.clock.folder, exist_ok=True)
    files.write_atomically(path, page.encode())
    if values["scored"]:
        run = os.path.relpath(values["model"].directory.path, out)
    # Reports and predictions read the answer here.
    content = Answer(lines=lines, run=run)
    files.write_json(os.path.join(out, ANSWER), content)
    table = [advice.align(values["table"])] if values["table"] else []
    lines = [lines[0], *table, *lines[1:], f"The whole answer: {path}"]
    screen.say("\n" + "\n".join(lines))
    return {**values, "lines": content["lines"]}


def _describe_answer(search: "Search", ranked: Sequence[Row]) -> Values:
    """The values of the templates on what to use; none if nothing ran."""
    max_loss = search.settings.max_loss
    rows: list[decisions.Row] = []
    if ranked or search.score_floor():
        rows, chosen = recommend(search, ranked)
    if not rows:
        return {}
    floor = search.floor.get(chosen.name)
    run = floor[0] if floor else ranked[0].run
    model = search.refit or run
    if search.testing:
        run = model
    scored = finished_runs.open_scored(run.directory.path)
    assert scored is not None
    if run is search.refit:  # it has another test score than what was chosen
        chosen = dataclasses.replace(chosen, test=scored.ranged)
        rows = [chosen if row.name == chosen.name else row for row in rows]
    names = {*search.floor, *(row.name for row in ranked[:1])}
    candidates = [row for row in rows if row.name in names]
    errors, result = run.directory.errors(), run.directory.result() or {}
    sentence = advice.advise(candidates, max_loss)
    if len(candidates) == 1:
        sentence = f"Use {chosen.name}: nothing else ended in time."
    return {
        "scored": scored,
        "lacks_test_score": not result.get("scores_test", True),
        "model": model,
        "chosen": chosen,
        "sentence": sentence,
        "table": advice.make_table(rows, max_loss),
        "more": search.ladder.next(np.inf) if search.ladder else None,
        # What runs took is not known to the same command given again.
        "overhead": OVERHEAD_SECONDS,
        "commands": _list_commands(model, chosen),
        "confusions": describe_confusions(errors.get(scored.kind, {})),
        "errors": list(tables_lib.tabulate_errors(errors, "The answer")),
    }


def _list_untried(search: "Search") -> list[str]:
    """The approaches without a run, variants apart."""
    approaches = search.ladder.approaches.values() if search.ladder else ()
    tried = {choice.approach for choice in search.runs}
    return [
        approach.name
        for approach in approaches
        if not approach.variant_of and approach.name not in tried
    ]


def _describe_shortage(
    search: "Search", ranked: Sequence[Row]
) -> Values | None:
    """The cheapest approach and the `seconds` of one epoch of it.

    Returns:
        None if something was trained, or the search was stopped before.
    """
    ladder = search.ladder
    if ranked or ladder is None:
        return None
    seconds, name = min(
        (ladder.costs.seconds(name, 1), name) for name in ladder.approaches
    )
    return {"approach": name, "seconds": seconds}


def _list_commands(model: Planned, chosen: decisions.Row) -> dict[str, str]:
    """The commands that train the answer and that predict, by name.

    Args:
        model: the run of the answer.
        chosen: the row of the answer.
    """
    changes = {}
    if not chosen.is_baseline:
        result = model.directory.result()
        assert result is not None
        changes["max_epochs"] = result["epochs_run"]
    words = model.experiment.command(**changes)
    path = model.directory.path
    predict = ["python", "-m", "tf_transfer.predict", f"--run={path}"]
    for _ in model.experiment.data.task.texts:
        predict.append("--text=...")
    quote = formatting.quote_command
    return {TRAIN: quote(*words), PREDICT: quote(*predict)}


# === Lines and page ===


def write_lines(values: Values) -> list[str]:
    """The answer without its commands, a sentence or more per line.

    Args:
        values: see `report`.
    """
    environment = reports_page.make_environment(escapes=False)
    template = environment.get_template("search.txt.jinja")
    lines = []
    for paragraph in re.split(r"\n\s*\n", template.render(values)):
        line = re.sub(r"\s*\n\s*", " ", paragraph).strip()
        if line:
            lines.append(line)
    return lines


def write_page(values: Values, lines: Sequence[str]) -> str:
    """The page, as HTML.

    Args:
        values: see `report`.
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


def _list_approaches(values: Values) -> tables_lib.Table:
    """The table of the answer, with the setting of each approach.

    Args:
        values: see `report`.
    """
    search, settings = values["search"], {}
    for row in values["rows"]:
        settings[row.name] = {
            "rate": f"{row.choice.rate:g}",
            "epochs": row.record["epochs_run"],
            "training, s": round(row.seconds, 1),
            "trained parameters": row.record["trainable_parameters"],
        }
    lines = [
        {**line, **settings.get(line["approach"], {})}
        for line in values["table"]
    ]
    over = "folds" if search.has_folds else "seeds"
    return tables_lib.Table(
        "approaches",
        "The best setting of each approach, and the baselines. Scores in "
        f"points, in brackets with 95 % intervals, over {over} where there are "
        "three, else over texts. "
        f"{advice.explain_table(search.settings.max_loss)}",
        pd.DataFrame(lines),
    )
