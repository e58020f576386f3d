"""The tables of speed in the documents, by one command.

    python -m benchmarks.speed --data=FOLDER
    python -m benchmarks.speed --document=docs/guides/feature_cache.md

FOLDER holds GLUE's RTE and SST-2 as downloaded. The first command measures, in
about 40 minutes on two cores; --only selects from:

- `epochs`: an epoch and the build of the cache (`benchmarks.frameworks`), of
  `CPU_ROWS`, or of `GPU_ROWS` where TensorFlow has a GPU;
- `pass`: texts per second of the frozen pass (`benchmarks.frozen_pass`);
- `mpnet`: both for the weights of `mpnet`, next to random weights of BERT's
  shape, in what the processor has;
- `probe`: seconds of the probe's command on SST-2, from its start to its end,
  with the encoder fetched and no states stored.

Every row is measured in a process of its own. The second command writes the
tables into a document, between the marks that it has: `speed`, `speed_short`,
`speed_mpnet`, `pass`, `pass_mpnet` and `probe_seconds`. With --only it writes
those of these kinds.
"""

import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import Any

from absl import flags

from benchmarks import documents, frameworks, frozen_pass, measuring
from tf_transfer.config import command_line
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import UserError

SHARED = (
    *("--task=rte", "--model=minilm", "--batch_size=16", "--lr=1e-3"),
    "--rounds=2",
)
LARGE = "--shape=12x768"  # BERT-base's
FEW = (LARGE, "--max_train_examples=512")
BFLOAT16 = "--prefix_precision=bfloat16"  # of the pass alone
CPU_ROWS = (
    ("--examples=128", "--trainable_layers=1", BFLOAT16),
    ("--examples=128", "--trainable_layers=2", BFLOAT16),
    ("--examples=128", "--trainable_layers=all"),
    (*FEW, "--examples=64", "--trainable_layers=1", BFLOAT16),
    (*FEW, "--examples=64", "--trainable_layers=2", BFLOAT16),
    (*FEW, "--examples=32", "--trainable_layers=all"),
)
GPU_ROWS = tuple(
    (
        LARGE,
        f"--examples={64 * batch_size}",
        f"--batch_size={batch_size}",
        f"--trainable_layers={layers}",
        f"--jit_compile={compiles}",
    )
    for batch_size in (1, 16)
    for layers in ("1", "4", "all")
    for compiles in ("true", "false")
)
PASS_ROWS = (
    ("--examples=256", "--rounds=5"),
    (LARGE, "--examples=64", "--rounds=5"),
)
MPNET = "mpnet"  # below --out
BOTH_WEIGHTS = ((LARGE,), ("--model=mpnet",))
MPNET_ROWS = tuple(
    (
        *weights,
        "--max_train_examples=512",
        f"--examples={examples}",
        f"--trainable_layers={layers}",
    )
    for layers, examples in (("1", 64), ("2", 64), ("all", 32))
    for weights in BOTH_WEIGHTS
)
MPNET_PASS_ROWS = tuple(
    (*weights, "--examples=64", "--rounds=5") for weights in BOTH_WEIGHTS
)
PROBE_PASSES = (
    ("tensorflow", "float32"),
    ("openvino", "float32"),
    ("openvino", "bfloat16"),
)
PROBE_FILE = "probe_seconds.json"
KINDS = ("epochs", "pass", "mpnet", "probe")
SHORT = (
    "encoder",
    "trains",
    "ours live, s",
    "ours cached, s",
    "build, s",
    "Hugging Face, 10 epochs",
)


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "tfds", "GLUE, as for tf_transfer.glue.")
    flags.DEFINE_string("out", "runs", "Folder of the measurements.")
    flags.DEFINE_multi_enum(
        "only", KINDS, KINDS, "What to measure, or to write into the document."
    )
    flags.DEFINE_list(
        "probe_texts", ["1000", "50000"], "Numbers of training texts of SST-2."
    )
    flags.DEFINE_string(
        "document", "", "Write the measurements of --out into this document."
    )


# === Measuring ===


