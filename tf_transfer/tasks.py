"""A task in a run: its settings, splits, loss, phases and head.

An experiment has one task or several, of any kind: classes, several labels, a
score, or entities. This module is for all of them.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, TYPE_CHECKING

import numpy as np

from tf_transfer.config import settings as settings_lib
from tf_transfer.config.fields import Group, Reader, setting
from tf_transfer.data import registry, splits, task_file
from tf_transfer.data.task import KINDS, Source, Task
from tf_transfer.models import methods
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

if TYPE_CHECKING:
    import keras

    from tf_transfer.data.batches import EncodedSplit
    from tf_transfer.data.tokens import Tokens
    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.freezing import Trainable
    from tf_transfer.training.objectives import Objective, Phase

# By `train`, `validation` and `test`, then by split name.
Texts = dict[str, dict[str, Any]]
Splits = dict[str, dict[str, "EncodedSplit"]]

BALANCED = ("classes", "labels")  # kinds that --class_weights applies to


class Rates(NamedTuple):
    """Learning rates for every weight, the last blocks, the head alone."""

    everything: float
    blocks: float
    head: float

    def of(self, trainable_layers: str) -> float:
        """The rate where `--trainable_layers` trains every weight of it."""
        named = {"all": self.everything, "0": self.head, "head": self.head}
        return named.get(trainable_layers, self.blocks)

    @property
    def help(self) -> str:
        """The help text of `--lr`."""
        return (
            f"Learning rate. Unset: {self.everything:g} for `all`, "
            f"{self.blocks:g} for the last blocks, {self.head:g} for the head "
            "alone, the method's own for others than `full`."
        )


@dataclasses.dataclass(frozen=True)
class TaskSettings(settings_lib.Settings):
    """The shared settings, the task, and the choices of a single one."""

    task: str = setting(
        "rte",
        "The task: one of GLUE's (cola, sst2, mrpc, stsb, qqp, mnli, qnli, "
        "rte, wnli), sentiment, paraphrase, similarity, ner, yahoo; or a task "
        "file of your own, such as mine.toml.",
        read_by=Reader.BASELINE,
    )
    features: str = setting(
        "bert",
        "`bert`, an encoder that trains, with a head; `frozen`, the probe: a "
        "regression on states of the frozen encoder (docs/probe.md).",
        choices=("bert", "frozen"),
        unnamed="bert",
        read_by=Reader.BASELINE,
        searched=True,
    )
    freeze_schedule: str = setting(
        "none",
        "How what trains changes with the epochs: `gradual` unfreezes one "
        "block per epoch, from the last (ULMFiT), and then has --max_epochs "
        "of all that trains; `autofreeze` freezes the first blocks whose "
        "gradients change least (AutoFreeze), and a cached prefix follows.",
        group=Group.TRAINED,
        choices=("none", "gradual", "autofreeze"),
        unnamed="none",
    )
    freeze_percentile: float = setting(
        50.0,
        "Of `autofreeze`: blocks below the first that changes as much as this "
        "percentile of all that train are frozen.",
        group=Group.TRAINED,
        at_least=0,
        at_most=100,
        needs={"freeze_schedule": "autofreeze"},
    )
    keep_blocks: int = setting(
        0,
        "Number of the encoder's first blocks to keep; the others are dropped "
        "for good, in training, prediction and exports. 0 keeps all.",
        group=Group.TRAINED,
        at_least=0,
        unnamed=0,
        read_by=Reader.ENCODER,
    )
    head: str = setting(
        "linear",
        "The head on the pooled vector: `linear`, one dense layer; `mlp`, a "
        "dense GELU layer of the encoder's width below that.",
        group=Group.TRAINED,
        choices=("linear", "mlp"),
        unnamed="linear",
    )
    pooling: str = setting(
        "cls",
        "What the head reads: `cls`, [CLS] through the pooler; `cls_state`, "
        "[CLS] as the last block leaves it; `mean`, the mean of all tokens; "
        "`last4`, [CLS] above each of the last four blocks, concatenated.",
        group=Group.TRAINED,
        choices=("cls", "cls_state", "mean", "last4"),
    )
    pairs: str = setting(
        "cross",
        "How a pair is read: `cross`, both texts in one row; or `sbert`, each "
        "by itself, u and v, and the head reads (u, v, |u - v|).",
        group=Group.TRAINED,
        choices=("cross", "sbert"),
    )
    loss_head: str = setting(
        "sigmoid",
        "The output for two classes: the sigmoid of one unit, or the softmax "
        "of two.",
        group=Group.TRAINED,
        choices=("sigmoid", "softmax"),
        unnamed="sigmoid",
    )

    # === A table of your own, without a task file ===
    # All of it is part of the identity of the data.
    text_column: str = setting(
        "",
        "Of --data=FILE (CSV, TSV, JSON lines, Parquet): the column of the "
        "texts; two with a comma between are a pair.",
        hashed=False,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )
    label_column: str = setting(
        "",
        "Of --data=FILE: the column of the labels.",
        hashed=False,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )
    kind: str = setting(
        "classes",
        "Of --data=FILE: the kind of its labels; `labels`: several per text.",
        group=Group.TEXTS,
        choices=KINDS,
        hashed=False,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )
    metric: str = setting(
        "",
        "Of --data=FILE: the metric that selects, stops and ranks. Unset: "
        "accuracy, f1_micro for several labels, spearman for a score, f1 for "
        "entities.",
        group=Group.TEXTS,
        hashed=False,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )
    test_fraction: float = setting(
        0.1,
        "Of --data=FILE: the fraction that is tested, stratified, drawn by "
        "--split_seed.",
        group=Group.TEXTS,
        hashed=False,
        above=0,
        below=1,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )
    encoding: str = setting(
        "utf-8",
        "Of --data=FILE: the encoding of CSV or TSV.",
        group=Group.TEXTS,
        hashed=False,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )
    duplicates: str = setting(
        "keep",
        "Of --data=FILE: `group` keeps texts that are the same, apart from "
        "case and space, in one split.",
        group=Group.TEXTS,
        choices=("keep", "group"),
        hashed=False,
        read_by=Reader.BASELINE,
        needs={"has_table": True},
    )

    names_any_task: ClassVar[bool] = False  # `task` need not be known
    usual_rates: ClassVar[Rates | None] = None

    def __init_subclass__(
        cls,
        rates: Rates | None = None,
        help: Mapping[str, str] = settings_lib.EMPTY,
        **keywords: Any,
    ) -> None:
        """Further takes the learning rates without `--lr`."""
        if rates is not None:
            cls.usual_rates = rates
            help = {"lr": rates.help, **help}
        super().__init_subclass__(help=help, **keywords)

    def defaults(self) -> dict[str, Any]:
        """The learning rate, by what is trained."""
        if self.lr is not None or self.usual_rates is None:
            return {}
        layers = self.blocks or self.trainable_layers
        return {
            "lr": methods.load(self.method).lr or self.usual_rates.of(layers)
        }

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for an invalid value."""
        super().check()
        is_name = bool(self.task) or self.names_any_task
        if is_name and not self.has_task_file:
            settings_lib.check_name(f"--task={cut(self.task)}", self.task)
        if not self.is_own and not self.names_any_task:
            registry.check(self.task)
        is_scheduled = self.freeze_schedule != "none"
        if is_scheduled and self.trainable_layers in ("0", "1", "head"):
            raise UserError(
                f"--freeze_schedule={self.freeze_schedule}: takes two blocks "
                "that train, or more. Give --trainable_layers=2, say."
            )
        if self.is_probe and self.strategy == "multi_worker":
            raise UserError(
                "--features=frozen: the probe is fitted by one process. Leave "
                "--strategy=multi_worker out."
            )

    @property
    def approach(self) -> str:
        """What trains, and its schedule: `last_4_autofreeze`; or `probe`."""
        if self.is_sparse:
            return super().approach
        approach = "probe" if self.is_probe else super().approach
        if self.freeze_schedule != "none" and not self.is_probe:
            approach += f"_{self.freeze_schedule}"
        return approach + (f"_keep{self.keep_blocks}" * bool(self.keep_blocks))

    @property
    def title(self) -> str:
        """The readable beginning of the name of its folder."""
        if not self.is_probe:
            return super().title
        return f"model={self.model_name},split_seed={self.split_seed}"

    @property
    def freezes(self) -> bool:
        """Whether blocks of the encoder are frozen, for a time at least."""
        is_scheduled = self.freeze_schedule != "none" and not self.is_sparse
        return super().freezes or is_scheduled

    @property
    def runs_cached(self) -> bool:
        """Whether there is a frozen prefix, and it is run once."""
        return super().runs_cached or self.is_probe

    @property
    def has_task_file(self) -> bool:
        """Whether the task is described in a file."""
        return task_file.is_task_file(self.task)

    @property
    def has_table(self) -> bool:
        """Whether --data is a table that the flags describe."""
        return not self.has_task_file and task_file.is_table(self.data)

    @property
    def is_own(self) -> bool:
        """Whether the task is one's own: a task file, or a table."""
        return self.has_task_file or self.has_table

    @property
    def task_name(self) -> str:
        """What folders and tables call the task."""
        return self.own_task.name if self.is_own else self.task

    @property
    def own_task(self) -> task_file.TaskFile:
        """The description of a task of one's own."""
        if self.has_task_file:
            return task_file.read(self.task)
        default = self.__dataclass_fields__["task"].default
        if self.task in registry.DATA_SETS and self.task != default:
            raise UserError(
                f"--task={self.task}: has data of its own, and --data="
                f"{self.data} is a table of yours. Give the task another name."
            )
        return task_file.from_flags(
            self.data,
            "" if self.task == default else self.task,
            self.text_column,
            self.label_column,
            self.kind,
            self.metric,
            self.test_fraction,
            self.duplicates,
            self.encoding,
        )

    def unread(self) -> list[str]:
        """Names of the flags that a run with these settings does not read.

        A fraction that no split needs is part of the key all the same.
        """
        names = super().unread()
        is_file = self.has_task_file and os.path.isfile(self.task)
        if is_file and self.own_task.validation:
            names.append("validation_fraction")
        return names

    def hashed(self) -> dict[str, Any]:
        """The settings that can change a number, by name."""
        return {**super().hashed(), "task": self.task_name}


