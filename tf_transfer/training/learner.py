"""What one objective of a phase does: its gradients, and its outputs."""

import numpy as np
import tensorflow as tf

from tf_transfer.data import batches


class Learner:
    """One objective of a phase, over the network.

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
        self,
        devices,
        network,
        optimizer,
        objective,
        seeds,
        settings,
        prefix=None,
    ):
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
        self._predict = tf.function(self._predict_batch)

    # === Training ===

    def plan(self, epoch, lap=0):
        """A pass over its examples, shuffled; see `batches.plan_epoch`."""
        return batches.plan_epoch(
            self.objective.train.lengths,
            self.settings.batch_size,
            self.settings.batching,
            self.settings.seed,
            epoch,
            self.devices.replicas,
            batches.buckets_up_to(self.settings.max_length),
            lap,
        )

    def batches_of(self, plan):
        """An iterator over the distributed batches of a plan."""
        return iter(
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

    def gradients(self, batch, place=0):
        """Of a batch, in a replica's context.

        Args:
            place: among the objectives of a step: each draws other dropout.

        Returns:
            The loss, and the gradient of the *scaled* loss for each weight of
            the optimizer, as a list.
        """
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        loss, *gradients = self._gradients(
            self._complete(batch),
            tf.identity(self.optimizer.step),
            tf.identity(self.optimizer.loss_scale),
            tf.convert_to_tensor(replica),
            place,
        )
        return loss, gradients

    def _complete(self, batch):
        """The batch with its whole prefix, run here where it is not stored."""
        if self.prefix is None:
            return batch
        states = self.prefix.complete(
            self.network.encoder, batch, same_shape=self.settings.jit_compile
        )
        kept = ("mask", "labels", "weights")
        return {**{name: batch[name] for name in kept}, "states": states}

    def _loss_and_gradients(self, batch, step, loss_scale, replica, place):
        weights = [weight.value for weight in self.optimizer.weights]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            with self.seeds.at(self.settings.seed, step, replica, place):
                logits = self.network.logits(
                    self.objective.name,
                    batch,
                    training=True,
                    prefix=self.prefix,
                )
            each = self.objective.loss(batch["labels"], logits)
            loss = tf.reduce_sum(each * batch["weights"])
            loss *= self.objective.weight
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
            self.devices,
            self._predict,
            split,
            self.pad,
            self.settings.max_length,
        )

    def _predict_batch(self, batch):
        def logits(batch):
            return self.network.logits(
                self.objective.name,
                self._complete(batch),
                training=False,
                prefix=self.prefix,
            )

        return self.devices.strategy.run(logits, args=(batch,))


def predict(devices, program, split, pad, max_length):
    """Runs a prediction program over a whole split.

    Args:
        program: `tf.function` from a (distributed) batch to its logits.
        split: `batches.Split`.

    Returns:
        float32 [examples, units], in the order of the split; where words are
        labelled, [words, units].
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
            split,
            plan,
            pad,
            (devices.worker, devices.workers),
            devices.local_replicas,
        )
    )
    program.get_concrete_function(dataset.element_spec)  # for all lengths
    outputs = [
        devices.strategy.gather(program(batch), axis=0) for batch in dataset
    ]
    if split.word_starts is not None:
        return _of_words(split, plan, outputs)
    result = None
    for step, output in enumerate(outputs):
        count = plan.counts[step]
        values = output.numpy()[:count]
        if result is None:
            result = np.empty((len(split), values.shape[1]), np.float32)
        result[plan.rows[step, :count]] = values
    return result


def _of_words(split, plan, outputs):
    """The outputs for words, in the order of the split."""
    counts = split.words
    starts = np.cumsum(counts) - counts
    result = None
    for step, output in enumerate(outputs):
        rows = plan.rows[step, : plan.counts[step]]
        values = output.numpy()[: len(rows)]
        if result is None:
            shape = counts.sum(), values.shape[2]
            result = np.empty(shape, np.float32)
        is_word = split.of_words(rows, values.shape[1])
        row, _ = np.nonzero(is_word)
        before = np.cumsum(counts[rows]) - counts[rows]
        place = starts[rows][row] + np.arange(len(row)) - before[row]
        result[place] = values[is_word]
    return result
