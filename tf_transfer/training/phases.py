"""Phases and objectives: what the loop trains, in which stretches.

An objective is a head with its loss and its data. A phase is a stretch of
training with its own trainable parts and learning rate. GLUE is one phase with
one objective.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tf_transfer.models.freezing import Trainable
from tf_transfer.training import combining


@dataclasses.dataclass(frozen=True)
class Objective:
    """What one head learns.

    Attributes:
        name: the head's name in the network.
        loss: function from labels and logits to the loss of each example.
        train: `batches.Split`.
        evaluation: dict from `validation` and `test` to a list of
            (prefix, `batches.Split`): a prefix stands before the names of
            the metrics of a second development set.
        measure: function (split, logits, prefix) to a dict of metrics.
        prefix: stands before the names of its metrics, where there are
            several objectives.
        weight: the loss is multiplied by it.
    """

    name: str
    loss: Callable
    train: object
    evaluation: dict
    measure: Callable
    prefix: str = ""
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Phase:
    """A stretch of training.

    Attributes:
        objectives: what it trains on.
        way: how several objectives share an epoch.
        score: function from a dict of validation metrics to the score that
            stops and selects; `None` where nothing validates.
        patience, min_delta, select: see `stopping` and `settings`.
        layer_decay: see `split.rate_scales`.
        keeps: function from a dict of validation metrics to whether its epoch
            may be selected; the last such epoch is, or the first of all. None
            where `score` or `select` does it.
        overall: function from a dict of all objectives' validation metrics to
            a dict of what they come to together, or None.
    """

    trainable: Trainable
    trainable_layers: str
    lr: float
    max_epochs: int
    objectives: tuple
    score: Callable | None
    patience: int
    min_delta: float
    select: str
    layer_decay: float = 1.0
    keeps: Callable | None = None
    overall: Callable | None = None
    way: combining.Way = combining.IN_TURN


# === Losses: labels and logits [batch, units] to float32 [batch] ===


def binary_loss(labels, logits):
    """Cross-entropy of one sigmoid unit."""
    return tf.nn.sigmoid_cross_entropy_with_logits(
        tf.cast(labels, tf.float32), logits[:, 0]
    )


def categorical_loss(labels, logits):
    """Cross-entropy of one unit a class."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def squared_loss(labels, logits):
    """Squared error of one linear unit."""
    return tf.math.squared_difference(tf.cast(labels, tf.float32), logits[:, 0])


def word_loss(labels, logits):
    """Mean cross-entropy of the words of each example.

    Args:
        labels: int64 [batch, length]; negative where there is no word.
        logits: float32 [batch, length, units].
    """
    is_word = labels >= 0
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.maximum(labels, 0), logits
    )
    total = tf.reduce_sum(tf.where(is_word, each, 0.0), axis=1)
    count = tf.reduce_sum(tf.cast(is_word, tf.float32), axis=1)
    return total / tf.maximum(count, 1.0)