def open_source(settings: TaskSettings) -> Source:
    """The source of a task's texts.

    Raises:
        UserError: there is no such task, file or column.
    """
    if settings.is_own:
        from tf_transfer.data import table_source

        return table_source.TableSource(settings.own_task, settings.split_seed)
    return registry.open_source(
        settings.task, settings.data, settings.cache_folder
    )


def read_splits(
    source: Source,
    task: Task,
    validation_fraction: float,
    split_seed: int,
    max_train_examples: int = 0,
) -> Texts:
    """The training, validation and test texts of a task.

    A task without a validation split holds out a part of its training set. The
    first of several test splits has the split name "".

    Args:
        source: the source of the texts.
        task: the task.
        validation_fraction: fraction of the training set to hold out.
        split_seed: seed of that part, and of the training subset.
        max_train_examples: number of training texts; 0 for all.

    Raises:
        UserError: a row is invalid; the message names file and line.
    """
    train = source.read("train")
    if task.validation:
        rows = np.arange(len(train))
        validation = {"": source.read(task.validation)}
    else:
        rows, held = splits.split_train_validation(
            train.labels,
            validation_fraction,
            split_seed,
            source.group(train.ids),
        )
        validation = {"": train.take(held)} if len(held) else {}
    chosen = splits.choose_subset(
        train.labels[rows], max_train_examples, split_seed
    )
    return {
        "train": {"": train.take(rows[chosen])},
        "validation": validation,
        "test": {
            name.removeprefix("dev_") if number else "": source.read(name)
            for number, name in enumerate(task.development)
        },
    }


