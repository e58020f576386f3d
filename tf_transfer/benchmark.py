"""Seconds an epoch: this loop, live and cached, beside what else there is.

    python -m tf_transfer.benchmark --task=rte --data=FOLDER --model=minilm \\
        --trainable_layers=2 --lr=1e-3 --batch_size=16

Contestants: ours, its frozen blocks run live; ours, their output cached;
keras-nlp's own `fit`, padded to the longest of each batch and to
`--max_length`; and Hugging Face transformers on PyTorch, batches grouped by
length and padded to their longest (`pip install '.[peers]'`; left out without).
All train the same blocks on the same texts, with the same batch size, dropout,
threads and precision, Adam with decoupled decay, and clipping. They take turns
in one process; each has a warm-up epoch that is not counted, the first cache
build included, which is told apart. Shown is the median over the rounds, with
the smallest and the largest.

`--shape=12x768` measures a BERT of 12 blocks, 768 wide, with random weights and
the vocabulary of `--model`: time does not depend on the weights.
"""

import dataclasses
import json
import os
import re
import statistics
import tempfile
import time

from tf_transfer import glue
from tf_transfer import text_task
from tf_transfer.config import command_line
from tf_transfer.config.settings import setting
from tf_transfer.data import tasks
from tf_transfer.utils.errors import UserError

LIVE, CACHED = "ours, live", "ours, cached"
HUGGING_FACE = "Hugging Face, grouped, longest"
MODULE = "benchmark"


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings(glue.GlueSettings):
    """GLUE's settings, and what is measured."""

    batching: str = setting(
        "grouped",
        "As in training; Hugging Face always groups by length.",
        choices=("random", "grouped"),
    )
    examples: int = setting(
        256, "Training examples of an epoch, of all lengths in proportion."
    )
    rounds: int = setting(3, "Epochs that are counted, each contestant.")
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

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        if self.examples < self.batch_size or self.rounds < 1:
            raise UserError(
                "--examples must fill a batch, and --rounds be 1 or more."
            )
        shape = re.fullmatch(r"(\d+)x(\d+)", self.shape)
        if self.shape and (not shape or int(shape[2]) % 64 or "0x" in shape[0]):
            raise UserError(
                f"--shape={self.shape}: give blocks x width, the width a "
                "multiple of 64, such as 12x768."
            )
        return super().resolve()


