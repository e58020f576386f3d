"""A task in a run: its settings, splits, tokens, loss and head.

An experiment has one task or several, of any kind: classes, several labels, a
score, or entities. This module has the code that they share.
"""

import dataclasses
import os
from collections.abc import Callable
from typing import Any
from typing import ClassVar
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.config import settings as settings_lib
from tf_transfer.config.settings import setting
from tf_transfer.data import registry
from tf_transfer.data import splits
from tf_transfer.data import task_file
from tf_transfer.data.task import KINDS
from tf_transfer.data.task import Source
from tf_transfer.data.task import Task
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import cut

if TYPE_CHECKING:
    import keras

    from tf_transfer.data.batches import EncodedSplit
    from tf_transfer.data.tokens import Tokens
    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.freezing import Trainable
    from tf_transfer.training.objectives import Objective
    from tf_transfer.training.objectives import Phase

# By `train`, `validation` and `test`, then by split name.
Texts = dict[str, dict[str, Any]]
Splits = dict[str, dict[str, "EncodedSplit"]]

# What the probe does not read: how weights are trained by gradient steps.
OF_TRAINING = (
    "trainable_layers",
    "blocks",
    "method",
    "pooling",
    "pairs",
    "head",
    "loss_head",
    "freeze_schedule",
    "freeze_percentile",
    "lr",
    "batch_size",
    "batching",
    "max_epochs",
    "dropout",
    "head_dropout",
    "weight_decay",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "bias_correction",
    "clip_norm",
    "schedule",
    "warmup_fraction",
    "layer_decay",
    "patience",
    "min_delta",
    "select",
    "seed",
    "frozen_prefix",
    "jit_compile",
    "checkpoint_minutes",
    *settings_lib.METHOD_OPTIONS,
)
BALANCED = ("classes", "labels")  # the kinds whose labels may weigh alike
TABLE_FLAGS = (
    "text_column",
    "label_column",
    "kind",
    "metric",
    "test_fraction",
    "encoding",
    "duplicates",
)


@dataclasses.dataclass(frozen=True)
class TaskSettings(settings_lib.Settings):
    """The shared settings, and which task."""

    task: str = setting(
        "rte",
        "The task: one of GLUE's (cola, sst2, mrpc, stsb, qqp, mnli, qnli, "
        "rte, wnli), sentiment, paraphrase, similarity, ner, yahoo; or a task "
        "file of your own, such as mine.toml.",
    )
    features: str = setting(
        "bert",
        "`bert`, an encoder that trains, with a head; `frozen`, the probe: a "
        "regression on states of the frozen encoder (docs/probe.md).",
        choices=("bert", "frozen"),
    )
    keep_blocks: int = setting(
        0,
        "Keep the first so many blocks of the encoder, and drop the others "
        "for good: training, prediction and exports have none. 0 keeps all.",
        at_least=0,
    )
    pooling: str = setting(
        "cls",
        "What the head reads: [CLS] through the pooler; [CLS] as the last "
        "block leaves it; the mean of all tokens; or [CLS] above each of the "
        "last four blocks, side by side.",
        choices=("cls", "cls_state", "mean", "last4"),
    )
    pairs: str = setting(
        "cross",
        "How a pair is read: `cross`, both texts in one row; or `sbert`, each "
        "by itself, u and v, and the head reads (u, v, |u - v|).",
        choices=("cross", "sbert"),
    )

    head: str = setting(
        "linear",
        "What is on it: `linear`, one dense layer; `mlp`, a dense GELU layer "
        "of the encoder's width below that.",
        choices=("linear", "mlp"),
    )

    freeze_schedule: str = setting(
        "none",
        "How what trains changes with the epochs: `gradual` unfreezes one "
        "block an epoch, from the last (ULMFiT), and then has --max_epochs of "
        "all that trains; `autofreeze` freezes the first blocks whose "
        "gradients change least (AutoFreeze), and a cached prefix follows.",
        choices=("none", "gradual", "autofreeze"),
    )
    freeze_percentile: float = setting(
        50.0,
        "Of `autofreeze`: blocks below the first that changes as much as this "
        "percentile of all that train are frozen.",
        at_least=0,
        at_most=100,
    )

    # === A table of your own, without a task file ===
    # All of it is part of the identity of the data.
    text_column: str = setting(
        "",
        "Of --data=FILE (CSV, TSV, JSON lines, Parquet): the column of the "
        "texts; two with a comma between are a pair.",
        hashed=False,
    )
    label_column: str = setting(
        "", "Of --data=FILE: the column of the labels.", hashed=False
    )
    kind: str = setting(
        "classes",
        "Of --data=FILE: what its labels are; `labels`: several at once.",
        choices=KINDS,
        hashed=False,
    )
    metric: str = setting(
        "",
        "Of --data=FILE: what selects, stops and ranks. Unset: accuracy, "
        "f1_micro for several labels, spearman for a score, f1 for entities.",
        hashed=False,
    )
    test_fraction: float = setting(
        0.1,
        "Of --data=FILE: the part that is tested, stratified, drawn by "
        "--split_seed.",
        hashed=False,
        above=0,
        below=1,
    )
    encoding: str = setting(
        "utf-8", "Of --data=FILE, where it is CSV or TSV.", hashed=False
    )

    names_any_task: ClassVar[bool] = False  # `task` is but a name
    UNNAMED: ClassVar[dict[str, Any]] = {
        **settings_lib.Settings.UNNAMED,
        "loss_head": "sigmoid",
        "head": "linear",
        "freeze_schedule": "none",
        "features": "bert",
        "keep_blocks": 0,
    }
    OF_TRAINING: ClassVar[tuple[str, ...]] = OF_TRAINING

    def check(self) -> None:
        """Raises `UserError`, naming the flag, for what cannot be."""
        super().check()
        is_name = bool(self.task) or self.names_any_task
        if is_name and not task_file.is_task_file(self.task):
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

    duplicates: str = setting(
        "keep",
        "Of --data=FILE: `group` keeps texts that are the same, but for case "
        "and space, on one side of a split.",
        choices=("keep", "group"),
        hashed=False,
    )
    loss_head: str = setting(
        "sigmoid",
        "What tells two classes apart: the sigmoid of one unit, or the softmax "
        "of two.",
        choices=("sigmoid", "softmax"),
    )

    @property
    def is_probe(self) -> bool:
        """Whether a regression is fitted on the frozen encoder's states."""
        return self.features == "frozen"

    @property
    def approach(self) -> str:
        """What trains, and how that changes: `last_4_autofreeze`; `probe`."""
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
    def runs_cached(self) -> bool:
        """Whether there is a frozen prefix at some time, and it is stored."""
        is_cached = self.frozen_prefix == "cached" and not self.is_sparse
        is_scheduled = self.freeze_schedule != "none"
        return (
            super().runs_cached or (is_cached and is_scheduled) or self.is_probe
        )

    @property
    def is_own(self) -> bool:
        """Whether the task is one's own: a task file, or a table."""
        return task_file.is_task_file(self.task) or task_file.is_table(
            self.data
        )

    @property
    def task_name(self) -> str:
        """What folders and tables call the task."""
        return self.own_task.name if self.is_own else self.task

    @property
    def own_task(self) -> task_file.TaskFile:
        """What is said of a task of one's own."""
        if task_file.is_task_file(self.task):
            return task_file.read(self.task)
        [default] = (
            field.default
            for field in dataclasses.fields(self)
            if field.name == "task"
        )
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
        """Names of the flags that a run with these settings does not read."""
        names = super().unread()
        if self.freeze_schedule != "autofreeze":
            names.append("freeze_percentile")
        if self.is_probe:  # it stores states, but trains no weight
            names = [*self.OF_TRAINING]
        if self.names_any_task:
            return names
        if task_file.is_task_file(self.task):
            names += ["data", *TABLE_FLAGS]
            if os.path.isfile(self.task) and self.own_task.validation:
                names.append("validation_fraction")
        elif not self.is_own:
            names += TABLE_FLAGS
        return names

    def hashed(self) -> dict[str, Any]:
        """The settings that can change a number, by name."""
        values = {**super().hashed(), "task": self.task_name}
        if self.freeze_schedule != "autofreeze":
            del values["freeze_percentile"]
        if self.is_probe:
            unread = self.OF_TRAINING
            values = {n: v for n, v in values.items() if n not in unread}
        return values


