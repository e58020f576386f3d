"""The probe's scores and costs.

    python -m benchmarks.probe --data=FOLDER --out=experiments/probe
    python -m benchmarks.probe --document=docs/guides/probe.md

FOLDER holds `glue` and `tweets`. For each task, the probe and the TF-IDF
baseline are fitted to five draws of 1,000 training texts (--draws, --examples)
and tested on the development set; every choice is made inside the training
texts. A probe without words and one that may read one block alone are fitted as
well: what words and all blocks at once gain is paired over the draws. The table
has means with their standard deviation over the draws, the standard error of
the test, the choices, and seconds.
"""

import collections
import contextlib
import io
import os
import statistics
from typing import Any
from unittest import mock

import numpy as np
from absl import flags

from benchmarks import documents
from tf_transfer import train
from tf_transfer.baselines.probe import Probe
from tf_transfer.config import command_line
from tf_transfer.data import metrics
from tf_transfer.reports import figures, tables
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import records
from tf_transfer.utils import files

TASKS = ("sst2", "tweets", "stsb", "rte", "mrpc", "cola")
NAME = "probe"
STATES = "states alone"  # a probe without words
ONE_BLOCK = "one block"  # and one that may not read all blocks at once
APPROACHES = ("frozen", STATES, ONE_BLOCK, "tfidf")
RESAMPLES = 200

Case = dict[str, Any]


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_integer("examples", 1000, "Training texts per draw.", 20)
    flags.DEFINE_integer("draws", 5, "Draws of the training texts.", 2)
    flags.DEFINE_list("tasks", list(TASKS), "Tasks to measure.")
    flags.DEFINE_string("runs", "runs/probe", "Root of the run directories.")
    flags.DEFINE_string("cache_dir", "", "Folder for stored states.")
    flags.DEFINE_string("out", "experiments/probe", "Folder of measured.json.")
    flags.DEFINE_string("document", "", "Document to write the table into.")


def settings_of(task: str, draw: int, approach: str) -> train.Settings:
    """Settings of a run; each draw has a split seed of its own."""
    values = flags.FLAGS
    about: Case = {"task": task, "data": os.path.join(values.data, "glue")}
    if task == "tweets":
        about = {
            "task": task,
            "data": os.path.join(values.data, "tweets", "train.csv"),
            "text_column": "text",
            "label_column": "target",
        }
    return train.Settings(
        **about,
        model=values.model,
        features="tfidf" if approach == "tfidf" else "frozen",
        words=approach == "frozen",
        max_train_examples=values.examples,
        split_seed=draw,
        max_length=128,
        validation_fraction=0.0,
        select="last",
        baseline=False,
        out=os.path.join(values.runs, approach.replace(" ", "_")),
        cache_dir=values.cache_dir,
    )


def measure_task(task: str) -> Case:
    """Fits all draws of a task."""
    cases: dict[str, list[Case]] = collections.defaultdict(list)
    warm = WarmState()
    list_candidates = Probe._candidates

    def list_single(probe: Probe) -> list[Any]:
        every = list_candidates(probe)
        return [states for states in every if states.pooling != "block_means"]

    for draw in range(flags.FLAGS.draws):
        for approach in APPROACHES:
            listed: Any = list_candidates
            if approach == ONE_BLOCK:
                listed = list_single
            with (
                contextlib.redirect_stdout(io.StringIO()),
                mock.patch.object(Probe, "_candidates", listed),
            ):
                settings = settings_of(task, draw, approach)
                result = train.Train(settings, warm=warm).train()
            directory = records.RunDirectory(result.directory, None)
            record = result.record
            metric = record["metric"]
            case: Case = {
                "metric": metric,
                "test": 100 * record["test"][metric],
                "seconds": record["train_seconds"]
                - (record["prefix_seconds"] or 0),
                "pass_seconds": record["prefix_build_seconds"],
                "chosen": (directory.config() or {}).get("chosen"),
                "profile": directory.profile(),
            }
            with np.load(directory.file("predictions.npz")) as arrays:
                case["error"] = test_error(
                    metric, arrays["test_labels"], arrays["test_logits"]
                )
            cases[approach].append(case)
        frozen = cases["frozen"][-1]
        print(
            f"{task}, draw {draw}: the probe {frozen['test']:.1f}, TF-IDF "
            f"{cases['tfidf'][-1]['test']:.1f}",
            flush=True,
        )
    return dict(cases)


