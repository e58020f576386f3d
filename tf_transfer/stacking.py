"""To tune or not to tune: a big head first, then everything.

Ran Wang, Haibo Su, Chunye Wang, Kailin Ji, Jupeng Ding, "To Tune or Not To
Tune? How About the Best of Both Worlds?" (arXiv 1907.05338). Training a large
head on the frozen encoder for a few epochs, not to its best, and then
everything at a small rate, is better than fine-tuning BERT with a small head.

    python -m tf_transfer.stacking --task=ner --head=bilstm
    python -m tf_transfer.stacking --task=ner --adaptation=finetune_only
    python -m tf_transfer.stacking --task=pairs --adaptation=stack_only

As in the paper: the first phase at 1e-3; dropout 0.1 on all layers; Kaiming
initialisation; BERT's Adam with weight decay; fine-tuning alone with two dense
layers. The paper's other figures are lost. Ours: 2e-5 in the second phase; one
epoch in the first and three in the second; batch 32; decay 0.01; the cased
encoder for entities; the last epoch of a phase is its result. Sizes of heads:
see `models/stacks`.

When to leave the first phase, the paper leaves open: after --phase_one_epochs,
or, of those, at the last whose accuracies on the training set and on validation
differ by no more than --phase_one_gap. Training accuracy is that of a fixed
sample as large as the validation set, without dropout; both are recorded.

For entities a loss is the mean over the words of a batch. Sentences longer than
--max_length are cut between words, and scored whole.
"""

import dataclasses

from tf_transfer import text_task
from tf_transfer.config import command_line
from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting
from tf_transfer.data import stacking_sources
from tf_transfer.data import subsets
from tf_transfer.models import freezing
from tf_transfer.models.heads import names
from tf_transfer.training.progress import SAMPLE
from tf_transfer.utils.errors import UserError

# The phases of each strategy.
ADAPTATIONS = {
    "finetune_only": ("all",),
    "stack_only": ("head",),
    "stack_and_finetune": ("head", "all"),
    "joint": ("all",),
}
KINDS = ("ner", "text", "pairs")
BIG = {"ner": "bilstm", "text": "densenet", "pairs": "sim_transformer"}
METRIC = {"ner": "f1", "text": "accuracy", "pairs": "accuracy"}