def encode(
    examples: Any,
    task: Task,
    encoder: "Encoder",
    max_length: int,
    texts_per_row: int,
    name: str,
    encode_texts: "Callable[..., Tokens]",
) -> "EncodedSplit":
    """Tokenises examples, labelled or not; see `Experiment.encode`.

    Args:
        encode_texts: function of encoder, texts, longest row and name.
    """
    from tf_transfer.data import batches, tagging, tokens

    if task.is_tagging:
        assert task.labels is not None
        return tagging.encode_sentences(
            examples, task.labels, encoder, max_length, name
        )
    columns = [examples.texts]
    if texts_per_row == 2:
        columns = [[column] for column in examples.texts]
    ids = tokens.join(
        [encode_texts(encoder, texts, max_length, name) for texts in columns]
    )
    labels = examples.labels
    if labels is None:
        labels = np.zeros(len(examples), np.int64)
    return batches.EncodedSplit(
        ids, labels, examples.ids, texts_per_example=texts_per_row
    )


def make_objective(
    task: Task,
    encoded: Splits,
    metric_prefix: str = "",
    weight: float = 1.0,
    class_weights: str = "none",
) -> "Objective":
    """The objective of a task, with the loss for its kind of labels.

    Args:
        task: the task, with the names of its head, labels and metrics.
        encoded: see `Experiment.encode_splits`.
        metric_prefix, weight: see `objectives.Objective`.
        class_weights: `none` or `balanced`.

    Raises:
        UserError: the task has no classes to balance.
    """
    from tf_transfer.data import metrics, tagging
    from tf_transfer.training import objectives

    def measure(split: "EncodedSplit", logits: np.ndarray) -> dict[str, float]:
        if task.is_tagging:
            assert task.labels is not None
            return tagging.measure_entities(
                split, logits, task.labels, task.metrics
            )
        return metrics.measure(task.metrics, split.labels, logits)

    loss = objectives.loss_for(task.kind, task.units)
    if task.score_scale:
        loss = objectives.scaled_loss(loss, task.score_scale[1])
    if class_weights == "balanced":
        if task.kind not in BALANCED:
            raise UserError(
                f"--class_weights=balanced: task {task.name} has no classes. "
                "Leave it out."
            )
        loss = objectives.balanced_loss(
            loss, encoded["train"][""].labels, len(task.labels or ())
        )
    return objectives.Objective(
        name=task.name,
        loss=loss,
        train=encoded["train"][""],
        evaluation={kind: encoded[kind] for kind in ("validation", "test")},
        measure=measure,
        metric_prefix=metric_prefix,
        weight=weight,
    )


