"""Engines: what runs frozen blocks once over texts.

TensorFlow is always there. OpenVINO computes the same function faster on a CPU;
it gets the traced program of `prefix.run`, weights included, and its states are
compared with TensorFlow's before they are used. Nothing here reads the disk.
"""

import dataclasses
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf
import tqdm

from tf_transfer.data import batches
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.models import prefix as prefix_lib
from tf_transfer.models.encoder import Encoder
from tf_transfer.models.prefix import FrozenPrefix
from tf_transfer.utils import tracing

if TYPE_CHECKING:
    import openvino

    Compiled = Callable[
        [list[np.ndarray]], Mapping[openvino.ConstOutput, np.ndarray]
    ]

# The relative error, in the Euclidean norm, up to which OpenVINO's states agree
# with TensorFlow's in float32.
BOUNDS = {"float32": 1e-3, "bfloat16": 2e-2}
HINTS = {"float32": "f32", "bfloat16": "bf16"}  # OpenVINO's names
CHECKED_TEXTS = 16
CPU_TEXTS, GPU_TEXTS = 32, 128  # in a batch of a pass
INPUTS = ("ids", "segments", "mask")

Outputs = Iterator[list[np.ndarray]]


class Unusable(Exception):
    """OpenVINO cannot run these blocks here. The message says why."""


class Devices(Protocol):
    """The devices of a pass; see `training.strategy.Devices`."""

    replicas: int

    def run(
        self, program: Callable[..., list[tf.Tensor]], dataset: tf.data.Dataset
    ) -> Iterator[list[np.ndarray]]:
        """Yields what the program returns for each batch."""


def choose_batch_texts() -> int:
    """Texts per batch and replica of a pass: on a CPU, 16 to 64 are as fast."""
    has_gpu = tf.config.list_physical_devices("GPU")
    return GPU_TEXTS if has_gpu else CPU_TEXTS


