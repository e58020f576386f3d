"""Examples per second: this loop beside keras-nlp's own `fit`.

    python -m tf_transfer.benchmark --task=rte --data=FOLDER --model=minilm

The same encoder weights, texts, batches, frozen blocks, dropout and optimizer
(Adam with decoupled decay and clipping). `fit` gets the batches twice: padded
as ours are, to the bucket of each batch, and all padded to `--max_length`, as
its preprocessor would. Contestants take turns, every round in the same order;
each has a warm-up epoch that is not counted. Shown is the median over the
rounds, with the smallest and the largest.
"""

import dataclasses
import statistics
import time

from tf_transfer import glue
from tf_transfer import settings as settings_lib
from tf_transfer.data import tasks
from tf_transfer.errors import UserError
from tf_transfer.settings import setting


@dataclasses.dataclass(frozen=True)
class BenchmarkSettings(glue.GlueSettings):
    """GLUE's settings, and what is measured."""

    examples: int = setting(256, "Training examples of an epoch.")
    rounds: int = setting(3, "Epochs that are counted, each contestant.")


def run(settings):
    """Measures. Returns a dict from contestant to examples per second."""
    if settings.examples < settings.batch_size or settings.rounds < 1:
        raise UserError(
            "--examples must fill a batch, and --rounds be 1 or more."
        )
    settings = dataclasses.replace(
        settings, max_train_examples=settings.examples
    ).resolve()
    from tf_transfer.data import sources
    from tf_transfer.models import split
    from tf_transfer.training import strategy

    task = tasks.GLUE[settings.task]
    devices = strategy.set_up(settings)
    source = sources.Source(task, settings.data, settings.cache_folder)
    network, [phase], _ = glue.prepare(settings, task, source, devices)
    weights = split.freeze(network, phase.trainable)
    plan, epoch = _ours(settings, devices, network, phase, weights)
    bucketed = _fit(settings, phase, plan, plan.lengths)
    padded = _fit(settings, phase, plan, settings.max_length)
    contestants = {
        "ours": epoch,
        "keras-nlp fit, padded to the bucket": bucketed,
        f"keras-nlp fit, padded to {settings.max_length}": padded,
    }
    speeds = {name: [] for name in contestants}
    for number in range(settings.rounds + 1):
        for name, train in contestants.items():
            began = time.perf_counter()
            train()
            seconds = time.perf_counter() - began
            if number:
                speeds[name].append(plan.counts.sum() / seconds)
    return speeds


def _ours(settings, devices, network, phase, weights):
    import tensorflow as tf

    from tf_transfer.training import dropout
    from tf_transfer.training import loop

    optimizer = loop.build_optimizer(
        devices, weights, lambda step: tf.constant(settings.lr), settings
    )
    [objective] = phase.objectives
    trainer = loop.Trainer(
        devices, network, optimizer, objective,
        dropout.DropoutSeeds(network.layers), settings,
    )  # fmt: skip
    plan = trainer.plan(1)
    return plan, lambda: trainer.train(plan, lambda *chunk: False)


def build_classifier(settings, phase):
    """keras-nlp's own classifier with the same parts frozen, compiled."""
    import keras
    import keras_nlp

    from tf_transfer.models import heads
    from tf_transfer.models import loading
    from tf_transfer.models import split

    encoder = loading.load(
        settings.model, settings.cache_folder, settings.dropout,
        settings.precision, settings.seed,
    )  # fmt: skip
    kind = {"bert": "Bert", "roberta": "Roberta"}[encoder.family]
    classifier = getattr(keras_nlp.models, f"{kind}TextClassifier")(
        encoder.backbone,
        num_classes=len(tasks.GLUE[settings.task].labels),
        dropout=settings.head_dropout,
    )
    # A network of the encoder and its pooler, for the pooler's sake.
    split.freeze(heads.Network(encoder, {}, uses_pooler=True), phase.trainable)
    classifier.compile(
        keras.optimizers.AdamW(
            settings.lr, weight_decay=settings.weight_decay,
            global_clipnorm=settings.clip_norm or None,
        ),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=settings.jit_compile,
    )  # fmt: skip
    return classifier, encoder


def _fit(settings, phase, plan, lengths):
    """A function that trains keras-nlp's classifier on these batches."""
    import numpy as np

    from tf_transfer.data import batches

    classifier, encoder = build_classifier(settings, phase)
    lengths = np.broadcast_to(lengths, plan.lengths.shape).astype(np.int32)
    dataset = batches.pipeline(
        phase.objectives[0].train,
        dataclasses.replace(plan, lengths=lengths),
        encoder.special.pad,
    ).map(lambda batch: _as_fit_wants(batch, encoder.family))
    return lambda: classifier.fit(dataset, epochs=1, verbose=0)


def _as_fit_wants(batch, family):
    inputs = {"token_ids": batch["ids"], "padding_mask": batch["mask"]}
    if family == "bert":
        inputs["segment_ids"] = batch["segments"]
    return inputs, batch["labels"]


def main():
    """Reads the flags, measures, prints a table."""
    settings = settings_lib.from_flags(BenchmarkSettings).resolve()
    if tasks.GLUE[settings.task].labels is None:
        raise UserError("--task=stsb: give a task with classes.")
    settings_lib.import_tensorflow()
    speeds = run(settings)
    ours = statistics.median(speeds["ours"])
    print(f"{'':<38}{'examples/s':>12}{'min':>9}{'max':>9}{'ours is':>10}")
    for name, values in speeds.items():
        middle = statistics.median(values)
        print(
            f"{name:<38}{middle:>12.1f}{min(values):>9.1f}{max(values):>9.1f}"
            f"{ours / middle:>9.2f}x"
        )


if __name__ == "__main__":
    settings_lib.start(main, BenchmarkSettings)
