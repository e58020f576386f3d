"""One encoder, three tasks: sentiment, paraphrase and similarity.

Yingbo Li, "Finetune minBERT for Multi-Tasks Learning" (Stanford CS224N): SST-5
by cross-entropy, Quora by binary cross-entropy, STS by squared error, on one
BERT with three output layers. Training those alone first, then everything, and
reading the mean of the tokens for pairs, is best; decaying the rate from layer
to layer does not help.

    python -m tf_transfer.multitask --data=FOLDER
    python -m tf_transfer.multitask --data=FOLDER --combine=pcgrad --lr=2e-5

Defaults are its best run's: first the output layers at 1e-3, then everything at
1e-5, 20 epochs each, batch 32, whole data sets in turn (paraphrase, similarity,
sentiment) in every epoch, the mean of the tokens, pairs as (u, v, |u - v|), the
epoch of the best overall score on dev: (accuracy + accuracy + (r + 1) / 2) / 3.
Without --data, GLUE's nearest sets stand in from TFDS: SST-2 has two labels of
SST-5's five, and neither sizes nor scores are the paper's.

From its starter code, on which the paper is silent: Adam with bias correction,
epsilon 1e-6, no decay, a constant rate, no clipping; dropout 0.3 before the
output layers. Ours: [CLS] goes through the pooler, which is frozen with the
encoder in the first phase; squared error is on raw scores from 0 to 5; texts
are cut at 128 tokens; Adam leaves an output layer alone, moments and all, while
another task is in turn, as PyTorch does with weights that have no gradient. The
sum of the losses takes a batch of each task a step until the largest set is
through; a set that ends sooner is shuffled anew, its last batch may be short.

What the paper names as future work, and its field expects: gradient surgery
(Yu et al. 2020), and tasks drawn in proportion to size^alpha, which falls from
--alpha to --last_alpha over the epochs (Stickland and Murray 2019).
"""

import dataclasses

from tf_transfer import text_task
from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting
from tf_transfer.data import cs224n
from tf_transfer.models import freezing
from tf_transfer.training.progress import OVERALL
from tf_transfer.utils.errors import UserError

# The phases of each way to train.
TRAIN = {
    "head": ("head",),
    "all": ("all",),
    "head_then_all": ("head", "all"),
}
COMBINE = ("in_turn", "sum", "pcgrad", "sampled")


