"""Workers on the nodes of a Ray cluster.

A Ray actor on a node has a local worker: a process of its own. So a worker is
the same everywhere: asked to stop, its run saves first. If its actor or the
sweep dies, its input ends, and so does the worker.
"""

import contextlib
import dataclasses
import logging
import math
import os
import re
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from tf_transfer.sweeps import local, states, work
from tf_transfer.sweeps.worker import Order
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.formatting import cut
from tf_transfer.utils.json_files import Record

SECONDS_TO_CONNECT = 10
SECONDS_TO_ANSWER = 60  # that a node has at the start, to load Python
# Ray would kill a worker together with its actor; it saves and ends by itself.
ENVIRONMENT = {"RAY_kill_child_processes_on_worker_exit": "false"}


@dataclasses.dataclass(frozen=True)
class Share:
    """The resources of each worker of a cluster.

    Attributes:
        jobs: The number of workers.
        on_node: The most workers that share a node.
        cpus, gpus: Of a node; fractions where they are shared.
        memory: Bytes of a node; None where Ray does not say.
    """

    jobs: int
    on_node: int
    cpus: float
    gpus: float
    memory: float | None = None


def divide(
    nodes: Sequence[Mapping[str, float]],
    jobs: int | None = None,
    runs_per_gpu: int = 1,
    needs_all: bool = False,
) -> Share:
    """Divides the nodes among workers; those with GPUs, where there are any.

    Args:
        nodes: The resources of each, as `ray.nodes()` has them.
        jobs: The number of workers; None for as many as the GPUs have room
            for, or without GPUs one per node.
        runs_per_gpu: The number of workers that may share a GPU.
        needs_all: Whether a run spreads over all GPUs of its node.

    Raises:
        RunError: No node has free CPUs.
        UserError: There are too few GPUs.
    """
    with_gpus = [node for node in nodes if node.get("GPU", 0) >= 1]
    nodes = with_gpus or [node for node in nodes if node.get("CPU", 0) >= 1]
    if not nodes:
        raise RunError("--engine=ray: no node of the cluster has free CPUs.")
    gpus = 0.0
    if with_gpus and needs_all:
        most, gpus = len(nodes), min(int(node["GPU"]) for node in nodes)
        on_node = 1
    elif with_gpus:
        rooms = [int(node["GPU"]) * runs_per_gpu for node in nodes]
        most, gpus, on_node = sum(rooms), 1 / runs_per_gpu, max(rooms)
    else:
        most = jobs or len(nodes)
        on_node = math.ceil(most / len(nodes))
    jobs = jobs or most
    if jobs > most:
        raise UserError(
            f"--jobs={jobs}: the cluster has room for {most} workers on its "
            f"GPUs. Give a larger --runs_per_gpu, or --jobs={most}."
        )
    cpus = min(node.get("CPU", 0) for node in nodes) / on_node
    memory = min(node.get("memory", math.inf) for node in nodes) / on_node
    return Share(
        jobs,
        min(on_node, jobs),
        math.floor(cpus) if cpus > 1 else cpus,  # Ray wants whole numbers
        gpus,
        memory if memory < math.inf else None,
    )


# === Workers ===