def run(
    engine: tuple[str, str],
    encoder: Encoder,
    prefixes: Sequence[FrozenPrefix],
    split: EncodedSplit,
    devices: Devices,
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Prepares a pass over a split, the longest texts first.

    Args:
        engine: `tensorflow` or `openvino`, and its precision.
        encoder: The encoder that the prefixes belong to.
        prefixes: All are computed in one pass.
        split: The texts.
        devices: Those of TensorFlow.

    Returns:
        The index of each text in the split, and for each prefix its output
        [vectors, hidden], which are computed when they are asked for.

    Raises:
        Unusable: See `compile_openvino`.
    """
    name, precision = engine
    replicas = devices.replicas if name == "tensorflow" else 1
    # Not up to --max_length: runs of other lengths share the rows.
    plan = batches.plan_evaluation(
        split.lengths,
        choose_batch_texts() * replicas,
        replicas,
        batches.buckets_up_to(encoder.max_positions),
    )
    dataset = batches.pipeline(split, plan, encoder.special.pad, replicas)
    if name == "openvino":
        outputs = run_openvino(encoder, prefixes, dataset, precision)
    else:
        outputs = run_tensorflow(encoder, prefixes, dataset, precision, devices)

    def iterate() -> Iterator[tuple[int, list[np.ndarray]]]:
        lengths = split.tokens.lengths
        with tqdm.tqdm(
            total=int(lengths.sum()),
            desc=f"running {prefixes[0].cut} frozen blocks once",
            unit=" tokens",
            unit_scale=True,
            leave=False,
            file=sys.stderr,
            disable=None,
        ) as bar:
            for batch, rows, count in zip(outputs, plan.rows, plan.counts):
                for number, row in enumerate(rows[:count].tolist()):
                    length = int(lengths[row])
                    yield (
                        row,
                        [
                            np.atleast_2d(states[number])[
                                : prefix.num_cls + length
                            ]
                            for prefix, states in zip(prefixes, batch)
                        ],
                    )
                    bar.update(length)

    return iterate()


def run_tensorflow(
    encoder: Encoder,
    prefixes: Sequence[FrozenPrefix],
    dataset: tf.data.Dataset,
    precision: str,
    devices: Devices,
) -> Outputs:
    """Traces prefixes, to run them with TensorFlow.

    Args:
        encoder: See `run`.
        prefixes: See `run`.
        dataset: Batches; see `data.batches.pipeline`.
        precision: `float32`, `tf32`, which `Devices` has set, or `bfloat16`.
        devices: See `run`.

    Returns:
        The outputs of each batch, one array per prefix, which are computed when
        they are asked for.
    """
    dtype = "float32" if precision == "tf32" else precision
    program = tf.function(
        functools.partial(
            prefix_lib.run, encoder, prefixes=prefixes, dtype=dtype
        ),
        reduce_retracing=True,
        autograph=False,
    )
    if devices.replicas == 1:  # one trace for all lengths, in place of two
        tracing.trace(program, dataset.element_spec)
    return devices.run(program, dataset)


def run_openvino(
    encoder: Encoder,
    prefixes: Sequence[FrozenPrefix],
    dataset: tf.data.Dataset,
    precision: str,
) -> Outputs:
    """Compiles prefixes, to run them with OpenVINO.

    Args:
        encoder: See `run_tensorflow`.
        prefixes: See `run_tensorflow`.
        dataset: See `run_tensorflow`.
        precision: `float32` or `bfloat16`.

    Returns:
        See `run_tensorflow`.

    Raises:
        Unusable: See `compile_openvino`.
    """
    wide = [dataclasses.replace(one, dtype="float32") for one in prefixes]
    compute = compile_openvino(
        lambda batch: prefix_lib.run(encoder, batch, wide, "float32"),
        next(dataset.as_numpy_iterator()),
        precision,
    )

    def run() -> Outputs:
        for batch in dataset.as_numpy_iterator():
            with np.errstate(over="ignore"):  # infinite: the caller reports it
                yield [
                    states.astype(tf.as_dtype(one.dtype).as_numpy_dtype)
                    for one, states in zip(prefixes, compute(batch))
                ]

    return run()


def compile_openvino(
    function: Callable[[dict[str, tf.Tensor]], list[tf.Tensor]],
    example: dict[str, np.ndarray],
    precision: str,
) -> Callable[[dict[str, np.ndarray]], list[np.ndarray]]:
    """Compiles a function of a batch with OpenVINO.

    Args:
        function: From `INPUTS`, each [texts, length], to float32 tensors.
        example: A batch; the outputs for its first texts are checked.
        precision: `float32` or `bfloat16`.

    Returns:
        The same function of arrays.

    Raises:
        Unusable: OpenVINO is missing or broken, the function cannot be
            converted, or the outputs differ too much.
    """

    @functools.partial(tf.function, autograph=False)
    def program(
        ids: tf.Tensor, segments: tf.Tensor, mask: tf.Tensor
    ) -> list[tf.Tensor]:
        return function({"ids": ids, "segments": segments, "mask": mask})

    specs = [tf.TensorSpec([None, None], tf.int32)] * 2
    concrete = program.get_concrete_function(
        *specs, tf.TensorSpec([None, None], tf.bool)
    )
    try:
        compiled = _compile(concrete, HINTS[precision])
    except Exception as failure:  # of any kind: it is another library's
        reason = str(failure).strip().partition("\n")[0]
        raise Unusable(f"OpenVINO fails ({reason}).") from failure

    def compute(batch: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [*compiled([batch[name] for name in INPUTS]).values()]

    first = {name: example[name][:CHECKED_TEXTS] for name in INPUTS}
    expected = concrete(*(tf.constant(array) for array in first.values()))
    error = max(map(_measure_error, compute(first), expected))
    bound = BOUNDS[precision]
    if not error <= bound:  # or not a number
        raise Unusable(
            f"OpenVINO's states in {precision} differ from TensorFlow's by "
            f"{error:.2%}, more than {bound:.1%}."
        )
    return compute


def add_head(
    head: keras.layers.Layer,
    compute: Callable[[dict[str, np.ndarray]], list[np.ndarray]],
) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]:
    """A function from a batch to a head's logits, for a TensorFlow program.

    The head itself stays in float32.

    Args:
        head: Of a probe.
        compute: What `compile_openvino` returned for the states that it reads.
    """

    def call(*arrays: np.ndarray) -> np.ndarray:
        return compute(dict(zip(INPUTS, arrays)))[0]

    def run(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        arrays = [batch[name] for name in INPUTS]
        states = tf.numpy_function(call, arrays, tf.float32)
        reads_tokens = head.pooling == "tokens"
        states.set_shape([None] * (2 + reads_tokens))
        inputs = [states, batch["mask"]][: 1 + reads_tokens]
        names = getattr(head, "further_inputs", ())
        further = {name: batch[name] for name in names}
        return head(*inputs, training=False, **further)

    return run


def _compile(
    function: tf.types.experimental.ConcreteFunction, hint: str
) -> "Compiled":
    """Compiles a concrete function for the CPU.

    Args:
        function: Inputs of any number and length of texts.
        hint: `INFERENCE_PRECISION_HINT`.
    """
    # It would send usage statistics. An empty module has nothing to send with.
    sys.modules["openvino_telemetry"] = types.ModuleType("openvino_telemetry")
    openvino = importlib.import_module("openvino")
    core = openvino.Core()
    capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if hint == "bf16" and "BF16" not in capabilities:
        raise ValueError("this processor has no bfloat16")
    # Shared, they would be read from TensorFlow's memory, which may be freed.
    model = openvino.convert_model(function, share_weights=False)
    properties = {"INFERENCE_PRECISION_HINT": hint}
    compiled: Compiled = core.compile_model(model, "CPU", properties)
    return compiled


def _measure_error(output: np.ndarray, expected: tf.Tensor) -> float:
    """|output - expected| / |expected|, in the Euclidean norm."""
    difference = np.linalg.norm(output - expected.numpy())
    return float(difference / np.linalg.norm(expected))
