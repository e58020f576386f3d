r"""What approaches usually lead the baselines by, which a search starts from.

    python -m benchmarks.usual_leads --data=FOLDER
    python -m benchmarks.usual_leads \
        --document=experiments/search_answers/results.md

FOLDER holds `glue`, `glue_subset`, `cs224n` and `tweets`. Of each of six tasks,
some texts are labelled. All usual candidates of a search run on each of its
folds, at their usual rate and number of epochs. Then they are fitted to all
labelled texts, and scored on the test. A lead is a candidate's score minus that
of the best baseline, in points. Their variants, which have other rates or more
epochs, are fitted to all labelled texts alone.

A replay has a search decide with shares of the time that all these runs took. A
run takes its recorded time, and gives its recorded predictions. Variants and
further seeds have no recorded folds, so a replay has none of them. It has the
test score that its choice misses against the best candidate, in points, as a
mean over orders of the folds.

Finished runs are read from `--runs`, so the same command resumes. The
measurement starts again if the code or a setting has changed.
"""

import contextlib
import copy
import dataclasses
import io
import math
import os
import statistics
from collections.abc import Mapping
from typing import Any

import pandas as pd
from absl import flags

from benchmarks import documents, own_tables, refresh
from tf_transfer import train
from tf_transfer.comparison import decisions
from tf_transfer.comparison.finished_runs import open_scored, Scored
from tf_transfer.config import command_line
from tf_transfer.runs.warm import WarmState
from tf_transfer.searches import settings as searches
from tf_transfer.searches.controller import read_seconds, Search
from tf_transfer.searches.costs import Candidate, RunSeconds
from tf_transfer.searches.race import Race
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import files, json_files, machine
from tf_transfer.utils.json_files import Record

NAME = "usual_leads"
APPROACHES = ("last 1", "last 2", "last 4", "everything")
VARIANTS = ("a higher rate", "a lower rate", "more epochs")
BASELINES = ("the probe", "the TF-IDF baseline")
# Of the time of all recorded runs; the last is as long as a search needs.
SHARES = {"a 20th": 1 / 20, "a 10th": 1 / 10, "a 4th": 1 / 4, "all": math.inf}


@dataclasses.dataclass(frozen=True)
class RecordedRun:
    """A run on a fold.

    Attributes:
        scored: Its held-out predictions.
        parts: The seconds of its parts.
        test: Its score on the test, in points.
    """

    scored: Scored
    parts: RunSeconds
    test: float


Runs = dict[tuple[str, int], RecordedRun]  # by candidate and fold


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_integer("examples", 600, "Labelled texts of a task.", 16)
    flags.DEFINE_integer("max_length", 128, "Tokens of a text.", 8)
    flags.DEFINE_list("tasks", list(own_tables.TASKS), "Tasks to measure.")
    flags.DEFINE_string("runs", "runs/usual_leads", "Root of the runs.")
    flags.DEFINE_string("out", "experiments/usual_leads", "Of measured.json.")
    flags.DEFINE_string("document", "", "Document to write the table into.")


def measure_task(task: str, warm: WarmState) -> dict[str, Any]:
    """Runs every usual candidate on all folds and on all labelled texts.

    Args:
        task: Key of `own_tables.TASKS`.
        warm: Keeps encoders from run to run.

    Returns:
        `scores`: of the test, in points, by candidate; `gains`: of variants
        over their approach, by approach and variant; `missed`: by share of the
        time, see `replay`; `seconds` of all runs but those of variants;
        `processor`.
    """
    search = open_search(task)
    recorded: Runs = {}
    scores, seconds = {}, []
    candidates = search.plan.by_name.values()
    for candidate in candidates:
        if candidate.variant_of:
            continue
        name = candidate.name
        for fold in range(search.folds):
            recorded[name, fold] = one = _record(search, name, fold, warm)
            seconds.append(count_seconds(one.parts))
        run, result = _refit(search, candidate, warm)
        seconds.append(count_seconds(read_seconds(run, result)))
        scores[name] = _read_score(result)
    gains: dict[str, dict[str, float]] = {}
    for candidate in candidates:
        if usual := candidate.variant_of:
            _, result = _refit(search, candidate, warm)
            gain = _read_score(result) - scores[usual]
            kind = name_variant(candidate, search.plan.by_name[usual])
            gains.setdefault(usual, {})[kind] = gain
    missed = {
        title: statistics.fmean(
            max(scores.values())
            - replay(search.race, recorded, scores, share * sum(seconds), first)
            for first in range(search.folds)
        )
        for title, share in SHARES.items()
    }
    return {
        "scores": scores,
        "gains": gains,
        "missed": missed,
        "seconds": sum(seconds),
        "processor": machine.processor(),
    }


def open_search(task: str) -> Search:
    """A search of a task that has done nothing yet.

    Args:
        task: Key of `own_tables.TASKS`.
    """
    values = flags.FLAGS
    folder = os.path.join(values.runs, task)
    own_tables.write_task(task, values.data, values.examples, folder)
    settings = searches.Settings(
        task=os.path.join(folder, "task.toml"),
        model=values.model,
        max_length=values.max_length,
        budget="1h",
        out=os.path.join(folder, "search"),
        cache_dir=os.path.join(values.runs, "cache"),
    )
    return Search(settings.resolve(), 0.0)


def _train(run: Planned, warm: WarmState) -> Record:
    """Does a run, or reads a finished one; its result."""
    assert isinstance(run.settings, train.Settings)
    with contextlib.redirect_stdout(io.StringIO()):
        experiment = train.Train(run.settings, warm=warm)
        return experiment.train(prints_answer=False).record


