"""The largest memory of a stretch of training."""

import tensorflow as tf

from tf_transfer.utils import machine


class Peak:
    """Peak memory since it was made.

    On GPUs it is what TensorFlow's allocators say, summed over devices;
    elsewhere the process's own memory, as sampled by `look`.
    """

    def __init__(self):
        self._own = 0
        self._gpus = [
            f"GPU:{index}"
            for index, _ in enumerate(tf.config.list_logical_devices("GPU"))
        ]
        for gpu in self._gpus:
            tf.config.experimental.reset_memory_stats(gpu)

    def look(self):
        """Takes a sample."""
        self._own = max(self._own, machine.own_memory() or 0)

    @property
    def bytes(self):
        """The peak, or None where the system does not tell."""
        peaks = [
            tf.config.experimental.get_memory_info(gpu)["peak"]
            for gpu in self._gpus
        ]
        return sum(peaks) or self._own or None
