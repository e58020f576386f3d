r"""What approaches usually lead the baselines by, which a search starts from.

    python -m benchmarks.usual_leads --data=FOLDER
    python -m benchmarks.usual_leads \
        --document=experiments/search_answers/results.md

FOLDER holds `glue`, `glue_subset`, `cs224n` and `tweets`. Of each of six tasks,
some texts are labelled. All usual candidates of a search are fitted to these,
at their usual rate and number of epochs, and scored on the test. A lead is a
candidate's score minus that of the best baseline, in points.

A replay draws what a short search would see of these leads, with `FOLDS` folds
of each approach, and has the test score that its choice misses, by the expected
leads of `searches.leads` and by each lead as it is.

Tasks that are already measured are skipped, so the same command resumes.
"""

import contextlib
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from absl import flags

from benchmarks import documents, search_answers
from tf_transfer import train
from tf_transfer.comparison.estimates import Estimate, Ranged
from tf_transfer.config import command_line
from tf_transfer.runs.warm import WarmState
from tf_transfer.searches import leads as leads_lib, settings as searches
from tf_transfer.searches.candidates import EVERYTHING_LEAD
from tf_transfer.searches.controller import Search
from tf_transfer.utils import files, json_files

NAME = "usual_leads"
# A replay: the folds of a search of some minutes on 600 texts, and the error of
# a lead on one fold, if a quarter of 120 texts is answered differently.
FOLDS = {"last 1": 5, "last 2": 2, "last 4": 1, "everything": 1}
FOLD_ERROR = 100 * math.sqrt(0.25 / 120)
REPLAYS = 1_000

Scores = dict[str, float]  # in points, by candidate


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_integer("examples", 600, "Labelled texts of a task.", 16)
    flags.DEFINE_integer("max_length", 128, "Tokens of a text.", 8)
    flags.DEFINE_list("tasks", list(search_answers.TASKS), "Tasks to measure.")
    flags.DEFINE_string("runs", "runs/usual_leads", "Root of the runs.")
    flags.DEFINE_string("out", "experiments/usual_leads", "Of measured.json.")
    flags.DEFINE_string("document", "", "Document to write the table into.")


def measure_task(task: str, warm: WarmState) -> Scores:
    """Fits every usual candidate to the labelled texts of a task.

    Args:
        task: Key of `search_answers.TASKS`.
        warm: Keeps the encoder from run to run.
    """
    values = flags.FLAGS
    folder = os.path.join(values.runs, task)
    search_answers.write_task(task, values.examples, folder)
    settings = searches.Settings(
        task=os.path.join(folder, "task.toml"),
        model=values.model,
        max_length=values.max_length,
        budget="1h",
        out=os.path.join(folder, "search"),
        cache_dir=os.path.join(values.runs, "cache"),
    ).resolve()
    search = Search(settings, 0.0)
    scores = {}
    for name, candidate in search.plan.by_name.items():
        if candidate.variant_of:
            continue
        # The test, once: after the last epoch.
        for score_test in (candidate.is_baseline, True):
            run = search.plan.make_refit(name, score_test)
            assert isinstance(run.settings, train.Settings)
            with contextlib.redirect_stdout(io.StringIO()):
                experiment = train.Train(run.settings, warm=warm)
                record = experiment.train(prints_answer=False).record
        scores[name] = 100 * record["test"][record["metric"]]
    return scores


def measure(out: str) -> dict[str, Any]:
    """Measures every task, and stores the result after each."""
    values = flags.FLAGS
    command_line.import_tensorflow()
    path = os.path.join(out, "measured.json")
    measured: dict[str, Any] = {
        "model": values.model,
        "max_length": values.max_length,
        "examples": values.examples,
        "tasks": {},
    }
    if os.path.exists(path):
        measured = json_files.read_record(path)
    os.makedirs(out, exist_ok=True)
    warm = WarmState()
    for task in values.tasks:
        if task not in measured["tasks"]:
            measured["tasks"][task] = scores = measure_task(task, warm)
            print(task, scores, flush=True)
            files.write_json(path, measured)
    return measured


# === The table ===


def find_leads(tasks: Mapping[str, Scores]) -> pd.DataFrame:
    """The leads of the approaches of `FOLDS`, a row for each task."""
    rows = {}
    for task, scores in tasks.items():
        floor = max(scores["the probe"], scores["the TF-IDF baseline"])
        rows[task] = {name: scores[name] - floor for name in FOLDS}
    return pd.DataFrame.from_dict(rows, orient="index")


Rule = Callable[[Sequence[Ranged]], Sequence[float]]


def expect_together(seen: Sequence[Ranged]) -> list[float]:
    """The expected leads of a search."""
    usual = [EVERYTHING_LEAD if n == "everything" else 0.0 for n in FOLDS]
    return leads_lib.expect_leads(seen, usual, [*FOLDS])


def take_each(seen: Sequence[Ranged]) -> list[float]:
    """The leads as they are."""
    return [one.value for one in seen]


def replay(leads: np.ndarray, rule: Rule) -> float:
    """The mean score that the choice of a short search misses, in points.

    Args:
        leads: float [approaches] of `FOLDS`; that of the baseline is 0.
        rule: From the observed leads to the expected ones.
    """
    errors = FOLD_ERROR / np.sqrt([*FOLDS.values()])
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(REPLAYS):
        noise = rng.normal(size=len(FOLDS)) * errors
        seen = [
            Ranged(lead, estimate=Estimate(lead, error, math.inf))
            for lead, error in zip(leads + noise, errors)
        ]
        expected = rule(seen)
        best = int(np.argmax(expected))
        reached = float(leads[best]) if expected[best] > 0 else 0.0
        missed.append(max(leads.max(), 0.0) - reached)
    return float(np.mean(missed))


def make_table(measured: dict[str, Any]) -> str:
    """The leads by task, and their means, as Markdown."""
    missed = {"missed": expect_together, "missed, each by itself": take_each}
    table = find_leads(measured["tasks"])
    for title, rule in missed.items():
        leads = table[[*FOLDS]].to_numpy()
        table[title] = [replay(row, rule) for row in leads]
    table.loc["**mean**"] = table.mean()
    heads = ["task", *table]
    rows = [heads, ["---"] * len(heads)]
    for task, row in table.iterrows():
        cells = [f"{row[name]:+.1f}" for name in FOLDS]
        cells += [f"{row[title]:.1f}" for title in missed]
        rows.append([str(task), *cells])
    return (
        f"`{measured['model']}`, {measured['examples']} labelled texts of up "
        f"to {measured['max_length']} tokens:\n\n{documents.as_markdown(rows)}"
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