@dataclasses.dataclass(frozen=True)
class StackingSettings(settings_lib.Settings):
    """The shared settings with the paper's defaults, and its choices."""

    module = "stacking"

    task: str = setting(
        "ner",
        "`ner`, entities of CoNLL-2003; `text`, two classes of Yahoo Answers, "
        "or a table of your own; `pairs`, Quora's question pairs.",
        choices=KINDS,
    )
    data: str = setting(
        "tfds",
        "ner: `tfds`, or a folder with eng.train, eng.testa, eng.testb. text: "
        "a folder with Yahoo's train.csv and test.csv, or a CSV or TSV. pairs: "
        "`tfds` (GLUE's QQP), a folder of the official GLUE files, or of the "
        "CS224N project's; `sample`.",
        hashed=False,  # its content is
    )
    classes: str = setting(
        "1,2", "Of Yahoo Answers: which of its ten, by number or name."
    )
    text_column: str = setting("text", "Of a table: where the texts are.")
    label_column: str = setting("label", "Of a table: where the labels are.")
    encoding: str = setting("utf-8", "Of a table.", hashed=False)
    model: str = setting(
        "",
        "The encoder, as elsewhere. Unset: bert_base_en for ner, "
        "bert_base_en_uncased for the others.",
        hashed=False,  # its identity is
    )
    head: str = setting(
        "",
        "ner: dense, bilstm. text: dense, densenet, highway. pairs: dense, "
        "bimpm, bimpm_without_context, sim_transformer. Unset: dense for "
        "finetune_only, else bilstm, densenet, sim_transformer.",
    )
    adaptation: str = setting(
        "stack_and_finetune",
        "`finetune_only`: everything, with the dense head. `stack_only`: the "
        "head on the frozen encoder. `stack_and_finetune`: the one, then "
        "everything. `joint`: everything from the first step, any head.",
        choices=tuple(ADAPTATIONS),
    )
    head_lr: float = setting(1e-3, "Learning rate of the first phase.")
    lr: float = setting(2e-5, "Learning rate of training everything.")
    phase_one_epochs: int = setting(1, "Epochs of the first phase.")
    phase_one_gap: float = setting(
        -1.0,
        "The first phase ends with its last epoch whose accuracies on training "
        "and validation set differ by no more, such as 0.01 (below 0: with "
        "its last).",
    )
    max_epochs: int = setting(3, "Epochs of training everything.")
    batch_size: int = setting(32, "Examples a step, over all replicas.")
    patience: int = setting(
        0, "Stop when validation has not risen for so many epochs (0: never)."
    )
    min_delta: float = setting(0.0, "A rise is more than this.")
    select: str = setting(
        "last",
        "Which epoch of training everything is the result.",
        choices=("best", "last"),
    )

    @property
    def approach(self):
        """What trains when, and which head."""
        return f"{self.adaptation}_{self.head}"

    @property
    def phases(self):
        """What trains in each phase: `head` or `all`."""
        return ADAPTATIONS[self.adaptation]

    @property
    def freezes(self):
        """Whether a phase freezes the encoder."""
        return "head" in self.phases

    @property
    def runs_cached(self):
        """Whether the frozen encoder is run once."""
        return self.frozen_prefix == "cached" and self.freezes

    @property
    def pairs(self):
        """How a pair is read: `cross` or `sbert`."""
        apart = self.task == "pairs" and self.head != "dense"
        return "sbert" if apart else "cross"

    @property
    def pooling(self):
        """What the head reads: `cls` or `tokens`."""
        reads_cls = self.task != "ner" and self.head == "dense"
        return "cls" if reads_cls else "tokens"

    def source(self):
        """Where the texts come from: has `identity` and `read(split)`."""
        return stacking_sources.open_source(self)

    def trainable(self, count):
        """What trains last, of an encoder of so many blocks."""
        return freezing.of_phase(self.phases[-1], count)

    def hashed(self):
        """The settings that can change a number, by name."""
        values = super().hashed()
        unread = ["text_column", "label_column"]  # the table's identity tells
        if self.task != "text":
            unread.append("classes")
        if not self.freezes:
            unread += ["head_lr", "phase_one_gap"]
        if self.adaptation != "stack_and_finetune":
            unread.append("phase_one_epochs")
        if self.adaptation == "stack_only" and self.phase_one_gap >= 0:
            unread.append("select")
        return {n: v for n, v in values.items() if n not in unread}

    def resolve(self):
        """Settings with every default filled in. Checks them all first."""
        settings = self
        if not settings.head:
            alone = self.adaptation == "finetune_only"
            settings = dataclasses.replace(
                settings, head="dense" if alone else BIG.get(self.task, "")
            )
        if not settings.model:
            cased = "" if self.task == "ner" else "_uncased"
            settings = dataclasses.replace(
                settings, model=f"bert_base_en{cased}"
            )
        if settings.adaptation == "stack_only":
            settings = dataclasses.replace(settings, lr=settings.head_lr)
        settings_lib.check(settings)
        _check(settings)
        return settings


def _check(settings):
    """Raises `UserError`, naming the flag, for what has no use or sense."""
    settings_lib.refuse_trainable(settings, "--adaptation")
    if settings.adaptation == "finetune_only" and settings.head != "dense":
        raise UserError(
            f"--head={settings.head}: --adaptation=finetune_only is the "
            "paper's two dense layers. Give --adaptation=joint to train this "
            "head with everything from the first step."
        )
    settings_lib.check_rate(settings, "head_lr")
    settings_lib.at_least(settings, "phase_one_epochs", 1)
    names.check(settings.task, settings.head)