def make_phases(
    settings: Any,
    task: Task,
    encoded: Splits,
    trainable: "Trainable",
    metric: str,
) -> "list[Phase]":
    """One phase with one objective, after those of `--freeze_schedule`.

    Args:
        settings: `TaskSettings`, resolved.
        task: the task to learn.
        encoded: see `Experiment.encode_splits`.
        trainable: the weights that train in the last phase.
        metric: the metric that selects and stops.
    """
    from tf_transfer.training import objectives, progressive

    freezes = settings.freeze_schedule == "autofreeze"
    phase = objectives.Phase(
        trainable=trainable,
        trainable_layers=settings.blocks or settings.trainable_layers,
        lr=settings.lr,
        max_epochs=settings.max_epochs,
        objectives=(
            make_objective(task, encoded, class_weights=settings.class_weights),
        ),
        score=(lambda scores: scores[metric])
        if encoded["validation"]
        else None,
        patience=settings.patience if encoded["validation"] else 0,
        min_delta=settings.min_delta,
        select=settings.select,
        layer_decay=settings.layer_decay,
        freeze_percentile=settings.freeze_percentile if freezes else None,
    )
    stages: list[Trainable] = []
    if settings.freeze_schedule == "gradual":
        stages = progressive.unfreezing_stages(trainable)
    return [
        *(
            dataclasses.replace(
                phase,
                trainable=stage,
                trainable_layers=str(stage.last - stage.first + 1),
                max_epochs=1,
                select="last",
            )
            for stage in stages
        ),
        phase,
    ]