def open_source(settings: TaskSettings) -> Source:
    """The source of the texts of a task.

    Raises:
        UserError: There is no such task, file or column.
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

    A task without a validation split validates on a part of the training set.
    The first of several test splits has the split name "".

    Args:
        source: Has the texts.
        task: The task.
        validation_fraction: The fraction of the training set that validates.
        split_seed: The seed of that part, and of the training subset.
        max_train_examples: The size of the training subset; 0 for all.

    Raises:
        UserError: Naming the file and the line.
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
    """Tokenises examples, labelled or not.

    Args:
        examples: `Examples`, or `Sentences` if the task labels words.
        task: The task of the examples.
        encoder: Has the tokenizer.
        max_length: The longest row in tokens.
        texts_per_row: Texts of an example that run separately.
        name: The title of the progress bar.
        encode_texts: Takes encoder, texts, longest row and name.
    """
    from tf_transfer.data import batches
    from tf_transfer.data import tagging
    from tf_transfer.data import tokens

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
        task: Names the head, the labels and the metrics.
        encoded: See `Experiment.encode_splits`.
        metric_prefix, weight: See `objectives.Objective`.
        class_weights: `none` or `balanced`.

    Raises:
        UserError: The task has no classes to balance.
    """
    from tf_transfer.data import metrics
    from tf_transfer.data import tagging
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
    """One phase with one objective, after the phases of a freezing schedule.

    Args:
        settings: `TaskSettings`, resolved.
        task: The task.
        encoded: See `Experiment.encode_splits`.
        trainable: The weights that train in the last phase.
        metric: The metric that selects and stops.
    """
    from tf_transfer.training import objectives
    from tf_transfer.training import progressive

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
        task: The task of the head.
        encoder: The encoder below the head.
        texts_per_row: Texts of an example that run separately.

    Raises:
        UserError: The settings ask for a deeper head, and words are labelled.
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
        chosen: The states that it reads; see `probe.Probe.chosen`.
        task: The task of the head.
        encoder: The encoder below the head.
    """
    from tf_transfer.models.heads import dense
    from tf_transfer.models.heads import pooled

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
    """Prints how many training texts are cut; returns their share."""
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
    """Prints how many texts of each other split are training texts, too."""
    from tf_transfer.data import card

    for kind, count in card.count_shared(examples).items():
        print(
            f"{name}: {count:,} of the {len(examples[kind]['']):,} texts of "
            f"{kind} are in the training set, too. `group` as duplicates "
            "keeps equal texts in one split.",
            flush=True,
        )


def count_examples(encoded: Splits) -> dict[str, int]:
    """The number of examples of each split, as `config.json` names it."""
    return {
        "_".join(filter(None, (kind, name))): len(split)
        for kind, named in encoded.items()
        for name, split in named.items()
    }
