"""The overhead of a sweep's runs: one process per run, or a warm worker.

    python -m benchmarks.warm_workers --data=glue
    python -m benchmarks.warm_workers --document=docs/guides/sweeps.md

Trains last 0 and last 1 of an encoder from the feature cache, on two tasks
with several seeds and rates: some runs in a process of their own, and all of
them in one worker. The scores of both are compared to the last bit. The feature
cache is built before anything is timed.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from benchmarks import documents, run_seconds
from tf_transfer.config import command_line
from tf_transfer.sweeps import execute, grid as grid_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils.errors import UserError

MARK = "measured"
APPROACHES = (0, 1)  # trained blocks


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "sample", "Data, as for tf_transfer.glue.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_list("tasks", ["rte", "mrpc"], "Tasks to measure.")
    flags.DEFINE_list(
        "rates", ["1e-3", "5e-4", "2e-4", "1e-4"], "Learning rates."
    )
    flags.DEFINE_integer("seeds", 5, "Number of seeds.", 1)
    flags.DEFINE_integer(
        "own", 4, "Runs per case in a process of their own.", 1
    )
    flags.DEFINE_integer("max_epochs", 2, "Epochs of a run.", 1)
    flags.DEFINE_string(
        "out", "runs/warm_workers", "Folder of the run directories."
    )
    flags.DEFINE_string("cache_dir", "", "Folder of the feature cache.")
    flags.DEFINE_string(
        "document", "", "Document to write the table of --out into."
    )


def plan_runs(blocks: int, out: str) -> list[Planned]:
    """The runs of one approach, each task's next to each other."""
    values = flags.FLAGS
    grid = grid_lib.Grid(
        experiment="glue",
        flags={
            "data": values.data,
            "model": values.model,
            "trainable_layers": blocks,
            "frozen_prefix": "cached",
            "batch_size": 16,
            "max_epochs": values.max_epochs,
            "patience": 0,
        },
        axes={
            "task": values.tasks,
            "lr": values.rates,
            "seed": list(range(values.seeds)),
        },
    )
    return grid_lib.expand("benchmark", grid, out, values.cache_dir)


def measure(out: str) -> list[dict[str, Any]]:
    """Measures each approach and task; returns a dict for each."""
    cases = []
    for blocks in APPROACHES:
        alone = plan_runs(blocks, os.path.join(out, "own"))
        warm = plan_runs(blocks, os.path.join(out, "warm"))
        for task in flags.FLAGS.tasks:
            few = [run for run in alone if run.axes["task"] == task]
            few = few[: flags.FLAGS.own + 1]
            _, *timed = [_run_alone(run) for run in few]
            many = [run for run in warm if run.axes["task"] == task]
            with execute.open_pool(jobs=1) as pool:
                began = time.perf_counter()
                execute.run_all(many, os.path.join(out, "warm"), pool)
                wall = time.perf_counter() - began
            for one, other in zip(few, many):
                if _numbers(one) != _numbers(other):
                    raise UserError(f"{one.name}: differs in a worker.")
            beyond = [
                (run_seconds.read_seconds(run) or 0.0) - _training(run)
                for run in many
            ]
            training = sum(map(_training, many))
            cases.append(
                {
                    "task": task,
                    "approach": f"last {blocks}",
                    "own": statistics.median(
                        seconds - _training(run)
                        for seconds, run in zip(timed, few[1:])
                    ),
                    "first": beyond[0],
                    "next": statistics.median(beyond[1:]),
                    "evaluation": statistics.median(map(_evaluation, many[1:])),
                    "runs": len(many),
                    "wall": wall,
                    "training": training,
                    "load": os.getloadavg()[1],
                }
            )
            print(json.dumps(cases[-1]), flush=True)
    return cases


def _run_alone(run: Planned) -> float:
    """Seconds of a run in a process of its own."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *run.command[1:]],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def _training(run: Planned) -> float:
    return (run.directory.result() or {})["train_seconds"]


def _evaluation(run: Planned) -> float:
    return sum(line["eval_seconds"] for line in run.directory.epochs())


def _numbers(run: Planned) -> Any:
    return [
        (line["train_loss"], line["validation"], line["test"])
        for line in run.directory.epochs()
    ]


# === The table ===


def make_table(cases: Sequence[dict[str, Any]]) -> str:
    """The measurement as Markdown."""
    rows = [
        (
            "trains, task",
            "a process a run, s",
            "worker, first run, s",
            "worker, next runs, s",
            "evaluation, part of this, s",
            "times less",
            "sweep: runs, s, training",
            "load",
        ),
        ("---",) * 8,
    ]
    for case in cases:
        rows.append(
            (
                f"{case['approach']}, {case['task']}",
                f"{case['own']:.1f}",
                f"{case['first']:.1f}",
                f"{case['next']:.2f}",
                f"{case['evaluation']:.2f}",
                f"{case['own'] / case['next']:.0f}",
                f"{case['runs']}, {case['wall']:.0f}, {case['training']:.0f}",
                f"{case['load']:.1f}",
            )
        )
    return documents.as_markdown(rows)


def main(argv: list[str]) -> None:
    """Measures, or writes a measurement into a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        measure, make_table, values.out, values.document, MARK
    )


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
