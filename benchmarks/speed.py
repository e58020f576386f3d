"""The tables of `benchmarks.frameworks` in the documents, by one command.

    python -m benchmarks.speed --data=FOLDER
    python -m benchmarks.speed --document=docs/feature_cache.md

The first command measures each row in a process of its own: on a CPU those of
`CPU_ROWS`, in about half an hour on two cores, and where TensorFlow has a GPU
those of `GPU_ROWS`. The second writes the tables into a document, between its
marks `speed` (all columns) and `speed_short`.

Ratios are of medians: how many times longer the other library takes than ours,
cached where there is a cache, else live.
"""

import glob
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from absl import flags

from benchmarks import CACHED, documents, frameworks, HUGGING_FACE, LIVE
from tf_transfer.config import command_line
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

SHARED = ("--task=rte", "--model=minilm", "--batch_size=16", "--lr=1e-3")
BASE = ("--shape=12x768", "--examples=128")  # BERT-base's
CPU_ROWS = (
    *(("--trainable_layers=" + layers,) for layers in ("0", "1", "2", "all")),
    ("--trainable_layers=2", "--batch_size=1"),
    *((*BASE, "--trainable_layers=" + layers) for layers in ("1", "2", "4")),
    ("--shape=12x768", "--examples=64", "--trainable_layers=all"),
    (*BASE, "--trainable_layers=4", "--precision=mixed_bfloat16"),
)
GPU_ROWS = tuple(
    (
        "--shape=12x768",
        f"--examples={64 * batch_size}",
        f"--batch_size={batch_size}",
        f"--trainable_layers={layers}",
        f"--jit_compile={compiles}",
    )
    for batch_size in (1, 16)
    for layers in ("1", "4", "all")
    for compiles in ("true", "false")
)
MARKS = ("speed", "speed_short")
SHORT = (
    "encoder",
    "trains",
    "examples",
    "ours live, s",
    "ours cached, s",
    "Hugging Face",
)


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "tfds", "GLUE, as for tf_transfer.glue.")
    flags.DEFINE_string("out", "runs", "Folder of the measurements.")
    flags.DEFINE_string(
        "document", "", "Write the measurements of --out into this document."
    )


def measure(rows: Iterable[Sequence[str]], data: str, out: str) -> None:
    """Measures rows, each in a process of its own.

    Args:
        rows: flags of `benchmarks.frameworks`; they win over `SHARED`.
        data: see `--data`.
        out: folder of the measurements.

    Raises:
        UserError: a row cannot be measured; its process has said why.
    """
    for row in rows:
        names = [word.partition("=")[0] for word in row]
        shared = [w for w in SHARED if w.partition("=")[0] not in names]
        words = [*shared, f"--data={data}", f"--out={out}", *row]
        print("python -m benchmarks.frameworks", *words, flush=True)
        command = [sys.executable, "-m", "benchmarks.frameworks", *words]
        if subprocess.run(command).returncode:
            raise UserError(f"{' '.join(row)}: could not be measured.")