# === Runs ===

# What a sweep asks of a module.
SETTINGS = StackingSettings
locate = text_task.locate


def run(settings):
    """Trains and evaluates. Returns what `result.json` says."""
    settings = settings.resolve()
    facts = {"task": settings.task, "metric": METRIC[settings.task]}
    return text_task.execute(
        settings, build, facts, settings.source().task.facts
    )


def build(settings, devices):
    """Network, phases and split sizes of a run."""
    source = settings.source()
    network = build_network(settings, devices, source.task)
    objective, sizes = read_objective(settings, source, network.encoder)
    blocks = len(network.encoder.blocks)
    phases = [
        _phase(settings, objective, name, blocks) for name in settings.phases
    ]
    return network, phases, sizes


def build_network(settings, devices, task):
    """Encoder and head, under the strategy's scope."""
    from tf_transfer.models import heads
    from tf_transfer.models import network as network_lib

    with devices.strategy.scope():
        encoder = text_task.load_encoder(settings)
        head = heads.build(
            settings.task,
            settings.head,
            task.units,
            encoder.hidden,
            settings.head_dropout,
            settings.seed,
            settings.precision,
            jit_compile=settings.jit_compile,
            name=f"head_{settings.task}",
        )
    return network_lib.Network(encoder, {settings.task: head})


def read_objective(settings, source, encoder):
    """The `Objective`, and the sizes of its splits."""
    from tf_transfer.training import phases

    if settings.task == "ner":
        from tf_transfer import word_task

        parts = word_task.read_splits(settings, source, encoder)
        loss, measure = phases.word_loss, word_task.measure
    else:
        parts = _text_splits(settings, source, encoder)
        loss = text_task.loss_of(source.task)
        measure = text_task.measure_of(source.task)
    evaluation = {
        "validation": [
            ("", parts["validation"]),
            (SAMPLE, parts["sample"]),
        ],
        "test": [("", parts["test"])],
    }
    objective = phases.Objective(
        settings.task, loss, parts["train"], evaluation, measure
    )
    return objective, {name: len(part) for name, part in parts.items()}


def _text_splits(settings, source, encoder):
    splits = text_task.read_splits(settings, source.task, source, encoder)
    if not splits["validation"]:
        raise UserError(
            "--validation_fraction=0: the first phase is left by what "
            "validation says. Give a part of the training set."
        )
    parts = {name: group[0][1] for name, group in splits.items()}
    chosen = subsets.sample(
        len(parts["train"]), len(parts["validation"]), settings.split_seed
    )
    return {**parts, "sample": parts["train"].take(chosen)}


def _phase(settings, objective, name, blocks):
    from tf_transfer.training import phases

    metric = METRIC[settings.task]
    is_last = name == settings.phases[-1]
    phase = phases.Phase(
        trainable=freezing.of_phase(name, blocks),
        trainable_layers=name,
        lr=settings.head_lr if name == "head" else settings.lr,
        max_epochs=(
            settings.max_epochs if is_last else settings.phase_one_epochs
        ),
        objectives=(objective,),
        score=lambda metrics: metrics[metric],
        patience=settings.patience if is_last else 0,
        min_delta=settings.min_delta,
        select=settings.select if is_last else "last",
        layer_decay=settings.layer_decay,
    )
    if name != "head" or settings.phase_one_gap < 0:
        return phase

    def is_close(metrics):
        gap = metrics[f"{SAMPLE}accuracy"] - metrics["accuracy"]
        return abs(gap) <= settings.phase_one_gap

    return dataclasses.replace(phase, keeps=is_close, select="best")


def network_of(settings, devices):
    """The network of a run, for its description."""
    return build_network(settings, devices, settings.source().task)


def main():
    """Reads the flags, and runs."""
    text_task.main(StackingSettings, run, network_of)


if __name__ == "__main__":
    command_line.start(main, StackingSettings)