def measure(
    module: str, rows: Iterable[Sequence[str]], data: str, out: str
) -> None:
    """Measures rows, each in a process of its own.

    Args:
        module: The benchmark of one row.
        rows: Its flags; they win over `SHARED`.
        data: See `--data`.
        out: Folder of the measurements.

    Raises:
        UserError: A row cannot be measured; its process has said why.
    """
    for row in rows:
        names = [word.partition("=")[0] for word in row]
        shared = [w for w in SHARED if w.partition("=")[0] not in names]
        call(module, *shared, f"--data={data}", f"--out={out}", *row)


def call(module: str, *words: str) -> float:
    """Runs a command in a process of its own; returns its seconds.

    Raises:
        UserError: It fails; it has said why.
    """
    command = ["-m", module, *words]
    print("python", *command, flush=True)
    start = time.perf_counter()
    if subprocess.run([sys.executable, *command]).returncode:
        raise UserError(f"{' '.join(words)}: could not be measured.")
    return time.perf_counter() - start


def measure_probe(
    data: str, out: str, texts: Sequence[str], model: str = "minilm"
) -> None:
    """Measures the probe's command for each number of texts and engine.

    Args:
        data: See `--data`.
        out: Folder of the measurements.
        texts: Numbers of training texts.
        model: The encoder.
    """
    cases = []
    with tempfile.TemporaryDirectory(prefix="tf_transfer-probe-") as folder:
        shared = (
            "--task=sst2",
            f"--data={data}",
            f"--model={model}",
            "--features=frozen",
            "--max_length=64",
            "--validation_fraction=0.01",  # of all texts of SST-2
            f"--cache_dir={folder}",
        )
        call(  # fetches the encoder, and reads the libraries from the disk
            "tf_transfer.train",
            *shared,
            "--max_train_examples=100",
            f"--out={folder}/first",
        )
        for count in texts:
            for engine, precision in PROBE_PASSES:
                shutil.rmtree(os.path.join(folder, "prefix"))
                runs = os.path.join(folder, f"{count}-{engine}-{precision}")
                seconds = call(
                    "tf_transfer.train",
                    *shared,
                    f"--max_train_examples={count}",
                    f"--prefix_engine={engine}",
                    f"--prefix_precision={precision}",
                    f"--out={runs}",
                )
                [path] = glob.glob(
                    f"{runs}/**/probe/*/result.json", recursive=True
                )
                with open(path, encoding="utf-8") as file:
                    result = json.load(file)
                case = {"texts": int(count), "seconds": seconds, **result}
                cases.append(case)
    measured = {
        "device": measuring.name_device(),
        "threads": len(os.sched_getaffinity(0)),
        "versions": machine.versions(),
        "cases": cases,
    }
    os.makedirs(out, exist_ok=True)
    files.write_json(os.path.join(out, PROBE_FILE), measured)


# === Tables ===


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
            settings["jit_compile"],
        )

    return sorted(results, key=order)


def tabulate_epochs(out: str, columns: Sequence[str] = ()) -> str:
    """The epochs, one row for each measurement.

    Args:
        out: See `--out`.
        columns: Those to show; all if empty.
    """
    results = read(os.path.join(out, frameworks.FOLDER))
    peaks: dict[str, list[float]] = {}
    for result in results:
        if result["settings"]["precision"] == "float32":
            for name, speed in result["matmul_peak"].items():
                peaks.setdefault(name, []).append(speed)
    products = {name: statistics.median(peak) for name, peak in peaks.items()}
    rows = [frameworks.describe(result) for result in results]
    return "\n\n".join(
        [
            describe_machine(results[0], {"float32": products}),
            as_table(rows, columns),
        ]
    )


def tabulate_short(out: str) -> str:
    """The epochs, with the columns `SHORT`."""
    return tabulate_epochs(out, SHORT)


def tabulate_passes(out: str) -> str:
    """The frozen passes, one row for each contestant."""
    results = read(os.path.join(out, frozen_pass.FOLDER))
    rows = [row for result in results for row in frozen_pass.describe(result)]
    title = describe_machine(results[0], results[0]["matmul_peak"])
    return f"{title}\n\n{as_table(rows)}"


