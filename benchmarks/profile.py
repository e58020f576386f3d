"""The time of an epoch by operation, from TensorFlow's profiler."""

import collections
import glob
import os
import tempfile
from collections.abc import Callable

import tensorflow as tf

PRODUCTS = ("MatMul", "Conv")
_NOT_OPERATIONS = (
    "EagerExecute",
    "EagerKernelExecute",
    "Run",
    "Process",
    "DoCompute",
    "PrefetchProduce",
    "PrefetchConsume",
    "Prefetch",
    "ParallelMapV2",
    "ParallelMapProduce",
    "ParallelMapConsume",
    "Root",
    "RootDataset",
    "FunctionRun",
    "MakeIterator",
    "ParallelFor",
)


def measure_operations(
    run: Callable[[], object],
) -> dict[str, tuple[float, int]]:
    """Traces `run()` and sums its operations by kind.

    Operations run in parallel: their sum is more than the time on the clock.

    Returns:
        Dict from the name of an operation's kernel to (seconds, count), the
        longest first.
    """
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory(prefix="tf_transfer-profile-") as folder:
        with tf.profiler.experimental.Profile(folder):
            run()
        [path] = glob.glob(
            os.path.join(folder, "**", "*.xplane.pb"), recursive=True
        )
        with open(path, "rb") as file:
            space = xplane_pb2.XSpace.FromString(file.read())
    seconds: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for plane in space.planes:
        names = {key: event.name for key, event in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names[event.metadata_id].rpartition(":")[2]
                if _is_operation(name):
                    seconds[name] += event.duration_ps / 1e12
                    count[name] += 1
    return {name: (total, count[name]) for name, total in seconds.most_common()}


def _is_operation(name: str) -> bool:
    return (
        name.isidentifier()
        and name.lstrip("_")[:1].isupper()
        and not name.startswith(("TFE_", "TF_"))
        and not name.endswith("Dataset")
        and name.rstrip("0123456789V") not in _NOT_OPERATIONS
        and name not in _NOT_OPERATIONS
    )


def table(operations: dict[str, tuple[float, int]], limit: int = 12) -> str:
    """Writes the result of `measure_operations` as text, products apart.

    Args:
        operations: Dict from a name to (seconds, count).
        limit: How many operations are listed.
    """
    total = sum(seconds for seconds, _ in operations.values())
    products = sum(
        seconds
        for name, (seconds, _) in operations.items()
        if any(product in name for product in PRODUCTS)
    )
    lines = [
        f"operations take {total:.2f} s of threads: matrix products "
        f"{products:.2f}, the rest {total - products:.2f}"
    ]
    for name, (seconds, count) in list(operations.items())[:limit]:
        lines.append(f"  {seconds:8.3f} s {count:6d} x {name}")
    return "\n".join(lines)
