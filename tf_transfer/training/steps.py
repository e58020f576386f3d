"""What a step computes: of one objective, and over one pass of its data.

A chunk of steps runs inside one TensorFlow program, so that Python is asked
once in about half a second and nothing is copied to the host in between. It is
traced once: the length of a batch is left open, which costs no time (a branch a
bucket with static shapes was no faster, and took far longer to trace). XLA
still compiles one program a bucket, when it meets it.
"""

import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.data.batches import BatchPlan
from tf_transfer.data.batches import EncodedSplit
from tf_transfer.feature_cache.prefix import FrozenPrefix
from tf_transfer.models.network import Network
from tf_transfer.training.dropout import DropoutSeeds
from tf_transfer.training.objectives import Objective
from tf_transfer.training.optimizer import BertAdam
from tf_transfer.training.strategy import Devices
from tf_transfer.utils.errors import UserError

CHUNK_SECONDS = 0.5  # how often Python looks at the clock and at signals
LONGEST_CHUNK = 1024  # steps

Batch = dict[str, tf.Tensor]
AfterChunk = Callable[[np.ndarray, np.ndarray, float], bool]


class NotFiniteError(UserError):
    """A loss, a gradient or an output is NaN or infinite."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(
            f"The {what} is not finite at step {step}. A smaller --lr, or "
            "--clip_norm, usually helps; the last good checkpoint is kept."
        )


# === One objective ===


class ObjectiveProgram:
    """What one objective of a phase computes.

    Args:
        network: frozen as the phase wants it.
        objective: what is learned.
        prefix: the frozen prefix whose output is stored in the splits, or None
            where every block is run.
        devices: where it runs.
        optimizer: over all weights that train in the phase.
        seeds: of the network's dropout.
        options: `trainer.TrainingOptions`.
    """

    def __init__(
        self,
        network: Network,
        objective: Objective,
        prefix: FrozenPrefix | None,
        devices: Devices,
        optimizer: BertAdam,
        seeds: DropoutSeeds,
        options: Any,
    ) -> None:
        self.network = network
        self.objective = objective
        self.prefix = prefix
        self.devices = devices
        self.optimizer = optimizer
        self.options = options
        self.seeds = seeds
        self._evaluation: dict[int, EvaluationBatches] = {}
        self._pad = network.encoder.special.pad
        self._gradients = (
            tf.function(self._compute_gradients, jit_compile=True)
            if options.jit_compile
            else self._compute_gradients
        )
        self._predict = tf.function(self._predict_batch)

    def take_over(self, objective: Objective, options: Any) -> None:
        """Makes it another run's, whose objective differs in its data alone."""
        self.objective = objective
        self.options = options
        self._evaluation = {}

    # === Training ===

    def plan(self, epoch: int, repeat: int = 0) -> BatchPlan:
        """A pass over its examples, shuffled; see `batches.plan_epoch`."""
        return batches.plan_epoch(
            self.objective.train.lengths,
            self.options.batch_size,
            self.options.batching,
            self.options.seed,
            epoch,
            self.devices.replicas,
            batches.buckets_up_to(self.options.max_length),
            repeat,
            self.options.drop_last,
        )

    def iterate(self, plan: BatchPlan) -> Iterator[Batch]:
        """An iterator over the distributed batches of a plan."""
        return iter(
            self.devices.distribute(
                lambda: batches.pipeline(
                    self.objective.train,
                    plan,
                    self._pad,
                    (self.devices.worker, self.devices.workers),
                    self.devices.local_replicas,
                )
            )
        )

    def gradients(
        self, batch: Batch, index: int = 0
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss and gradients of a batch, in a replica's context.

        Args:
            batch: see `batches.pipeline`.
            index: of the objective among those of a step: each has its own
                dropout masks.

        Returns:
            The loss, and the gradient of the *scaled* loss for each weight of
            the optimizer.
        """
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        loss, *gradients = self._gradients(
            self._complete(batch),
            tf.identity(self.seeds.seed),
            tf.identity(self.optimizer.step),
            tf.identity(self.optimizer.loss_scale),
            tf.convert_to_tensor(replica),
            index,
        )
        return loss, gradients

    def _complete(self, batch: Batch) -> Batch:
        """The batch with all states, computed here where none are stored."""
        if self.prefix is None:
            return batch
        states = self.prefix.complete(
            self.network.encoder, batch, same_shape=self.options.jit_compile
        )
        kept = ("mask", "labels", "weights")
        return {**{name: batch[name] for name in kept}, "states": states}

    def _compute_gradients(
        self,
        batch: Batch,
        seed: tf.Tensor,
        step: tf.Tensor,
        loss_scale: tf.Tensor,
        replica: tf.Tensor,
        index: int,
    ) -> list[tf.Tensor]:
        weights = [weight.value for weight in self.optimizer.weights]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            with self.seeds.at(seed, step, replica, index):
                logits = self.network.logits(
                    self.objective.name,
                    batch,
                    training=True,
                    prefix=self.prefix,
                )
            losses = self.objective.loss(batch["labels"], logits)
            loss = tf.reduce_sum(losses * batch["weights"])
            loss *= self.objective.weight
            scaled = loss * loss_scale
        # A weight of another objective's head has no gradient.
        gradients = tape.gradient(scaled, weights, unconnected_gradients="zero")
        # Dense: embeddings are clipped and decayed like all else.
        return [loss, *(tf.convert_to_tensor(g) for g in gradients)]

    # === Evaluation ===

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Logits of a split; see `predict`."""
        evaluation = self._evaluation.get(id(split))
        if evaluation is None:
            evaluation = EvaluationBatches(
                self.devices, split, self._pad, self.options.max_length
            )
            self._evaluation[id(split)] = evaluation
        return predict(self.devices, self._predict, evaluation)

    @tf.autograph.experimental.do_not_convert  # traced sooner
    def _predict_batch(self, batch: Batch) -> tf.Tensor:
        def logits(batch: Batch) -> tf.Tensor:
            return self.network.logits(
                self.objective.name,
                self._complete(batch),
                training=False,
                prefix=self.prefix,
            )

        return self.devices.strategy.run(logits, args=(batch,))


class EvaluationBatches:
    """A whole split in large batches, the same at every evaluation.

    Args:
        devices: where it runs.
        split: what is predicted.
        pad: the padding id.
        max_length: the longest text, in tokens.
    """

    def __init__(
        self, devices: Devices, split: EncodedSplit, pad: int, max_length: int
    ) -> None:
        replicas = devices.replicas
        self.split = split
        self.plan = batches.plan_evaluation(
            split.lengths,
            -(-batches.EVALUATION_BATCH // replicas) * replicas,
            replicas,
            batches.buckets_up_to(max_length),
        )
        self.dataset = devices.distribute(
            lambda: batches.pipeline(
                split,
                self.plan,
                pad,
                (devices.worker, devices.workers),
                devices.local_replicas,
            )
        )


def predict(
    devices: Devices, program: Any, evaluation: EvaluationBatches
) -> np.ndarray:
    """Runs a prediction program over a whole split.

    Args:
        devices: where it runs.
        program: `tf.function` from a (distributed) batch to its logits.
        evaluation: the batches.

    Returns:
        float32 [examples, units], in the order of the split; where words are
        labelled, [words, units].
    """
    split, plan = evaluation.split, evaluation.plan
    dataset = evaluation.dataset
    if not tf.config.functions_run_eagerly():  # one trace for all lengths
        program.get_concrete_function(dataset.element_spec)
    outputs = [
        devices.strategy.gather(program(batch), axis=0) for batch in dataset
    ]
    if split.word_starts is not None:
        return _in_order_of_words(split, plan, outputs)
    result: Any = None
    for step, output in enumerate(outputs):
        count = plan.counts[step]
        values = output.numpy()[:count]
        if result is None:
            result = np.empty((len(split), values.shape[1]), np.float32)
        result[plan.rows[step, :count]] = values
    return result


def _in_order_of_words(
    split: EncodedSplit, plan: BatchPlan, outputs: list[tf.Tensor]
) -> np.ndarray:
    """Outputs of batches, float32 [words, units] in the split's order."""
    counts = split.words
    starts = np.cumsum(counts) - counts
    result: Any = None
    for step, output in enumerate(outputs):
        rows = plan.rows[step, : plan.counts[step]]
        values = output.numpy()[: len(rows)]
        if result is None:
            shape = counts.sum(), values.shape[2]
            result = np.empty(shape, np.float32)
        is_word = split.word_mask(rows, values.shape[1])
        row, _ = np.nonzero(is_word)
        first = np.cumsum(counts[rows]) - counts[rows]
        position = starts[rows][row] + np.arange(len(row)) - first[row]
        result[position] = values[is_word]
    return result


# === A pass ===


class Pass:
    """One pass of an epoch: the steps over one objective's data.

    Args:
        devices: where it runs.
        optimizer: over what trains.
        programs: of its objective; `joint.JointPass` has several.
    """

    def __init__(
        self,
        devices: Devices,
        optimizer: BertAdam,
        programs: list[ObjectiveProgram],
    ) -> None:
        self.devices = devices
        self.optimizer = optimizer
        self.programs = programs
        self._chunk = tf.function(self._run_chunk)

    @property
    def name(self) -> str | None:
        """The objective's; None of a pass that several share."""
        return self.programs[0].objective.name

    def plan(self, epoch: int, share_done: float) -> Any:
        """The batches of an epoch, as a `BatchPlan`.

        Args:
            epoch: counted from 1 over the whole run.
            share_done: of the phase's epochs, from 0 to 1.
        """
        del share_done
        return self.programs[0].plan(epoch)

    def train(self, plan: Any, after_chunk: AfterChunk) -> bool:
        """Trains on a plan.

        Args:
            plan: from the step on at which to go on.
            after_chunk: function (losses, counts, seconds) called after each
                chunk; training ends early where it returns True. Time spent
                in it is not counted.

        Returns:
            Whether training ended early.

        Raises:
            NotFiniteError: naming the step.
        """
        iterators = self._iterate(plan)
        done, size = 0, 1
        while done < len(plan):
            stop = min(done + size, len(plan))
            began = time.perf_counter()
            records = self._chunk(
                tf.constant(stop - done),
                iterators,
                *self._chunk_inputs(plan, done, stop),
            ).numpy()
            seconds = time.perf_counter() - began
            self._check_finite(records)
            counts = plan.counts[done:stop]
            is_stopped = after_chunk(records[:, 0], counts, seconds)
            done = stop
            size = self._next_size(len(counts), size, seconds)
            if is_stopped:
                return True
        return False

    def _iterate(self, plan: Any) -> list:
        return [self.programs[0].iterate(plan)]

    def _chunk_inputs(self, plan: Any, start: int, stop: int) -> tuple:
        """What else the program of a chunk is given."""
        return ()

    def _next_size(self, steps: int, size: int, seconds: float) -> int:
        """Steps that take about `CHUNK_SECONDS`; the same on all workers."""
        seconds = self.devices.agree(seconds)[0] / self.devices.workers
        wanted = int(CHUNK_SECONDS * steps / max(seconds, 1e-6))
        return max(1, min(wanted, 4 * size, LONGEST_CHUNK))

    def _check_finite(self, records: np.ndarray) -> None:
        is_good = np.isfinite(records[:, 0])
        # Loss scaling skips an overflow, but not one at the smallest scale.
        if float(self.optimizer.loss_scale.numpy()) <= 1.0:
            is_good &= np.isfinite(records[:, 1])
        if is_good.all():
            return
        first = int(np.flatnonzero(~is_good)[0])
        step = int(self.optimizer.step.numpy()) - len(records) + first + 1
        what = "loss" if not np.isfinite(records[first, 0]) else "gradient"
        raise NotFiniteError(what, step)

    def _run_chunk(self, count: tf.Tensor, *inputs: Any) -> tf.Tensor:
        """Trains `count` steps; returns float32 [count, 2]: loss, norm.

        Args:
            count: int32 [].
            inputs: iterators over distributed batches, and what
                `_chunk_inputs` gives.
        """
        records = tf.TensorArray(tf.float32, count, element_shape=[2])
        for index in tf.range(count):
            records = records.write(index, self._run_step(index, *inputs))
        return records.stack()

    @tf.autograph.experimental.do_not_convert  # traced sooner
    def _run_step(self, index: tf.Tensor, iterators: list) -> tf.Tensor:
        """A step on all replicas: float32 [2], loss and gradient norm."""
        del index
        return self._run_on_replicas(iterators, self._step)

    def _run_on_replicas(self, iterators: list, step: Callable) -> tf.Tensor:
        strategy = self.devices.strategy
        batches = tuple(iterator.get_next() for iterator in iterators)
        loss, norm = strategy.run(step, args=batches)
        loss = strategy.reduce("SUM", loss, axis=None)
        norm = strategy.reduce("MEAN", norm, axis=None)
        return tf.stack([loss, norm])

    def _step(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """One replica's step: loss, gradients, update."""
        loss, gradients = self.programs[0].gradients(batch)
        # Another objective's head stands still, and so do its moments.
        groups = ("", self.programs[0].objective.name)
        return loss, self.optimizer.apply(gradients, groups)
