"""Texts per second of the frozen pass: our engines, and other libraries.

    python -m benchmarks.frozen_pass --task=rte --model=minilm --shape=12x768

Every contestant runs all blocks of a BERT over the same texts, without
training. The texts are random tokens, 16 to 64 of them, in batches of 32, the
longest first, padded to a multiple of 16. Ours runs as in a build of the
feature cache, but stores nothing. keras-hub is its own call of the backbone,
traced. PyTorch is a `BertModel` of transformers, its weights in the precision
of the arithmetic (`pip install -e '.[peers]'`; left out without it). The passes
alternate in one process, after one of each that is not counted. A processor
without products in bfloat16 is measured in float32 alone.

The limit is the number of texts whose matrix products, without padding, would
take a second at the speed that products of large matrices reach here, in the
faster of TensorFlow and PyTorch.
"""

import dataclasses
import itertools
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import hugging_face, measuring
from tf_transfer.config import command_line
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.utils import files, machine

FOLDER = "frozen_pass"  # below --out
INPUTS = ("ids", "segments", "mask")
SHORTEST, LONGEST = 16, 64  # tokens of a text
BATCH, SMALL_BATCH = 32, 16
SMALL = f"TensorFlow, batches of {SMALL_BATCH}"


def run(settings: measuring.BenchmarkSettings) -> dict[str, Any]:
    """Measures; returns the content of the JSON file."""
    from benchmarks import contestants, peak
    from tf_transfer.models import cost

    settings = settings.resolve()
    encoder = contestants.load_encoder(settings, settings.shape)
    split = draw_texts(settings.examples, len(encoder.tokenizer.vocabulary))
    precisions = list_precisions()
    passes = make_passes(settings, encoder, split, precisions)
    peaks = {
        name: peak.measure_peaks(precision)
        for name, precision in precisions.items()
    }
    seconds = measuring.time_epochs(passes, settings.rounds)
    shape = hugging_face.find_shape(encoder)
    operations = sum(
        cost.count_forward(shape, length) for length in split.lengths.tolist()
    )
    return {
        "settings": dataclasses.asdict(settings),
        "versions": {**machine.versions(), **hugging_face.versions()},
        "device": measuring.name_device(),
        "threads": len(os.sched_getaffinity(0)),
        "texts": len(split),
        "operations": operations,
        "matmul_peak": peaks,
        "seconds": seconds,
    }


def list_precisions() -> dict[str, str]:
    """The names of `--precision`, by the arithmetic of a pass."""
    precisions = {"float32": "float32"}
    if machine.has_bfloat16() or machine.has_gpu():
        precisions["bfloat16"] = "mixed_bfloat16"
    else:
        print("bfloat16 is left out: this processor has no products in it.")
    return precisions


def draw_texts(count: int, vocabulary: int) -> Any:
    """Returns an `EncodedSplit` of random tokens, of all lengths equally."""
    from tf_transfer.data import tokens

    lengths = np.linspace(SHORTEST, LONGEST, count).round().astype(np.int32)
    ids = np.random.default_rng(0).integers(1, vocabulary, lengths.sum())
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    lost = np.zeros(count, np.int32)
    texts = tokens.Tokens(ids.astype(np.int32), starts, lengths, lengths, lost)
    return EncodedSplit(texts, np.zeros(count), np.arange(count))


