"""Dropout masks as a function of (seed, step, replica, layer).

Keras keeps a counter in every dropout layer: two dozen variables that each
step updates, that no file of Keras saves, and that are the same on every
replica. Here the layers draw from the step's own seed instead, so a resumed run
has the masks of an uninterrupted one, and replicas have different masks.
"""

import contextlib
from collections.abc import Iterable, Iterator

import keras
import tensorflow as tf

from tf_transfer.models import keras_private

SEED_MODULUS = tf.int32.max - 1


class DropoutSeeds:
    """Provides the seeds of all dropout layers of a network.

    Create one per network: the layers ask the last one that was created.

    Args:
        layers: Those of the network.
        seed: Of the run.

    Attributes:
        phase: int. Each phase counts its steps from 0, and has other masks.
        seed: int64 tf.Variable, so that a traced program serves other seeds.
    """

    def __init__(
        self, layers: Iterable[keras.layers.Layer], seed: int = 0
    ) -> None:
        self.phase = 0
        with tf.device("CPU:0"):  # where layers read their seeds
            self.seed = tf.Variable(seed, dtype=tf.int64, trainable=False)
        self._base: tuple[tf.Tensor, tf.Tensor] | None = None
        self._count = 0
        keras_private.replace_dropout(layers, self._next)

    @contextlib.contextmanager
    def at(
        self,
        seed: tf.Tensor,
        step: tf.Tensor,
        replica: tf.Tensor,
        objective: int = 0,
    ) -> Iterator[None]:
        """Gives the masks of a step and replica inside the block.

        Args:
            seed: int64 tensor, the value of `seed`.
            step: int64 tensor.
            replica: int32 tensor. The number of the replica.
            objective: int. The objective's position in the step.
        """
        # The two words of a stateless seed are hashed by Philox: different
        # words, however close, give unrelated masks. Keras takes each modulo
        # 2^31 - 2, so the second has room for the step alone; in the first, a
        # large prime separates phases and objectives from other seeds.
        with tf.device("CPU:0"):
            first = seed * 100_003 + (self.phase * 64 + objective) * 7_368_787
            position = tf.cast(step, tf.int64) * 4096
            position += tf.cast(replica, tf.int64)
        self._base, self._count = (first, position), 0
        try:
            yield
        finally:
            self._base = None

    def _next(self, ordered: bool = True) -> tf.Tensor:
        if self._base is None:
            raise RuntimeError("a dropout mask was asked for outside a step")
        first, position = self._base
        self._count += 1
        # TensorFlow's dropout reads its seed on the host, even for a GPU: a
        # seed computed on the CPU is not copied for each layer. The remainder
        # is Keras's.
        with tf.device("CPU:0"):
            seed = tf.stack([first + self._count, position])
            return tf.cast(tf.math.floormod(seed, SEED_MODULUS), tf.int32)