class RayWorker(work.Handle):
    """A worker on some node.

    A Ray actor on the node has a local worker. Ray starts the actor where there
    is room, which may be later.

    Args:
        share: Its share of the cluster.
        slot: Its number; Ray chooses its cores and GPUs.
        log: Of its first run.
    """

    is_ready = False

    def __init__(self, share: Share, slot: int, log: str) -> None:
        import ray

        self._ray = ray
        self._log = os.path.abspath(log)
        actor = ray.remote(local.LocalWorker)
        self._worker = actor.options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": ENVIRONMENT},
        ).remote(
            0,  # of one: it shares its cores with the others of its node
            self._log,
            [{machine.JOBS_VARIABLE: str(share.on_node)}],
            os.getcwd(),
        )
        self._answer = self._worker.receive.remote()
        self._exit_code: int | None = None

    def send(self, order: Order) -> None:
        """Gives it a run to do."""
        self._log = order.log
        self._worker.send.remote(order)

    def receive(self) -> tuple[list[Record], int | None]:
        """Its new reports, and its exit code; does not wait for them."""
        ready, _ = self._ray.wait([self._answer], timeout=0)
        if self._exit_code is not None or not ready:
            return [], self._exit_code
        try:
            messages, exit_code = self._ray.get(self._answer)
            self.is_ready = True
        except self._ray.exceptions.RayError as error:
            with files.open_to_append(self._log) as file:
                file.write(f"{error}\n".encode())
            messages, exit_code = [], states.LOST_NODE
        if exit_code is None:
            self._answer = self._worker.receive.remote()
        else:
            self._set_ended(exit_code)
        return messages, exit_code

    def end(self, how: work.End) -> None:
        """Ends it; see `work.Handle`."""
        if self.is_ready:
            self._worker.end.remote(how)
        else:  # it waits for room
            self._set_ended(0)

    def _set_ended(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._ray.kill(self._worker)  # others may have its room


# === The cluster ===


@contextlib.contextmanager
def connect(address: str, out: str) -> Iterator[list[dict[str, float]]]:
    """Joins a cluster, and checks that its nodes can work below `out`.

    Args:
        address: HOST:PORT; empty or `auto` for the cluster of this machine.
        out: Root of the run directories; exists.

    Returns:
        A context with the resources of each node that is alive.

    Raises:
        UserError: Ray is missing, nothing answers, or a node does not see
            `out` or has other packages.
    """
    try:
        import ray
    except ImportError:
        raise UserError(
            "--engine=ray: Ray is not installed here. Give "
            "pip install 'tf_transfer[cluster]', or leave --engine out."
        ) from None
    address = address or "auto"
    _probe(address)
    try:
        ray.init(
            address=address, log_to_driver=False, logging_level=logging.ERROR
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _unreachable(address, str(error)) from None
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        _check_nodes(ray, nodes, out)
        yield [node["Resources"] for node in nodes]
    finally:
        ray.shutdown()


def _probe(address: str) -> None:
    """Raises `UserError` where nothing answers; Ray would take minutes."""
    if address == "auto":
        return
    match = re.fullmatch(r"\[?([^\s/\[\]]+)\]?:(\d{1,5})", address, re.ASCII)
    if not match:
        raise UserError(
            f"--ray_address={cut(address)}: give `auto`, for the cluster of "
            "this machine, or HOST:PORT of its head, such as head:6379."
        )
    try:
        address_and_port = match[1], int(match[2])
        socket.create_connection(address_and_port, SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from None


def _unreachable(address: str, reason: str) -> RunError:
    first_line, *_ = [*reason.splitlines(), "no answer"]
    return RunError(
        f"--ray_address={address}: {cut(first_line)}\nStart the cluster "
        "with `ray start --head`, and `ray start --address=HOST:6379` on "
        "other nodes."
    )


def _check_nodes(ray: ModuleType, nodes: list[Record], out: str) -> None:
    """Raises `RunError` where a node cannot work below `out`."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    path = os.path.join(os.path.abspath(out), f".seen-{secrets.token_hex(4)}")
    with open(path, "x"):
        pass
    try:
        answers = [
            ray.remote(find_missing)
            .options(
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(
                    node["NodeID"], soft=False
                ),
            )
            .remote([path, os.getcwd()])
            for node in nodes
        ]
        for node, answer in zip(nodes, answers):
            host = node["NodeManagerAddress"]
            try:
                missing, versions = ray.get(answer, timeout=SECONDS_TO_ANSWER)
            except ray.exceptions.RayError as error:
                reason = cut(str(error).strip().splitlines()[-1])
                raise RunError(
                    f"--engine=ray: the node {host} cannot work: {reason}\n"
                    "Install tf_transfer there, as here."
                ) from None
            if missing:
                where = f"--out={out}" if path in missing else missing[0]
                raise RunError(
                    f"{where}: the node {host} does not see it. All nodes need "
                    "it under the same path: give a folder that they share."
                )
            if versions != machine.versions():
                name = min(
                    name
                    for name, version in machine.versions().items()
                    if versions.get(name) != version
                )
                raise RunError(
                    f"--engine=ray: the node {host} has {name} "
                    f"{versions.get(name)}, here is {machine.versions()[name]}."
                    "\nNumbers might differ: install the same on all nodes."
                )
    finally:
        os.remove(path)


def find_missing(paths: list[str]) -> tuple[list[str], dict[str, str | None]]:
    """On a node: the paths that do not exist there, and what is installed."""
    missing = [path for path in paths if not os.path.exists(path)]
    return missing, machine.versions()
