"""How many operations per second matrix products reach on this machine.

Training reaches a fraction of it. Libraries differ: on some processors the
same product takes one of them twice as long.
"""

import math
import timeit
from collections.abc import Callable

from benchmarks import hugging_face

SHAPES = ((1024, 768, 3072), (2048, 2048, 2048))


def tensorflow_product(
    rows: int, inner: int, columns: int, precision: str
) -> Callable[[], object]:
    """Returns a function that multiplies two random matrices in TensorFlow.

    The function returns when the product is computed.

    Args:
        rows: Rows of the first matrix.
        inner: Its columns, and the rows of the second.
        columns: Columns of the second.
        precision: The value of `--precision`.
    """
    import tensorflow as tf

    from tf_transfer.training import strategy

    strategy.allow_tf32(precision)
    dtype = tf.bfloat16 if precision == "mixed_bfloat16" else tf.float32
    left = tf.cast(tf.random.normal([rows, inner]), dtype)
    right = tf.cast(tf.random.normal([inner, columns]), dtype)

    def multiply() -> None:
        tf.matmul(left, right)
        # A GPU returns before it has multiplied.
        tf.test.experimental.sync_devices()

    return multiply


def measure_peak(
    precision: str,
    make_product: Callable[
        [int, int, int, str], Callable[[], object]
    ] = tensorflow_product,
    repetitions: int = 20,
) -> float:
    """Returns the most operations per second that matrix products reach.

    Args:
        precision: The value of `--precision`.
        make_product: What `tensorflow_product` is, for another library.
        repetitions: Number of times that each product is timed.
    """
    peak = 0.0
    for shape in SHAPES:
        multiply = make_product(*shape, precision)
        seconds = timeit.repeat(multiply, number=1, repeat=repetitions)
        peak = max(peak, 2 * math.prod(shape) / min(seconds))
    return peak


def measure_peaks(precision: str) -> dict[str, float]:
    """The results of `measure_peak`, by library."""
    peaks = {"TensorFlow": measure_peak(precision)}
    if hugging_face.is_installed():
        peaks["PyTorch"] = measure_peak(precision, hugging_face.product)
    return peaks
