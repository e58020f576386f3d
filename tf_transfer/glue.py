"""Score against time: fine-tuning beside the last blocks, on GLUE.

Zian Wang, "A New Computationally Efficient Method to Tune BERT Networks -
Transfer Learning": training only the last one to four of BERT-base's twelve
blocks takes about 60 % of the time an epoch; on small tasks it saves a third to
a half of the time to the stopping point and costs two to four points.

    python -m tf_transfer.glue --task=rte --trainable_layers=4 --lr=1e-3

Defaults are the paper's: batch 1, at most 30 epochs, 2e-5 for fine-tuning and
1e-3 for the last blocks, 90 % of the training set to train on and 10 % to
validate on, the development set as test, stop when validation has not risen for
two epochs, dropout, one output unit for a yes/no.

Where the paper is silent, ours (also in experiments/glue/README.md):
the dropout rate, 0.1; the "small threshold", 0.1 points; 128 tokens; BERT's own
Adam (decay 0.01, epsilon 1e-6, clipping at 1.0, no bias correction); a constant
rate, since a decay over 30 epochs does not go with early stopping; pooler and
head train with the last blocks; dropout stays on in frozen blocks; the best
validation epoch is the result; STS-B learns its raw scores by squared error.
"""

import dataclasses

from tf_transfer import settings as settings_lib
from tf_transfer.data import tasks
from tf_transfer.errors import UserError
from tf_transfer.settings import setting

LR_FINE_TUNING = 2e-5
LR_LAST_BLOCKS = 1e-3
MODULE = "glue"


@dataclasses.dataclass(frozen=True)
class GlueSettings(settings_lib.Settings):
    """The shared settings, and what GLUE adds."""

    task: str = setting("rte", "The GLUE task.", choices=tuple(tasks.GLUE))
    pooling: str = setting(
        "cls",
        "What the head reads: [CLS] through the pooler, or the mean of all "
        "tokens.",
        choices=("cls", "mean"),
    )
    lr: float = setting(
        None,
        f"Learning rate. Unset: {LR_FINE_TUNING:g} for `all`, "
        f"{LR_LAST_BLOCKS:g} for the last blocks.",
    )
    describe: bool = setting(
        False,
        "Print the table of parts, parameters and what trains, and stop.",
        hashed=False,
    )

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        settings_lib.check(self)
        if self.lr is not None:
            return self
        fine_tuning = self.approach == "fine_tuning"
        return dataclasses.replace(
            self, lr=LR_FINE_TUNING if fine_tuning else LR_LAST_BLOCKS
        )


SETTINGS = GlueSettings


def run(settings):
    """Trains and evaluates. Returns what `result.json` says.

    Args:
        settings: `GlueSettings`.
    """
    settings = settings.resolve()
    task = tasks.GLUE[settings.task]
    from tf_transfer.training import session
    from tf_transfer.training import strategy

    _source(settings)  # what is wrong with the data is said at once
    devices = strategy.set_up(settings)
    return session.execute(
        settings, locate(settings, devices.replicas), devices,
        {"task": task.name, "metric": task.metric},
        lambda: build(settings, devices),
    )  # fmt: skip


def build(settings, devices):
    """Network, phases and split sizes of a run."""
    return prepare(
        settings, tasks.GLUE[settings.task], _source(settings), devices
    )


def locate(settings, replicas):
    """The run directory of resolved settings; nothing is loaded.

    Args:
        settings: `GlueSettings`, resolved.
        replicas: over how many the batch is spread.
    """
    from tf_transfer.models import loading
    from tf_transfer.training import records

    identities = {
        "model_identity": loading.identify(
            settings.model, settings.cache_folder
        ),
        "data_identity": _source(settings).identity,
    }
    return records.locate(
        settings, MODULE, [settings.task, settings.approach], identities,
        replicas,
    )  # fmt: skip


def _source(settings):
    from tf_transfer.data import sources

    return sources.Source(
        tasks.GLUE[settings.task], settings.data, settings.cache_folder
    )