def test_error(metric: str, labels: np.ndarray, logits: np.ndarray) -> float:
    """The standard error of a score over test texts, by a bootstrap."""
    rng = np.random.default_rng(0)
    measure = metrics.METRICS[metric]
    drawn = rng.integers(0, len(labels), (RESAMPLES, len(labels)))
    return float(np.std([100 * measure(labels[r], logits[r]) for r in drawn]))


def make_table(measured: Case) -> str:
    """The table and the depth profiles as Markdown."""
    rows = [
        [
            "task",
            "the probe",
            "gain of words",
            "gain of all blocks",
            "standard error of the test",
            "TF-IDF",
            "states, of how many draws",
            "blocks needed",
            "fits, s",
        ]
    ]
    rows.append(["---"] * len(rows[0]))
    profiles = []
    for task, cases in measured["tasks"].items():
        frozen, words = cases["frozen"], cases["tfidf"]
        counts = collections.Counter(
            case["profile"]["states"] for case in frozen
        )
        needed = sorted(case["profile"]["blocks_needed"] for case in frozen)
        rows.append(
            [
                f"{task}, {frozen[0]['metric']}",
                _mean(frozen),
                _gain(frozen, cases[STATES]),
                _gain(cases[STATES], cases[ONE_BLOCK]),
                f"{statistics.fmean(case['error'] for case in frozen):.1f}",
                _mean(words),
                "; ".join(f"{s} ({n})" for s, n in counts.most_common()),
                ", ".join(map(str, needed)),
                f"{statistics.median(case['seconds'] for case in frozen):.1f}",
            ]
        )
        profiles.append([f"{task}, {frozen[0]['metric']}"])
        for lines in zip(*(case["profile"]["blocks"] for case in frozen)):
            score = statistics.fmean(line["score"] for line in lines)
            profiles[-1].append(f"{100 * score:.1f}")
    blocks = range(len(profiles[0]) - 1)
    heads = ["task", *(f"block {b}" if b else "embeddings" for b in blocks)]
    return (
        f"`{measured['model']}`, {measured['draws']} draws of "
        f"{measured['examples']:,} training texts, mean and standard "
        "deviation over the draws, in points:\n\n"
        + documents.as_markdown(rows)
        + "\n\nDepth profiles, by cross-validation inside the training texts, "
        "means over the draws:\n\n"
        + documents.as_markdown([heads, ["---"] * len(heads), *profiles])
    )


def _mean(cases: list[Case]) -> str:
    return tables.spread([case["test"] for case in cases], 1)


def _gain(cases: list[Case], others: list[Case]) -> str:
    gains = [a["test"] - b["test"] for a, b in zip(cases, others)]
    return tables.spread(gains, 1, "+")


def measure(out: str) -> Case:
    """Measures every task, and stores the result after each.

    Args:
        out: Folder of `measured.json`.
    """
    values = flags.FLAGS
    command_line.import_tensorflow()
    measured: Case = {
        "model": values.model,
        "draws": values.draws,
        "examples": values.examples,
        "tasks": {},
    }
    os.makedirs(out, exist_ok=True)
    for task in values.tasks:
        measured["tasks"][task] = measure_task(task)
        files.write_json(os.path.join(out, "measured.json"), measured)
    figure = figures.draw_profile(
        {
            task: cases["frozen"][0]["profile"]
            for task, cases in measured["tasks"].items()
        }
    )
    assert figure is not None
    files.write_atomically(
        os.path.join(out, f"{figure.name}.png"), figure.render("png")
    )
    return measured


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    documents.measure_or_fill(
        measure, make_table, flags.FLAGS.out, flags.FLAGS.document, NAME
    )


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
