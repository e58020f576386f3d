"""How several objectives share the steps of an epoch.

    Sum      a batch of each at every step, their losses added
    PCGrad   the same, but where two gradients of shared weights conflict, each
             first loses its component against the other
    Sampled  a batch of one of them at every step, drawn at random

`Sum` over one objective is that objective's own pass. A new combination plans
an epoch, and merges the gradients of a step.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import tensorflow as tf

from tf_transfer.data.batches import BatchPlan
from tf_transfer.training.optimizer import BertAdam

Gradients = Sequence[tf.Tensor]  # one per weight of the optimizer


@dataclasses.dataclass
class JointPlan:
    """The steps of a pass that several objectives share.

    Attributes:
        plans: The batches of each objective.
        counts: int32 [steps]. Examples of each step.
        choices: int32 [steps]. The objective of each step; None where every
            step trains all.
    """

    plans: list[BatchPlan]
    counts: np.ndarray
    choices: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def start_at(self, step: int) -> "JointPlan":
        """The rest of the plan from `step` on."""
        done = np.full(len(self.plans), step)
        choices = self.choices
        if choices is not None:
            done = np.bincount(choices[:step], minlength=len(self.plans))
            choices = choices[step:]
        plans = [p.start_at(number) for p, number in zip(self.plans, done)]
        return JointPlan(plans, self.counts[step:], choices)

    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each step's batches.

        That is the rows and the padded length of each objective's batch; 0 of
        an objective that is not in the step.
        """
        shapes = np.zeros([len(self), len(self.plans), 2], int)
        for index, plan in enumerate(self.plans):
            steps = np.arange(len(self))
            if self.choices is not None:
                steps = np.flatnonzero(self.choices == index)
            shapes[steps, index, 0] = plan.rows.shape[1]
            shapes[steps, index, 1] = plan.lengths[: len(steps)]
        return [tuple(shape) for shape in shapes.reshape(len(self), -1)]


@dataclasses.dataclass(frozen=True)
class Sum:
    """A batch of each objective at every step, their losses added.

    An epoch is a pass over the largest data set; the others are shuffled and
    used again.
    """

    is_sampled: ClassVar[bool] = False

    def count_steps(self, steps: list[int]) -> int:
        """Steps of an epoch, from those of a pass over each data set."""
        return max(steps)

    def plan(
        self,
        passes: Sequence[Callable[[int], BatchPlan]],
        sizes: Sequence[int],
        rng: np.random.Generator,
        share_done: float,
    ) -> JointPlan:
        """The batches of an epoch.

        Args:
            passes: For each objective a function from the number of the pass
                within the epoch to a pass over its data, shuffled again.
            sizes: Examples of each.
            rng: Of this epoch.
            share_done: Of the phase's epochs, from 0 to 1.
        """
        first_passes = [plan(0) for plan in passes]
        count = max(map(len, first_passes))
        plans = [
            _repeat(first, plan, count)
            for first, plan in zip(first_passes, passes)
        ]
        return JointPlan(plans, np.sum([p.counts for p in plans], axis=0))

    def merge(
        self,
        gradients: Sequence[Gradients],
        optimizer: BertAdam,
        seed: tf.Tensor,
    ) -> Gradients:
        """One gradient per weight, from those of each objective.

        Args:
            gradients: Of each objective.
            optimizer: Over all weights.
            seed: int64 [2]. The run's seed and the step.
        """
        return _add(gradients)


