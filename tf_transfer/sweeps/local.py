"""Workers on this machine: a process each, with its share of cores or GPUs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from tf_transfer.sweeps import work
from tf_transfer.sweeps.worker import Order
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

SIGNALS = {"stop": signal.SIGTERM, "kill": signal.SIGKILL}


class LocalWorker(work.Handle):
    """A worker in a process of its own.

    Its input is a pipe from this process: where that ends, so does the worker.

    Args:
        slot: The number of its share of the cores, from 0.
        log: Of its first run; errors before that run go there.
        environments: Changes of the environment of each worker that shares
            this machine, by slot.
        folder: That it works in; None for that of this process.
    """

    def __init__(
        self,
        slot: int,
        log: str,
        environments: Sequence[dict[str, str]] = ({},),
        folder: str | None = None,
    ) -> None:
        jobs = str(len(environments))
        command = [sys.executable, "-m", "tf_transfer.sweeps.worker"]
        with files.open_to_append(log) as file:
            self._process = subprocess.Popen(
                [*command, str(slot), jobs],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={
                    **os.environ,
                    machine.JOBS_VARIABLE: jobs,
                    **environments[slot],
                },
                cwd=folder,
                start_new_session=True,  # only the sweep hears Ctrl-C
            )
        assert self._process.stdin and self._process.stdout
        self._orders, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._answers.fileno(), False)
        self._unread = b""

    def send(self, order: Order) -> None:
        """Gives it a run to do."""
        with contextlib.suppress(OSError):  # it has died: see `receive`
            self._orders.write(msgspec.json.encode(order) + b"\n")
            self._orders.flush()

    def receive(self) -> tuple[list[Record], int | None]:
        """Its new reports, and its exit code once it has ended."""
        exit_code = self._process.poll()  # before its last words
        with contextlib.suppress(OSError):
            self._unread += self._answers.read() or b""
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines], exit_code

    def end(self, how: work.End) -> None:
        """Ends it; see `work.Handle`."""
        with contextlib.suppress(OSError):  # it has ended already
            if how == "close":
                self._orders.close()
            else:
                self._process.send_signal(SIGNALS[how])


# === GPUs ===


def assign_gpus(
    gpus: Sequence[str],
    jobs: int | None = None,
    runs_per_gpu: int = 1,
    needs_all: bool = False,
) -> list[dict[str, str]]:
    """Changes of the environment that give each worker its GPU.

    Args:
        gpus: What `machine.list_gpus` returns.
        jobs: The number of workers; None for one, or for as many as the GPUs
            have room for.
        runs_per_gpu: The number of workers that may share a GPU.
        needs_all: Whether a run spreads over all GPUs: then all see all.

    Raises:
        UserError: There are more workers than the GPUs have room for.
    """
    if not gpus or needs_all:
        return [{} for _ in range(jobs or 1)]
    most = len(gpus) * runs_per_gpu
    if jobs and jobs > most:
        raise UserError(
            f"--jobs={jobs}: here are {len(gpus)} GPUs, and --runs_per_gpu="
            f"{runs_per_gpu}. Give a larger --runs_per_gpu, or --jobs={most}."
        )
    return [
        {machine.VISIBLE_GPUS: gpus[n % len(gpus)]} for n in range(jobs or most)
    ]
