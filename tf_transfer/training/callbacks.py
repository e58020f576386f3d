"""Callbacks of the trainer: progress, TensorBoard, memory, time limits.

Subclass `Callback` and hand an instance to an experiment's `run`.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
import tqdm

from tf_transfer.config.settings import Settings
from tf_transfer.training import tensorboard
from tf_transfer.training.joint import JointPlan
from tf_transfer.training.objectives import Phase
from tf_transfer.training.progress import OVERALL
from tf_transfer.training.records import RunDirectory
from tf_transfer.training.results import Outcome
from tf_transfer.utils import machine, screen
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.training.trainer import Trainer

SECONDS_PER_BEAT = 1.0


class Callback:
    """Hooks of a `trainer.Trainer`; by default each does nothing.

    `trainer.progress` has the position of the run, and `trainer.network` is the
    network that trains.
    """

    def on_train_begin(self, trainer: "Trainer") -> None:
        """A process begins a run, or resumes it."""

    def on_build(self, trainer: "Trainer") -> None:
        """The frozen blocks have run on a text, to store their output."""

    def on_pass_begin(
        self, trainer: "Trainer", phase: Phase, plan: JointPlan
    ) -> None:
        """A pass over the data begins, or is resumed.

        Args:
            trainer: The trainer.
            phase: The phase that trains.
            plan: The batches of the whole pass.
        """

    def on_steps_end(
        self, trainer: "Trainer", losses: np.ndarray, counts: np.ndarray
    ) -> None:
        """Some steps were trained, `trainer.progress` counts them.

        Args:
            trainer: The trainer.
            losses: float32 [steps]. The mean loss of each.
            counts: int32 [steps]. The examples of each.
        """

    def on_record(self, trainer: "Trainer", line: Record) -> None:
        """A line of `epochs.jsonl` is about to be written; add to it here."""

    def on_train_end(self, trainer: "Trainer", outcome: Outcome) -> None:
        """The run is over."""

    def on_close(self, trainer: "Trainer") -> None:
        """The process ends its work on the run, after errors as well."""


class PeakMemory(Callback):
    """Adds `peak_memory_bytes` to each line of `epochs.jsonl`.

    On GPUs it is the peak of TensorFlow's allocators, summed over devices;
    elsewhere the process's own memory, sampled after each chunk of steps.
    None where the system does not report it, or not for this run alone.

    Args:
        is_own: Whether this is the first run of the process.
    """

    def __init__(self, is_own: bool) -> None:
        self._is_own = is_own
        count = len(tf.config.list_logical_devices("GPU"))
        self._gpus = [f"GPU:{index}" for index in range(count)]
        self._own = 0

    def on_pass_begin(
        self, trainer: "Trainer", phase: Phase, plan: JointPlan
    ) -> None:
        self._own = 0
        for gpu in self._gpus:
            tf.config.experimental.reset_memory_stats(gpu)

    def on_steps_end(
        self, trainer: "Trainer", losses: np.ndarray, counts: np.ndarray
    ) -> None:
        self._own = max(self._own, machine.own_memory() or 0)

    def on_record(self, trainer: "Trainer", line: Record) -> None:
        peak = 0
        for gpu in self._gpus:
            peak += tf.config.experimental.get_memory_info(gpu)["peak"]
        line["peak_memory_bytes"] = None
        if self._is_own:
            line["peak_memory_bytes"] = peak or self._own or None


class ProgressBar(Callback):
    """A bar over each pass, and a line of scores after it."""

    def __init__(self) -> None:
        self._bar = tqdm.tqdm(disable=True)

    def on_pass_begin(
        self, trainer: "Trainer", phase: Phase, plan: JointPlan
    ) -> None:
        progress = trainer.progress
        self._bar = tqdm.tqdm(
            total=int(plan.counts.sum()),
            initial=int(plan.counts[: progress.step].sum()),
            desc=f"epoch {progress.epoch}/{phase.max_epochs}",
            unit=" examples",
            leave=False,
            file=sys.stderr,
            disable=None,
        )

    def on_steps_end(
        self, trainer: "Trainer", losses: np.ndarray, counts: np.ndarray
    ) -> None:
        progress = trainer.progress
        loss = progress.loss_sum / progress.examples
        self._bar.set_postfix_str(f"loss {loss:.4f}")
        self._bar.update(int(counts.sum()))

    def on_close(self, trainer: "Trainer") -> None:
        self._bar.close()

    def on_record(self, trainer: "Trainer", line: Record) -> None:
        self._bar.close()
        screen.say(_format_line(line))


class TensorBoard(Callback):
    """Writes losses, rates, scores and times where TensorBoard reads them.

    Args:
        directory: The run directory.
        settings: Of the run; see `tensorboard.HYPERPARAMETERS`.
        task: The task's name in that table.
        metric: The headline metric.
    """

    def __init__(
        self,
        directory: RunDirectory,
        settings: Settings,
        task: str,
        metric: str,
    ) -> None:
        self._directory = directory
        prefix = "cached" if settings.runs_cached else "live"
        self._hyperparameters = {}
        for name in tensorboard.HYPERPARAMETERS:
            if hasattr(settings, name):  # not every paper has a method
                self._hyperparameters[name] = getattr(settings, name)
        self._hyperparameters |= {"frozen_prefix": prefix, "task": task}
        self._metric = metric
        self._open = contextlib.ExitStack()

    def on_train_begin(self, trainer: "Trainer") -> None:
        # Later steps in an older file were never saved in a checkpoint.
        done = trainer.progress.total_steps
        self._file = tensorboard.RunEvents(self._directory.path)
        self._open.callback(self._file.close)
        self._file.start(done + 1 if done else 0, self._hyperparameters)

    def on_steps_end(
        self, trainer: "Trainer", losses: np.ndarray, counts: np.ndarray
    ) -> None:
        optimizer, step = trainer.optimizer, trainer.progress.total_steps
        loss = np.average(losses, weights=counts)
        rate = optimizer.rate(optimizer.step - 1)
        self._file.scalar("train/loss", loss, step)
        self._file.scalar("train/lr", rate, step)
        self._file.flush()

    def on_record(self, trainer: "Trainer", line: Record) -> None:
        step = trainer.progress.total_steps
        for kind in ("validation", "test"):
            for name, value in (line[kind] or {}).items():
                self._file.scalar(f"{kind}/{name}", value, step)
        self._file.scalar("time/epoch_seconds", line["train_seconds"], step)
        self._file.scalar("time/elapsed_seconds", line["elapsed_seconds"], step)
        self._file.scalar("time/trace_seconds", line["trace_seconds"], step)
        self._file.flush()

    def on_train_end(self, trainer: "Trainer", outcome: Outcome) -> None:
        self._file.log_outcome(
            outcome, self._metric, trainer.progress.total_steps
        )

    def on_close(self, trainer: "Trainer") -> None:
        self._open.close()


class TimeLimit(Callback):
    """Ends a run of one phase after the last epoch that there is time for.

    The next epoch is expected to take as long as the longest so far.

    Args:
        end: When the run must be over, by `time.monotonic`.
    """

    def __init__(self, end: float) -> None:
        self._end = end
        self._epoch_began = time.monotonic()
        self._longest = 0.0

    def on_pass_begin(
        self, trainer: "Trainer", phase: Phase, plan: JointPlan
    ) -> None:
        self._epoch_began = time.monotonic()

    def on_record(self, trainer: "Trainer", line: Record) -> None:
        now = time.monotonic()
        self._longest = max(self._longest, now - self._epoch_began)
        trainer.is_out_of_time = now + self._longest > self._end


class Heartbeat(Callback):
    """Reports that steps are trained, or texts go through the frozen blocks.

    Args:
        report: Called with a dict: `event` is `alive`, `has_trained` whether a
            step is done, `memory` the process's own in bytes.
    """

    def __init__(self, report: Callable[[Record], None]) -> None:
        self._report = report
        self._has_trained = False
        self._last = 0.0

    def on_build(self, trainer: "Trainer") -> None:
        self._beat()

    def on_steps_end(
        self, trainer: "Trainer", losses: np.ndarray, counts: np.ndarray
    ) -> None:
        if not self._has_trained:  # other runs wait for its feature cache
            self._has_trained, self._last = True, 0.0
        self._beat()

    def on_record(self, trainer: "Trainer", line: Record) -> None:
        self._beat()

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._last >= SECONDS_PER_BEAT:
            self._report(
                {
                    "event": "alive",
                    "has_trained": self._has_trained,
                    "memory": machine.own_memory(),
                }
            )
            self._last = now


def _format_line(line: Record) -> str:
    """A line of `epochs.jsonl` as the terminal shows it."""
    parts = [f"epoch {line['phase_epoch']:>2}"]
    if line["task"]:
        parts.append(f"{line['task']:<10}")
    parts.append(f"loss {line['train_loss']:.4f}")
    for kind in ("validation", "test"):
        metrics = line[kind] or {}
        shown = [*metrics][:2]
        if OVERALL in metrics:  # of several objectives
            shown = [OVERALL]
        for metric in shown:
            parts.append(f"{kind} {metric} {metrics[metric]:.4f}")
    speed = f"({line['examples_per_second']:.1f} examples/s)"
    parts.append(f"{line['train_seconds']:.1f} s {speed}")
    return "  ".join(parts)