class Bench:
    """One measurement: the data, our network, and the contestants.

    Args:
        settings: `BenchmarkSettings`, resolved.
    """

    def __init__(self, settings):
        from tf_transfer.data import sources
        from tf_transfer.models import cost
        from tf_transfer.training import dropout
        from tf_transfer.training import strategy

        self.settings = settings
        self.task = tasks.GLUE[settings.task]
        self.devices = strategy.set_up(settings)
        source = sources.Source(self.task, settings.data, settings.cache_folder)
        self.network, [phase], _ = text_task.prepare(
            settings, self.task, source, self.devices, self.load_encoder()
        )
        [objective] = phase.objectives
        self.objective = dataclasses.replace(
            objective,
            train=_of_all_lengths(objective.train, settings.examples),
            evaluation={},
        )
        self.moving = phase.trainable
        self.seeds = dropout.DropoutSeeds(self.network.layers)
        self.shape = cost.Shape.of(self.network.encoder)
        self.plan = None
        self.cache = None

    def load_encoder(self):
        """A new encoder, as the flags say."""
        from tf_transfer.models import loading

        settings = self.settings
        options = (settings.dropout, settings.precision, settings.seed)
        encoder = loading.load(settings.model, settings.cache_folder, *options)
        if not settings.shape:
            return encoder
        blocks, hidden = map(int, settings.shape.split("x"))
        return loading.random_like(encoder, blocks, hidden, *options)

    def contestants(self):
        """A dict from name to a function that trains one epoch."""
        from tf_transfer.peers import peaks

        found = {LIVE: self._ours(self.objective)}
        if not self.moving.embeddings:
            found[CACHED] = self._cached()
        found["keras-nlp fit, padded to longest"] = self._keras(
            self.objective.train.lengths[self.plan.rows].max(axis=1)
        )
        limit = self.settings.max_length
        found[f"keras-nlp fit, padded to {limit}"] = self._keras(limit)
        if peaks.has_torch():
            found[HUGGING_FACE] = self._hugging_face()
        else:
            print("Hugging Face is left out: pip install '.[peers]'.")
        return found

    def _ours(self, objective, prefix=None):
        import tensorflow as tf

        from tf_transfer.models import freezing
        from tf_transfer.training import learner
        from tf_transfer.training import loop

        settings = self.settings
        optimizer = loop.build_optimizer(
            self.devices,
            freezing.freeze(self.network, self.moving),
            lambda step: tf.constant(settings.lr),
            settings,
        )
        one = learner.Learner(
            self.devices,
            self.network,
            optimizer,
            objective,
            self.seeds,
            settings,
            prefix,
        )
        trainer = loop.Trainer(self.devices, optimizer, [one])
        self.plan = one.plan(1)
        return lambda: trainer.train(trainer.plan(1), lambda *chunk: False)

    def _cached(self):
        from tf_transfer.feature_cache import cache as cache_lib

        folder = tempfile.TemporaryDirectory(prefix="tf_transfer-benchmark-")
        settings = dataclasses.replace(self.settings, cache_dir=folder.name)
        began = time.perf_counter()
        cache = cache_lib.PrefixCache(settings, self.devices, self.network)
        prefix, objective, _ = cache.attach(self.objective, self.moving)
        seconds = time.perf_counter() - began
        [entry] = cache.store.entries()
        self.cache = {"build_seconds": seconds, "bytes": entry.bytes}
        self._folder = folder  # kept as long as it is read
        return self._ours(objective, prefix)

    def _keras(self, lengths):
        from tf_transfer.peers import keras_fit

        encoder = self.load_encoder()
        classifier = keras_fit.build(
            encoder, self.moving, len(self.task.labels), self.settings
        )
        return keras_fit.epoch_of(
            classifier, encoder, self.objective.train, self.plan, lengths
        )

    def _hugging_face(self):
        from tf_transfer.data import batches
        from tf_transfer.peers import hugging_face

        settings, encoder = self.settings, self.network.encoder
        train = self.objective.train
        model, optimizer = hugging_face.build(
            encoder, self.moving, len(self.task.labels), settings
        )
        plan = batches.plan_epoch(
            train.lengths,
            settings.batch_size,
            "grouped",
            settings.seed,
            1,
            1,
            batches.buckets_up_to(settings.max_length),
        )
        return hugging_face.epoch_of(
            model, optimizer, encoder, train, plan, settings
        )

    def operations(self, cached):
        """Floating-point operations of an epoch of ours."""
        from tf_transfer.models import cost

        return cost.epoch_operations(
            self.shape,
            self.plan,
            self.moving,
            self.settings.pooling == "cls",
            cached,
        )


def _of_all_lengths(part, count):
    """So many texts of a split, evenly spaced over its texts by length."""
    import numpy as np

    order = np.argsort(part.lengths, kind="stable")
    count = min(count, len(order))
    rows = np.sort(
        order[np.linspace(0, len(order) - 1, count).round().astype(int)]
    )
    return part.take(rows)


def run(settings):
    """Measures. Returns what the JSON file says.

    Args:
        settings: `BenchmarkSettings`.
    """
    settings = settings.resolve()
    from tf_transfer.peers import peaks
    from tf_transfer.utils import machine

    bench = Bench(settings)
    contestants = bench.contestants()
    before = peaks.measure(settings.precision)
    seconds = {name: [] for name in contestants}
    for number in range(settings.rounds + 1):
        for name, train in contestants.items():
            began = time.perf_counter()
            train()
            taken = time.perf_counter() - began
            if number:
                seconds[name].append(taken)
            print(
                f"{'warm-up' if not number else f'round {number}'}: "
                f"{name} {taken:.2f} s",
                flush=True,
            )
    after = peaks.measure(settings.precision)
    if settings.profile:
        _print_profiles(contestants)
    peak = {name: max(before[name], after[name]) for name in before}
    middle = {name: statistics.median(s) for name, s in seconds.items()}
    operations = {LIVE: bench.operations(cached=False)}
    result = {
        "settings": dataclasses.asdict(settings),
        "approach": settings.approach,
        "versions": machine.versions(),
        "threads": len(os.sched_getaffinity(0)),
        "examples": int(bench.plan.counts.sum()),
        "padded_tokens": int(
            bench.plan.lengths.sum() * bench.plan.rows.shape[1]
        ),
        "seconds": seconds,
        "median_seconds": middle,
        "cache": bench.cache,
        "matmul_peak": peak,
    }
    if bench.cache:
        operations[CACHED] = bench.operations(cached=True)
        saved = middle[LIVE] - middle[CACHED]
        build = bench.cache["build_seconds"]
        bench.cache["pays_after_epochs"] = build / saved if saved > 0 else None
    result["operations"] = operations
    result["share_of_peak"] = {
        name: count / middle[name] / peak["TensorFlow"]
        for name, count in operations.items()
    }
    return result


