r"""Seconds per epoch: our training, live and cached, and Hugging Face's.

    python -m benchmarks.frameworks --task=rte --data=FOLDER --model=minilm \
        --trainable_layers=2 --lr=1e-3 --batch_size=16

Contestants: ours, its frozen blocks run live; ours, their output cached; and
Hugging Face transformers on PyTorch, batches grouped by length and padded to
their longest text (`pip install -e '.[peers]'`; left out without it). All train
the same blocks on the same texts, with the same batch size, dropout, threads
and precision, Adam with decoupled decay, and clipping. Their epochs alternate
in one process. Each has a warm-up epoch that is not counted.

The cache is built of all training texts of the task, in one pass from an empty
folder. Its seconds include tracing, converting and compiling. Ten epochs of all
texts take the build and ten times the median epoch, in proportion to the texts.

`--shape=12x768` measures a BERT of 12 blocks, 768 wide, with random weights and
the vocabulary of `--model`: time does not depend on the weights.
"""

import dataclasses
import os
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import CACHED, HUGGING_FACE, LIVE, measuring
from benchmarks.measuring import BenchmarkSettings
from tf_transfer.config import command_line
from tf_transfer.config.fields import setting
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import UserError

FOLDER = "benchmark"  # below --out


@dataclasses.dataclass(frozen=True)
class FrameworkSettings(BenchmarkSettings):
    """Settings of this benchmark."""

    profile: bool = setting(
        False,
        "Also trace one more epoch of ours, and list its operations by time.",
        hashed=False,
    )


def run(settings: FrameworkSettings) -> dict[str, Any]:
    """Measures; returns the content of the JSON file."""
    settings = settings.resolve()
    if settings.method != "full":
        raise UserError(
            f"--method={settings.method}: the others train whole blocks. Leave "
            "it out; `benchmarks.lora` measures LoRA."
        )
    from benchmarks import contestants as contestants_lib, hugging_face, peak

    contestants = contestants_lib.Contestants(settings)
    epochs = contestants.epochs()
    peaks = peak.measure_peaks(settings.precision)
    seconds = measuring.time_epochs(epochs, settings.rounds)
    again = peak.measure_peaks(settings.precision)
    peaks = {name: max(peaks[name], again[name]) for name in peaks}
    if settings.profile:
        _print_profiles(epochs)
    median = {name: statistics.median(s) for name, s in seconds.items()}
    operations = {LIVE: contestants.operations(cached=False)}
    if contestants.cache_build is not None:
        operations[CACHED] = contestants.operations(cached=True)
    plan = contestants.plan
    return {
        "settings": dataclasses.asdict(settings),
        "approach": settings.approach,
        "versions": {**machine.versions(), **hugging_face.versions()},
        "device": measuring.name_device(),
        "uses_xla": settings.uses_xla,
        "threads": len(os.sched_getaffinity(0)),
        "examples": int(plan.counts.sum()),
        "texts": len(contestants.texts),
        "steps": len(plan),
        "padded_tokens": int(plan.lengths.sum() * plan.rows.shape[1]),
        "seconds": seconds,
        "median_seconds": median,
        "cache": contestants.cache_build,
        "matmul_peak": peaks,
        "operations": operations,
        "share_of_peak": {
            name: count / median[name] / peaks["TensorFlow"]
            for name, count in operations.items()
        },
    }


def _print_profiles(epochs: dict[str, Callable[[], object]]) -> None:
    from benchmarks import profile

    for name in (LIVE, CACHED):
        if name in epochs:
            operations = profile.measure_operations(epochs[name])
            print(f"{name}: {profile.table(operations)}")


def describe(result: dict[str, Any]) -> dict[str, str]:
    """The cells of what `run` measured, by column."""
    settings, median = result["settings"], result["median_seconds"]
    live, cache = median[LIVE], result["cache"]
    ours = median.get(CACHED, live)
    epochs = 10 * result["texts"] / result["examples"]
    layers = settings["trainable_layers"]
    cells = {
        "encoder": settings["shape"] or os.path.basename(settings["model"]),
        "trains": "all" if layers == "all" else f"last {layers}",
        "batch": str(settings["batch_size"]),
        "precision": settings["precision"],
        "XLA": "yes" if result["uses_xla"] else "no",
        "examples": str(result["examples"]),
        "ours live, s": f"{live:.2f}",
        "ours cached, s": "-",
        "Hugging Face, s": "-",
        "a step, ms, live / cached": " / ".join(
            f"{1e3 * median[name] / result['steps']:.1f}"
            for name in (LIVE, CACHED)
            if name in median
        ),
        "share of peak, live / cached": " / ".join(
            f"{share:.0%}" for share in result["share_of_peak"].values()
        ),
        "engine": "-",
        "all texts": f"{result['texts']:,}",
        "build, s": "-",
        "of it compiling, s": "-",
        "pays after, epochs": "-",
    }
    ten_epochs = epochs * ours
    if cache:
        build = cache["build_seconds"]
        ten_epochs += build
        cells["ours cached, s"] = f"{ours:.2f}"
        cells["engine"] = cache["engine"]
        cells["build, s"] = f"{build:.1f}"
        cells["of it compiling, s"] = f"{cache['compile_seconds']:.1f}"
        if live > ours:
            after = 10 * build / (epochs * (live - ours))
            cells["pays after, epochs"] = f"{after:.1f}"
    cells["10 epochs and build, s"] = f"{ten_epochs:.0f}"
    cells["Hugging Face, 10 epochs"] = "-"
    if HUGGING_FACE in median:
        theirs = median[HUGGING_FACE]
        cells["Hugging Face, s"] = f"{theirs:.2f}"
        cells["Hugging Face, 10 epochs"] = (
            f"{epochs * theirs:.0f} s, {epochs * theirs / ten_epochs:.2f} x"
        )
    return cells


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flags, measures, prints and writes."""
    command_line.refuse_words(argv)
    settings = command_line.from_flags(FrameworkSettings).resolve()
    command_line.import_tensorflow()
    result = run(settings)
    for name, cell in describe(result).items():
        print(f"{name}: {cell}")
    folder = os.path.join(settings.out, FOLDER)
    os.makedirs(folder, exist_ok=True)
    model = os.path.basename(settings.model.rstrip("/"))
    path = os.path.join(
        folder,
        f"{settings.task}-{settings.shape or model}-{settings.approach}-"
        f"batch={settings.batch_size}-{settings.precision}"
        + ("-xla" if settings.uses_xla else "")
        + ".json",
    )
    files.write_json(path, result)
    print(f"Written to {path}")


if __name__ == "__main__":
    command_line.command(main, FrameworkSettings)