def _refit(
    search: Search, candidate: Candidate, warm: WarmState
) -> tuple[Planned, Record]:
    """Trains on all labelled texts, and scores the test once, at the end."""
    for score_test in (candidate.is_baseline, True):
        run = search.plan.make_refit(candidate.name, score_test)
        result = _train(run, warm)
    return run, result


def count_seconds(parts: RunSeconds) -> float:
    """The seconds of a run, without its start."""
    return sum(parts.epochs) + parts.build


def _read_score(result: Record) -> float:
    """The test score of a run, in points."""
    return 100.0 * result["test"][result["metric"]]


def name_variant(candidate: Candidate, usual: Candidate) -> str:
    """One of `VARIANTS`."""
    if candidate.epochs > usual.epochs:
        return VARIANTS[2]
    rates = [float(one.flags["lr"]) for one in (candidate, usual)]
    return VARIANTS[0] if rates[0] > rates[1] else VARIANTS[1]


def _record(
    search: Search, name: str, fold: int, warm: WarmState
) -> RecordedRun:
    """Does a run on a fold, and scores its model on the test."""
    run = search.plan.make_run(name, fold)
    path = run.directory.file("seconds.json")
    if not os.path.exists(path):  # the test adds its seconds to the run's
        parts = read_seconds(run, _train(run, warm))
        files.write_json(path, parts._asdict())
    parts = RunSeconds(**json_files.read_record(path))
    tested = search.plan.make_run(name, fold, score_test=True)
    test = _read_score(_train(tested, warm))
    scored = open_scored(run.directory.path, "validation")
    assert scored is not None
    return RecordedRun(scored, parts, test)


def replay(
    race: Race,
    recorded: Runs,
    refits: Mapping[str, float],
    seconds: float,
    first: int,
) -> float:
    """The test score of a search that reads recorded runs, in points.

    Args:
        race: Of the search; it is left as it is.
        recorded: All runs on folds that there are.
        refits: The test scores of runs on all labelled texts, by candidate.
        seconds: That the search has, with the fit to all labelled texts.
        first: The recorded fold that is the first of the search.
    """
    race = copy.deepcopy(race)
    while (action := race.next(seconds)) is not None:
        name, repeat = action.name, action.repeat
        one = None
        if repeat < race.folds:
            one = recorded.get((name, (repeat + first) % race.folds))
        if one is None:
            race.failed.add((name, repeat))
            continue
        taken = count_seconds(one.parts)
        seconds -= taken
        race.add_scores(name, repeat, one.scored)
        race.costs.add_run(name, one.parts, taken)
    rows = race.compare(race.list_too_long(seconds))
    name = decisions.choose(rows, 0.0).name
    if race.can_refit(name, seconds):
        return refits[name]
    return recorded[name, first].test


def measure(out: str) -> dict[str, Any]:
    """Measures every task, and stores the result after each."""
    values = flags.FLAGS
    command_line.import_tensorflow()
    path = os.path.join(out, "measured.json")
    settings = {
        "model": values.model,
        "max_length": values.max_length,
        "examples": values.examples,
    }
    measured = refresh.resume(path, NAME, settings)
    os.makedirs(out, exist_ok=True)
    warm = WarmState()
    for task in values.tasks:
        if task not in measured["tasks"]:
            measured["tasks"][task] = measure_task(task, warm)
            print(task, measured["tasks"][task], flush=True)
            files.write_json(path, measured)
    return measured


# === The table ===


def find_leads(scores: Mapping[str, float]) -> dict[str, float]:
    """The lead of each approach over the best baseline, in points.

    Args:
        scores: Of the test, in points, by candidate.
    """
    floor = max(scores[name] for name in BASELINES)
    return {name: scores[name] - floor for name in APPROACHES}


def make_table(measured: dict[str, Any]) -> str:
    """The leads and what replays miss by task, and their means, as Markdown."""
    tasks = measured["tasks"]
    table = pd.DataFrame.from_dict(
        {
            task: {**find_leads(one["scores"]), **one["missed"]}
            for task, one in tasks.items()
        },
        orient="index",
    )
    kinds = [
        "pairs" if len(own_tables.TASKS[task][1]) == 2 else "single texts"
        for task in tasks
    ]
    rows_of_means = {
        f"**mean of {kind}**": some.mean()
        for kind, some in table.groupby(kinds)
    }
    rows_of_means["**mean**"] = table.mean()
    table = pd.concat([table, pd.DataFrame(rows_of_means).T])
    missed = [f"missed in {title} of the time" for title in SHARES]
    heads = ["task", *APPROACHES, *missed]
    rows = [heads, ["---"] * len(heads)]
    for task, row in table.iterrows():
        cells = [f"{row[name]:+.1f}" for name in APPROACHES]
        cells += [f"{row[title]:.2f}" for title in SHARES]
        rows.append([str(task), *cells])
    processors = " and ".join(sorted({t["processor"] for t in tasks.values()}))
    minutes = statistics.fmean(one["seconds"] for one in tasks.values()) / 60
    gains = [
        ["variant", *APPROACHES],
        ["---"] * (1 + len(APPROACHES)),
    ]
    for kind in VARIANTS:
        means = [
            statistics.fmean(one["gains"][name][kind] for one in tasks.values())
            for name in APPROACHES
        ]
        gains.append([kind, *(f"{mean:+.1f}" for mean in means)])
    return (
        f"`{measured['model']}`, {measured['examples']} labelled texts of up "
        f"to {measured['max_length']} tokens, on {processors}; all "
        f"runs of a task took {minutes:.0f} minutes in the mean:\n\n"
        f"{documents.as_markdown(rows)}\n\nThe test score of variants minus "
        "that of their approach at its usual rate and number of epochs, in "
        f"points, means over the tasks:\n\n{documents.as_markdown(gains)}"
    )


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        measure, make_table, values.out, values.document, NAME
    )


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
