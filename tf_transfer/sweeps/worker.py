"""A worker: a process that does one run after another.

    python -m tf_transfer.sweeps.worker SLOT JOBS

It reads orders, one line of JSON per run, from its standard input, and answers
with lines of JSON on its standard output. TensorFlow is loaded once, before the
first run with an encoder. State that the next run shares with the last stays in
memory (`tf_transfer.runs.warm`). The output of a run goes into the run's own
log.

The worker ends when its input does: then the sweep has no more work, or has
died. A run that is still training saves its state first.
"""

import contextlib
import dataclasses
import functools
import gc
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Self

import msgspec

from tf_transfer import experiment as experiment_lib
from tf_transfer.config import command_line
from tf_transfer.runs.warm import WarmState
from tf_transfer.sweeps.grid import Planned
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import FullDiskError, Interrupted
from tf_transfer.utils.formatting import quote_command
from tf_transfer.utils.json_files import Record

SECONDS_TO_SAVE = 120  # that a run has once it is asked to stop

Report = Callable[[Record], None]


@dataclasses.dataclass(frozen=True)
class Order:
    """A run that a worker is to do.

    Attributes:
        module: That has the experiment.
        words: The flags of the run's command.
        log: File that its output is appended to.
    """

    module: str
    words: tuple[str, ...]
    log: str

    @classmethod
    def of_run(cls, run: Planned, log: str, also_cache: str = "") -> Self:
        """The order of a run.

        Args:
            run: The run.
            log: File that its output is appended to.
            also_cache: The cuts that its pass stores for other runs.
        """
        words, settings = run.words, run.settings
        # The run's name contains these, and a node might resolve `auto`
        # otherwise.
        if settings.reads("jit_compile"):
            words += (f"--jit_compile={settings.uses_xla}".lower(),)
        if settings.reads("prefix_engine"):
            words += (
                f"--prefix_engine={settings.pass_engine}",
                f"--prefix_precision={settings.pass_precision}",
            )
        if also_cache:
            words += (f"--also_cache={also_cache}",)
        return cls(run.experiment.command_module, words, os.path.abspath(log))


class Worker:
    """Does runs in this process, one after another.

    Args:
        report: Called with each report: a dict with `event`, `alive` or
            `ended`, and the bytes of `memory`.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._warm = WarmState()

    def do(self, order: Order) -> str:
        """Does a run, and reports how it ended.

        Returns:
            `finished`; `failed`, by an error that is the run's own; `full`, as
            a disk is full or missing; `stopped`, by a signal, with its state
            saved; or `broken`, by an error that is not the run's: do nothing
            else in this process.
        """
        words = quote_command("python", "-m", order.module, *order.words)
        with files.open_to_append(order.log) as log:
            log.write(f"\n=== {time.strftime('%F %T')} {words}\n".encode())
            log.flush()
            with files.redirect_output(log):
                outcome = self._try(order)
                gc.collect()  # programs and networks are circles of references
        self._report(
            {
                "event": "ended",
                "outcome": outcome,
                "memory": machine.own_memory(),
            }
        )
        return outcome

    def _try(self, order: Order) -> str:
        outcome = "broken"
        try:
            command_line.exit_on_error(lambda: self._run(order))
            return "finished"
        except SystemExit as end:
            is_stopped = end.code == Interrupted.exit_code
            outcome = "stopped" if is_stopped else "failed"
            cause = end.__context__
            if isinstance(cause, FullDiskError) or (
                isinstance(cause, OSError) and cause.errno in files.DISK_GONE
            ):
                outcome = "full"
        except BaseException:
            traceback.print_exc()
        self._warm = WarmState()  # the old one may be inconsistent
        return outcome

    def _run(self, order: Order) -> None:
        module = importlib.import_module(order.module)
        sys.argv = [module.__file__ or order.module, *order.words]
        cls = experiment_lib.load(order.module)
        settings = command_line.parse(cls.Settings, order.words)
        callbacks = []
        if not settings.is_sparse:
            _load_tensorflow()
            from tf_transfer.training.callbacks import Heartbeat

            callbacks = [Heartbeat(self._report)]
        cls(settings, warm=self._warm).train(callbacks)


# === The process ===


def main(slot: int, jobs: int) -> None:
    """Does the orders that come, until there are no more.

    Args:
        slot: Its number among `jobs` shares of the cores, from 0.
        jobs: The number of workers that share this machine.
    """
    _take_cores(slot, jobs)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # other output is no answer
    orders: queue.Queue[Order | None] = queue.Queue()
    is_busy, is_over = threading.Event(), threading.Event()
    threading.Thread(
        target=_read_orders, args=(orders, is_busy, is_over), daemon=True
    ).start()

    def report(message: Record) -> None:
        with contextlib.suppress(OSError):  # the sweep has died
            answers.write(json.dumps(message) + "\n")

    worker = Worker(report)
    while (order := orders.get()) is not None:
        is_busy.set()
        if is_over.is_set():  # the sweep died before this run began
            break
        if worker.do(order) in ("stopped", "broken"):
            break
        is_busy.clear()
    # A thread still waits for orders, which Python's own end does not survive.
    os._exit(0)


def _take_cores(slot: int, jobs: int) -> None:
    """Leaves the process its share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // jobs
    if jobs > 1 and share:
        os.sched_setaffinity(0, cores[slot * share : (slot + 1) * share])


@functools.cache
def _load_tensorflow() -> None:
    """Loads what every run with an encoder needs, once."""
    command_line.import_tensorflow()
    from tf_transfer.training import strategy

    strategy.share_gpus()
    importlib.import_module("tf_transfer.training.trainer")
    gc.freeze()  # modules stay, so no collection needs to search them


def _read_orders(
    orders: "queue.Queue[Order | None]",
    is_busy: threading.Event,
    is_over: threading.Event,
) -> None:
    """Reads orders to their end; then lets a run save its state, and ends."""
    for line in sys.stdin:
        orders.put(msgspec.json.decode(line, type=Order))
    orders.put(None)
    is_over.set()
    if is_busy.is_set():
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
