"""LoRA above a cached prefix, and peft: seconds per epoch, memory per step.

    python -m benchmarks.lora --data=glue --model=minilm --shape=12x768
    python -m benchmarks.lora --document=docs/guides/methods.md

Contestants: ours, `full` and `lora` in the last --trainable_layers blocks from
the cache; ours, `lora` in every block, and every weight; and transformers on
PyTorch, with peft's LoRA in every block, and every weight (`pip install -e
'.[peers]'`; left out without it). Rank, alpha, targets and dropout are the
same; batches of PyTorch are grouped by length and padded to their longest.

Their epochs alternate in one process, after a warm-up epoch that is not
counted. Memory is measured in a new process for each contestant: the peak over
steps with one batch of each length, less the memory before the first step, in
which the network and the texts already are. The first step makes the optimizer
and traces, so its peak does not count. The memory that it leaves behind does,
since libraries keep buffers from step to step; a traced program is some tens of
MB of it.
"""

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import gc
import importlib.metadata
import multiprocessing
import os
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TYPE_CHECKING

from benchmarks import documents, hugging_face, measuring
from tf_transfer.config import command_line
from tf_transfer.config.fields import setting
from tf_transfer.models.cost import Shape
from tf_transfer.models.freezing import Trainable
from tf_transfer.models.methods import base_method
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:  # loads TensorFlow
    from benchmarks.contestants import Contestants

MARK = FOLDER = "lora"
STEPS = 3  # that memory is measured of
SAMPLE_SECONDS = 0.001
LARGE_BLOCK = 2**20  # bytes that go back to the system when they are free


