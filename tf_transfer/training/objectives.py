"""Objectives, the phases that train them, options, and losses.

An objective is a head with its loss and its data. A phase is a stretch of
training with its own trainable parameters and learning rate. A GLUE run is one
phase with one objective.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Self

import numpy as np
import tensorflow as tf

from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.models.freezing import Trainable
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.training.joint import Sum
from tf_transfer.training.optimizer import AdamOptions

Metrics = dict[str, float]
Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
FitRegression = Callable[
    [np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]
]


@dataclasses.dataclass(frozen=True)
class Objective:
    """The loss, data and metrics of one head.

    Attributes:
        name: The head's name in the network.
        loss: Function from labels and logits to the loss of each example.
        train: The encoded training split.
        evaluation: Dict from `validation` and `test` to the splits that are
            scored, by split name. The headline split is called ""; the name of
            any other (`mismatched`) is a prefix of its metrics' names.
        measure: Function from a split and its logits to its metrics.
        metric_prefix: Prefix of the names of all metrics, where there are
            several objectives.
        weight: Factor of the loss.
        prefix: The frozen prefix whose output is stored in the splits, or None
            to run every block.
        fit_regression: None where gradient steps train the head. Else the loss
            is `contrastive_loss`, and this function fits the head after every
            pass: from `embed` of the head, float32 [examples, width], and
            labels to kernel and bias.
    """

    name: str
    loss: Loss
    train: EncodedSplit
    evaluation: dict[str, dict[str, EncodedSplit]]
    measure: Callable[[EncodedSplit, np.ndarray], Metrics]
    metric_prefix: str = ""
    weight: float = 1.0
    prefix: FrozenPrefix | None = None
    fit_regression: FitRegression | None = None

    @property
    def scored_splits(self) -> list[tuple[str, str, EncodedSplit]]:
        """Each scored split with its kind and the prefix of its metrics."""
        return [
            (
                kind,
                self.metric_prefix + (f"{split_name}_" if split_name else ""),
                split,
            )
            for kind, splits in self.evaluation.items()
            for split_name, split in splits.items()
        ]

    def scored_columns(self) -> dict[str, np.ndarray]:
        """The scored splits' columns of `predictions.npz`, without logits."""
        return {
            f"{kind}_{prefix}{name}": column
            for kind, prefix, split in self.scored_splits
            for name, column in {
                "ids": split.ids,
                "labels": split.targets,
                "starts": split.word_starts,
                "groups": split.groups,
            }.items()
            if column is not None
        }

    def with_states(
        self, prefix: FrozenPrefix, splits: Iterable[EncodedSplit]
    ) -> Self:
        """The objective on splits with the stored output of a prefix.

        Args:
            prefix: Whose output the splits hold.
            splits: The training split, then the `scored_splits`.
        """
        train, *rest = splits
        scored = iter(rest)
        return dataclasses.replace(
            self,
            train=train,
            evaluation={
                kind: {split_name: next(scored) for split_name in named}
                for kind, named in self.evaluation.items()
            },
            prefix=prefix,
        )


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of training.

    Attributes:
        trainable: The components that train.
        trainable_layers: The same, as `result.json` has it.
        objectives: Heads, with their losses and data.
        combination: How several objectives share a step; see `joint`. None
            where each has its own pass in every epoch, one after the other.
        score: Function from validation metrics to the score that stops and
            selects; None without validation texts.
        patience, min_delta: See `progress.EarlyStopping`.
        select: `best` or `last`: the epoch whose weights the phase ends with.
        layer_decay, head_scale: See `models.freezing.rate_scales`.
        is_eligible: Function from validation metrics to whether an epoch may
            be selected; the last such epoch is selected, or else the first of
            all. None where `score` or `select` decides.
        summarize: Function from all objectives' metrics to further metrics
            that summarise them, or None.
    """

    trainable: Trainable
    trainable_layers: str
    lr: float
    max_epochs: int
    objectives: tuple[Objective, ...]
    score: Callable[[Metrics], float] | None
    patience: int
    min_delta: float
    select: str
    layer_decay: float = 1.0
    head_scale: float = 1.0
    is_eligible: Callable[[Metrics], bool] | None = None
    summarize: Callable[[Metrics], Metrics] | None = None
    combination: Sum | None = None


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """How to train; the fields are those of `config.settings.Settings`."""

    adam: AdamOptions
    batch_size: int
    batching: str
    max_length: int
    schedule: str
    warmup_fraction: float
    seed: int
    checkpoint_minutes: float
    checkpoint_epochs: bool = True
    uses_xla: bool = False
    short_batches: str = "mean"  # as --short_batches of `multitask`


# === Losses: labels and logits [batch, units] to float32 [batch] ===


def binary_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Cross-entropy of one sigmoid unit."""
    return tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(labels, tf.float32), logits[:, 0]
    )


