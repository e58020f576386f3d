"""Tracing of TensorFlow programs, timed."""

import time
from typing import Any

import tensorflow as tf


def trace(
    program: "tf.types.experimental.PolymorphicFunction", *specs: Any
) -> float:
    """Traces a program for some inputs, before its first call.

    Args:
        program: A `tf.function`.
        specs: Of its inputs, each a `tf.TypeSpec` or a structure of them.

    Returns:
        The seconds; 0 if it was traced before, or functions run eagerly.
    """
    if tf.config.functions_run_eagerly():
        return 0.0
    count = program.experimental_get_tracing_count()
    began = time.perf_counter()
    program.get_concrete_function(*specs)
    if program.experimental_get_tracing_count() == count:
        return 0.0
    return time.perf_counter() - began
