"""A step of training, and a pass over the data.

A chunk of steps runs inside one TensorFlow program: control returns to Python
about twice a second, and nothing is copied to the host in between. The program
is traced once and leaves the length of a batch open. Under XLA, the first batch
of each bucket compiles a program: the whole step on one replica, the gradients
alone on several. Such a step is a chunk of its own: its time is known apart.
"""

import collections
import functools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.data.batches import BatchPlan
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.models.network import Network
from tf_transfer.training import objectives
from tf_transfer.training.evaluation import EvaluationBatches
from tf_transfer.training.joint import JointPlan, Sum
from tf_transfer.training.objectives import Objective, TrainingOptions
from tf_transfer.training.optimizer import BertAdam, UpdateNumbers
from tf_transfer.training.progress import Chunk, Progress
from tf_transfer.training.resident_split import (
    Batch,
    Feed,
    relax_specs,
    ResidentSplit,
    take_batch,
)
from tf_transfer.training.strategy import Devices
from tf_transfer.utils import tracing
from tf_transfer.utils.errors import NotFiniteError

CHUNK_SECONDS = 0.5  # how often Python looks at the clock and at signals
LONGEST_CHUNK = 1024  # steps
KINDS = ("validation", "test")  # of splits that are scored

Scores = dict[str, dict[str, float]]  # by kind of split, then by metric
Output = TypeVar("Output")


# === One objective ===


