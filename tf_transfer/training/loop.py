"""The loop: one step for every paper, strategy and precision.

A chunk of steps runs inside one TensorFlow program, so that Python is asked
once in about half a second and nothing is copied to the host in between. It
is traced once: the length of a batch is left open, which costs no time (a
branch a bucket with static shapes was no faster, and took far longer to
trace). XLA still compiles one program a bucket, when it meets it.
"""

import time

import numpy as np
import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.errors import UserError
from tf_transfer.training.optimizer import BertAdam

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
    """Trains one objective of one phase, and evaluates it.

    Args:
        devices: `strategy.Devices`.
        network: `heads.Network`, frozen as the phase wants it.
        optimizer: `BertAdam` over what trains.
        objective: `phases.Objective`.
        seeds: `dropout.DropoutSeeds` of the network.
        settings: `settings.Settings`.
        prefix: `models.prefix.Prefix` whose output is in the splits, or None.
    """

    def __init__(
        self, devices, network, optimizer, objective, seeds, settings,
        prefix=None,
    ):  # fmt: skip
        self.devices = devices
        self.network = network
        self.optimizer = optimizer
        self.objective = objective
        self.settings = settings
        self.pad = network.encoder.special.pad
        self.seeds = seeds
        self.prefix = prefix
        self._gradients = (
            tf.function(self._loss_and_gradients, jit_compile=True)
            if settings.jit_compile
            else self._loss_and_gradients
        )
        self._chunk = tf.function(self._run_chunk)
        self._predict = tf.function(self._predict_batch, reduce_retracing=True)

    # === Training ===

    def plan(self, epoch):
        """The batches of an epoch, counted from 1 over the whole run."""
        return batches.plan_epoch(
            self.objective.train.lengths,
            self.settings.batch_size,
            self.settings.batching,
            self.settings.seed,
            epoch,
            self.devices.replicas,
            batches.buckets_up_to(self.settings.max_length),
        )

    def train(self, plan, after_chunk):
        """Trains on a plan.

        Args:
            plan: `batches.Plan`, from the step on at which to go on.
            after_chunk: function (losses, counts, seconds) called after each
                chunk; training ends early where it returns True. Time spent
                in it is not counted.

        Returns:
            Whether training ended early.

        Raises:
            NotFinite: naming the step.
        """
        iterator = iter(
            self.devices.distribute(
                lambda: batches.pipeline(
                    self.objective.train,
                    plan,
                    self.pad,
                    (self.devices.worker, self.devices.workers),
                    self.devices.local_replicas,
                )
            )
        )
        done, size = 0, 1
        while done < len(plan):
            stop = min(done + size, len(plan))
            began = time.perf_counter()
            records = self._chunk(iterator, tf.constant(stop - done)).numpy()
            seconds = time.perf_counter() - began
            self._check_finite(records)
            counts = plan.counts[done:stop]
            ended = after_chunk(records[:, 0], counts, seconds)
            done = stop
            size = self._next_size(len(counts), size, seconds)
            if ended:
                return True
        return False

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

    def _run_chunk(self, iterator, count):
        """Trains `count` steps; returns float32 [count, 2]: loss, norm.

        Args:
            iterator: over distributed batches.
            count: int32 [].
        """
        strategy = self.devices.strategy
        records = tf.TensorArray(tf.float32, count, element_shape=[2])
        for index in tf.range(count):
            loss, norm = strategy.run(self._step, args=(next(iterator),))
            loss = strategy.reduce("SUM", loss, axis=None)
            norm = strategy.reduce("MEAN", norm, axis=None)
            records = records.write(index, tf.stack([loss, norm]))
        return records.stack()

    @tf.autograph.experimental.do_not_convert  # traced sooner
    def _step(self, batch):
        """One replica's step: gradients, then one update."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        loss, *gradients = self._gradients(
            self._complete(batch),
            tf.identity(self.optimizer.step),
            tf.identity(self.optimizer.loss_scale),
            tf.convert_to_tensor(replica),
        )
        # A head that is not in turn stands still: its moments, too.
        return loss, self.optimizer.apply(gradients, ("", self.objective.name))

    def _complete(self, batch):
        """The batch with its whole prefix, run here where it is not stored."""
        if self.prefix is None:
            return batch
        states = self.prefix.complete(
            self.network.encoder, batch, same_shape=self.settings.jit_compile
        )
        kept = ("mask", "labels", "weights")
        return {**{name: batch[name] for name in kept}, "states": states}

    def _loss_and_gradients(self, batch, step, loss_scale, replica):
        weights = [weight.value for weight in self.optimizer.weights]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            with self.seeds.at(self.settings.seed, step, replica):
                logits = self.network.logits(
                    self.objective.name, batch, training=True,
                    prefix=self.prefix,
                )  # fmt: skip
            each = self.objective.loss(batch["labels"], logits)
            loss = tf.reduce_sum(each * batch["weights"])
            scaled = loss * loss_scale
        gradients = tape.gradient(
            scaled, weights, unconnected_gradients="zero"
        )  # another objective's head has none
        # Dense: embeddings are clipped and decayed like all else.
        return [loss, *(tf.convert_to_tensor(g) for g in gradients)]

    # === Evaluation ===

    def predict(self, split):
        """Logits of every example, float32 [examples, units], in order."""
        return predict(
            self.devices, self._predict, split, self.pad,
            self.settings.max_length,
        )  # fmt: skip

    def _predict_batch(self, batch):
        def logits(batch):
            return self.network.logits(
                self.objective.name, self._complete(batch), training=False,
                prefix=self.prefix,
            )  # fmt: skip

        return self.devices.strategy.run(logits, args=(batch,))


def predict(devices, program, split, pad, max_length):
    """Runs a prediction program over a whole split.

    Args:
        program: function from a (distributed) batch to its logits.
        split: `batches.Split`.

    Returns:
        float32 [examples, units], in the order of the split.
    """
    replicas = devices.replicas
    plan = batches.plan_evaluation(
        split.lengths,
        -(-batches.EVALUATION_BATCH // replicas) * replicas,
        replicas,
        batches.buckets_up_to(max_length),
    )
    dataset = devices.distribute(
        lambda: batches.pipeline(
            split, plan, pad, (devices.worker, devices.workers),
            devices.local_replicas,
        )
    )  # fmt: skip
    outputs = [
        devices.strategy.gather(program(batch), axis=0) for batch in dataset
    ]
    result = None
    for step, output in enumerate(outputs):
        count = plan.counts[step]
        values = output.numpy()[:count]
        if result is None:
            result = np.empty((len(split), values.shape[1]), np.float32)
        result[plan.rows[step, :count]] = values
    return result


def build_optimizer(devices, weights, rate, settings, scales=None, groups=None):
    """The optimizer's variables, created where the strategy wants them."""
    with devices.strategy.scope():
        return BertAdam(weights, rate, settings, scales, groups)
