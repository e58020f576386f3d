"""Adam as in BERT's own code; each difference from it is a setting.

    m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2
    w <- w - lr (m / (sqrt(v) + eps) + decay w)

Decay is decoupled and spares LayerNorm and biases; the moments are not
corrected for their start at zero unless asked: then lr is scaled by
sqrt(1 - b2^t) / (1 - b1^t), as in the first version of HF's AdamW.

Rate and decay are variables: a program that is traced once serves others.

TensorFlow's fused kernel computes the moments and the step in one pass: its
beta powers are those of the correction, and 0 turns the correction off.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import TypedDict

import keras
import tensorflow as tf

UNDECAYED = ("gamma", "beta", "bias")


@dataclasses.dataclass(frozen=True)
class AdamOptions:
    """Adam's settings; the fields are those of `config.recipe.Recipe`."""

    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    weight_decay: float = 0.01
    bias_correction: bool = False
    clip_norm: float = 1.0
    idle_heads: str = "still"


class UpdateNumbers(TypedDict):
    """The numbers of an update, all scalars.

    Attributes:
        step: int64. Updates before it.
        rate: float32. The learning rate.
        decay: float32. The weight decay of each group that moves.
        powers: float32. For each group that moves the powers of both betas.
    """

    step: tf.Tensor
    rate: tf.Tensor
    decay: dict[str, tf.Tensor]
    powers: dict[str, tuple[tf.Tensor, tf.Tensor]]


class LearningRate:
    """The rate at a step, counted from 0.

    It rises from 0 over the first steps. After that, `linear` falls on the
    straight line from the peak at step 0 to 0 at the end, as in BERT's own
    code.

    Args:
        schedule: `constant` or `linear`.
        warms_up: Whether it rises at first.

    Create it under the strategy's scope. Attributes:
        numbers: float32 tf.Variable [3]. The peak, all steps, and those of the
            rise.
    """

    def __init__(self, schedule: str, warms_up: bool) -> None:
        self.schedule = schedule
        self.warms_up = warms_up
        self.numbers = _shared("rate", [0.0, 1.0, 1.0])

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """float32 []."""
        step = tf.cast(step, tf.float32)
        peak, total_steps, warmup_steps = tf.unstack(tf.identity(self.numbers))
        rate = peak
        if self.schedule == "linear":
            rate = peak * tf.maximum(1.0 - step / total_steps, 0.0)
        if self.warms_up:
            rising = peak * step / warmup_steps
            rate = tf.where(step < warmup_steps, rising, rate)
        return rate


