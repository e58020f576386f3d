"""Where a program reads the batches of a split, and their stored states.

Stored states that fit the memory of a GPU are gathered there, in the step. All
else is read by a pipeline, which copies the next two batches to the GPU. This
follows TensorFlow's sources; it has run only with CPU devices in place of one.
"""

import copy
import dataclasses

import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.data.batches import BatchPlan
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.training.strategy import Devices
from tf_transfer.utils import formatting, screen

Batch = dict[str, tf.Tensor]
# What `take_batch` reads: tensors by name, and an `iterator` over batches.
Feed = dict[str, tf.Tensor | tf.distribute.DistributedIterator]


class ResidentSplit:
    """A split whose stored vectors are in the memory of the device.

    Args:
        split: The examples.
        devices: Where it runs.

    Attributes:
        split: The examples; their states index `vectors`.
        vectors: [vectors, hidden] on the device of the steps. None where the
            pipeline reads them: with several replicas, with texts that are not
            stored, where they do not fit a GPU, and on a CPU, which reads the
            states of tokens ahead of the step.
    """

    def __init__(self, split: EncodedSplit, devices: Devices) -> None:
        self.split, self.vectors = split, None
        self._devices = devices
        states = split.states
        if (
            states is None
            or devices.replicas > 1
            or not states.is_stored.all()
            or not (devices.gpu or states.is_pooled)
        ):
            return
        if not devices.gpu:
            self.vectors = states.tensor
            return
        starts, rows = states.locate(split.tokens.lengths)
        size = states.vectors[:1].nbytes * len(rows)
        if size > devices.free_memory():
            screen.say(
                f"The stored states of {len(split):,} examples "
                f"({formatting.size(size)}) do not fit the GPU's memory beside "
                "the rest: each step reads its own from the host, which is "
                "slower."
            )
            return
        moved = copy.copy(states)
        moved.starts = starts
        self.split = dataclasses.replace(split, states=moved)
        with tf.device(devices.gpu):
            self.vectors = tf.identity(states.vectors[rows])

    def distribute(
        self, plan: BatchPlan, pad: int
    ) -> tf.distribute.DistributedDataset:
        """The batches of a plan, as a distributed dataset.

        Args:
            plan: The examples of each batch.
            pad: The padding id.
        """
        devices = self._devices
        return devices.input_strategy.distribute_datasets_from_function(
            lambda context: batches.pipeline(
                self.split, plan, pad, devices.replicas, self.vectors is None
            )
        )


def take_batch(feed: Feed, number: tf.Tensor) -> Batch:
    """A batch of a feed; see `ObjectiveProgram.feed`.

    Args:
        feed: An `iterator`, or the tensors of `batches.load_plan`; with
            `vectors`, where stored states are read from them.
        number: int32 []. The number of the batch in the plan.
    """
    if "iterator" in feed:
        batch = feed["iterator"].get_next()
    else:
        batch = batches.take_batch(feed, number)
    return add_states(batch, feed.get("vectors"))


def add_states(batch: Batch, vectors: tf.Tensor | None) -> Batch:
    """The batch with the states of its `index`, if they are not in it."""
    if vectors is None:
        return batch
    rest = dict(batch)
    rest["states"] = tf.gather(vectors, rest.pop("index"))
    return rest


def relax_specs(feed: Feed) -> Feed:
    """A feed with the specs of tensors for any number of steps and texts."""
    relaxed = {}
    for name, value in feed.items():
        if name != "iterator":
            shape = [None] * value.shape.rank
            if name == "vectors":
                shape[-1] = value.shape[-1]
            value = tf.TensorSpec(shape, value.dtype)
        relaxed[name] = value
    return relaxed