@dataclasses.dataclass(frozen=True)
class LoraSettings(
    measuring.BenchmarkSettings,
    defaults={"trainable_layers": "2", "batch_size": 16},
    help={"trainable_layers": "The last blocks that train above the cache."},
):
    """Settings: the batch and blocks of `tf_transfer.methods`."""

    document: str = setting(
        "", "Measure nothing: put the table of --out into this.", hashed=False
    )


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One row of the table.

    Attributes:
        name: `{layers}` stands for `--trainable_layers`.
        epoch: Which of the `make_` methods of `Contestants` makes its epoch.
        method: What trains inside the blocks.
        all_blocks: Whether it trains in all blocks or only in the last.
    """

    name: str
    epoch: str
    method: str
    all_blocks: bool

    def settings(self, settings: LoraSettings) -> measuring.BenchmarkSettings:
        """The settings of its run, resolved."""
        layers = "all" if self.all_blocks else settings.trainable_layers
        return dataclasses.replace(
            settings, trainable_layers=layers, method=self.method
        ).resolve()

    def make_epoch(self, contestants: "Contestants") -> Callable[[], object]:
        """A function that trains it for one epoch."""
        return getattr(contestants, f"make_{self.epoch}_epoch")()


CONTESTANTS = (
    Contestant("ours, full, last {layers}, cached", "cached", "full", False),
    Contestant("ours, LoRA, last {layers}, cached", "cached", "lora", False),
    Contestant("ours, LoRA, every block", "live", "lora", True),
    Contestant("ours, everything", "live", "full", True),
    Contestant(
        "transformers, peft's LoRA, every block", "hugging_face", "lora", True
    ),
    Contestant("transformers, everything", "hugging_face", "full", True),
)
REFERENCE = 1  # in CONTESTANTS; the table has multiples of its time


def measure(settings: LoraSettings) -> dict[str, Any]:
    """Measures; returns the content of the JSON file."""
    for contestant in CONTESTANTS:
        contestant.settings(settings)  # refuses invalid flags at once
    contestants = [
        contestant
        for contestant in CONTESTANTS
        if contestant.epoch != "hugging_face" or hugging_face.is_installed()
    ]
    if len(contestants) < len(CONTESTANTS):
        print("transformers are left out: pip install -e '.[peers]'.")
    memory = []
    for contestant in contestants:
        memory.append(_call_in_process(measure_memory, settings, contestant))
        name = contestant.name.format(layers=settings.trainable_layers)
        print(f"memory: {name} {memory[-1]}", flush=True)
    return {
        "settings": dataclasses.asdict(settings),
        "versions": {**machine.versions(), **_peers()},
        "threads": len(os.sched_getaffinity(0)),
        **_measure_time(settings, contestants, memory),
        "load": os.getloadavg()[1],
    }


def _peers() -> dict[str, str]:
    if not hugging_face.is_installed():
        return {}
    names = ("torch", "transformers", "peft")
    return {name: importlib.metadata.version(name) for name in names}


# === Time ===


def _measure_time(
    settings: LoraSettings,
    contestants: list[Contestant],
    memory: list[dict[str, int]],
) -> dict[str, Any]:
    command_line.import_tensorflow()
    from benchmarks.contestants import Contestants

    networks: dict[measuring.BenchmarkSettings, Contestants] = {}
    epochs: dict[str, Callable[[], object]] = {}
    rows = []
    for contestant, bytes_ in zip(contestants, memory):
        contestant_settings = contestant.settings(settings)
        if contestant_settings not in networks:
            networks[contestant_settings] = Contestants(contestant_settings)
        name = contestant.name.format(layers=settings.trainable_layers)
        epochs[name] = contestant.make_epoch(networks[contestant_settings])
        parameters = networks[contestant_settings].trained_parameters
        rows.append({"name": name, "parameters": parameters, "memory": bytes_})
    cached = networks[contestants[REFERENCE].settings(settings)]
    seconds = measuring.time_epochs(epochs, settings.rounds)
    return {
        "examples": int(cached.plan.counts.sum()),
        "cache": cached.cache_build,
        "contestants": [
            {**row, "seconds": times}
            for row, times in zip(rows, seconds.values())
        ],
    }


# === Memory ===


def measure_memory(
    settings: LoraSettings, contestant: Contestant
) -> dict[str, int]:
    """Bytes that a step adds to the network's, measured and in theory.

    Args:
        settings: Unresolved.
        contestant: The one that trains, in a process of its own.

    Returns:
        `measured`; and in theory, `optimizer` (gradient and two moments of
        what trains) and `activations` (what backpropagation reads).
    """
    command_line.import_tensorflow()
    import tensorflow as tf

    from benchmarks.contestants import Contestants

    if tf.config.list_physical_devices("GPU"):
        raise UserError(
            "This benchmark measures the memory of the process, not a GPU's. "
            "Hide the GPU: CUDA_VISIBLE_DEVICES= python -m benchmarks.lora"
        )
    one_batch = dataclasses.replace(settings, examples=settings.batch_size)
    contestant_settings = contestant.settings(one_batch)
    contestants = Contestants(contestant_settings)
    train = contestant.make_epoch(contestants)
    before = _measure_idle_memory()
    train()  # makes the optimizer and traces
    _measure_idle_memory()
    with sampled_memory() as samples:
        for _ in range(STEPS):
            train()
    is_hugging_face = contestant.epoch == "hugging_face"
    lengths = contestants.objective.train.lengths
    return {
        "measured": max(samples) - before,
        "optimizer": 3 * 4 * contestants.trained_parameters,
        "activations": count_activation_bytes(
            contestants.shape,
            contestants.trainable,
            len(lengths),
            int(
                (lengths if is_hugging_face else contestants.plan.lengths).max()
            ),
            contestant_settings.pooling == "cls" and not is_hugging_face,
        ),
    }


def count_activation_bytes(
    shape: Shape,
    trainable: Trainable,
    texts: int,
    length: int,
    cls_only: bool,
) -> int:
    """Bytes that a step keeps for backpropagation, in float32.

    Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
    Models" (arXiv 2205.05198), section 4.1, count them for a block, with masks
    of dropout of a byte each. We count float32, and omit the input of dense
    layers whose weights do not train: only the gradient of these needs it.

    Args:
        shape: Of the encoder.
        trainable: What trains; of methods, `full` and `lora`.
        texts: Texts of the padded batch.
        length: Tokens of each, padding included.
        cls_only: Whether the top block computes [CLS] alone.
    """
    trained = {*base_method.DENSE}
    targets = getattr(trainable.method, "targets", "all")
    if targets != "all":
        trained = {*targets.split(",")}
    h = shape.hidden
    tokens = texts * length
    floats = masks = tokens * h if trainable.embeddings else 0
    for number in range(trainable.cut + 1, shape.blocks + 1):
        is_short = cls_only and number == shape.blocks
        outputs = texts if is_short else tokens
        scores = outputs * length * shape.heads
        if is_short or trained & {"query", "key", "value"}:
            floats += tokens * h  # the block's input
        if is_short:  # states that each head compares and mixes
            floats += 2 * outputs * h * shape.heads
        else:
            floats += 2 * tokens * h  # keys and values
        floats += outputs * h  # queries
        floats += 2 * scores  # softmax, and behind its dropout
        floats += outputs * 2 * h  # sums that LayerNorm reads
        floats += outputs * shape.inner  # what the activation reads
        floats += outputs * h * ("attention_output" in trained)
        floats += outputs * h * ("inner" in trained)
        floats += outputs * shape.inner * ("outer" in trained)
        masks += scores + 2 * outputs * h
    return 4 * floats + masks


@contextlib.contextmanager
def sampled_memory() -> Iterator[list[int]]:
    """Records the bytes of this process about every millisecond."""
    samples = [machine.own_memory() or 0]
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(SAMPLE_SECONDS):
            samples.append(machine.own_memory() or 0)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


def _measure_idle_memory() -> int:
    """The bytes of this process, after free memory went back to the system."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
    return machine.own_memory() or 0


