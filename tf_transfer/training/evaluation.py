"""Predictions of a whole split, in large batches."""

import numpy as np
import tensorflow as tf

from tf_transfer.data import batches
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.training.resident_split import add_states, ResidentSplit
from tf_transfer.training.strategy import Devices
from tf_transfer.utils import tracing


class EvaluationBatches:
    """A whole split in large batches, the same at every evaluation.

    Args:
        devices: Where it runs.
        split: The examples to predict.
        pad: The padding id.
        max_length: The longest text, in tokens.
    """

    def __init__(
        self, devices: Devices, split: EncodedSplit, pad: int, max_length: int
    ) -> None:
        replicas = devices.replicas
        size = batches.EVALUATION_BATCH
        if devices.gpu:  # more fill it; the longest texts fit smaller ones
            size = max(size, batches.GPU_EVALUATION_TOKENS // max_length)
        self._strategy = devices.strategy
        self._split = split
        self._plan = batches.plan_evaluation(
            split.lengths,
            -(-size // replicas) * replicas,
            replicas,
            batches.buckets_up_to(max_length),
        )
        resident = ResidentSplit(split, devices)
        self._vectors = resident.vectors
        self._batches = resident.distribute(self._plan, pad)
        self._spec = dict(self._batches.element_spec)
        if self._vectors is not None:
            index = self._spec.pop("index")
            shape = [*index.shape, self._vectors.shape[-1]]
            self._spec["states"] = tf.TensorSpec(shape, self._vectors.dtype)
            # Row numbers are few: to begin a pipeline takes longer.
            self._batches = list(self._batches)

    def first(self) -> dict[str, np.ndarray]:
        """The first batch, of the longest texts, on one device."""
        batch = next(iter(self._batches))
        return {name: values.numpy() for name, values in batch.items()}

    def trace(
        self, program: tf.types.experimental.PolymorphicFunction
    ) -> float:
        """Traces a prediction program once; see `tracing.trace`."""
        return tracing.trace(program, self._spec)

    def predict(
        self, program: tf.types.experimental.PolymorphicFunction
    ) -> np.ndarray:
        """Runs a prediction program over the whole split.

        Args:
            program: `tf.function` from a (distributed) batch to its logits.

        Returns:
            float32 [examples, units], in the order of the split; where words
            are labelled, [words, units].
        """
        self.trace(program)
        outputs = []
        for batch in self._batches:
            output = program(add_states(batch, self._vectors))
            outputs.append(self._strategy.gather(output, axis=0))
        plan, split = self._plan, self._split
        texts, logits = [], []
        for row, count, output in zip(plan.rows, plan.counts, outputs):
            values = output.numpy()[:count]
            if split.word_starts is not None:
                mask = split.word_mask(row[:count], values.shape[1])
                values = values[mask]
            texts.append(row[:count])
            logits.append(values)
        flat = np.concatenate(texts)
        rows = np.repeat(flat, split.words[flat])
        order = np.argsort(rows, kind="stable")
        return np.concatenate(logits)[order]