class BertAdam:
    """Optimizer of a phase. Nothing frozen has a slot or a gradient here.

    Args:
        weights: The Keras variables that train.
        rate: Function from the step, a tensor, to the learning rate.
        options: Adam's settings.
        scales: The factor of the rate for each weight; unset, 1. Scaled
            gradients would have no effect: Adam divides by their size.
        groups: The group of each weight; unset, one for all. A group that is
            left out of an update keeps weights, moments and the count that
            its moments are corrected by. With `idle_heads` at `drift` it moves
            by its old moments after its first own update, as if it had a
            gradient of zeros.

    Create it under the strategy's scope. Attributes, all tf.Variables:
        step: int64. Batches seen; the schedule's clock.
        updates: dict from group to int64. Batches that moved its weights.
        decay: float32. The weight decay.
    """

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        rate: Callable[[tf.Tensor], tf.Tensor],
        options: AdamOptions,
        scales: Sequence[float] | None = None,
        groups: Sequence[str] | None = None,
    ) -> None:
        self.weights = list(weights)
        self.scales = list(scales or [1.0] * len(self.weights))
        self.groups = list(groups or [""] * len(self.weights))
        self.rate = rate
        self.options = options
        self.step = _shared("step", 0, tf.int64)
        self.updates = {}
        for group in sorted({*self.groups, ""}):
            self.updates[group] = _shared("updates", 0, tf.int64)
        self.decay = _shared("decay", options.weight_decay)
        self.means = [_slot(w, "m") for w in self.weights]
        self.squares = [_slot(w, "v") for w in self.weights]

    def reset(self, weight_decay: float) -> None:
        """Resets all state, as if the optimizer were new.

        Args:
            weight_decay: The new decay; 0 only if the old one is 0.
        """
        for variable in self.state().values():
            variable.assign(tf.zeros(variable.shape, variable.dtype))
        self.decay.assign(weight_decay)

    def state(self) -> dict[str, tf.Variable]:
        """Everything a resume needs, by name."""
        state = {"optimizer/step": self.step}
        for group, updates in self.updates.items():
            state[f"optimizer/updates/{group}".rstrip("/")] = updates
        for weight, mean in zip(self.weights, self.means):
            state[f"m/{weight.path}"] = mean
        for weight, square in zip(self.weights, self.squares):
            state[f"v/{weight.path}"] = square
        return state

    def read_numbers(
        self, groups: Collection[str] | None = None
    ) -> UpdateNumbers:
        """The numbers of the next update; they are variables on the host.

        A step, in a replica's context, is `read_numbers`, `update` and `count`.

        Args:
            groups: Which groups of weights move; unset, all.

        """
        options, step = self.options, tf.identity(self.step)
        correction = float(options.bias_correction)
        powers, decay_of = {}, {}
        moved, idle = self._split_groups(groups)
        for group in moved | idle:
            decay_of[group] = tf.identity(self.decay)
            if group in idle:  # nothing moves before its first update
                began = tf.identity(self.updates[group]) > 0
                decay_of[group] *= tf.cast(began, tf.float32)
            power = tf.cast(tf.identity(self.updates[group]) + 1, tf.float32)
            powers[group] = (
                correction * tf.pow(options.adam_beta1, power),
                correction * tf.pow(options.adam_beta2, power),
            )
        return {
            "step": step,
            "rate": self.rate(step),
            "decay": decay_of,
            "powers": powers,
        }

    def update(
        self, gradients: Sequence[tf.Tensor], numbers: UpdateNumbers
    ) -> tf.Tensor:
        """Moves the weights; XLA may compile it.

        Args:
            gradients: Of the loss of this replica, one a weight, dense.
            numbers: From `read_numbers`.

        Returns:
            float32 []: the global norm of the whole batch's gradient, before
            clipping.
        """
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync > 1:
            gradients = context.all_reduce("SUM", gradients)
        norm = tf.linalg.global_norm(gradients)
        context.merge_call(self._update, args=(gradients, norm, numbers))
        return norm

    def count(self, groups: Collection[str] | None = None) -> None:
        """Counts an update, in a replica's context.

        Args:
            groups: See `read_numbers`.
        """
        moved, idle = self._split_groups(groups)
        count = functools.partial(self._count, groups=moved, idle=idle)
        tf.distribute.get_replica_context().merge_call(count)

    def _split_groups(
        self, groups: Collection[str] | None
    ) -> tuple[set[str], set[str]]:
        """The groups that move by a gradient, and those that drift."""
        everyone = set(self.updates)
        if groups is None:
            return everyone, set()
        moved = everyone & set(groups)
        if self.options.idle_heads == "drift":
            return moved, everyone - moved
        return moved, set()

    def _update(
        self,
        strategy: tf.distribute.Strategy,
        gradients: Sequence[tf.Tensor],
        norm: tf.Tensor,
        numbers: UpdateNumbers,
    ) -> None:
        """Updates every replica's copy in the same way, across replicas."""
        update = strategy.extended.update
        for weight, group, mean, square, scale, gradient in zip(
            self.weights,
            self.groups,
            self.means,
            self.squares,
            self.scales,
            gradients,
            strict=True,
        ):
            if group not in numbers["powers"]:
                continue
            decay = None
            if self.options.weight_decay and decays(weight):
                decay = numbers["decay"][group]
            rates = (scale, numbers["rate"], *numbers["powers"][group], decay)
            arguments = (mean, square, gradient, norm, *rates)
            update(weight.value, self._update_one, arguments, group=False)

    def _update_one(
        self,
        weight: tf.Variable,
        mean: tf.Variable,
        square: tf.Variable,
        gradient: tf.Tensor,
        norm: tf.Tensor,
        scale: float,
        rate: tf.Tensor,
        power1: tf.Tensor,
        power2: tf.Tensor,
        decay: tf.Tensor | None,
    ) -> None:
        options = self.options
        if scale != 1:
            rate *= scale
        if options.clip_norm:
            gradient *= tf.minimum(1.0, options.clip_norm / (norm + 1e-12))
        if decay is not None:
            weight.assign(weight * (1.0 - rate * decay))
        tf.raw_ops.ResourceApplyAdam(
            var=weight.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=power1,
            beta2_power=power2,
            lr=rate,
            beta1=options.adam_beta1,
            beta2=options.adam_beta2,
            epsilon=options.adam_epsilon,
            grad=gradient,
        )

    def _count(
        self,
        strategy: tf.distribute.Strategy,
        groups: set[str],
        idle: set[str],
    ) -> None:
        del strategy
        self.step.assign_add(1)
        for group in sorted(groups):
            self.updates[group].assign_add(1)
        for group in sorted(idle):  # its moments are 0 until its first update
            began = tf.identity(self.updates[group]) > 0
            self.updates[group].assign_add(tf.cast(began, tf.int64))


def decays(weight: keras.Variable) -> bool:
    """Whether weight decay applies: not to LayerNorm and biases."""
    return weight.path.split("/")[-1] not in UNDECAYED


def _shared(
    name: str, value: float | list[float], dtype: tf.DType = tf.float32
) -> tf.Variable:
    """A variable of which all replicas have the same value.

    It is on the host unless a strategy places it. The rate and the seeds of
    dropout are computed there from the step; on a GPU, each step would wait for
    the copy.
    """
    with tf.device("CPU:0"):
        return tf.Variable(
            value,
            dtype=dtype,
            trainable=False,
            name=name,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )


def _slot(weight: keras.Variable, name: str) -> tf.Variable:
    return tf.Variable(
        tf.zeros(weight.shape, tf.float32), trainable=False, name=name
    )