def make_passes(
    settings: measuring.BenchmarkSettings,
    encoder: Any,
    split: Any,
    precisions: Mapping[str, str],
) -> dict[str, Callable[[], object]]:
    """Returns a dict from each contestant to a function that runs its pass.

    Args:
        settings: Resolved.
        encoder: Ours, in float32.
        split: The texts.
        precisions: See `list_precisions`.
    """
    from benchmarks import contestants
    from tf_transfer.data import batches
    from tf_transfer.feature_cache import engines
    from tf_transfer.models.prefix import FrozenPrefix
    from tf_transfer.training import strategy

    prefixes = [FrozenPrefix(len(encoder.blocks), "tokens", "float16")]
    devices = strategy.single_device()

    def plan(batch_size: int) -> Any:
        return batches.pipeline(
            split,
            batches.plan_evaluation(split.lengths, batch_size),
            encoder.special.pad,
        )

    def repeat_pass(
        start: Callable[..., Iterator], dataset: Any, *rest: Any
    ) -> Callable[[], object]:
        """Compiles once; the function consumes the batches of one pass."""
        outputs = start(encoder, prefixes, dataset.repeat(), *rest)
        steps = len(dataset)

        def run() -> None:
            for _ in itertools.islice(outputs, steps):
                pass

        return run

    dataset = plan(BATCH)
    given = [*dataset.as_numpy_iterator()]
    passes = {
        f"{SMALL}, float32": repeat_pass(
            engines.run_tensorflow, plan(SMALL_BATCH), "float32", devices
        )
    }
    for name, precision in precisions.items():
        passes[f"TensorFlow, {name}"] = repeat_pass(
            engines.run_tensorflow, dataset, name, devices
        )
        try:
            passes[f"OpenVINO, {name}"] = repeat_pass(
                engines.run_openvino, dataset, name
            )
        except engines.Unusable as error:
            print(f"OpenVINO, {name}, is left out: {error}")
        if hugging_face.own_config(encoder) is None:
            in_precision = dataclasses.replace(settings, precision=precision)
            theirs = contestants.load_encoder(in_precision, settings.shape)
            passes[f"keras-hub, {name}"] = call_backbone(theirs, given)
        if hugging_face.is_installed():
            passes[f"PyTorch, {name}"] = hugging_face.make_pass(
                encoder, given, name
            )
    return passes


def call_backbone(
    encoder: Any, given: list[dict[str, np.ndarray]]
) -> Callable[[], object]:
    """keras-hub's own pass over batches."""
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def call(ids: Any, segments: Any, mask: Any) -> Any:
        inputs = {
            "token_ids": ids,
            "segment_ids": segments,
            "padding_mask": mask,
        }
        return encoder.backbone(inputs, training=False)["sequence_output"]

    def run() -> None:
        for batch in given:
            call(*(tf.constant(batch[name]) for name in INPUTS)).numpy()

    return run


def describe(result: dict[str, Any]) -> list[dict[str, str]]:
    """The cells of what `run` measured, by column, for each contestant."""
    settings, texts = result["settings"], result["texts"]
    speeds = {
        name: texts / statistics.median(seconds)
        for name, seconds in result["seconds"].items()
    }
    reference = speeds[f"{SMALL}, float32"]
    rows = []
    for name, speed in speeds.items():
        engine, _, precision = name.rpartition(", ")
        fastest = max(result["matmul_peak"][precision].values())
        limit = fastest * texts / result["operations"]
        seconds = result["seconds"][name]
        rows.append(
            {
                "encoder": settings["shape"]
                or os.path.basename(settings["model"]),
                "pass": engine,
                "precision": precision,
                "texts/s": f"{speed:.1f}",
                "slowest to fastest": f"{texts / max(seconds):.1f} to "
                f"{texts / min(seconds):.1f}",
                "limit, texts/s": f"{limit:.1f}",
                "share of the limit": f"{speed / limit:.0%}",
                f"times {SMALL}, float32": f"{speed / reference:.2f}",
            }
        )
    return rows


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flags, measures, and writes."""
    command_line.refuse_words(argv)
    settings = command_line.from_flags(measuring.BenchmarkSettings)
    command_line.import_tensorflow()
    result = run(settings)
    folder = os.path.join(settings.out, FOLDER)
    os.makedirs(folder, exist_ok=True)
    model = os.path.basename(settings.model.rstrip("/"))
    path = os.path.join(folder, f"{settings.shape or model}.json")
    files.write_json(path, result)
    print(f"Written to {path}")


if __name__ == "__main__":
    command_line.command(main, measuring.BenchmarkSettings)
