"""Where an epoch's time goes: TensorFlow's profiler, added up by operation."""

import collections
import glob
import os
import tempfile

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


def operations(run):
    """Seconds of each kind of operation while `run()` runs, the longest first.

    Operations run side by side: their sum is more than the time on the clock.

    Returns:
        Dict from the name of an operation's kernel to (seconds, count).
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
    seconds, count = collections.Counter(), collections.Counter()
    for plane in space.planes:
        names = {key: known.name for key, known in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names[event.metadata_id].rpartition(":")[2]
                if _is_operation(name):
                    seconds[name] += event.duration_ps / 1e12
                    count[name] += 1
    return {name: (took, count[name]) for name, took in seconds.most_common()}


def _is_operation(name):
    return (
        name.isidentifier()
        and name.lstrip("_")[:1].isupper()
        and not name.startswith(("TFE_", "TF_"))
        and not name.endswith("Dataset")
        and name.rstrip("0123456789V") not in _NOT_OPERATIONS
        and name not in _NOT_OPERATIONS
    )


def table(found, most=12):
    """What `operations` gave, as lines of text, products apart."""
    total = sum(seconds for seconds, _ in found.values())
    products = sum(
        seconds
        for name, (seconds, _) in found.items()
        if any(product in name for product in PRODUCTS)
    )
    lines = [
        f"operations take {total:.2f} s of threads: products of matrices "
        f"{products:.2f}, the rest {total - products:.2f}"
    ]
    for name, (seconds, count) in list(found.items())[:most]:
        lines.append(f"  {seconds:8.3f} s {count:6d} x {name}")
    return "\n".join(lines)
