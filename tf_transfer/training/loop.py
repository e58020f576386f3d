"""The loop: one step for every paper, strategy and precision.

A chunk of steps runs inside one TensorFlow program, so that Python is asked
once in about half a second and nothing is copied to the host in between. It
is traced once: the length of a batch is left open, which costs no time (a
branch a bucket with static shapes was no faster, and took far longer to
trace). XLA still compiles one program a bucket, when it meets it.
"""

import functools
import time

import numpy as np
import tensorflow as tf

from tf_transfer.training import combining
from tf_transfer.training.optimizer import BertAdam
from tf_transfer.utils.errors import UserError

CHUNK_SECONDS = 0.5  # how often Python looks at the clock and at signals
LONGEST_CHUNK = 1024


class NotFinite(UserError):
    """A loss or a gradient is NaN or infinite."""


def not_finite(what, step):
    """The `NotFinite` that says so, and what helps."""
    return NotFinite(
        f"The {what} is not finite at step {step}. A smaller --lr, or "
        "--clip_norm, usually helps; the last good checkpoint is kept."
    )


class Trainer:
    """Trains one turn of an epoch: an objective's, or one shared by several.

    Args:
        devices: `strategy.Devices`.
        optimizer: `BertAdam` over what trains.
        learners: list of `learner.Learner`, all over that optimizer.
        way: `combining.Way`, how several of them share the turn.
        seed: of what the way draws.
    """

    def __init__(
        self, devices, optimizer, learners, way=combining.IN_TURN, seed=0
    ):
        self.devices = devices
        self.optimizer = optimizer
        self.learners = learners
        self.way = way
        self.seed = seed
        self._chunk = tf.function(self._run_chunk)

    @property
    def name(self):
        """The objective's, or None of a turn that several share."""
        if len(self.learners) > 1:
            return None
        return self.learners[0].objective.name

    def plan(self, epoch, done=0.0):
        """The batches of an epoch.

        Args:
            epoch: counted from 1 over the whole run.
            done: share of the phase's epochs that lie behind, from 0 to 1.

        Returns:
            `combining.TurnPlan`.
        """
        passes = [
            functools.partial(learner.plan, epoch) for learner in self.learners
        ]
        sizes = [len(learner.objective.train) for learner in self.learners]
        draws = np.random.default_rng([self.seed, epoch, 13])
        return self.way.plan(passes, sizes, draws, done)

    def train(self, plan, after_chunk):
        """Trains on a plan.

        Args:
            plan: `combining.TurnPlan`, from the step on at which to go on.
            after_chunk: function (losses, counts, seconds) called after each
                chunk; training ends early where it returns True. Time spent
                in it is not counted.

        Returns:
            Whether training ended early.

        Raises:
            NotFinite: naming the step.
        """
        iterators = [
            learner.batches_of(part)
            for learner, part in zip(self.learners, plan.parts, strict=True)
        ]
        done, size = 0, 1
        while done < len(plan):
            stop = min(done + size, len(plan))
            began = time.perf_counter()
            records = self._chunk(
                iterators, *self._choices(plan, done, stop)
            ).numpy()
            seconds = time.perf_counter() - began
            self._check_finite(records)
            counts = plan.counts[done:stop]
            ended = after_chunk(records[:, 0], counts, seconds)
            done = stop
            size = self._next_size(len(counts), size, seconds)
            if ended:
                return True
        return False

    def _choices(self, plan, start, stop):
        """Those of some steps, in a tensor that is always of one shape."""
        choices = np.zeros(LONGEST_CHUNK, np.int32)
        if plan.choices is not None:
            choices[: stop - start] = plan.choices[start:stop]
        return tf.constant(choices), tf.constant(stop - start)

    def _next_size(self, steps, size, seconds):
        """Steps that take about `CHUNK_SECONDS`; the same on all workers."""
        seconds = self.devices.agree(seconds)[0] / self.devices.workers
        wanted = int(CHUNK_SECONDS * steps / max(seconds, 1e-6))
        return max(1, min(wanted, 4 * size, LONGEST_CHUNK))

    def _check_finite(self, records):
        good = np.isfinite(records[:, 0])
        # Loss scaling skips an overflow, but at scale 1 it is none of its.
        if float(self.optimizer.loss_scale.numpy()) <= 1.0:
            good &= np.isfinite(records[:, 1])
        if good.all():
            return
        first = int(np.flatnonzero(~good)[0])
        step = int(self.optimizer.step.numpy()) - len(records) + first + 1
        what = "loss" if not np.isfinite(records[first, 0]) else "gradient"
        raise not_finite(what, step)

    def _run_chunk(self, iterators, choices, count):
        """Trains `count` steps; returns float32 [count, 2]: loss, norm.

        Args:
            iterators: over distributed batches, one a learner.
            choices: int32 [at least `count`]. Whose step each one is, where
                the way draws.
            count: int32 [].
        """
        records = tf.TensorArray(tf.float32, count, element_shape=[2])
        for index in tf.range(count):
            record = self._run_step(iterators, choices[index])
            records = records.write(index, record)
        return records.stack()

    @tf.autograph.experimental.do_not_convert  # traced sooner
    def _run_step(self, iterators, choice):
        """One step on all replicas: of all learners, or of the chosen one."""

        def step_of(places):
            strategy = self.devices.strategy
            batches = tuple(iterators[place].get_next() for place in places)
            loss, norm = strategy.run(
                lambda *batches: self._step(places, batches), args=batches
            )
            loss = strategy.reduce("SUM", loss, axis=None)
            norm = strategy.reduce("MEAN", norm, axis=None)
            return tf.stack([loss, norm])

        everyone = list(range(len(self.learners)))
        if not self.way.draws or len(everyone) == 1:
            return step_of(everyone)
        return tf.switch_case(
            choice, [functools.partial(step_of, [place]) for place in everyone]
        )

    def _step(self, places, batches):
        """One replica's step: gradients of each objective, then one update."""
        learners = [self.learners[place] for place in places]
        found = [
            learner.gradients(batch, place)
            for learner, batch, place in zip(learners, batches, places)
        ]
        loss = tf.add_n([loss for loss, _ in found])
        gradients = self.way.merge(
            [gradients for _, gradients in found], self.optimizer, self.seed
        )
        # A head that is not in turn stands still: its moments, too.
        names = [learner.objective.name for learner in learners]
        return loss, self.optimizer.apply(gradients, ("", *names))


def build_optimizer(devices, weights, rate, settings, scales=None, groups=None):
    """The optimizer's variables, created where the strategy wants them."""
    with devices.strategy.scope():
        return BertAdam(weights, rate, settings, scales, groups)
