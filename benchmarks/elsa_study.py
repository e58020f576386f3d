"""The frozen half of an Elsa study: warm workers, and one process per run.

    python -m benchmarks.elsa_study --data=glue
    python -m benchmarks.elsa_study --document=docs/guides/sweeps.md

Trains every N of frozen blocks from half of them to all, several trials each,
from the start of the first command to the report, and builds the feature cache
each time: in one worker; with one process per run; and, if transformers and
PyTorch are installed (`pip install -e '.[peers]'`), with the script that a user
of transformers would write (`benchmarks.transformers_trial`), also one process
per run. Only --own trials of each N run in processes; the others are counted
like the last one. The script has no report.

`--shape=12x768` studies a BERT of BERT-base's shape with random weights and the
vocabulary of `--model`: time does not depend on the weights.
"""

import functools
import glob
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import flags

from benchmarks import documents, hugging_face, measuring
from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing
from tf_transfer.models import loading
from tf_transfer.sweeps import execute, grid as grid_lib
from tf_transfer.sweeps.grid import Planned
from tf_transfer.sweeps.states import State
from tf_transfer.utils.errors import UserError

MARK = "elsa"


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "sample", "Data, as for tf_transfer.freezing.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_list("tasks", ["rte", "mrpc"], "Tasks to measure.")
    flags.DEFINE_float("lr", 1e-4, "Learning rate.", 0)
    flags.DEFINE_integer("trials", 5, "Trials per number of frozen blocks.", 1)
    flags.DEFINE_integer(
        "own", 1, "Trials per number of blocks with one process each.", 1
    )
    flags.DEFINE_integer("max_epochs", 3, "Epochs of a trial.", 1)
    flags.DEFINE_float(
        "share",
        1.0,
        "Share of a folder's texts to train on and score.",
        0,
        1,
    )
    flags.DEFINE_string("shape", "", "Blocks x width, to replace --model's.")
    flags.DEFINE_string(
        "out", "runs/elsa_study", "Folder of the run directories."
    )
    flags.DEFINE_string(
        "document", "", "Document to write the table of --out into."
    )


