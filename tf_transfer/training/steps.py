"""What a step computes, what a pass over the data does, and predictions.

A chunk of steps runs inside one TensorFlow program: control returns to Python
about twice a second, and nothing is copied to the host in between. The program
is traced once. It leaves the length of a batch open, which costs no time: a
branch per bucket with static shapes was no faster, and took far longer to
trace. XLA still compiles one program per bucket, at the bucket's first batch.
"""

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.data.batches import BatchPlan, EncodedSplit
from tf_transfer.models.network import Network
from tf_transfer.training.joint import JointPlan
from tf_transfer.training.objectives import Objective
from tf_transfer.training.optimizer import BertAdam
from tf_transfer.training.strategy import Devices
from tf_transfer.utils.errors import UserError

CHUNK_SECONDS = 0.5  # how often Python looks at the clock and at signals
LONGEST_CHUNK = 1024  # steps

Batch = dict[str, tf.Tensor]


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
        network: frozen as the phase needs it; it has `seeds`.
        objective: the head, its loss and its data.
        devices: where it runs.
        optimizer: over all weights that train in the phase.
        options: `trainer.TrainingOptions`.
    """

    def __init__(
        self,
        network: Network,
        objective: Objective,
        devices: Devices,
        optimizer: BertAdam,
        options: Any,
    ) -> None:
        self.network = network
        self.devices = devices
        self.optimizer = optimizer
        self.take_over(objective, options)
        self._gradients = (
            tf.function(self._compute_gradients, jit_compile=True)
            if options.jit_compile
            else self._compute_gradients
        )
        self._predict = tf.function(self._predict_batch)

    def take_over(self, objective: Objective, options: Any) -> None:
        """Serves another run, whose objective differs in its data alone."""
        self.objective = objective
        self.options = options
        self._evaluation: dict[int, EvaluationBatches] = {}

    # === Training ===

    def plan(self, epoch: int, repeat: int) -> BatchPlan:
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

    def feed(self, plan: BatchPlan, in_memory: bool) -> Any:
        """The batches of a plan, for the program of a chunk.

        Args:
            plan: the batches.
            in_memory: whether the program may gather batches by their number.

        Returns:
            An iterator; or tensors, see `batches.load_pooled`, where a text has
            one vector: a step of a head alone takes less time than a pipeline.
        """
        split = self.objective.train
        if in_memory and _is_pooled(split, self.devices):
            return batches.load_pooled(split, plan)
        pad = self.network.encoder.special.pad
        return iter(_distribute(self.devices, split, plan, pad))

    def gradients(
        self, batch: Batch, index: int
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss and gradients of a batch, in a replica's context.

        Args:
            batch: see `batches.pipeline`.
            index: the objective's position in the step; it has dropout masks
                of its own.

        Returns:
            The loss, and the gradient of the *scaled* loss for each weight of
            the optimizer.
        """
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return self._gradients(
            self._complete(batch),
            tf.identity(self.network.seeds.seed),
            tf.identity(self.optimizer.step),
            tf.identity(self.optimizer.loss_scale),
            tf.convert_to_tensor(replica),
            index,
        )

    def _complete(self, batch: Batch) -> Batch:
        """The batch with all states; those that are not stored are computed."""
        if self.objective.prefix is None:
            return batch
        states = self.objective.prefix.complete(
            self.network.encoder, batch, same_shape=self.options.jit_compile
        )
        names = ("mask", "labels", "weights")
        rest = {name: x for name, x in batch.items() if name in names}
        return {**rest, "states": states}

    def _compute_gradients(
        self,
        batch: Batch,
        seed: tf.Tensor,
        step: tf.Tensor,
        loss_scale: tf.Tensor,
        replica: tf.Tensor,
        index: int,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        weights = [weight.value for weight in self.optimizer.weights]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            with self.network.seeds.at(seed, step, replica, index):
                logits = self.network.logits(
                    self.objective.name,
                    batch,
                    training=True,
                    prefix=self.objective.prefix,
                )
            loss = self.objective.weight * tf.reduce_sum(
                self.objective.loss(batch["labels"], logits) * batch["weights"]
            )
            scaled = loss * loss_scale
        # A weight of another objective's head has no gradient.
        gradients = tape.gradient(scaled, weights, unconnected_gradients="zero")
        # Dense: embeddings are clipped and decayed like all else.
        return loss, [tf.convert_to_tensor(g) for g in gradients]

    # === Evaluation ===

    def predict(self, split: EncodedSplit) -> np.ndarray:
        """Logits of a split; see `EvaluationBatches.predict`."""
        if id(split) not in self._evaluation:
            self._evaluation[id(split)] = EvaluationBatches(
                self.devices,
                split,
                self.network.encoder.special.pad,
                self.options.max_length,
            )
        return self._evaluation[id(split)].predict(self._predict)

    @tf.autograph.experimental.do_not_convert  # traced sooner
    def _predict_batch(self, batch: Batch) -> tf.Tensor:
        def logits(batch: Batch) -> tf.Tensor:
            return self.network.logits(
                self.objective.name,
                self._complete(batch),
                training=False,
                prefix=self.objective.prefix,
            )

        return self.devices.strategy.run(logits, args=(batch,))


class EvaluationBatches:
    """A whole split in large batches, the same at every evaluation.

    Args:
        devices: where it runs.
        split: the examples to predict.
        pad: the padding id.
        max_length: the longest text, in tokens.
    """

    def __init__(
        self, devices: Devices, split: EncodedSplit, pad: int, max_length: int
    ) -> None:
        replicas = devices.replicas
        self._strategy = devices.strategy
        self._split = split
        self._plan = batches.plan_evaluation(
            split.lengths,
            -(-batches.EVALUATION_BATCH // replicas) * replicas,
            replicas,
            batches.buckets_up_to(max_length),
        )
        dataset = _distribute(devices, split, self._plan, pad)
        self._element_spec = dataset.element_spec
        # Few vectors: an evaluation takes less time than a pipeline to begin.
        self._batches = list(dataset) if _is_pooled(split, devices) else dataset

    def predict(self, program: Any) -> np.ndarray:
        """Runs a prediction program over the whole split.

        Args:
            program: `tf.function` from a (distributed) batch to its logits.

        Returns:
            float32 [examples, units], in the order of the split; where words
            are labelled, [words, units].
        """
        if not tf.config.functions_run_eagerly():  # one trace for all lengths
            program.get_concrete_function(self._element_spec)
        outputs = [
            self._strategy.gather(program(batch), axis=0)
            for batch in self._batches
        ]
        plan, split = self._plan, self._split
        texts = [row[:count] for row, count in zip(plan.rows, plan.counts)]
        logits = [output.numpy()[: len(t)] for output, t in zip(outputs, texts)]
        if split.word_starts is not None:
            logits = [
                values[split.word_mask(t, values.shape[1])]
                for values, t in zip(logits, texts)
            ]
        flat = np.concatenate(texts)
        order = np.argsort(np.repeat(flat, split.words[flat]), kind="stable")
        return np.concatenate(logits)[order]


def _distribute(
    devices: Devices, split: EncodedSplit, plan: BatchPlan, pad: int
) -> Any:
    """The batches of a plan, as a distributed dataset."""
    return devices.strategy.distribute_datasets_from_function(
        lambda context: batches.pipeline(
            split,
            plan,
            pad,
            (devices.worker, devices.workers),
            devices.local_replicas,
        )
    )


# === A pass ===


class Pass:
    """A pass: the steps over the data of one objective, or of several.

    Args:
        programs: one per objective.
        combination: how they share the steps; see `joint`.
    """

    def __init__(
        self, programs: Sequence[ObjectiveProgram], combination: Any
    ) -> None:
        self.programs = programs
        self.combination = combination
        self.devices = programs[0].devices
        self.optimizer = programs[0].optimizer
        self._chunk = tf.function(self._run_chunk)

    def plan(self, epoch: int, share_done: float) -> JointPlan:
        """The batches of an epoch.

        Args:
            epoch: counted from 1 over the whole run.
            share_done: of the phase's epochs, from 0 to 1.
        """
        return self.combination.plan(
            [functools.partial(p.plan, epoch) for p in self.programs],
            [len(program.objective.train) for program in self.programs],
            np.random.default_rng([self.programs[0].options.seed, epoch, 13]),
            share_done,
        )

    def train(
        self, plan: JointPlan
    ) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """Trains on a plan, the steps that are left, in chunks of steps.

        Yields:
            The losses and the numbers of examples of a chunk's steps, and its
            seconds. Time between chunks is not counted.

        Raises:
            NotFiniteError: naming the step.
        """
        if not len(plan):
            return
        feeds = [
            program.feed(own, in_memory=plan.choices is None)
            for program, own in zip(self.programs, plan.plans, strict=True)
        ]
        done, size = 0, 1
        while done < len(plan):
            stop = min(done + size, len(plan))
            # Always of one shape, so that one trace serves all chunks.
            choices = np.zeros(LONGEST_CHUNK, np.int32)
            if plan.choices is not None:
                choices[: stop - done] = plan.choices[done:stop]
            began = time.perf_counter()
            if not done:
                self._trace(feeds)
            records = self._chunk(
                tf.constant(done),
                tf.constant(stop - done),
                feeds,
                tf.constant(choices),
            ).numpy()
            seconds = time.perf_counter() - began
            self._check_finite(records)
            yield records[:, 0], plan.counts[done:stop], seconds
            size = self._next_size(stop - done, size, seconds)
            done = stop

    def _trace(self, feeds: list) -> None:
        """Traces the program of a chunk once for data of every size."""
        if tf.config.functions_run_eagerly():
            return
        size = tf.TensorSpec([], tf.int32)
        self._chunk.get_concrete_function(
            size,
            size,
            [
                {name: _relax_shape(name, x) for name, x in feed.items()}
                if isinstance(feed, dict)
                else feed
                for feed in feeds
            ],
            tf.TensorSpec([LONGEST_CHUNK], tf.int32),
        )

    def _next_size(self, steps: int, size: int, seconds: float) -> int:
        """Steps that take about `CHUNK_SECONDS`; the same on all workers."""
        seconds = self.devices.agree(seconds) / self.devices.workers
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

    def _run_chunk(
        self,
        first: tf.Tensor,
        count: tf.Tensor,
        feeds: list,
        choices: tf.Tensor,
    ) -> tf.Tensor:
        """Trains some steps; returns float32 [count, 2]: loss, norm.

        Args:
            first: int32 []. The number of the first step in the plan.
            count: int32 []. The steps.
            feeds: one per objective, see `ObjectiveProgram.feed`.
            choices: int32 [LONGEST_CHUNK]. The objective of each step, where
                a step is of one.
        """
        records = tf.TensorArray(tf.float32, count, element_shape=[2])
        for index in tf.range(count):
            record = self._run_step(first + index, choices[index], feeds)
            records = records.write(index, record)
        return records.stack()

    @tf.autograph.experimental.do_not_convert  # traced sooner
    def _run_step(
        self, number: tf.Tensor, choice: tf.Tensor, feeds: list
    ) -> tf.Tensor:
        """A step on all replicas: float32 [2], loss and gradient norm."""

        def run(indices: list[int]) -> tf.Tensor:
            strategy = self.devices.strategy
            loss, norm = strategy.run(
                lambda *batches: self._step(indices, batches),
                args=tuple(
                    batches.take_pooled(feeds[i], number)
                    if isinstance(feeds[i], dict)
                    else feeds[i].get_next()
                    for i in indices
                ),
            )
            loss = strategy.reduce("SUM", loss, axis=None)
            norm = strategy.reduce("MEAN", norm, axis=None)
            return tf.stack([loss, norm])

        everyone = list(range(len(self.programs)))
        if not self.combination.is_sampled:
            return run(everyone)
        return tf.switch_case(
            choice, [functools.partial(run, [i]) for i in everyone]
        )

    def _step(
        self, indices: list[int], batches: tuple
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One replica's step: loss and gradients of each, then one update."""
        programs = [self.programs[i] for i in indices]
        losses, gradients = zip(
            *(
                program.gradients(batch, i)
                for program, batch, i in zip(programs, batches, indices)
            )
        )
        merged = self.combination.merge(
            gradients,
            self.optimizer,
            tf.identity(programs[0].network.seeds.seed),
        )
        # A head that is not in the step stands still, and so do its moments.
        names = [program.objective.name for program in programs]
        return tf.add_n(losses), self.optimizer.apply(merged, ("", *names))


def _is_pooled(split: EncodedSplit, devices: Devices) -> bool:
    """Whether every text is one stored vector, and one replica reads them."""
    states = split.states
    return (
        states is not None
        and states.is_pooled
        and bool(states.is_stored.all())
        and devices.replicas == 1
    )


def _relax_shape(name: str, tensor: tf.Tensor) -> tf.TensorSpec:
    """A tensor of `batches.load_pooled` for any number of steps and texts."""
    width = tensor.shape[-1] if name == "vectors" else None
    return tf.TensorSpec(
        [None] * (tensor.shape.rank - 1) + [width], tensor.dtype
    )
