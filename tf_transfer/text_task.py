"""One task on texts or pairs: from its settings to a run.

What the papers on GLUE share: a head on one vector of the encoder, the official
splits, one phase with one objective. A paper's module adds its defaults.
"""

import dataclasses

from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting
from tf_transfer.data import tasks
from tf_transfer.models import freezing
from tf_transfer.utils.errors import UserError


@dataclasses.dataclass(frozen=True)
class TaskSettings(settings_lib.Settings):
    """The shared settings, and which task."""

    task: str = setting("rte", "The GLUE task.", choices=tuple(tasks.GLUE))
    pooling: str = setting(
        "cls",
        "What the head reads: [CLS] through the pooler; the mean of all "
        "tokens; or [CLS] above each of the last four blocks, side by side.",
        choices=("cls", "mean", "last4"),
    )
    pairs: str = setting(
        "cross",
        "How a pair is read: `cross`, both texts in one row; or `sbert`, each "
        "by itself, u and v, and the head reads (u, v, |u - v|).",
        choices=("cross", "sbert"),
    )

    @property
    def row(self):
        """The task; a paper may score one by another of its metrics."""
        return tasks.GLUE[self.task]

    def source(self):
        """Where its texts come from: has `identity` and `read(split)`."""
        from tf_transfer.data import sources

        return sources.Source(self.row, self.data, self.cache_folder)

    def trainable(self, count):
        """What trains of an encoder of so many blocks."""
        return freezing.parse(self.trainable_layers, self.blocks, count)


def run(settings):
    """Trains and evaluates. Returns what `result.json` says.

    Args:
        settings: `TaskSettings`.
    """
    settings = settings.resolve()
    task = settings.row
    return execute(
        settings,
        build,
        {"task": task.name, "metric": task.metric},
        task.facts,
    )


def execute(settings, build, facts, details=None):
    """A run of resolved settings; see `session.execute`.

    Args:
        settings: has `source()`, `task` and `approach`.
        build: function (settings, devices) to network, phases and sizes.
    """
    from tf_transfer.training import session
    from tf_transfer.training import strategy

    settings.source()  # what is wrong with the data is said at once
    devices = strategy.set_up(settings)
    return session.execute(
        settings,
        locate(settings, devices.replicas),
        devices,
        facts,
        lambda: build(settings, devices),
        details,
    )


def build(settings, devices):
    """Network, phases and split sizes of a run."""
    return prepare(settings, settings.row, settings.source(), devices)


def locate(settings, replicas):
    """The run directory of resolved settings; nothing is loaded.

    Args:
        settings: resolved; has `source()`, `task` and `approach`.
        replicas: over how many the batch is spread.
    """
    from tf_transfer.models import loading
    from tf_transfer.training import records

    identities = {
        "model_identity": loading.identify(
            settings.model, settings.cache_folder
        ),
        "data_identity": settings.source().identity,
    }
    return records.locate(
        settings,
        settings.module,
        [settings.task, settings.approach],
        identities,
        replicas,
    )


def load_encoder(settings):
    """The encoder; call it under the strategy's scope.

    Raises:
        UserError: it has too few positions.
    """
    from tf_transfer.models import loading

    encoder = loading.load(
        settings.model,
        settings.cache_folder,
        settings.dropout,
        settings.precision,
        settings.seed,
    )
    if settings.max_length > encoder.longest:
        raise UserError(
            f"--max_length={settings.max_length}: this encoder has positions "
            f"for {encoder.longest} tokens."
        )
    return encoder


def build_network(settings, task, devices, encoder=None):
    """Encoder (loaded, unless given) and head, under the strategy's scope."""
    from tf_transfer.models import network as network_lib

    if settings.pairs == "sbert" and len(task.texts) == 1:
        raise UserError(
            f"--pairs=sbert: task {task.name} has one text an example, no "
            "pairs. Leave it out."
        )
    with devices.strategy.scope():
        encoder = encoder or load_encoder(settings)
        head = network_lib.PooledHead(
            task.units,
            network_lib.width(settings.pooling, encoder),
            settings.pooling,
            settings.head_dropout,
            settings.seed,
            settings.precision,
            sides=sides_of(settings, task),
            name=f"head_{task.name}",
        )
    return network_lib.Network(encoder, {task.name: head})


def prepare(settings, task, source, devices, encoder=None):
    """Network, phases and split sizes of a run."""
    from tf_transfer.training import phases

    network = build_network(settings, task, devices, encoder)
    trainable = settings.trainable(len(network.encoder.blocks))
    splits = read_splits(settings, task, source, network.encoder)
    objective = phases.Objective(
        name=task.name,
        loss=loss_of(task),
        train=splits["train"][0][1],
        evaluation={kind: splits[kind] for kind in ("validation", "test")},
        measure=measure_of(task),
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
        layer_decay=settings.layer_decay,
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
    import numpy as np

    from tf_transfer.data import subsets

    train = source.read("train")
    kept, held = subsets.divide(
        train.labels, settings.validation_fraction, settings.split_seed
    )
    known = source.keep_apart(train.ids[kept], train.ids[held])
    kept = kept[np.isin(train.ids[kept], known)]
    chosen = subsets.subset(
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
            (prefix, tokenise(examples, encoder, settings, task, kind))
            for prefix, examples in group
        ]
        for kind, group in parts.items()
    }


def sides_of(settings, task):
    """Texts of an example that are run each by itself."""
    return len(task.texts) if settings.pairs == "sbert" else 1


def tokenise(examples, encoder, settings, task, name):
    """A `batches.Split` of `sources.Examples`."""
    import numpy as np

    from tf_transfer.data import batches
    from tf_transfer.data import tokens

    sides = sides_of(settings, task)
    apart = [[column] for column in examples.texts]
    ids = tokens.join(
        [
            tokens.encode(
                encoder.tokenize,
                encoder.special,
                texts,
                settings.max_length,
                name,
            )
            for texts in (apart if sides == 2 else [examples.texts])
        ]
    )
    labels = examples.labels
    if labels is None:
        labels = np.zeros(len(examples), np.int64)
    return batches.Split(ids, labels, examples.ids, sides=sides)


def loss_of(task):
    """The loss that a task's labels ask for."""
    from tf_transfer.training import phases

    if task.labels is None:
        return phases.squared_loss
    return phases.binary_loss if task.units == 1 else phases.categorical_loss


def measure_of(task):
    """A function (split, logits, prefix) to a dict of a task's metrics."""
    from tf_transfer.data import metrics

    def measure(part, logits, prefix):
        return metrics.measure(task.metrics, part.labels, logits, prefix)

    return measure


def network_of(settings, devices):
    """The network of a run, for its description."""
    return build_network(settings, settings.row, devices)


def describe(settings, network_of=network_of):
    """The table that `--describe` prints.

    Args:
        settings: resolved; has `trainable(count)`.
        network_of: function (settings, devices) to the network of a run.
    """
    from tf_transfer.training import strategy

    network = network_of(settings, strategy.set_up(settings))
    trainable = settings.trainable(len(network.encoder.blocks))
    return freezing.describe(network, trainable)


def main(cls, run=run, network_of=network_of):
    """Reads the flags of a paper's settings, and runs."""
    start(command_line.from_flags(cls).resolve(), run, network_of)


def start(settings, run=run, network_of=network_of):
    """Runs, or tells what would train."""
    command_line.import_tensorflow()
    if settings.describe:
        print(describe(settings, network_of))
    else:
        run(settings)