def build_network(settings, task, devices, encoder=None):
    """Encoder (loaded, unless given) and head, under the strategy's scope."""
    from tf_transfer.models import heads
    from tf_transfer.models import loading

    with devices.strategy.scope():
        encoder = encoder or loading.load(
            settings.model, settings.cache_folder, settings.dropout,
            settings.precision, settings.seed,
        )  # fmt: skip
        if settings.max_length > encoder.longest:
            raise UserError(
                f"--max_length={settings.max_length}: this encoder has "
                f"positions for {encoder.longest} tokens."
            )
        head = heads.PooledHead(
            task.units, encoder.hidden, settings.pooling,
            settings.head_dropout, settings.seed, settings.precision,
            name=f"head_{task.name}",
        )  # fmt: skip
    return heads.Network(encoder, {task.name: head})


def prepare(settings, task, source, devices, encoder=None):
    """Network, phases and split sizes of a run."""
    from tf_transfer.models import split
    from tf_transfer.training import phases

    network = build_network(settings, task, devices, encoder)
    trainable = split.parse(
        settings.trainable_layers, settings.blocks, len(network.encoder.blocks)
    )
    splits = read_splits(settings, task, source, network.encoder)
    objective = phases.Objective(
        name=task.name,
        loss=_loss(task),
        train=splits["train"][0][1],
        evaluation={kind: splits[kind] for kind in ("validation", "test")},
        measure=lambda *values: _measure(task, *values),
    )
    validates = bool(splits["validation"])
    phase = phases.Phase(
        trainable=trainable,
        trainable_layers=settings.blocks or settings.trainable_layers,
        lr=settings.lr,
        max_epochs=settings.max_epochs,
        objectives=(objective,),
        score=(lambda metrics: metrics[task.metric]) if validates else None,
        patience=settings.patience if validates else 0,
        min_delta=settings.min_delta,
        select=settings.select,
    )
    sizes = {
        kind + ("_" + prefix.rstrip("_") if prefix else ""): len(part)
        for kind, group in splits.items()
        for prefix, part in group
    }
    return network, [phase], sizes


def read_splits(settings, task, source, encoder):
    """Tokenised splits: `train`, `validation`, `test`, as (prefix, split).

    The official development set is the test; MNLI's mismatched one is told
    by the prefix `mismatched_`.
    """
    from tf_transfer.data import batches

    train = source.read("train")
    kept, held = batches.divide(
        train.labels, settings.validation_fraction, settings.split_seed
    )
    chosen = batches.subset(
        train.labels[kept], settings.max_train_examples, settings.split_seed
    )
    parts = {
        "train": [("", train.take(kept[chosen]))],
        "validation": [("", train.take(held))] if len(held) else [],
        "test": [
            (
                name.removeprefix("dev_") + "_" if number else "",
                source.read(name),
            )
            for number, name in enumerate(task.development)
        ],
    }
    return {
        kind: [
            (prefix, tokenise(examples, encoder, settings.max_length, kind))
            for prefix, examples in group
        ]
        for kind, group in parts.items()
    }


def tokenise(examples, encoder, max_length, name):
    """A `batches.Split` of `sources.Examples`."""
    import numpy as np

    from tf_transfer.data import batches
    from tf_transfer.data import tokens

    ids = tokens.encode(
        encoder.tokenize, encoder.special, examples.texts, max_length, name
    )
    labels = examples.labels
    if labels is None:
        labels = np.zeros(len(examples), np.int64)
    return batches.Split(ids, labels, examples.ids)


def _loss(task):
    from tf_transfer.training import phases

    if task.labels is None:
        return phases.squared_loss
    return phases.binary_loss if task.units == 1 else phases.categorical_loss


def _measure(task, labels, logits, prefix):
    from tf_transfer.data import metrics

    return metrics.measure(task.metrics, labels, logits, prefix)


def describe(settings):
    """The table that `--describe` prints."""
    from tf_transfer.models import split
    from tf_transfer.training import strategy

    settings = settings.resolve()
    network = build_network(
        settings, tasks.GLUE[settings.task], strategy.set_up(settings)
    )
    trainable = split.parse(
        settings.trainable_layers, settings.blocks, len(network.encoder.blocks)
    )
    return split.describe(network, trainable)


def main():
    """Reads the flags and runs."""
    settings = settings_lib.from_flags(GlueSettings).resolve()
    settings_lib.import_tensorflow()
    if settings.describe:
        print(describe(settings))
    else:
        run(settings)


if __name__ == "__main__":
    settings_lib.start(main, GlueSettings)