def make_head(
    settings: Any, task: Task, encoder: "Encoder", texts_per_row: int
) -> "keras.layers.Layer":
    """Pooling, dropout, one dense layer or two; for words, the token head.

    Args:
        settings: `TaskSettings`, resolved.
        task: the task that it answers.
        encoder: the encoder that it reads.
        texts_per_row: number of texts of an example that run as rows of their
            own.

    Raises:
        UserError: `--head=mlp` is given for a task that labels words.
    """
    from tf_transfer.models import heads
    from tf_transfer.models.heads import pooled

    is_deep = settings.head == "mlp"
    name = f"head_{task.name}"
    shared = settings.head_dropout, settings.seed, settings.precision
    if task.is_tagging:
        if is_deep:
            raise UserError(
                f"--head=mlp: the head of task {task.name}, which labels "
                "words, has two layers already. Leave it out."
            )
        return heads.build(
            "ner", "dense", task.units, encoder.hidden, *shared, name=name
        )
    return pooled.PooledHead(
        task.units,
        pooled.pooled_width(settings.pooling, encoder),
        settings.pooling,
        *shared,
        texts_per_example=texts_per_row,
        pooler_dropout=settings.pooler_dropout,
        inner_units=encoder.hidden if is_deep else 0,
        name=name,
    )


def make_probe_head(
    chosen: dict[str, Any], task: Task, encoder: "Encoder"
) -> "keras.layers.Layer":
    """The head that holds the weights of a fitted probe.

    Args:
        chosen: the states that it reads; see `probe.Probe.chosen`.
        task: the task that it answers.
        encoder: the encoder that it reads.
    """
    from tf_transfer.models.heads import dense, pooled

    options = 0.0, 0, "float32"  # no dropout; the weights are not drawn
    name = f"head_{task.name}"
    if task.is_tagging:
        return dense.TokenLinearHead(
            task.units, encoder.hidden, *options, name=name
        )
    return pooled.PooledHead(
        task.units,
        encoder.hidden,
        chosen["pooling"],
        *options,
        texts_per_example=2 if chosen["pair_features"] else 1,
        pair_features=chosen["pair_features"] or "difference",
        name=name,
    )


def report_cut(split: "EncodedSplit", max_length: int) -> float:
    """Prints how much of the training texts is cut; returns their share."""
    lost = split.tokens.lost
    if lost is None or not lost.any():
        return 0.0
    share = float(np.mean(lost > 0))
    tokens = lost.sum() / (lost.sum() + split.tokens.lengths.sum())
    print(
        f"Cut: {share:.1%} of the training texts have more than --max_length="
        f"{max_length} tokens; {tokens:.1%} of all tokens are left out.",
        flush=True,
    )
    return share


def report_shared(name: str, examples: Texts) -> None:
    """Prints how many texts are in two splits."""
    from tf_transfer.data import card

    for kind, count in card.count_shared(examples).items():
        print(
            f"{name}: {count:,} of the {len(examples[kind]['']):,} texts of "
            f"{kind} are also in the training set. `group` as duplicates "
            "keeps equal texts in one split.",
            flush=True,
        )


def count_examples(encoded: Splits) -> dict[str, int]:
    """Number of examples of each split, by its name in `config.json`."""
    return {
        "_".join(filter(None, (kind, name))): len(split)
        for kind, named in encoded.items()
        for name, split in named.items()
    }