@dataclasses.dataclass(frozen=True)
class PCGrad(Sum):
    """`Sum` after gradient surgery (Yu et al. 2020, algorithm 1).

    The surgery covers the weights that the objectives share, not their heads.
    It needs nothing but products of gradients, so it works on their small
    table; the gradients themselves are added up only at its end.
    """

    def merge(
        self,
        gradients: Sequence[Gradients],
        optimizer: BertAdam,
        seed: tf.Tensor,
    ) -> Gradients:
        """One gradient per weight, without the conflicts of the objectives."""
        shared = [i for i, group in enumerate(optimizer.groups) if not group]
        if not shared:
            return _add(gradients)
        context, whole = tf.distribute.get_replica_context(), gradients
        if context.num_replicas_in_sync > 1:  # conflicts of the whole batch
            whole = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        products = tf.stack(
            [[_product(one, other, shared) for other in whole] for one in whole]
        )
        count = len(gradients)
        random = tf.random.stateless_uniform([count, count], seed)
        shares = project(products, tf.argsort(random))
        return [
            tf.add_n(
                [
                    shares[number] * gradient if i in shared else gradient
                    for number, gradient in enumerate(of_weight)
                ]
            )
            for i, of_weight in enumerate(zip(*gradients, strict=True))
        ]


@dataclasses.dataclass(frozen=True)
class Sampled(Sum):
    """A batch of one objective per step, drawn in proportion to size^exponent.

    An epoch has as many steps as all data sets have together.

    Attributes:
        first, last: The exponents of the first and of the last epoch; those
            between are on a straight line.
    """

    first: float
    last: float
    is_sampled: ClassVar[bool] = True

    def count_steps(self, steps: list[int]) -> int:
        """Steps of an epoch, from those of a pass over each data set."""
        return sum(steps)

    def plan(
        self,
        passes: Sequence[Callable[[int], BatchPlan]],
        sizes: Sequence[int],
        rng: np.random.Generator,
        share_done: float,
    ) -> JointPlan:
        """The batches of an epoch; see `Sum.plan`."""
        exponent = self.first + (self.last - self.first) * share_done
        shares = np.asarray(sizes, np.float64) ** exponent
        first_passes = [plan(0) for plan in passes]
        count = sum(map(len, first_passes))
        choices = rng.choice(len(passes), count, p=shares / shares.sum())
        counts, plans = np.zeros(count, np.int32), []
        for index, (first, plan) in enumerate(zip(first_passes, passes)):
            is_chosen = choices == index
            plans.append(_repeat(first, plan, int(is_chosen.sum())))
            counts[is_chosen] = plans[-1].counts
        return JointPlan(plans, counts, choices.astype(np.int32))


def project(products: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """The share of each gradient in the sum of the projected gradients.

    Each gradient g_i meets the others, g_j, in an order of its own. Where the
    rest of g_i has a negative product with g_j, its component along g_j is
    subtracted: g_i <- g_i - (g_i . g_j / |g_j|^2) g_j. So the rest stays a sum
    of the g_k, and its products follow from theirs.

    Args:
        products: float32 [n, n]. g_i . g_j.
        order: int32 [n, n]. Row i: the order in which g_i meets all; meeting
            itself changes nothing.

    Returns:
        float32 [n]: the sum of all projected gradients is that of share k
        times g_k.
    """
    count = products.shape[0]
    sizes = tf.linalg.diag_part(products)
    remaining = tf.eye(count)  # row i: what is left of g_i, as a sum of g_k
    for meeting in range(count):
        met = order[:, meeting]
        along = tf.reduce_sum(remaining * tf.gather(products, met), axis=1)
        along = tf.where(met == tf.range(count), 0.0, along)
        conflict = tf.math.divide_no_nan(
            tf.minimum(along, 0.0), tf.gather(sizes, met)
        )
        remaining -= conflict[:, None] * tf.one_hot(met, count)
    return tf.reduce_sum(remaining, axis=0)


def _add(gradients: Sequence[Gradients]) -> Gradients:
    return [
        tf.add_n(list(of_weight)) for of_weight in zip(*gradients, strict=True)
    ]


def _product(
    one: Gradients, other: Gradients, indices: Sequence[int]
) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(one[i] * other[i]) for i in indices])


def _repeat(
    first: BatchPlan, plan: Callable[[int], BatchPlan], count: int
) -> BatchPlan:
    """A plan of `count` steps, in as many passes as that takes."""
    plans = [first, *map(plan, range(1, -(-count // len(first))))]
    return BatchPlan.concatenate(plans).slice_steps(slice(count))