@dataclasses.dataclass(frozen=True)
class MultitaskSettings(settings_lib.Settings):
    """The shared settings with the paper's defaults, and its choices."""

    module = "multitask"
    task = "cs224n"

    data: str = setting(
        "tfds",
        "Folder of the CS224N project's files: ids-sst-train.csv, "
        "quora-train.csv, sts-train.csv, and the same with dev. `tfds`, or a "
        "folder of the official GLUE files: the nearest of GLUE's, SST-2, QQP "
        "and STS-B. `sample`: a handful of rows, to try the command.",
        hashed=False,  # its content is
    )
    train: str = setting(
        "head_then_all",
        "`head` trains the output layers on the frozen encoder, at --head_lr; "
        "`all` everything, at --lr; `head_then_all` the one, then the other.",
        choices=tuple(TRAIN),
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
    combine: str = setting(
        "in_turn",
        "`in_turn`: each task's whole set, one behind the other. `sum`: a "
        "batch of each at every step, losses added, the largest set once an "
        "epoch. `pcgrad`: so, but where gradients of the encoder conflict, "
        "each is first freed of its part against the other. `sampled`: a "
        "batch of one task a step, drawn in proportion to size^alpha.",
        choices=COMBINE,
    )
    loss_weights: str = setting(
        "",
        "What the tasks' losses are multiplied by, such as "
        "sentiment=2,similarity=0.5; those left out by 1.",
    )
    alpha: float = setting(
        1.0, "--combine=sampled: the exponent in the first epoch."
    )
    last_alpha: float = setting(
        0.2, "--combine=sampled: the exponent in the last epoch."
    )
    max_dev_examples: int = setting(
        0,
        "Validate on so many examples a task, stratified (0: on all): every "
        "turn is followed by a validation of all tasks.",
    )
    batch_size: int = setting(32, "Examples a step, over all replicas.")
    max_epochs: int = setting(20, "Epochs; of --train=head_then_all's end.")
    head_epochs: int = setting(
        0, "Epochs of --train=head_then_all's beginning (0: --max_epochs)."
    )
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

    @property
    def approach(self):
        """`head`, `all` or `head_then_all`."""
        return self.train

    @property
    def phases(self):
        """What trains in each phase: `head` or `all`."""
        return TRAIN[self.train]

    @property
    def runs_cached(self):
        """Whether a phase freezes the encoder, and it is run once."""
        return self.frozen_prefix == "cached" and "head" in self.phases

    def source(self):
        """Where the texts come from."""
        return cs224n.open_source(self.data, self.cache_folder)

    def trainable(self, count):
        """What trains last, of an encoder of so many blocks."""
        return freezing.of_phase(self.phases[-1], count)

    def hashed(self):
        """The settings that can change a number, by name."""
        values = super().hashed()
        unread = []
        if not self.max_dev_examples:  # came later: names stay as they were
            unread.append("max_dev_examples")
        if self.train == "all":
            unread.append("head_lr")
        if self.train != "head_then_all":
            unread.append("head_epochs")
        if self.combine != "sampled":
            unread += ["alpha", "last_alpha"]
        elif self.alpha != self.last_alpha:  # the last epoch has its own
            values["max_epochs"] = self.max_epochs
        return {n: v for n, v in values.items() if n not in unread}

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        settings_lib.check(self)
        _check(self)
        settings = self
        if self.train == "head":
            settings = dataclasses.replace(settings, lr=self.head_lr)
        if not self.head_epochs:
            settings = dataclasses.replace(
                settings, head_epochs=self.max_epochs
            )
        return settings


def _check(settings):
    """Raises `UserError`, naming the flag, for what has no use or sense."""
    settings_lib.refuse_trainable(settings, "--train")
    default = settings_lib.Settings.validation_fraction
    if settings.validation_fraction != default:
        raise UserError(
            "--validation_fraction: has no use here: the dev files validate."
        )
    settings_lib.check_rate(settings, "head_lr")
    for name in ("head_epochs", "max_dev_examples"):
        settings_lib.at_least(settings, name, 0)
    for name in ("alpha", "last_alpha"):
        if getattr(settings, name) < 0:
            raise UserError(
                f"--{name}={getattr(settings, name):g}: give an exponent of 0 "
                "(all tasks alike) or more; 1 is by size."
            )
    tasks_in_order(settings)
    loss_weights(settings)


def tasks_in_order(settings):
    """Names of the tasks, in the order of their turns."""
    found = settings.order.split(",")
    if sorted(found) != sorted(cs224n.TASKS):
        raise UserError(
            f"--order={settings.order}: give each of "
            f"{', '.join(cs224n.TASKS)} once, with commas between."
        )
    return found


def loss_weights(settings):
    """A dict from task to the weight of its loss."""
    found = dict.fromkeys(cs224n.TASKS, 1.0)
    for entry in filter(None, settings.loss_weights.split(",")):
        name, _, word = entry.partition("=")
        try:
            weight = float(word)
        except ValueError:
            weight = 0.0
        if name not in found or not 0 < weight < float("inf"):
            raise UserError(
                f"--loss_weights={settings.loss_weights}: {entry!r} is not "
                f"NAME=NUMBER with a name of {', '.join(found)} and a number "
                "above 0."
            )
        found[name] = weight
    return found


def overall(metrics):
    """The tasks' metrics as one: see `cs224n.overall`."""
    return {OVERALL: cs224n.overall(metrics)}


# === Runs ===

# What a sweep asks of a module.
SETTINGS = MultitaskSettings
locate = text_task.locate


def run(settings):
    """Trains and evaluates. Returns what `result.json` says."""
    settings = settings.resolve()
    facts = {"task": settings.task, "metric": OVERALL}
    details = {
        "tasks": {
            name: task.facts for name, task in settings.source().tasks.items()
        }
    }
    return text_task.execute(settings, build, facts, details)


def build(settings, devices):
    """Network, phases and split sizes of a run."""
    source = settings.source()
    network = build_network(settings, devices, source.tasks)
    objectives, sizes = read_objectives(settings, source, network.encoder)
    blocks = len(network.encoder.blocks)
    phases = [
        _phase(settings, objectives, name, blocks) for name in settings.phases
    ]
    return network, phases, sizes


def build_network(settings, devices, tasks):
    """Encoder and an output layer a task, under the strategy's scope."""
    from tf_transfer.models import network as network_lib

    built = {}
    with devices.strategy.scope():
        encoder = text_task.load_encoder(settings)
        for number, task in enumerate(tasks.values()):
            pooling = settings.pooling
            if pooling == "cls_for_sentiment":
                pooling = "cls" if task.name == "sentiment" else "mean"
            built[task.name] = network_lib.PooledHead(
                task.units,
                network_lib.width(pooling, encoder),
                pooling,
                settings.head_dropout,
                3 * settings.seed + number,
                settings.precision,
                sides=text_task.sides_of(settings, task),
                name=f"head_{task.name}",
            )
    return network_lib.Network(encoder, built)


def read_objectives(settings, source, encoder):
    """An `Objective` a task, in their order, and the sizes of their splits."""
    from tf_transfer.data import subsets
    from tf_transfer.training import phases

    objectives, sizes = [], {}
    weights = loss_weights(settings)
    kinds = {
        "train": ("train", settings.max_train_examples),
        "validation": ("dev", settings.max_dev_examples),
    }
    for task in map(source.tasks.get, tasks_in_order(settings)):
        parts = {}
        for kind, (name, most) in kinds.items():
            examples = source.read(task, name).examples
            chosen = subsets.subset(examples.labels, most, settings.split_seed)
            examples = examples.take(chosen)
            parts[kind] = text_task.tokenise(
                examples, encoder, settings, task, f"{task.name} {name}"
            )
            sizes[f"{kind}_{task.name}"] = len(examples)
        objectives.append(
            phases.Objective(
                name=task.name,
                loss=text_task.loss_of(task),
                train=parts["train"],
                evaluation={
                    "validation": [("", parts["validation"])],
                    "test": [],
                },
                measure=text_task.measure_of(task),
                prefix=f"{task.name}_",
                weight=weights[task.name],
            )
        )
    return tuple(objectives), sizes


def _phase(settings, objectives, name, blocks):
    from tf_transfer.training import phases

    is_last = name == settings.phases[-1]
    return phases.Phase(
        trainable=freezing.of_phase(name, blocks),
        trainable_layers=name,
        lr=settings.head_lr if name == "head" else settings.lr,
        max_epochs=settings.max_epochs if is_last else settings.head_epochs,
        objectives=objectives,
        score=lambda metrics: metrics[OVERALL],
        patience=settings.patience,
        min_delta=settings.min_delta,
        select=settings.select,
        layer_decay=settings.layer_decay,
        overall=overall,
        way=_way(settings),
    )


def _way(settings):
    from tf_transfer.training import combining

    if settings.combine == "sampled":
        return combining.sampled(settings.alpha, settings.last_alpha)
    return {
        "in_turn": combining.IN_TURN,
        "sum": combining.SUM,
        "pcgrad": combining.PCGRAD,
    }[settings.combine]


def network_of(settings, devices):
    """The network of a run, for its description."""
    return build_network(settings, devices, settings.source().tasks)


def main():
    """Reads the flags, and runs."""
    text_task.main(MultitaskSettings, run, network_of)


if __name__ == "__main__":
    command_line.start(main, MultitaskSettings)