def squared_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Squared error of one linear unit."""
    return tf.math.squared_difference(
        tf.cast(labels, logits.dtype), logits[:, 0]
    )


def scaled_loss(loss: Loss, deviation: float) -> Loss:
    """`squared_loss` of scores in units of their standard deviation."""
    return lambda labels, logits: tf.cast(
        loss(labels, logits) / deviation**2, tf.float32
    )


def word_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of the words of each example.

    Args:
        labels: int64 [batch, length]; negative where there is no word.
        logits: float32 [batch, length, units].

    Returns:
        float32 [batch]. The mean over the words of each example.
    """
    is_word = labels >= 0
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.maximum(labels, 0), logits
    )
    total = tf.reduce_sum(tf.where(is_word, each, 0.0), axis=1)
    count = tf.reduce_sum(tf.cast(is_word, tf.float32), axis=1)
    return total / tf.maximum(count, 1.0)


def several_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy of one sigmoid per label; labels [batch, units]."""
    each = tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(labels, tf.float32), logits
    )
    return tf.reduce_mean(each, axis=1)


def balanced_loss(loss: Loss, labels: np.ndarray, count: int) -> Loss:
    """A loss in which all labels have one weight, however often each occurs.

    Args:
        loss: Of classes, or `several_loss`.
        labels: Of the training set: int64 [examples], or [examples, count].
        count: The number of labels.

    Returns:
        The loss of each example times n / (count * examples of its class); of
        several labels, the loss of each that applies times (examples without
        it) / (examples with it).
    """
    if labels.ndim == 2:
        applies = np.maximum(labels.sum(axis=0), 1)
        ratio = tf.constant((len(labels) - applies) / applies, tf.float32)

        def each_loss(truth: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(
                tf.nn.weighted_cross_entropy_with_logits(
                    tf.cast(truth, tf.float32), logits, ratio
                ),
                axis=1,
            )

        return each_loss
    counts = np.maximum(np.bincount(labels, minlength=count), 1)
    weights = tf.constant(len(labels) / (count * counts), tf.float32)
    return lambda truth, logits: loss(truth, logits) * tf.gather(weights, truth)


def contrastive_loss(
    labels: tf.Tensor, vectors: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    """Squared error of the cosines of all pairs of texts in a batch.

    The target is 1 where both have one label, and 0 where they have not; both
    kinds of pairs have the same weight. The idea is SetFit's (Tunstall et al.,
    "Efficient few-shot learning without prompts", 2022); this form is ours.

    Args:
        labels: int64 [batch].
        vectors: float32 [batch, width], of length 1.
        weights: float32 [batch]. The share of each text in its batch, which may
            lie on several replicas; 0 for what only fills the batch.

    Returns:
        float32 []. The sum over the replicas is the loss of the batch, whose
        pairs are those of each replica.
    """
    is_equal = tf.cast(labels[:, None] == labels, tf.float32)
    errors = tf.square(tf.matmul(vectors, vectors, transpose_b=True) - is_equal)
    pairs = weights[:, None] * weights * (1 - tf.eye(tf.shape(labels)[0]))
    loss = tf.zeros([])
    for kind in (pairs * is_equal, pairs * (1 - is_equal)):
        loss += tf.math.divide_no_nan(
            tf.reduce_sum(kind * errors), tf.reduce_sum(kind)
        )
    return tf.reduce_sum(weights) * loss


def loss_for(kind: str, units: int) -> Loss:
    """The loss of a kind of task.

    Args:
        kind: `classes`, `labels`, `score` or `entities`.
        units: Output units: one for a score or a yes/no.
    """
    categorical_loss = tf.nn.sparse_softmax_cross_entropy_with_logits
    return {
        "classes": binary_loss if units == 1 else categorical_loss,
        "labels": several_loss,
        "score": squared_loss,
        "entities": word_loss,
    }[kind]