def _print_profiles(contestants):
    from tf_transfer.peers import profile

    for name in (LIVE, CACHED):
        if name in contestants:
            found = profile.operations(contestants[name])
            print(f"{name}: {profile.table(found)}")


def table(result):
    """The result as text."""
    middle, cache = result["median_seconds"], result["cache"]
    head = f"{'':<34}{'s/epoch':>9}{'min':>8}{'max':>8}{'examples/s':>12}"
    head += f"{'live is':>10}"
    if cache:
        head += f"{'cached is':>11}{'10 epochs':>11}"
    lines = [head]
    for name, values in result["seconds"].items():
        line = f"{name:<34}{middle[name]:>9.2f}{min(values):>8.2f}"
        line += f"{max(values):>8.2f}{result['examples'] / middle[name]:>12.1f}"
        line += f"{middle[name] / middle[LIVE]:>9.2f}x"
        if cache and name != CACHED:
            ten = cache["build_seconds"] + 10 * middle[CACHED]
            line += f"{middle[name] / middle[CACHED]:>10.2f}x"
            line += f"{10 * middle[name] / ten:>10.2f}x"
        lines.append(line)
    peak = result["matmul_peak"]
    for name, count in result["operations"].items():
        share = result["share_of_peak"][name]
        lines.append(
            f"{name}: {count / 1e9:,.1f} GFLOP an epoch, {share:.0%} of the "
            f"{peak['TensorFlow'] / 1e9:,.0f} GFLOP/s that products reach"
        )
    if HUGGING_FACE in middle:
        equal = peak["PyTorch"] / peak["TensorFlow"]
        lines.append(
            f"PyTorch's products reach {peak['PyTorch'] / 1e9:,.0f} GFLOP/s "
            f"here: at TensorFlow's, Hugging Face's figures would be "
            f"{equal:.2f} of what they are"
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


def chart(result, path):
    """Draws seconds an epoch as bars, the whole spread as whiskers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(result["seconds"])[::-1]
    middle = [result["median_seconds"][name] for name in names]
    spread = [
        [m - min(result["seconds"][n]) for n, m in zip(names, middle)],
        [max(result["seconds"][n]) - m for n, m in zip(names, middle)],
    ]
    figure, axes = pyplot.subplots(
        figsize=(8, 0.5 * len(names) + 1.2), layout="constrained"
    )
    colors = ["tab:blue" if n in (LIVE, CACHED) else "0.6" for n in names]
    axes.barh(names, middle, xerr=spread, color=colors, capsize=3)
    for place, value in enumerate(middle):
        axes.annotate(
            f" {value:.2f}", (value + spread[1][place], place), va="center"
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


def main():
    """Reads the flags, measures, prints and writes."""
    settings = command_line.from_flags(BenchmarkSettings).resolve()
    if tasks.GLUE[settings.task].labels is None:
        raise UserError("--task=stsb: give a task with classes.")
    command_line.import_tensorflow()
    result = run(settings)
    print(table(result))
    folder = os.path.join(settings.out, MODULE)
    os.makedirs(folder, exist_ok=True)
    model = os.path.basename(settings.model.rstrip("/"))
    path = os.path.join(
        folder,
        f"{settings.task}-{settings.shape or model}-{settings.approach}-"
        f"batch={settings.batch_size}-{settings.precision}",
    )
    with open(f"{path}.json", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
    chart(result, f"{path}.png")
    print(f"Written to {path}.json and .png")


if __name__ == "__main__":
    command_line.start(main, BenchmarkSettings)
