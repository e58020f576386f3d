"""Devices: the only place that chooses a tf.distribute strategy.

Several workers (`multi_worker`) run the same command, each with its own
TF_CONFIG; worker 0 is the chief, the only one that prints and writes. They
read the run directory too, so `--out` must be a folder that all of them see.
"""

import contextlib
import functools
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from tf_transfer.utils.errors import Interrupted, UserError

# What collective operations raise once the process of a worker has ended.
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError)
SHARE_OF_MEMORY = 0.5  # of a GPU, up to which stored states are copied
VOTE_SECONDS = 15.0  # TensorFlow notices the end of a process in ten
FAILED = 1e6  # more than the votes of all workers together
ANOTHER_STOPPED = (
    "Another worker of this run stopped. Its own message gives the reason; the "
    "same command on all workers continues the run."
)


def set_up(
    name: str,
    batch_size: int,
    cpu_devices: int = 1,
    precision: str = "float32",
    deterministic: bool = False,
    seed: int = 0,
) -> "Devices":
    """Configures TensorFlow for a run, and returns its `Devices`.

    Call it before anything touches TensorFlow's devices: logical devices and
    determinism cannot be changed afterwards.

    Args:
        name: the value of `--strategy`.
        batch_size: examples per step, over all replicas.
        cpu_devices: the number of logical devices that the CPU is split into.
        precision: the value of `--precision`.
        deterministic: whether operations must be.
        seed: of the libraries' own generators, in addition to our streams.

    Raises:
        UserError: the batch does not fill the replicas; no TF_CONFIG; no GPU
            for `tf32`.
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
    tf.random.set_seed(seed)
    if batch_size < devices.replicas:
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


def count_replicas(name: str, cpu_devices: int = 1) -> int:
    """The replicas that a run on this machine would spread its batch over.

    Nothing is set up: the process may still choose its devices.

    Args:
        name: the value of `--strategy`.
        cpu_devices: the number of logical devices that the CPU would have.
    """
    if name == "mirrored":
        return len(tf.config.list_physical_devices("GPU")) or cpu_devices
    if name == "multi_worker":
        raise UserError(
            "--strategy=multi_worker: a sweep starts one process per run, and "
            "this needs one on every worker. Start its runs yourself, or "
            "start the same sweep on each machine without it."
        )
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
    if name == "multi_worker":  # first: TensorFlow must be untouched
        _cluster()  # or an error that says what to set
        return tf.distribute.MultiWorkerMirroredStrategy()
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


def _cluster() -> tuple[int, int]:
    """The index of this worker and the number of workers, from TF_CONFIG."""
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        index, workers = config["task"]["index"], config["cluster"]["worker"]
        good = set(config["cluster"]) == {"worker"}
        good &= config["task"]["type"] == "worker" and index < len(workers)
    except (KeyError, TypeError, ValueError):
        good = False
    if not good:
        raise UserError(
            "--strategy=multi_worker: set TF_CONFIG in each process, with "
            'workers only, such as {"cluster": {"worker": ["host1:12345", '
            '"host2:12345"]}, "task": {"type": "worker", "index": 0}}.'
        )
    return int(index), len(workers)


@functools.cache  # part of the type of an iterator, and so of a trace
def _copy_ahead(device: str) -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy(device)


def _is_lost(error: BaseException | None) -> bool:
    """Whether an error, or the one that it was made of, is of `LOST`.

    Keras raises errors of its own while it handles those of TensorFlow.
    """
    while error is not None and not isinstance(error, LOST):
        error = error.__cause__ or error.__context__
    return error is not None


class Votes:
    """What the workers vote for in a block of `Devices.together`.

    Attributes:
        total: float. A worker's own votes; after the block, those of all.
    """

    total = 0.0


class Devices:
    """A strategy, and operations on its devices.

    Attributes:
        strategy: `tf.distribute.Strategy`.
        gpu: str. The first GPU, where the replicas are GPUs; else empty.
        replicas: int. Over all workers.
        local_replicas: int. In this process.
        worker, workers: int. The index of this process and their number.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        self.replicas = strategy.num_replicas_in_sync
        self.worker, self.workers = 0, 1
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            self.worker, self.workers = _cluster()
            # TensorFlow's server has replaced the handler by one that does
            # nothing: SIGTERM must end a process that does not train yet.
            with contextlib.suppress(ValueError):  # in a thread of a notebook
                handler = signal.getsignal(signal.SIGTERM)
                signal.signal(signal.SIGTERM, handler)
        self.local_replicas = self.replicas // self.workers
        self.gpu = "GPU:0" if tf.config.list_physical_devices("GPU") else ""
        self._sum = tf.function(self._sum_over_workers)

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
            self.strategy,
            (
                tf.distribute.MirroredStrategy,
                tf.distribute.MultiWorkerMirroredStrategy,
            ),
        )

    @property
    def is_chief(self) -> bool:
        """Whether this process prints and writes."""
        return self.worker == 0

    @property
    def names(self) -> list[str]:
        """The devices of this process's replicas, for the record."""
        names = [
            tf.config.experimental.get_device_details(device).get(
                "device_name", device.name
            )
            for device in tf.config.list_physical_devices("GPU")
        ] or [device.name for device in tf.config.list_logical_devices("CPU")]
        return names[: self.local_replicas]

    def run_local(
        self, program: Callable, dataset: tf.data.Dataset
    ) -> Iterator[np.ndarray]:
        """Runs a program on this worker's replicas, without the others.

        Args:
            program: function from a batch to a tensor, without collectives.
            dataset: as many consecutive elements as there are replicas here
                make one batch.

        Yields:
            The output for a batch, an array.
        """
        here = self.local_replicas
        for group in dataset.batch(here, drop_remainder=True):
            shares = [{n: v[i] for n, v in group.items()} for i in range(here)]
            values = shares[0]
            if here > 1:
                values = (
                    self.strategy.experimental_distribute_values_from_function(
                        lambda c, shares=shares: shares[
                            c.replica_id_in_sync_group % here
                        ]
                    )
                )
            outputs = self.strategy.run(program, args=(values,))
            outputs = self.strategy.experimental_local_results(outputs)
            yield np.concatenate([output.numpy() for output in outputs])

    def free_memory(self) -> int:
        """Bytes of `gpu` that stored states may take, beside what is in use."""
        from tensorflow.python.client import device_lib  # no public one has it

        limit = next(
            device.memory_limit
            for device in device_lib.list_local_devices()
            if device.device_type == "GPU"
        )
        used = tf.config.experimental.get_memory_info(self.gpu)["current"]
        return int(limit * SHARE_OF_MEMORY) - used

    def agree(self, value: float) -> float:
        """The sum of a value over all workers; waits for all of them.

        A decision of one worker (by a clock, a signal) is shared here, so that
        all workers continue with the same collective operation.
        """
        if self.workers == 1:
            return float(value)
        summed = self._sum(tf.constant(value, tf.float32)).numpy()
        return float(summed) / self.local_replicas

    @contextlib.contextmanager
    def together(self) -> Iterator[Votes]:
        """Runs a block on each worker; at its end all wait for each other.

        If the block fails on one worker, none continues. The block contains no
        collective operation: the others would wait in it for that worker.

        Yields:
            The votes of this worker, small numbers that are not negative.

        Raises:
            Interrupted: the block failed on another worker.
        """
        votes = Votes()
        try:
            yield votes
        except Exception:  # a second Ctrl-C ends a run at once
            with contextlib.suppress(*LOST):  # its own error says more
                self.agree(FAILED)
            raise
        votes.total = self.agree(votes.total)
        if votes.total >= FAILED:
            raise Interrupted(ANOTHER_STOPPED)

    def end_together(self) -> None:
        """Waits until all workers are here, so that none needs this process.

        A worker that has the last sum may still be sending it to the others.
        """
        with contextlib.suppress(*LOST):  # another one was here and has ended
            self.agree(0)

    @contextlib.contextmanager
    def explain_lost_workers(self) -> Iterator[None]:
        """Runs a block whose collectives fail if another worker's process ends.

        TensorFlow notices that within some ten seconds.

        Raises:
            Interrupted: another process ended, or was started again.
        """
        try:
            yield
        except Exception as error:
            is_own = isinstance(error, UserError | Interrupted)
            if self.workers == 1 or not (
                _is_lost(error) or (not is_own and self._has_lost_worker())
            ):
                raise
            raise Interrupted(ANOTHER_STOPPED) from error

    def _has_lost_worker(self) -> bool:
        """Whether a vote of all workers fails within some seconds.

        An error that Keras raises in a layer may have lost its cause.
        """
        errors: list[Exception] = []

        def vote() -> None:
            try:
                self.agree(0.0)
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=vote, daemon=True)
        thread.start()
        thread.join(VOTE_SECONDS)
        return any(map(_is_lost, errors))

    def _sum_over_workers(self, value: tf.Tensor) -> tf.Tensor:
        per_replica = self.strategy.run(lambda: tf.identity(value))
        return self.strategy.reduce("SUM", per_replica, axis=None)
