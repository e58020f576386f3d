"""One encoder, three tasks: sentiment, paraphrase and similarity.

Yingbo Li, "Finetune minBERT for Multi-Tasks Learning" (Stanford CS224N): SST-5
by cross-entropy, Quora by binary cross-entropy, STS by squared error, on one
BERT with three output layers. Training those alone first, then everything, and
reading the mean of the tokens for pairs, is best; decaying the rate from layer
to layer does not help.

    python -m tf_transfer.multitask --data=FOLDER

Defaults are its best run's: first the output layers at 1e-3, then everything at
1e-5, 20 epochs each, batch 32, whole data sets in turn (paraphrase, similarity,
sentiment) in every epoch, the mean of the tokens, pairs as (u, v, |u - v|), the
epoch of the best overall score on dev: (accuracy + accuracy + (r + 1) / 2) / 3.

From its starter code, on which the paper is silent: Adam with bias correction,
epsilon 1e-6, no decay, a constant rate, no clipping; dropout 0.3 before the
output layers. Ours: [CLS] goes through the pooler, which is frozen with the
encoder in the first phase; squared error is on raw scores from 0 to 5; texts
are cut at 128 tokens; Adam leaves an output layer alone, moments and all, while
another task is in turn, as PyTorch does with weights that have no gradient.
"""

import dataclasses

from tf_transfer import settings as settings_lib
from tf_transfer import text_task
from tf_transfer.data import cs224n
from tf_transfer.errors import UserError
from tf_transfer.settings import setting

TRAIN = ("head", "all", "head_then_all")
OVERALL = "overall"


@dataclasses.dataclass(frozen=True)
class MultitaskSettings(settings_lib.Settings):
    """The shared settings with the paper's defaults, and its choices."""

    module = "multitask"
    task = "cs224n"

    data: str = setting(
        "",
        "Folder of the CS224N project's files: ids-sst-train.csv, "
        "quora-train.csv, sts-train.csv, and the same with dev.",
        hashed=False,  # its content is
    )
    train: str = setting(
        "head_then_all",
        "`head` trains the output layers on the frozen encoder, at --head_lr; "
        "`all` everything, at --lr; `head_then_all` the one, then the other.",
        choices=TRAIN,
    )
    head_lr: float = setting(1e-3, "Learning rate of the output layers' phase.")
    lr: float = setting(1e-5, "Learning rate of training everything.")
    pooling: str = setting(
        "mean",
        "What the output layers read: [CLS] through the pooler; the mean of "
        "all tokens; or the first for sentiment and the second for pairs.",
        choices=("cls", "mean", "cls_for_sentiment"),
    )
    pairs: str = setting(
        "sbert",
        "How a pair is read: `sbert`, each text by itself, u and v, and the "
        "output layer reads (u, v, |u - v|); `cross`, both in one row.",
        choices=("sbert", "cross"),
    )
    order: str = setting(
        "paraphrase,similarity,sentiment",
        "The tasks, in the order of their turns in an epoch.",
    )
    batch_size: int = setting(32, "Examples a step, over all replicas.")
    max_epochs: int = setting(20, "Epochs of each phase.")
    head_dropout: float = setting(0.3, "Dropout rate before an output layer.")
    weight_decay: float = setting(0.0, "Decoupled weight decay.")
    bias_correction: bool = setting(
        True, "Correct Adam's moments for their start at zero."
    )
    clip_norm: float = setting(
        0.0, "Largest global norm of the gradient of what trains (0: no clip)."
    )
    patience: int = setting(
        0, "Stop when the overall score has not risen for so many epochs."
    )
    min_delta: float = setting(0.0, "A rise is more than this.")
    describe: bool = setting(
        False,
        "Print the table of parts, parameters and what trains, and stop.",
        hashed=False,
    )

    @property
    def approach(self):
        """`head`, `all` or `head_then_all`."""
        return self.train

    @property
    def runs_cached(self):
        """Whether a phase freezes the encoder, and it is run once."""
        return self.frozen_prefix == "cached" and self.train != "all"

    def source(self):
        """The project's files."""
        return cs224n.Files(self.data)

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        settings_lib.check(self)
        if not self.data:
            raise UserError(
                "--data: give the folder of the CS224N project's files."
            )
        if self.trainable_layers != "all" or self.blocks:
            raise UserError(
                "--trainable_layers and --blocks have no use here: --train "
                "says what trains."
            )
        if (
            self.validation_fraction
            != settings_lib.Settings.validation_fraction
        ):
            raise UserError(
                "--validation_fraction: has no use here: the dev files "
                "validate."
            )
        if not self.head_lr > 0:
            raise UserError(
                f"--head_lr={self.head_lr:g}: give a learning rate above 0."
            )
        tasks_in_order(self)
        return self


