"""How several objectives share an epoch.

    in_turn  one after the other, each a whole pass
    sum      a batch of each at every step, their losses added
    pcgrad   the same, but where two gradients of what they share conflict,
             each loses its part against the other first
    sampled  one of them at every step, drawn

A new way is a plan of an epoch, and what becomes of the gradients of a step.
"""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tf_transfer.data.batches import Plan


@dataclasses.dataclass
class TurnPlan:
    """The steps of a turn.

    Attributes:
        parts: list of `batches.Plan`, one a learner.
        counts: int32 [steps]. Examples of each step.
        choices: int32 [steps]. The learner whose step it is; None where every
            step is all learners'.
    """

    parts: list
    counts: np.ndarray
    choices: np.ndarray | None = None

    def __len__(self):
        return len(self.counts)

    def start_at(self, step):
        """The part of the plan from `step` on."""
        done, choices = [step] * len(self.parts), self.choices
        if choices is not None:
            done = np.bincount(choices[:step], minlength=len(self.parts))
            choices = choices[step:]
        parts = [p.start_at(number) for p, number in zip(self.parts, done)]
        return TurnPlan(parts, self.counts[step:], choices)


# === Plans: which batch of which objective at which step ===
# passes: functions from a lap to a pass over a set, shuffled anew
# sizes: examples of each set; draws: NumPy's generator of this epoch
# done: share of the phase's epochs that lie behind


def at_every_step(passes, sizes, draws, done):
    """A batch of each, until the largest set is through.

    The others are shuffled anew and used again.
    """
    del sizes, draws, done
    firsts = [one(0) for one in passes]
    steps = max(map(len, firsts))
    parts = [_repeated(*each, steps) for each in zip(firsts, passes)]
    return TurnPlan(parts, np.sum([part.counts for part in parts], axis=0))


def drawn(exponents, passes, sizes, draws, done):
    """A batch of one, drawn in proportion to size^exponent.

    As many steps as all sets have together.

    Args:
        exponents: of the first and of the last epoch; between them it moves
            on a straight line.
    """
    first, last = exponents
    shares = np.asarray(sizes, np.float64) ** (first + (last - first) * done)
    plans = [one(0) for one in passes]
    steps = sum(map(len, plans))
    choices = draws.choice(len(passes), steps, p=shares / shares.sum())
    counts, parts = np.zeros(steps, np.int32), []
    for place, (plan, one) in enumerate(zip(plans, passes)):
        mine = choices == place
        parts.append(_repeated(plan, one, int(mine.sum())))
        counts[mine] = parts[-1].counts
    return TurnPlan(parts, counts, choices.astype(np.int32))


def _repeated(first, one_pass, steps):
    """So many steps of a set, over as many laps as it takes."""
    laps = range(1, -(-steps // len(first)))
    plans = [first, *map(one_pass, laps)]
    return Plan.join(plans).part(slice(steps))


# === Gradients: a list of each objective's to one list ===


def add(gradients, optimizer, seed):
    """Their sum."""
    del optimizer, seed
    if len(gradients) == 1:
        return gradients[0]
    return [tf.add_n(list(parts)) for parts in zip(*gradients, strict=True)]


def project(gradients, optimizer, seed):
    """Their sum after gradient surgery (Yu et al. 2020, algorithm 1).

    It is over what the objectives share; each one's head is its own. All that
    the surgery looks at are products of gradients, so it works on their small
    table, and the gradients themselves are only added up at its end.
    """
    shared = [place for place, g in enumerate(optimizer.groups) if not g]
    if len(gradients) == 1 or not shared:
        return add(gradients, optimizer, seed)
    context, whole = tf.distribute.get_replica_context(), gradients
    if context.num_replicas_in_sync > 1:  # conflicts are the whole batch's
        whole = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    products = tf.stack(
        [[_product(one, other, shared) for other in whole] for one in whole]
    )
    count, step = len(gradients), tf.identity(optimizer.step)
    draws = tf.random.stateless_uniform(
        [count, count], tf.stack([tf.constant(seed, tf.int64), step])
    )
    shares = surgery(products, tf.argsort(draws))
    is_shared = set(shared)
    return [
        tf.add_n(
            [
                shares[number] * gradient if place in is_shared else gradient
                for number, gradient in enumerate(parts)
            ]
        )
        for place, parts in enumerate(zip(*gradients, strict=True))
    ]


def _product(one, other, places):
    return tf.add_n([tf.reduce_sum(one[p] * other[p]) for p in places])


def surgery(products, order):
    """What remains of each gradient in the sum of the projected ones.

    Each gradient g_i meets the others, g_j, in an order of its own; where
    what is left of it has a negative product with g_j, its part along g_j is
    taken away: g_i <- g_i - (g_i . g_j / |g_j|^2) g_j. So it stays a sum of
    the g_k, and its products follow from theirs.

    Args:
        products: float32 [n, n]. g_i . g_j.
        order: int32 [n, n]. Row i: in which g_i meets all; itself for nothing.

    Returns:
        float32 [n]: the sum of all projected gradients is that of share k
        times g_k.
    """
    count = products.shape[0]
    sizes = tf.linalg.diag_part(products)
    left = tf.eye(count)  # row i: what is left of g_i, as a sum of the g_k
    for turn in range(count):
        met = order[:, turn]
        along = tf.reduce_sum(left * tf.gather(products, met), axis=1)
        along = tf.where(met == tf.range(count), 0.0, along)
        part = tf.math.divide_no_nan(
            tf.minimum(along, 0.0), tf.gather(sizes, met)
        )
        left -= part[:, None] * tf.one_hot(met, count)
    return tf.reduce_sum(left, axis=0)


# === Ways ===


@dataclasses.dataclass(frozen=True)
class Way:
    """A way of combining.

    Attributes:
        together: whether the objectives share one turn of an epoch.
        draws: whether a step is that of one objective alone.
        plan, merge: see the functions above.
    """

    together: bool
    draws: bool = False
    plan: Callable = at_every_step
    merge: Callable = add

    def turns(self, learners):
        """Who trains in each turn of an epoch."""
        return [learners] if self.together else [[one] for one in learners]

    def steps(self, steps):
        """Steps of an epoch, from those of a pass over each set."""
        return max(steps) if self.together and not self.draws else sum(steps)


IN_TURN = Way(together=False)
SUM = Way(together=True)
PCGRAD = Way(together=True, merge=project)


def sampled(first, last):
    """The way `sampled` with these exponents; see `drawn`."""
    return Way(
        together=True, draws=True, plan=functools.partial(drawn, (first, last))
    )