def plan_runs(task: str, data: str, model: str, out: str) -> list[Planned]:
    """The trials of a task, the largest cache first."""
    values = flags.FLAGS
    blocks = loading.read_shape(model).blocks
    grid = grid_lib.Grid(
        experiment="freezing",
        flags={
            "task": task,
            "data": data,
            "model": model,
            "lr": values.lr,
            "max_epochs": values.max_epochs,
            "frozen_prefix": "cached",
        },
        axes={
            "trainable_layers": [*range(blocks // 2, -1, -1)],
            "seed": list(range(values.trials)),
        },
    )
    return grid_lib.expand("benchmark", grid, out, os.path.join(out, "cache"))


def measure(out: str) -> list[dict[str, Any]]:
    """Measures each task; returns a dict for each."""
    if flags.FLAGS.shape:
        measuring.parse_shape(flags.FLAGS.shape)
    cases = []
    for task in flags.FLAGS.tasks:
        folder = os.path.join(out, task)
        if os.path.exists(folder):
            raise UserError(
                f"--out={out}: has runs of {task}, which would take no time. "
                "Remove them, or give another folder."
            )
        cases.append(_measure_task(task, folder))
        print(json.dumps(cases[-1]), flush=True)
    return cases


def _measure_task(task: str, out: str) -> dict[str, Any]:
    values = flags.FLAGS
    data = values.data
    if values.share < 1:
        data = cut(data, values.share, os.path.join(out, "data"))
    encoder = os.path.join(out, "encoder")
    save_encoder(
        freezing.Settings(task=task, data=data, model=values.model),
        values.shape,
        encoder,
    )
    model = encoder if values.shape else values.model
    warm_out, single_out = os.path.join(out, "warm"), os.path.join(out, "own")
    warm = plan_runs(task, data, model, warm_out)
    single = plan_runs(task, data, model, single_out)
    case = {
        "task": task,
        "model": values.shape or values.model,
        "share": values.share,
        "runs": len(warm),
        "warm": _time_warm(warm, warm_out),
        "own": _time_processes(single, _make_run_command, single_out),
        "transformers": None,
    }
    if hugging_face.is_installed():
        case["transformers"] = _time_processes(
            single, lambda run: _make_script_command(run, encoder)
        )
    return {**case, "load": os.getloadavg()[1]}


def cut(data: str, share: float, out: str) -> str:
    """Writes the first lines of each file of a GLUE folder; returns `out`."""
    paths = glob.glob(os.path.join(data, "*", "*.tsv"))
    if not paths:
        raise UserError(f"--share={share}: --data={data} has no */*.tsv.")
    for path in paths:
        target = os.path.join(out, os.path.relpath(path, data))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = file.readlines()
        with open(target, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines[: 1 + math.ceil(share * len(lines[1:]))])
    return out


def save_encoder(settings: Any, shape: str, folder: str) -> None:
    """Writes the encoder with a new head, for transformers and for us.

    Args:
        settings: Of a trial.
        shape: See `--shape`.
        folder: Where to.
    """
    command_line.import_tensorflow()
    from benchmarks import contestants
    from tf_transfer.models import exports

    trial = freezing.Freezing(settings)
    task = trial.data.task
    encoder = contestants.load_encoder(trial.settings, shape)
    exports.hugging_face(
        trial.build_network(trial.set_up_devices(), encoder),
        task.name,
        folder,
        task.kind,
        task.labels or (),
        encoder.max_positions,
    )


def _time_warm(runs: list[Planned], out: str) -> list[float]:
    """Times all runs in one worker, and their report; see `time_work`."""

    def study() -> None:
        with execute.open_pool(runs) as pool:
            states = execute.run_all(runs, out, pool)
        if states.select(State.FAILED):
            raise UserError(f"{out}: runs have failed; see .sweep/logs there.")
        _report(out)

    return time_work(study).tolist()


def _make_run_command(run: Planned) -> list[str]:
    return [sys.executable, *run.command[1:]]


def _make_script_command(run: Planned, encoder: str) -> list[str]:
    module = "benchmarks.transformers_trial"
    return [sys.executable, "-m", module, encoder, *run.words]


def _time_processes(
    runs: list[Planned],
    command: Callable[[Planned], list[str]],
    out: str = "",
) -> list[float]:
    """Times all runs in processes of their own, and a report on `out`."""
    spent: dict[str, list[np.ndarray]] = {}
    for run in runs:
        few = spent.setdefault(run.axes["trainable_layers"], [])
        if len(few) < flags.FLAGS.own:
            few.append(time_work(functools.partial(_start, command(run))))
    total = count_all(spent, flags.FLAGS.trials)
    if out:
        total += time_work(lambda: _report(out))
    return total.tolist()


def count_all(spent: dict[str, list[np.ndarray]], trials: int) -> np.ndarray:
    """Sums the times of all trials; trials not run count like the last one.

    Args:
        spent: Times of the trials that were run, for each number of blocks.
        trials: Number of trials of each.
    """
    return sum(
        (sum(few) + (trials - len(few)) * few[-1] for few in spent.values()),
        np.zeros(2),
    )


def _report(out: str) -> None:
    _start([sys.executable, "-m", "tf_transfer.report", out])


def _start(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def time_work(work: Callable[[], None]) -> np.ndarray:
    """Wall-clock seconds, and CPU seconds of the processes that it starts."""

    def now() -> np.ndarray:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return np.array([time.perf_counter(), used.ru_utime + used.ru_stime])

    began = now()
    work()
    return now() - began


def make_table(cases: Sequence[dict[str, Any]]) -> str:
    """Writes the measurement as Markdown, with CPU seconds in brackets."""
    rows = [
        (
            "encoder, task",
            "trials",
            "warm worker, s",
            "a process a run, s",
            "times",
            "transformers, a process a run, s",
            "times",
            "load",
        ),
        ("---",) * 8,
    ]
    for case in cases:
        warm, alone = np.array(case["warm"]), np.array(case["own"])
        theirs = case["transformers"]
        share = case["share"]
        part = "" if share == 1 else f", {share:.1%} of its texts"
        rows.append(
            (
                f"{case['model']}, {case['task']}{part}",
                str(case["runs"]),
                _show_cell(warm, 0),
                _show_cell(alone, 0),
                _show_cell(alone / warm, 1),
                "-" if theirs is None else _show_cell(theirs, 0),
                "-"
                if theirs is None
                else _show_cell(np.array(theirs) / warm, 1),
                f"{case['load']:.1f}",
            )
        )
    return documents.as_markdown(rows)


def _show_cell(spent: Any, digits: int) -> str:
    by_clock, of_cpu = spent
    return f"{by_clock:.{digits}f} ({of_cpu:.{digits}f})"


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