class ObjectiveProgram:
    """The computations of one objective of a phase.

    Args:
        network: Frozen as the phase needs it; it has `seeds`.
        objective: The head, its loss and its data.
        devices: Where it runs.
        optimizer: Over all weights that train in the phase.
        options: How to train.
    """

    def __init__(
        self,
        network: Network,
        objective: Objective,
        devices: Devices,
        optimizer: BertAdam,
        options: TrainingOptions,
    ) -> None:
        self.network = network
        self.devices = devices
        self.optimizer = optimizer
        self.rebind(objective, options)
        self.compute_gradients = self._compute_gradients
        if options.uses_xla and not devices.compiles_updates:
            self.compute_gradients = _compile(self._compute_gradients)
        self._predict = tf.function(self._predict_batch)
        self._compute_vectors = tf.function(self._embed_batch)

    def rebind(self, objective: Objective, options: TrainingOptions) -> None:
        """Rebinds the programs to another run, which differs in its data."""
        self.objective = objective
        self.options = options
        self.release_data()

    def release_data(self) -> None:
        """Frees the copies of the data that its steps read."""
        self._evaluation: dict[int, EvaluationBatches] = {}
        self._train: ResidentSplit | None = None

    # === Training ===

    def plan(self, epoch: int, repeat: int) -> BatchPlan:
        """A pass over its examples, shuffled; see `batches.plan_epoch`."""
        options = self.options
        return batches.plan_epoch(
            self.objective.train.lengths,
            options.batch_size,
            options.batching,
            options.seed,
            epoch,
            self.devices.replicas,
            batches.buckets_up_to(options.max_length, options.uses_xla),
            repeat,
            options.short_batches == "dropped",
        )

    def feed(self, plan: BatchPlan, in_memory: bool) -> Feed:
        """The source of a plan's batches, for the program of a chunk.

        Args:
            plan: The batches.
            in_memory: Whether the program may take batches by their number.

        Returns:
            What `take_batch` reads. Texts of one vector need no iterator: a
            step of the head alone is quicker than a pipeline.
        """
        if self._train is None:
            self._train = ResidentSplit(self.objective.train, self.devices)
        split, vectors = self._train.split, self._train.vectors
        feed: Feed = {}
        if vectors is not None:
            feed["vectors"] = vectors
            if in_memory and split.states and split.states.is_pooled:
                return feed | batches.load_plan(split, plan)
        pad = self.network.encoder.special.pad
        feed["iterator"] = iter(self._train.distribute(plan, pad))
        return feed

    def complete(self, batch: Batch) -> Batch:
        """The batch with all states; those that are not stored are computed."""
        if self.objective.prefix is None:
            return batch
        states = self.objective.prefix.complete(self.network.encoder, batch)
        completed = {"states": states}
        for name in ("mask", "labels", "weights"):
            if name in batch:
                completed[name] = batch[name]
        return completed

    def _compute_gradients(
        self,
        batch: Batch,
        seed: tf.Tensor,
        numbers: UpdateNumbers,
        replica: tf.Tensor,
        index: int,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Loss and gradients of a batch, in a replica's context.

        Args:
            batch: See `complete`.
            seed: Of the run.
            numbers: See `BertAdam.read_numbers`.
            replica: int32 []. The number of the replica.
            index: The objective's number in the pass; each objective has its
                own dropout masks.

        Returns:
            This replica's part of the mean loss of the batch, float32 [], and
            its gradient for each weight of the optimizer.
        """
        objective, labels = self.objective, batch["labels"]
        shares = batch["weights"]
        weights = [weight.value for weight in self.optimizer.weights]
        with (
            tf.GradientTape(watch_accessed_variables=False) as tape,
            self.network.seeds.at(seed, numbers["step"], replica, index),
        ):
            tape.watch(weights)
            if objective.fit_regression is not None:
                vectors = self._embed(batch, training=True)
                loss = objectives.contrastive_loss(labels, vectors, shares)
            else:
                logits = self.network.logits(
                    objective.name,
                    batch,
                    training=True,
                    prefix=objective.prefix,
                )
                if self.options.short_batches == "scaled":
                    # An example counts 1 / batch_size, also in a short batch.
                    shares = tf.sign(shares) / self.options.batch_size
                loss = tf.reduce_sum(objective.loss(labels, logits) * shares)
            loss *= objective.weight
        # A weight of another objective's head has no gradient.
        gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
        # Dense: embeddings are clipped and decayed like all else.
        return loss, [tf.convert_to_tensor(g) for g in gradients]

    def _embed(self, batch: Batch, training: bool) -> tf.Tensor:
        """The vectors for a contrastive loss and for a fitted head."""
        name, prefix = self.objective.name, self.objective.prefix
        [pooled], _ = self.network.read(name, batch, training, prefix)
        return self.network.heads[name].embed(pooled)

    def fit_head(self) -> float:
        """Fits the head to the training texts, if no gradient trains it.

        Returns:
            The seconds of tracing.
        """
        objective = self.objective
        if objective.fit_regression is None:
            return 0.0
        evaluation = self.open_evaluation(objective.train)
        seconds = evaluation.trace(self._compute_vectors)
        vectors = evaluation.predict(self._compute_vectors)
        weights = objective.fit_regression(vectors, objective.train.labels)
        with self.devices.strategy.scope():
            self.network.heads[objective.name].dense.set_weights(weights)
        return seconds

    # === Evaluation ===

    @property
    def kinds_after_epoch(self) -> Collection[str]:
        """The kinds of splits that are scored after every epoch.

        An epoch of contrastive training may be one step, and the last epoch is
        the result. So the test is scored only at the end.
        """
        return KINDS if self.objective.fit_regression is None else KINDS[:1]

    def score(
        self, progress: Progress, kinds: Collection[str]
    ) -> tuple[Scores, dict[str, np.ndarray]]:
        """Metrics by kind of split, and logits by name.

        Args:
            progress: Of the run; the seconds of tracing are added to it.
            kinds: Of the splits.

        Raises:
            NotFiniteError: An output is NaN or infinite.
        """
        metrics: Scores = collections.defaultdict(dict)
        logits = {}
        for kind, prefix, split in self.objective.scored_splits:
            if kind in kinds:
                evaluation = self.open_evaluation(split)
                progress.trace_seconds += evaluation.trace(self._predict)
                output = evaluation.predict(self._predict)
                if not np.isfinite(output).all():
                    raise NotFiniteError(f"{kind} output", progress.total_steps)
                logits[f"{kind}_{prefix}logits"] = output
                values = self.objective.measure(split, output)
                metrics[kind] |= {prefix + n: v for n, v in values.items()}
        return metrics, logits

    def open_evaluation(self, split: EncodedSplit) -> EvaluationBatches:
        """The batches of a split, which one phase makes once."""
        if id(split) not in self._evaluation:
            self._evaluation[id(split)] = EvaluationBatches(
                self.devices,
                split,
                self.network.encoder.special.pad,
                self.options.max_length,
            )
        return self._evaluation[id(split)]

    @tf.autograph.experimental.do_not_convert  # traces faster
    def _predict_batch(self, batch: Batch) -> tf.Tensor:
        def logits(batch: Batch) -> tf.Tensor:
            return self.network.logits(
                self.objective.name,
                self.complete(batch),
                training=False,
                prefix=self.objective.prefix,
            )

        return self.devices.strategy.run(logits, args=(batch,))

    @tf.autograph.experimental.do_not_convert  # traces faster
    def _embed_batch(self, batch: Batch) -> tf.Tensor:
        def vectors(batch: Batch) -> tf.Tensor:
            return self._embed(self.complete(batch), training=False)

        return self.devices.strategy.run(vectors, args=(batch,))


# === A pass ===


class Pass:
    """A pass: the steps over the data of one objective, or of several.

    Args:
        programs: One per objective.
        combination: How they share the steps; see `joint`.
    """

    def __init__(
        self, programs: Sequence[ObjectiveProgram], combination: Sum
    ) -> None:
        self.programs = programs
        self.combination = combination
        self.devices = programs[0].devices
        self.optimizer = programs[0].optimizer
        self._chunk = tf.function(self._run_chunk)
        self._compiled: set[tuple[int, ...]] = set()  # shapes of steps
        self._uses_xla = programs[0].options.uses_xla
        self._update = self._compute_update
        if self._uses_xla and self.devices.compiles_updates:
            self._update = _compile(self._compute_update)

    def plan(self, epoch: int, share_done: float) -> JointPlan:
        """The batches of an epoch.

        Args:
            epoch: Counted from 1 over the whole run.
            share_done: Of the phase's epochs, from 0 to 1.
        """
        plans, sizes = [], []
        for program in self.programs:
            plans.append(functools.partial(program.plan, epoch))
            sizes.append(len(program.objective.train))
        # A program that serves a later run has the options of that run.
        seed = self.programs[0].options.seed
        rng = np.random.default_rng([seed, epoch, 13])
        return self.combination.plan(plans, sizes, rng, share_done)

    def train(self, plan: JointPlan) -> Iterator[Chunk]:
        """Trains the remaining steps of a plan, in chunks.

        Raises:
            NotFiniteError: Naming the step.
        """
        if not len(plan):
            return
        began = time.perf_counter()
        feeds = []
        for program, batch_plan in zip(self.programs, plan.plans, strict=True):
            feeds.append(
                program.feed(batch_plan, in_memory=plan.choices is None)
            )
        trace_seconds = self._trace(feeds)
        began += trace_seconds
        shapes = self._list_shapes(plan)
        done, size = 0, 1
        while done < len(plan):
            is_first = shapes[done] not in self._compiled
            stop = min(done + size, len(plan))
            # A chunk ends before a shape that is not compiled yet.
            for step in range(done + 1, stop):
                if is_first or shapes[step] not in self._compiled:
                    stop = step
                    break
            # Always of one shape, so that one trace serves all chunks.
            choices = np.zeros(LONGEST_CHUNK, np.int32)
            if plan.choices is not None:
                choices[: stop - done] = plan.choices[done:stop]
            records = self._chunk(
                tf.constant(done),
                tf.constant(stop - done),
                feeds,
                tf.constant(choices),
            )
            records = records.numpy()
            seconds = time.perf_counter() - began
            self._check_finite(records)
            self._compiled.add(shapes[done])
            yield Chunk(
                records[:, 0],
                plan.counts[done:stop],
                seconds,
                is_first,
                trace_seconds,
            )
            if not is_first:  # the next chunk takes about `CHUNK_SECONDS`
                wanted = int(CHUNK_SECONDS * (stop - done) / max(seconds, 1e-6))
                size = max(1, min(wanted, 4 * size, LONGEST_CHUNK))
            trace_seconds = 0.0
            done, began = stop, time.perf_counter()

    def _list_shapes(self, plan: JointPlan) -> list[tuple[int, ...]]:
        """The shape that each step is compiled for; () without XLA."""
        is_eager = tf.config.functions_run_eagerly()
        if is_eager:  # nothing is compiled
            self._compiled.add(())
        if self._uses_xla and not is_eager:
            return plan.shapes()
        return [()] * len(plan)

    def _trace(self, feeds: list[Feed]) -> float:
        """Traces the program of a chunk once for data of every size."""
        size = tf.TensorSpec([], tf.int32)
        choices = tf.TensorSpec([LONGEST_CHUNK], tf.int32)
        relaxed = [relax_specs(feed) for feed in feeds]
        return tracing.trace(self._chunk, size, size, relaxed, choices)

    def _check_finite(self, records: np.ndarray) -> None:
        is_good = np.isfinite(records).all(axis=1)
        if is_good.all():
            return
        first = int(np.flatnonzero(~is_good)[0])
        step = int(self.optimizer.step.numpy()) - len(records) + first + 1
        if np.isfinite(records[first, 0]):
            raise NotFiniteError("gradient", step)
        raise NotFiniteError("loss", step)

    def _run_chunk(
        self,
        first: tf.Tensor,
        count: tf.Tensor,
        feeds: list[Feed],
        choices: tf.Tensor,
    ) -> tf.Tensor:
        """Trains some steps; returns float32 [count, 2]: loss, norm.

        Args:
            first: int32 []. The number of the first step in the plan.
            count: int32 []. The steps.
            feeds: One per objective, see `ObjectiveProgram.feed`.
            choices: int32 [LONGEST_CHUNK]. The objective of each step, if each
                step trains one.
        """
        records = tf.TensorArray(tf.float32, count, element_shape=[2])
        for index in tf.range(count):
            record = self._run_step(first + index, choices[index], feeds)
            records = records.write(index, record)
        return records.stack()

    @tf.autograph.experimental.do_not_convert  # traces faster
    def _run_step(
        self, number: tf.Tensor, choice: tf.Tensor, feeds: list[Feed]
    ) -> tf.Tensor:
        """A step on all replicas: float32 [2], loss and gradient norm.

        The numbers that a step reads and counts stay on the host, outside the
        program that XLA compiles.
        """

        def run(indices: tuple[int, ...]) -> tf.Tensor:
            # A head that is not in the step keeps its weights and moments.
            programs = [self.programs[index] for index in indices]
            groups = ["", *(program.objective.name for program in programs)]

            def run_replica(*batches: Batch) -> tuple[tf.Tensor, tf.Tensor]:
                completed = [p.complete(b) for p, b in zip(programs, batches)]
                context = tf.distribute.get_replica_context()
                loss, norm = self._update(
                    completed,
                    tf.identity(programs[0].network.seeds.seed),
                    self.optimizer.read_numbers(groups),
                    tf.convert_to_tensor(context.replica_id_in_sync_group),
                    indices,
                )
                self.optimizer.count(groups)
                return loss, norm

            strategy = self.devices.strategy
            taken = tuple(take_batch(feeds[index], number) for index in indices)
            loss, norm = strategy.run(run_replica, taken)
            loss = strategy.reduce("SUM", loss, axis=None)
            norm = strategy.reduce("MEAN", norm, axis=None)
            return tf.stack([loss, norm])

        all_indices = tuple(range(len(self.programs)))
        if not self.combination.is_sampled:
            return run(all_indices)
        branches = [functools.partial(run, (index,)) for index in all_indices]
        return tf.switch_case(choice, branches)

    def _compute_update(
        self,
        batches: list[Batch],
        seed: tf.Tensor,
        numbers: UpdateNumbers,
        replica: tf.Tensor,
        indices: tuple[int, ...],
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One replica's update: loss, and norm of the gradient.

        Args:
            batches: One per objective; see `ObjectiveProgram.complete`.
            seed: See `ObjectiveProgram._compute_gradients`.
            numbers: See `ObjectiveProgram._compute_gradients`.
            replica: See `ObjectiveProgram._compute_gradients`.
            indices: The objectives' numbers in the pass.
        """
        losses, gradients = [], []
        for batch, index in zip(batches, indices):
            loss, gradient = self.programs[index].compute_gradients(
                batch, seed, numbers, replica, index
            )
            losses.append(loss)
            gradients.append(gradient)
        drawn_from = tf.stack([seed, numbers["step"]])
        merged = self.combination.merge(gradients, self.optimizer, drawn_from)
        return tf.add_n(losses), self.optimizer.update(merged, numbers)


def _compile(function: Callable[..., Output]) -> Callable[..., Output]:
    """Compiles a function with XLA."""
    program: Callable[..., Output] = tf.function(
        function, jit_compile=True, autograph=False
    )
    return program
