"""Seconds per epoch: our training, live and cached, and other libraries.

    python -m benchmarks.frameworks --task=rte --data=FOLDER --model=minilm \\
        --trainable_layers=2 --lr=1e-3 --batch_size=16

Contestants: ours, its frozen blocks run live; ours, their output cached;
keras-nlp's own `fit`, padded to the longest of each batch and to
`--max_length`; and Hugging Face transformers on PyTorch, batches grouped by
length and padded to their longest (`pip install -e '.[peers]'`; left out
without it). All train the same blocks on the same texts, with the same batch
size, dropout, threads and precision, Adam with decoupled decay, and clipping.
Their epochs alternate in one process. Each has a warm-up epoch that is not
counted; the first build of the cache is reported separately. The table shows
the median over the rounds, with the smallest and the largest.

`--shape=12x768` measures a BERT of 12 blocks, 768 wide, with random weights and
the vocabulary of `--model`: time does not depend on the weights.
"""

import dataclasses
import json
import os
import re
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks import CACHED, HUGGING_FACE, LIVE
from tf_transfer.config import command_line
from tf_transfer.config.settings import setting
from tf_transfer.data import glue as glue_data
from tf_transfer.glue import experiment as glue
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

FOLDER = "benchmark"  # below --out


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings(
    glue.Settings,
    defaults={"batching": "grouped"},
    help={"batching": "As in training; Hugging Face always groups by length."},
):
    """GLUE's settings, and what is measured."""

    examples: int = setting(
        256, "Training examples of an epoch, of all lengths in proportion."
    )
    rounds: int = setting(3, "Epochs of each contestant that are counted.")
    profile: bool = setting(
        False,
        "Also trace one more epoch of ours, and list its operations by time.",
        hashed=False,
    )
    shape: str = setting(
        "",
        "Blocks and width, such as 12x768 for BERT-base: random weights of "
        "that shape in place of the model's.",
    )

    def resolve(self) -> "BenchmarkSettings":
        """Returns settings with every default filled in, all checked.

        Raises:
            UserError: a value that cannot be measured.
        """
        settings = super().resolve()
        if self.examples < self.batch_size or self.rounds < 1:
            raise UserError(
                "--examples must fill a batch, and --rounds be 1 or more."
            )
        if self.shape:
            parse_shape(self.shape)
        if glue_data.TASKS[self.task].labels is None:
            raise UserError(f"--task={self.task}: give a task with classes.")
        return settings


def parse_shape(shape: str) -> tuple[int, int]:
    """Blocks and width of `--shape`.

    Raises:
        UserError: it has another form.
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", shape)
    if not match or int(match[2]) % 64:
        raise UserError(
            f"--shape={shape}: give blocks x width, the width a multiple of "
            "64, such as 12x768."
        )
    return int(match[1]), int(match[2])


def run(settings: BenchmarkSettings) -> dict[str, Any]:
    """Measures; returns the content of the JSON file."""
    settings = settings.resolve()
    if settings.method != "full":
        raise UserError(
            f"--method={settings.method}: the others train whole blocks. Leave "
            "it out; `benchmarks.lora` measures LoRA."
        )
    from benchmarks import contestants as contestants_lib, hugging_face

    contestants = contestants_lib.Contestants(settings)
    epochs = contestants.epochs()
    peak = _measure_peaks(settings.precision)
    seconds = time_epochs(epochs, settings.rounds)
    again = _measure_peaks(settings.precision)
    peak = {name: max(peak[name], again[name]) for name in peak}
    if settings.profile:
        _print_profiles(epochs)
    median = {name: statistics.median(s) for name, s in seconds.items()}
    operations = {LIVE: contestants.operations(cached=False)}
    cache: dict[str, Any] | None = contestants.cache_build
    if cache is not None:
        operations[CACHED] = contestants.operations(cached=True)
        saved = median[LIVE] - median[CACHED]
        cache = {
            **cache,
            "pays_after_epochs": (
                cache["build_seconds"] / saved if saved > 0 else None
            ),
        }
    plan = contestants.plan
    return {
        "settings": dataclasses.asdict(settings),
        "approach": settings.approach,
        "versions": {**machine.versions(), **hugging_face.versions()},
        "device": _name_device(),
        "uses_xla": settings.uses_xla,
        "threads": len(os.sched_getaffinity(0)),
        "examples": int(plan.counts.sum()),
        "steps": len(plan),
        "padded_tokens": int(plan.lengths.sum() * plan.rows.shape[1]),
        "seconds": seconds,
        "median_seconds": median,
        "cache": cache,
        "matmul_peak": peak,
        "operations": operations,
        "share_of_peak": {
            name: count / median[name] / peak["TensorFlow"]
            for name, count in operations.items()
        },
    }


def _name_device() -> str:
    from tf_transfer.training import strategy

    gpu = machine.has_gpu() and strategy.single_device().names[0]
    return gpu or machine.processor() or "a CPU"


def _measure_peaks(precision: str) -> dict[str, float]:
    """Operations per second of matrix products, by library."""
    from benchmarks import hugging_face, peak

    peaks = {"TensorFlow": peak.measure_peak(precision)}
    if hugging_face.is_installed():
        peaks["PyTorch"] = peak.measure_peak(precision, hugging_face.product)
    return peaks


def time_epochs(
    epochs: dict[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each contestant's epochs, a warm-up epoch left out."""
    seconds: dict[str, list[float]] = {name: [] for name in epochs}
    for number in range(rounds + 1):
        for name, train in epochs.items():
            start = time.perf_counter()
            train()
            elapsed = time.perf_counter() - start
            if number:
                seconds[name].append(elapsed)
            print(
                f"{f'round {number}' if number else 'warm-up'}: "
                f"{name} {elapsed:.2f} s",
                flush=True,
            )
    return seconds


