"""Devices: the only place that chooses a tf.distribute strategy."""

import functools
import random
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from tf_transfer.utils.errors import UserError

SHARE_OF_MEMORY = 0.5  # of a GPU, up to which stored states are copied


def set_up(
    name: str,
    batch_size: int | None,
    cpu_devices: int = 1,
    precision: str = "float32",
    deterministic: bool = False,
    seed: int = 0,
    seeds_tensorflow: bool = True,
) -> "Devices":
    """Configures TensorFlow for a run, and returns its `Devices`.

    Call it before anything touches TensorFlow's devices: logical devices and
    determinism cannot be changed afterwards.

    Args:
        name: The value of `--strategy`.
        batch_size: Examples per step, over all replicas; None without steps.
        cpu_devices: The number of logical devices that the CPU is split into.
        precision: The value of `--precision`.
        deterministic: Whether operations must be.
        seed: Of the libraries' own generators, in addition to our streams.
        seeds_tensorflow: Whether TensorFlow's generator is seeded, too. That
            unloads all programs; loading them takes longer than a small run.

    Raises:
        UserError: The batch does not fill the replicas; no GPU for `tf32`.
    """
    if precision == "tf32" and not tf.config.list_physical_devices("GPU"):
        raise UserError(
            "--precision=tf32: this machine has no GPU that TensorFlow can "
            "use, and CPUs have no TensorFloat-32. Give --precision=float32."
        )
    allow_tf32(precision)
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    if cpu_devices > 1:
        _split_cpu(cpu_devices)
    devices = Devices(_choose(name))
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if seeds_tensorflow:
        tf.random.set_seed(seed)
    if batch_size is not None and batch_size < devices.replicas:
        raise UserError(
            f"--batch_size={batch_size}: is the size over all "
            f"replicas, and {name} has {devices.replicas} here. "
            f"Give {devices.replicas} or more."
        )
    return devices


def allow_tf32(precision: str) -> None:
    """Lets GPUs round the factors of float32 products, if `precision` is tf32.

    TensorFlow allows it by default.
    """
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")


def share_gpus() -> None:
    """Lets this process allocate GPU memory as needed: others use the GPUs.

    Call it before anything touches TensorFlow's devices.
    """
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)


def single_device() -> "Devices":
    """The devices of a process that needs no strategy."""
    return Devices(tf.distribute.get_strategy())


def count_replicas(name: str, cpu_devices: int) -> int:
    """The replicas that a run on this machine would spread its batch over.

    Nothing is set up: the process may still choose its devices.

    Args:
        name: The value of `--strategy`.
        cpu_devices: The number of logical devices that the CPU would have.
    """
    if name == "mirrored":
        return len(tf.config.list_physical_devices("GPU")) or cpu_devices
    return 1


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    wanted = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.set_logical_device_configuration(cpu, wanted)
    except RuntimeError:
        if len(tf.config.list_logical_devices("CPU")) != count:
            raise UserError(
                f"--cpu_devices={count}: TensorFlow is already running in "
                "this process with other devices. Start a new process."
            ) from None


@functools.cache  # the next run of this process has the same variables
def _choose(name: str) -> tf.distribute.Strategy:
    gpus = tf.config.list_logical_devices("GPU")
    cpus = tf.config.list_logical_devices("CPU")
    if name == "one_device":
        return tf.distribute.OneDeviceStrategy((gpus or cpus)[0].name)
    if name == "mirrored":
        across = None if gpus else tf.distribute.ReductionToOneDevice()
        return tf.distribute.MirroredStrategy(
            [device.name for device in gpus or cpus], across
        )
    return tf.distribute.get_strategy()


@functools.cache  # part of the type of an iterator, and so of a trace
def _copy_ahead(device: str) -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy(device)


class Devices:
    """A strategy, and operations on its devices.

    Attributes:
        strategy: `tf.distribute.Strategy`.
        gpu: str. The first GPU, where the replicas are GPUs; else empty.
        replicas: int. Copies of the model that share a batch.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        self.replicas = strategy.num_replicas_in_sync
        self.gpu = "GPU:0" if tf.config.list_physical_devices("GPU") else ""

    @property
    def input_strategy(self) -> tf.distribute.Strategy:
        """Distributes batches; for one GPU, it copies the next two to it."""
        if self.gpu and self.replicas == 1:
            return _copy_ahead(self.gpu)
        return self.strategy

    @property
    def compiles_updates(self) -> bool:
        """Whether XLA may compile updates: no other thread takes part in them.

        Mirrored strategies merge the threads of their replicas outside of any
        program, even if there is only one.
        """
        return self.replicas == 1 and not isinstance(
            self.strategy, tf.distribute.MirroredStrategy
        )

    @property
    def names(self) -> list[str]:
        """The devices of the replicas, for the record."""
        names = [
            tf.config.experimental.get_device_details(device).get(
                "device_name", device.name
            )
            for device in tf.config.list_physical_devices("GPU")
        ] or [device.name for device in tf.config.list_logical_devices("CPU")]
        return names[: self.replicas]

    def run(
        self,
        program: Callable[[dict[str, tf.Tensor]], list[tf.Tensor]],
        dataset: tf.data.Dataset,
    ) -> Iterator[list[np.ndarray]]:
        """Runs a program over the batches of a dataset.

        Args:
            program: Function from a batch to a list of tensors.
            dataset: As many consecutive elements as there are replicas make
                one batch.

        Yields:
            The outputs for a batch.
        """
        distributed = self.strategy.distribute_datasets_from_function(
            lambda context: dataset
        )
        for batch in distributed:
            outputs = self.strategy.run(program, args=(batch,))
            yield [
                np.concatenate(
                    [
                        part.numpy()
                        for part in self.strategy.experimental_local_results(
                            output
                        )
                    ]
                )
                for output in outputs
            ]

    def free_memory(self) -> int:
        """Bytes of `gpu` that stored states may take of its free memory."""
        from tensorflow.python.client import device_lib  # no public one has it

        limit = next(
            device.memory_limit
            for device in device_lib.list_local_devices()
            if device.device_type == "GPU"
        )
        used = tf.config.experimental.get_memory_info(self.gpu)["current"]
        return int(limit * SHARE_OF_MEMORY) - int(used)