def _call_in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a new process."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(LARGE_BLOCK)  # read at a start
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()


# === The table ===


def make_table(result: dict[str, Any]) -> str:
    """The measurement as Markdown."""
    rows: list[tuple[str, ...]] = [
        (
            "",
            "trained parameters",
            "s an epoch (min to max)",
            "times row 2",
            "memory of a step, MB",
            "in theory, MB",
        ),
        ("---",) * 6,
    ]
    contestants = result["contestants"]
    reference = statistics.median(contestants[REFERENCE]["seconds"])
    for one in contestants:
        seconds, memory = one["seconds"], one["memory"]
        median = statistics.median(seconds)
        rows.append(
            (
                one["name"],
                f"{one['parameters']:,}",
                f"{median:.2f} ({min(seconds):.2f} to {max(seconds):.2f})",
                f"{median / reference:.1f}",
                f"{memory['measured'] / 1e6:,.0f}",
                f"{memory['optimizer'] / 1e6:,.0f} + "
                f"{memory['activations'] / 1e6:,.0f}",
            )
        )
    settings, cache = result["settings"], result["cache"]
    versions = result["versions"]
    packages = ", ".join(
        f"{name} {versions[name]}"
        for name in ("tensorflow", "torch", "transformers", "peft")
        if name in versions
    )
    return (
        f"{documents.as_markdown(rows)}\n\n"
        f"{settings['shape'] or settings['model']}, {settings['task']}, "
        f"{result['examples']} examples, batch {settings['batch_size']}, "
        f"{result['threads']} threads, load {result['load']:.1f}; {packages}. "
        f"The cache took {cache['build_seconds']:.1f} s once, and "
        f"{cache['bytes'] / 1e6:.1f} MB of disk."
    )


def main(argv: Sequence[str] = ()) -> None:
    """Measures, or writes a measurement into a document."""
    command_line.refuse_words(argv)
    settings = command_line.from_flags(LoraSettings)
    documents.measure_or_fill(
        lambda out: measure(settings),
        make_table,
        os.path.join(settings.out, FOLDER),
        settings.document,
        MARK,
    )


if __name__ == "__main__":
    command_line.command(main, LoraSettings)
