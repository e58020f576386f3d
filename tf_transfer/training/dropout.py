"""Dropout masks as a function of (seed, step, replica, place in the model).

Keras keeps a counter in every dropout layer: two dozen variables that each
step updates, that no file of Keras saves, and that are the same on every
replica. Here the layers draw from the step's own seed instead, so a resumed run
draws the masks it would have drawn, and replicas draw different ones.
"""

import contextlib

import keras
import tensorflow as tf


class DropoutSeeds:
    """Takes over the seeds of all dropout layers of a network.

    One a network: whoever takes over last is who the layers ask.

    Attributes:
        phase: int. Each phase counts its steps anew, and draws other masks.
    """

    def __init__(self, layers):
        self.phase = 0
        self._base = None
        self._drawn = 0
        for layer in layers:
            for inner in layer._flatten_layers():
                generator = getattr(inner, "seed_generator", None)
                if isinstance(generator, keras.random.SeedGenerator):
                    generator.next = self._next

    @contextlib.contextmanager
    def at(self, seed, step, replica, objective=0):
        """Draws belong to this step and replica inside the block.

        Args:
            seed: int. The seed of the run.
            step: int64 tensor.
            replica: int32 tensor, unique over all workers.
            objective: int. Which one of a step that several share.
        """
        # The two words of a stateless seed are hashed by Philox: different
        # words, however close, give unrelated masks.
        step = tf.cast(step, tf.int64) + self.phase * 2**40 + objective * 2**46
        place = step * 4096 + tf.cast(replica, tf.int64)
        self._base, self._drawn = (seed, place), 0
        try:
            yield
        finally:
            self._base = None

    def _next(self, ordered=True):
        if self._base is None:
            raise RuntimeError("dropout was drawn outside of a training step")
        seed, place = self._base
        self._drawn += 1
        return tf.stack(
            [tf.constant(seed * 100_003 + self._drawn, tf.int64), place]
        )