def tabulate_probes(out: str) -> str:
    """The probe's command, one row for each number of texts and engine."""
    with open(os.path.join(out, PROBE_FILE), encoding="utf-8") as file:
        measured = json.load(file)
    first: dict[int, float] = {}
    rows = []
    for case in measured["cases"]:
        seconds, texts = case["seconds"], case["texts"]
        reference = first.setdefault(texts, seconds)
        rows.append(
            {
                "training texts": f"{texts:,}",
                "engine": case["prefix_engine"],
                "command, s": f"{seconds:.1f}",
                "of it the pass, s": f"{case['prefix_seconds']:.1f}",
                "of it compiling, s": f"{case['trace_seconds']:.1f}",
                "share of TensorFlow's time": f"{seconds / reference:.0%}",
                f"test {case['metric']}": (
                    f"{100 * case['test'][case['metric']]:.1f}"
                ),
            }
        )
    return f"{describe_machine(measured, {})}\n\n{as_table(rows)}"


def as_table(
    rows: Sequence[dict[str, str]], columns: Sequence[str] = ()
) -> str:
    """Markdown of dicts with the same keys."""
    columns = columns or tuple(rows[0])
    cells = [columns, ("---",) * len(columns)]
    cells += [tuple(row[column] for column in columns) for row in rows]
    return documents.as_markdown(cells)


def describe_machine(
    result: dict[str, Any], peaks: dict[str, dict[str, float]]
) -> str:
    """A line on where something was measured.

    Args:
        result: Has `device`, `threads` and `versions`.
        peaks: Operations per second of products, by precision and library.
    """
    versions = [
        f"{name} {result['versions'][name]}"
        for name in ("tensorflow", "openvino", "torch", "transformers")
        if result["versions"].get(name)
    ]
    line = (
        f"Measured on {result['device']} with {result['threads']} threads; "
        f"{', '.join(versions)}."
    )
    for precision, speeds in peaks.items():
        products = [
            f"{name} {speed / 1e9:,.0f} GFLOP/s"
            for name, speed in speeds.items()
        ]
        line += f" Products in {precision} reach {', '.join(products)}."
    return line


# By kind of measurement: the marks of a document, with what makes their text.
MARKS = {
    "epochs": {"speed": tabulate_epochs, "speed_short": tabulate_short},
    "pass": {"pass": tabulate_passes},
    "mpnet": {
        "speed_mpnet": lambda out: tabulate_epochs(os.path.join(out, MPNET)),
        "pass_mpnet": lambda out: tabulate_passes(os.path.join(out, MPNET)),
    },
    "probe": {"probe_seconds": tabulate_probes},
}


def fill(document: str, kinds: Sequence[str], out: str) -> None:
    """Writes measurements between the marks that a document has.

    Args:
        document: Path.
        kinds: Of measurements.
        out: See `--out`.

    Raises:
        UserError: It has no marks of these kinds.
    """
    with open(document, encoding="utf-8") as file:
        text = file.read()
    tables = {
        mark: tabulate
        for kind in kinds
        for mark, tabulate in MARKS[kind].items()
        if f"<!-- begin: {mark} -->" in text
    }
    if not tables:
        raise UserError(
            f"--document={document}: has no marks for {', '.join(kinds)}, such "
            "as <!-- begin: speed -->."
        )
    for mark, tabulate in tables.items():
        documents.fill(document, mark, tabulate(out))


def main(argv: list[str]) -> None:
    """Measures, or writes the measurements into a document."""
    del argv
    values = flags.FLAGS
    data, out = values.data, values.out
    if values.document:
        fill(values.document, values.only, out)
        return
    if "epochs" in values.only:
        rows = GPU_ROWS if machine.has_gpu() else CPU_ROWS
        measure("benchmarks.frameworks", rows, data, out)
        print(tabulate_epochs(out))
    if "pass" in values.only:
        measure("benchmarks.frozen_pass", PASS_ROWS, data, out)
        print(tabulate_passes(out))
    if "mpnet" in values.only:
        folder = os.path.join(out, MPNET)
        measure("benchmarks.frameworks", MPNET_ROWS, data, folder)
        print(tabulate_epochs(folder))
        measure("benchmarks.frozen_pass", MPNET_PASS_ROWS, data, folder)
        print(tabulate_passes(folder))
    if "probe" in values.only:
        measure_probe(data, out, values.probe_texts)
        print(tabulate_probes(out))


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
