"""How many operations a second products of matrices reach on this machine.

What a training step reaches is a share of it. Libraries differ: on some
processors the same product takes one of them twice as long.
"""

import importlib.util
import math
import time

import tensorflow as tf


def matmul(rows, inner, columns, precision):
    """A function that multiplies two matrices in TensorFlow."""
    kind = tf.bfloat16 if precision == "mixed_bfloat16" else tf.float32
    one = tf.cast(tf.random.normal([rows, inner]), kind)
    other = tf.cast(tf.random.normal([inner, columns]), kind)
    return lambda: tf.matmul(one, other)


def measure(precision, tries=20):
    """The most operations a second that products of matrices reach.

    Returns:
        Dict from `TensorFlow` and, where it is installed, `PyTorch`.
    """
    libraries = {"TensorFlow": matmul}
    if has_torch():
        from tf_transfer.peers import hugging_face

        libraries["PyTorch"] = hugging_face.matmul
    best = dict.fromkeys(libraries, 0.0)
    for shape in ((1024, 768, 3072), (2048, 2048, 2048)):
        for name, library in libraries.items():
            multiply = library(*shape, precision)
            for _ in range(tries):
                began = time.perf_counter()
                multiply()
                seconds = time.perf_counter() - began
                speed = 2 * math.prod(shape) / seconds
                best[name] = max(best[name], speed)
    return best


def has_torch():
    """Whether the extra `peers` is installed."""
    return importlib.util.find_spec("torch") is not None
