"""Workers on this machine: a process each, with its share of cores or GPUs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Literal

from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

VISIBLE = "CUDA_VISIBLE_DEVICES"
SIGNALS = {"stop": signal.SIGTERM, "kill": signal.SIGKILL}

End = Literal["close", "stop", "kill"]  # how to end a worker


class LocalWorker:
    """A worker in a process of its own; see `work.Handle`.

    Its input is a pipe from this process: where that ends, so does the worker.

    Args:
        slot: which share of the cores is its own, from 0.
        jobs: how many workers share this machine.
        log: of its first run; errors before that run go there.
        environment: changes of the environment.
        folder: that it works in; None for that of this process.
    """

    def __init__(
        self,
        slot: int,
        jobs: int,
        log: str,
        environment: dict[str, str],
        folder: str | None = None,
    ) -> None:
        command = [sys.executable, "-m", "tf_transfer.sweeps.worker"]
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [*command, str(slot), str(jobs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={
                    **os.environ,
                    machine.JOBS_VARIABLE: str(jobs),
                    **environment,
                },
                cwd=folder,
                start_new_session=True,  # only the sweep hears Ctrl-C
            )
        assert self._process.stdin and self._process.stdout
        self._orders, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._answers.fileno(), False)
        self._unread = b""

    def is_ready(self) -> bool:
        """Always: it reads its orders when it has started."""
        return True

    def send(self, run: Planned, log: str) -> None:
        """Gives it a run to do."""
        self.send_order(make_order(run, log))

    def send_order(self, order: dict[str, Any]) -> None:
        """Gives it what `make_order` returned."""
        with contextlib.suppress(OSError):  # it has died: see `receive`
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()

    def receive(self) -> tuple[list[dict[str, Any]], int | None]:
        """Its reports since the last time, and its exit code once it has ended.

        A code of minus n means that signal n ended it.
        """
        exit_code = self._process.poll()  # before its last words
        with contextlib.suppress(OSError):
            self._unread += self._answers.read() or b""
        *lines, self._unread = self._unread.split(b"\n")
        return [json.loads(line) for line in lines], exit_code

    def end(self, how: End) -> None:
        """Ends it; see `work.Handle`."""
        with contextlib.suppress(OSError):  # it has ended already
            if how == "close":
                self._orders.close()
            else:
                self._process.send_signal(SIGNALS[how])


def make_order(run: Planned, log: str) -> dict[str, Any]:
    """The order of a run; see `worker.Order`."""
    return {
        "module": run.experiment.command_module,
        "words": run.words,
        "log": log,
        "needs_tensorflow": not run.settings.is_sparse,
    }


# === GPUs ===


def list_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES has them."""
    visible = os.environ.get(VISIBLE)
    if visible is not None:
        return [name for name in visible.split(",") if name not in ("", "-1")]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True
        ).stdout
    except OSError:
        return []
    lines = [line for line in listed.splitlines() if line.startswith("GPU ")]
    return [str(number) for number in range(len(lines))]


def assign_gpus(
    gpus: Sequence[str],
    jobs: int | None = None,
    runs_per_gpu: int = 1,
    needs_all: bool = False,
) -> list[dict[str, str]]:
    """Changes of the environment that give each worker its GPU.

    Args:
        gpus: what `list_gpus` returns.
        jobs: how many workers; None for one, or one a GPU (and a place on it).
        runs_per_gpu: how many workers may share one.
        needs_all: whether a run spreads over all GPUs: then all see all.

    Raises:
        UserError: there are more workers than places on GPUs.
    """
    if not gpus or needs_all:
        return [{}] * (jobs or 1)
    places = len(gpus) * runs_per_gpu
    jobs = jobs or places
    if jobs > places:
        raise UserError(
            f"--jobs={jobs}: here are {len(gpus)} GPUs, and --runs_per_gpu="
            f"{runs_per_gpu}. Give a larger --runs_per_gpu, or --jobs={places}."
        )
    return [{VISIBLE: gpus[slot % len(gpus)]} for slot in range(jobs)]