def tasks_in_order(settings):
    """The tasks, in the order of their turns."""
    found = settings.order.split(",")
    if sorted(found) != sorted(cs224n.TASKS):
        raise UserError(
            f"--order={settings.order}: give each of "
            f"{', '.join(cs224n.TASKS)} once, with commas between."
        )
    return [cs224n.TASKS[name] for name in found]


def overall(metrics):
    """The mean of both accuracies and of r, brought into 0 to 1."""
    score = (
        metrics["sentiment_accuracy"]
        + metrics["paraphrase_accuracy"]
        + (metrics["similarity_pearson"] + 1) / 2
    ) / 3
    return {OVERALL: score}


# === Runs ===

# What a sweep asks of a module.
SETTINGS = MultitaskSettings
locate = text_task.locate


def run(settings):
    """Trains and evaluates. Returns what `result.json` says."""
    settings = settings.resolve()
    facts = {"task": settings.task, "metric": OVERALL}
    return text_task.execute(settings, build, facts)


def build(settings, devices):
    """Network, phases and split sizes of a run."""
    from tf_transfer.models import split

    network = build_network(settings, devices)
    objectives, sizes = read_objectives(settings, network.encoder)
    blocks = len(network.encoder.blocks)
    head = split.Trainable(blocks + 1, blocks, pooler=False)
    everything = split.Trainable(1, blocks, embeddings=True)
    stretches = {
        "head": [(head, "head", settings.head_lr)],
        "all": [(everything, "all", settings.lr)],
    }
    stretches["head_then_all"] = stretches["head"] + stretches["all"]
    phases = [
        _phase(settings, objectives, *stretch)
        for stretch in stretches[settings.train]
    ]
    return network, phases, sizes


def build_network(settings, devices):
    """Encoder and three output layers, under the strategy's scope."""
    from tf_transfer.models import heads

    built = {}
    with devices.strategy.scope():
        encoder = text_task.load_encoder(settings)
        for number, task in enumerate(cs224n.TASKS.values()):
            pooling = settings.pooling
            if pooling == "cls_for_sentiment":
                pooling = "cls" if task.name == "sentiment" else "mean"
            built[task.name] = heads.PooledHead(
                task.units, heads.width(pooling, encoder), pooling,
                settings.head_dropout, 3 * settings.seed + number,
                settings.precision, sides=text_task.sides_of(settings, task),
                name=f"head_{task.name}",
            )  # fmt: skip
    return heads.Network(encoder, built)


def read_objectives(settings, encoder):
    """An `Objective` a task, in their order, and the sizes of their splits."""
    from tf_transfer.data import metrics
    from tf_transfer.data import subsets
    from tf_transfer.training import phases

    objectives, sizes, source = [], {}, settings.source()
    for task in tasks_in_order(settings):
        parts = {}
        for kind, name in (("train", "train"), ("validation", "dev")):
            examples = source.read(task, name).examples
            if kind == "train":
                examples = examples.take(
                    subsets.subset(
                        examples.labels, settings.max_train_examples,
                        settings.split_seed,
                    )
                )  # fmt: skip
            parts[kind] = text_task.tokenise(
                examples, encoder, settings, task, f"{task.name} {name}"
            )
            sizes[f"{kind}_{task.name}"] = len(examples)
        objectives.append(
            phases.Objective(
                name=task.name,
                loss=text_task.loss_of(task),
                train=parts["train"],
                evaluation={"validation": [("", parts["validation"])],
                            "test": []},
                measure=lambda *values, names=task.metrics: metrics.measure(
                    names, *values
                ),
                prefix=f"{task.name}_",
            )
        )  # fmt: skip
    return tuple(objectives), sizes


def _phase(settings, objectives, trainable, name, lr):
    from tf_transfer.training import phases

    return phases.Phase(
        trainable=trainable, trainable_layers=name, lr=lr,
        max_epochs=settings.max_epochs, objectives=objectives,
        score=lambda metrics: metrics[OVERALL], patience=settings.patience,
        min_delta=settings.min_delta, select=settings.select,
        layer_decay=settings.layer_decay, overall=overall,
    )  # fmt: skip


def describe(settings):
    """The table that `--describe` prints."""
    from tf_transfer.models import split
    from tf_transfer.training import strategy

    network = build_network(settings, strategy.set_up(settings))
    blocks = len(network.encoder.blocks)
    trainable = split.Trainable(1, blocks, embeddings=True)
    if settings.train == "head":
        trainable = split.Trainable(blocks + 1, blocks, pooler=False)
    return split.describe(network, trainable)


def main():
    """Reads the flags, and runs."""
    settings = settings_lib.from_flags(MultitaskSettings).resolve()
    settings_lib.import_tensorflow()
    if settings.describe:
        print(describe(settings))
    else:
        run(settings)


if __name__ == "__main__":
    settings_lib.start(main, MultitaskSettings)