def describe(result: dict[str, Any]) -> dict[str, str]:
    """The cells of a measurement, by column."""
    settings, median = result["settings"], result["median_seconds"]
    cache, peak = result["cache"], result["matmul_peak"]
    live = median[LIVE]
    ours = median.get(CACHED, live)

    def ratio(name: str, seconds: float = ours, factor: float = 1.0) -> str:
        if name not in median:
            return "-"
        return f"{factor * median[name] / seconds:.2f} x"

    with_build = (cache["build_seconds"] if cache else 0) / 10 + ours
    equal_products = peak.get("PyTorch", 0) / peak["TensorFlow"]
    padded = f"keras-nlp fit, padded to {settings['max_length']}"
    shares = [f"{share:.0%}" for share in result["share_of_peak"].values()]
    pays = cache and cache["pays_after_epochs"]
    layers = settings["trainable_layers"]
    step_times = [
        f"{1e3 * median[name] / result['steps']:.1f}"
        for name in (LIVE, CACHED)
        if name in median
    ]
    return {
        "encoder": settings["shape"] or os.path.basename(settings["model"]),
        "trains": "all" if layers == "all" else f"last {layers}",
        "batch": str(settings["batch_size"]),
        "precision": settings["precision"],
        "XLA": "yes" if result["uses_xla"] else "no",
        "examples": str(result["examples"]),
        "ours live, s": f"{live:.2f}",
        "ours cached, s": f"{ours:.2f}" if cache else "-",
        "a step, ms, live / cached": " / ".join(step_times),
        "keras-nlp, longest": ratio("keras-nlp fit, padded to longest"),
        f"keras-nlp, {settings['max_length']}": ratio(padded),
        "Hugging Face": ratio(HUGGING_FACE),
        "Hugging Face, 10 epochs with the build": (
            ratio(HUGGING_FACE, with_build) if cache else "-"
        ),
        "Hugging Face at equal products": ratio(
            HUGGING_FACE, factor=equal_products
        ),
        "build, s": f"{cache['build_seconds']:.1f}" if cache else "-",
        "pays after, epochs": f"{pays:.1f}" if pays else "-",
        "share of peak, live / cached": " / ".join(shares),
    }


def read(folder: str) -> list[dict[str, Any]]:
    """The measurements of a folder, in the order of the tables."""
    results = []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as file:
            results.append(json.load(file))
    if not results:
        raise UserError(f"{folder}: has no measurements. Measure first.")

    def order(result: dict[str, Any]) -> tuple:
        settings = result["settings"]
        return (
            settings["precision"],
            settings["shape"],
            -settings["batch_size"],
            settings["trainable_layers"],
            not result["uses_xla"],
        )

    return sorted(results, key=order)


def table(results: Sequence[dict[str, Any]], mark: str) -> str:
    """Measurements as Markdown, below a line on where they were made.

    Args:
        results: from `read`.
        mark: one of `MARKS`.
    """
    shown, title = list(results), _describe_machine(results)
    if mark == "speed_short":
        shown = [
            result
            for result in results
            if result["settings"]["precision"] == "float32"
            and result["settings"]["batch_size"] > 1
        ]
    rows = [describe(result) for result in shown]
    columns = SHORT if mark == "speed_short" else tuple(rows[0])
    cells = [columns, ("---",) * len(columns)]
    cells += [tuple(row[column] for column in columns) for row in rows]
    return f"{title}\n\n{documents.as_markdown(cells)}"


def _describe_machine(results: Sequence[dict[str, Any]]) -> str:
    first = results[0]
    products = [
        f"{name} {statistics.median(speeds) / 1e9:,.0f} GFLOP/s"
        for name in first["matmul_peak"]
        if (
            speeds := [
                result["matmul_peak"][name]
                for result in results
                if result["settings"]["precision"] == "float32"
            ]
        )
    ]
    versions = [
        f"{name} {first['versions'][name]}"
        for name in ("tensorflow", "keras-nlp", "torch", "transformers")
        if first["versions"].get(name)
    ]
    return (
        f"Measured on {first['device']} with {first['threads']} threads; "
        f"{', '.join(versions)}. Matrix products in float32 reach "
        f"{', '.join(products)} (median)."
    )


def main(argv: list[str]) -> None:
    """Measures, or writes the measurements into a document."""
    del argv
    values = flags.FLAGS
    folder = os.path.join(values.out, frameworks.FOLDER)
    if not values.document:
        rows = GPU_ROWS if machine.has_gpu() else CPU_ROWS
        measure(rows, values.data, values.out)
        print(table(read(folder), "speed"))
        return
    with open(values.document, encoding="utf-8") as file:
        text = file.read()
    marks = [m for m in MARKS if f"<!-- begin: {m} -->" in text] or MARKS[:1]
    for mark in marks:
        documents.fill(values.document, mark, table(read(folder), mark))


if __name__ == "__main__":
    define_flags()
    command_line.start_with_words(main)
