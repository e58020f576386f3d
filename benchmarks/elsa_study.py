"""The frozen half of an Elsa study: warm workers, or a process a run.

    python -m benchmarks.elsa_study --data=glue
    python -m benchmarks.elsa_study --document=docs/sweeps.md

Trains every N of frozen blocks from half of them to all, several trials each,
from the start of the first command to the report, with the feature cache built
anew: in one worker, and with a process a run, of which --own trials of each N
are done and the others are counted like the last. Where transformers and
PyTorch are installed (`pip install -e '.[peers]'`), it also times an epoch of
theirs for each N, batches grouped by length and padded to their longest, and
counts it for every trial and epoch: training alone, without the processes'
start, reading, tokenising and evaluation, which a user would pay as well.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from absl import app
from absl import flags

from benchmarks import documents
from benchmarks import hugging_face
from tf_transfer import freezing
from tf_transfer.config import command_line
from tf_transfer.data import batches
from tf_transfer.models import loading
from tf_transfer.sweeps import execute
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils.errors import UserError

MARK = "elsa"


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "sample", "As of tf_transfer.freezing.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_list("tasks", ["rte", "mrpc"], "The tasks.")
    flags.DEFINE_float("lr", 1e-4, "The rate.", 0)
    flags.DEFINE_integer("trials", 5, "Trials of each N.", 1)
    flags.DEFINE_integer("own", 2, "Trials of N in their own process.", 1)
    flags.DEFINE_integer("max_epochs", 3, "Epochs of a trial.", 1)
    flags.DEFINE_string("out", "runs/elsa_study", "Where the runs go.")
    flags.DEFINE_string("document", "", "Put the table of --out into this.")


def plan_runs(task: str, out: str) -> list[Planned]:
    """The trials of a task, the largest cache first."""
    values = flags.FLAGS
    settings = freezing.Settings(model=values.model).resolve()
    blocks = loading.count_blocks(values.model, settings.cache_folder)
    numbers = freezing.numbers_of_frozen_blocks(settings, blocks)
    grid = {
        "experiment": "freezing",
        "flags": {
            "trial": True,
            "task": task,
            "data": values.data,
            "model": values.model,
            "lr": values.lr,
            "max_epochs": values.max_epochs,
            "frozen_prefix": "cached",
        },
        "axes": {
            "trainable_layers": [blocks - number for number in numbers],
            "seed": list(range(values.trials)),
        },
    }
    return grid_lib.expand("benchmark", grid, out, os.path.join(out, "cache"))


def measure(out: str) -> list[dict[str, Any]]:
    """Measures each task; returns a dict for each."""
    cases = []
    for task in flags.FLAGS.tasks:
        folder = os.path.join(out, task)
        runs = plan_runs(task, os.path.join(folder, "warm"))
        if any(run.directory.result() for run in runs):
            raise UserError(
                f"--out={out}: has finished runs, which would take no time. "
                "Remove them, or give another folder."
            )
        cases.append(
            {
                "task": task,
                "runs": len(runs),
                "warm": _time_warm(runs, os.path.join(folder, "warm")),
                "own": _time_own(
                    plan_runs(task, os.path.join(folder, "own")),
                    os.path.join(folder, "own"),
                ),
                "transformers": _time_transformers(runs),
                "load": os.getloadavg()[1],
            }
        )
        print(json.dumps(cases[-1]), flush=True)
    return cases


def _time_warm(runs: list[Planned], out: str) -> float:
    """Seconds of all runs in one worker, and their report."""
    began = time.perf_counter()
    with contextlib.closing(execute.open_pool(runs)) as pool:
        execute.collect_results(runs, out, pool)
    _report(out)
    return time.perf_counter() - began


def _time_own(runs: list[Planned], out: str) -> float:
    """Seconds of all runs in processes of their own, and their report."""
    seconds: dict[str, list[float]] = {}
    for run in runs:
        few = seconds.setdefault(run.axes["trainable_layers"], [])
        if len(few) < flags.FLAGS.own:
            few.append(_time([sys.executable, *run.command[1:]]))
    return count_all(seconds, flags.FLAGS.trials) + _report(out)


def count_all(seconds: dict[str, list[float]], trials: int) -> float:
    """The seconds of all trials, those not done like the last that was.

    Args:
        seconds: of the trials that were done, for each number of blocks.
        trials: how many each has.
    """
    return sum(
        sum(few) + (trials - len(few)) * few[-1] for few in seconds.values()
    )


def _report(out: str) -> float:
    words = ["-m", "tf_transfer.report", out]
    return _time([sys.executable, *words])


def _time(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _time_transformers(runs: Sequence[Planned]) -> float | None:
    """Seconds that transformers train for; None where it is missing."""
    if not hugging_face.is_installed():
        return None
    command_line.import_tensorflow()
    total = 0.0
    for run in runs:
        if run.axes["seed"] != "0":
            continue
        settings: Any = dataclasses.replace(run.settings, frozen_prefix="live")
        trial = freezing.Freezing(settings)
        network, [phase], _ = trial.build(trial.set_up_devices())
        train = phase.objectives[0].train
        plan = batches.plan_epoch(
            train.lengths,
            settings.batch_size,
            "grouped",
            settings.seed,
            1,
            1,
            batches.buckets_up_to(settings.max_length),
        )
        model, optimizer = hugging_face.build(
            network.encoder,
            phase.trainable,
            len(trial.task.labels or ()),
            settings,
        )
        train_epoch = hugging_face.make_epoch(
            model, optimizer, network.encoder, train, plan, settings
        )
        began = time.perf_counter()
        train_epoch()
        seconds = time.perf_counter() - began
        total += seconds * settings.max_epochs * flags.FLAGS.trials
    return total


def make_table(cases: Sequence[dict[str, Any]]) -> str:
    """The measurement as Markdown."""
    rows = [
        (
            "task",
            "trials",
            "warm worker, s",
            "a process a run, s",
            "times",
            "transformers, training alone, s",
            "times",
            "load",
        ),
        ("---",) * 8,
    ]
    for case in cases:
        theirs = case["transformers"]
        rows.append(
            (
                case["task"],
                str(case["runs"]),
                f"{case['warm']:.0f}",
                f"{case['own']:.0f}",
                f"{case['own'] / case['warm']:.1f}",
                "-" if theirs is None else f"{theirs:.0f}",
                "-" if theirs is None else f"{theirs / case['warm']:.1f}",
                f"{case['load']:.1f}",
            )
        )
    return documents.as_markdown(rows)


def main(argv: list[str]) -> None:
    """Measures; or puts what was measured into a document."""
    del argv
    values = flags.FLAGS
    documents.measure_or_fill(
        measure, make_table, values.out, values.document, MARK
    )


if __name__ == "__main__":
    define_flags()
    app.run(lambda argv: command_line.guarded(lambda: main(argv)))