def _print_profiles(epochs: dict[str, Callable[[], object]]) -> None:
    from benchmarks import profile

    for name in (LIVE, CACHED):
        if name in epochs:
            operations = profile.measure_operations(epochs[name])
            print(f"{name}: {profile.table(operations)}")


def table(result: dict[str, Any]) -> str:
    """Returns what `run` measured as text."""
    median, cache = result["median_seconds"], result["cache"]
    head = f"{'':<34}{'s/epoch':>9}{'min':>8}{'max':>8}{'examples/s':>12}"
    head += f"{'live is':>10}"
    if cache:
        head += f"{'cached is':>11}{'10 epochs':>11}"
    lines = [head]
    for name, values in result["seconds"].items():
        line = f"{name:<34}{median[name]:>9.2f}{min(values):>8.2f}"
        line += f"{max(values):>8.2f}{result['examples'] / median[name]:>12.1f}"
        line += f"{median[name] / median[LIVE]:>9.2f}x"
        if cache and name != CACHED:
            ten_epochs = cache["build_seconds"] + 10 * median[CACHED]
            line += f"{median[name] / median[CACHED]:>10.2f}x"
            line += f"{10 * median[name] / ten_epochs:>10.2f}x"
        lines.append(line)
    peak = result["matmul_peak"]
    for name, count in result["operations"].items():
        share = result["share_of_peak"][name]
        lines.append(
            f"{name}: {count / 1e9:,.1f} GFLOP per epoch, {share:.0%} of the "
            f"{peak['TensorFlow'] / 1e9:,.0f} GFLOP/s that products reach"
        )
    if HUGGING_FACE in median:
        ratio = peak["PyTorch"] / peak["TensorFlow"]
        lines.append(
            f"PyTorch's products reach {peak['PyTorch'] / 1e9:,.0f} GFLOP/s "
            "here: at TensorFlow's speed, Hugging Face would take "
            f"{ratio:.2f} of its time"
        )
    if cache:
        after = cache["pays_after_epochs"]
        lines.append(
            f"cache: built in {cache['build_seconds']:.1f} s, "
            f"{cache['bytes'] / 1e6:.1f} MB, "
            + (
                f"paid for after {after:.1f} epochs"
                if after
                else "not paid for"
            )
            + "; `10 epochs` counts the build against ours"
        )
    return "\n".join(lines)


def draw_chart(result: dict[str, Any], path: str) -> None:
    """Draws seconds per epoch as bars, the whole spread as whiskers.

    Args:
        result: what `run` returned.
        path: the PNG file to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(result["seconds"])[::-1]
    median = [result["median_seconds"][name] for name in names]
    spread = [
        [m - min(result["seconds"][n]) for n, m in zip(names, median)],
        [max(result["seconds"][n]) - m for n, m in zip(names, median)],
    ]
    figure, axes = pyplot.subplots(
        figsize=(8, 0.5 * len(names) + 1.2), layout="constrained"
    )
    colors = ["tab:blue" if n in (LIVE, CACHED) else "0.6" for n in names]
    axes.barh(names, median, xerr=spread, color=colors, capsize=3)
    for index, value in enumerate(median):
        axes.annotate(
            f" {value:.2f}", (value + spread[1][index], index), va="center"
        )
    settings = result["settings"]
    axes.set_xlabel(f"seconds for {result['examples']} examples")
    axes.set_title(
        f"{settings['task']}, {settings['shape'] or settings['model']}, "
        f"{result['approach']}, "
        f"batch {settings['batch_size']}"
    )
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    """Reads the flags, measures, prints and writes."""
    settings = command_line.from_flags(BenchmarkSettings).resolve()
    command_line.import_tensorflow()
    result = run(settings)
    print(table(result))
    folder = os.path.join(settings.out, FOLDER)
    os.makedirs(folder, exist_ok=True)
    model = os.path.basename(settings.model.rstrip("/"))
    path = os.path.join(
        folder,
        f"{settings.task}-{settings.shape or model}-{settings.approach}-"
        f"batch={settings.batch_size}-{settings.precision}"
        + ("-xla" if settings.uses_xla else ""),
    )
    with open(f"{path}.json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
    draw_chart(result, f"{path}.png")
    print(f"Written to {path}.json and .png")


if __name__ == "__main__":
    command_line.start(main, BenchmarkSettings)
