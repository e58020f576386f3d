"""The position of a run, its times, and the rule that stops a phase."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.training.results import Outcome, PhaseResult
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.feature_cache.feature_cache import BuildCost

OVERALL = "overall"  # the metric that summarises those of all objectives


@dataclasses.dataclass
class EarlyStopping:
    """Wang's rule: stop when validation has not risen for two epochs.

    A rise is more than `min_delta` above the best score so far: many smaller
    steps do not count, whatever their sum. The best epoch has the highest
    score, the first of equal ones, whether it was a rise or not.

    Attributes:
        patience: Epochs without a rise after which to stop; 0 never stops.
        min_delta: The bound that a rise must exceed, in units of the score.
        wait: Epochs since the last rise.
        best: The highest score so far.
    """

    patience: int = 0
    min_delta: float = 0.0
    wait: int = 0
    best: float | None = None

    def update(self, score: float) -> bool:
        """Takes the score of an epoch. Returns whether it is the best."""
        has_risen = self.best is None or score > self.best + self.min_delta
        self.wait = 0 if has_risen else self.wait + 1
        is_best = self.best is None or score > self.best
        if is_best:
            self.best = score
        return is_best

    @property
    def should_stop(self) -> bool:
        """Whether the patience is used up."""
        return 0 < self.patience <= self.wait


@dataclasses.dataclass
class Chunk:
    """Steps that were trained without a look at the clock.

    Attributes:
        losses: float32 [steps]. The mean loss of each.
        counts: int32 [steps]. The examples of each.
        seconds: Of the steps; time between chunks is not counted.
        is_first: Whether it is one step that the program ran for the first
            time, and compiled before.
        trace_seconds: Of tracing before it, which `seconds` leave out.
    """

    losses: np.ndarray
    counts: np.ndarray
    seconds: float
    is_first: bool
    trace_seconds: float


@dataclasses.dataclass
class Progress:
    """The state of a run, apart from arrays.

    Attributes:
        phase, epoch, task, step: Position: phase from 0, epoch within it from
            1, index of the task (the pass of the epoch) from 0, and steps of
            the pass that have been trained.
        total_steps, total_epochs: Over all phases.
        loss_sum, examples: Of the pass so far.
        train_seconds: Of the pass so far, without its first steps.
        first_seconds, first_steps: Seconds and number of the steps of the pass
            so far that a program ran for the first time.
        trace_seconds: Of the pass so far, evaluation included; of a phase's
            first pass also that of its feature cache.
        elapsed: Seconds of training and of building a feature cache, over all
            starts.
        prefix_seconds, prefix_engine: As in `result.json`.
        prefixes: The seconds that each frozen prefix took which was stored,
            whichever process ran it; by phase and objective.
        stopping: The phase's `EarlyStopping`.
        best: The record of the selected epoch, `line`, and the file of its
            weights, `model`; empty before the first.
        phase_records: The phases that are over, as `result.json` has them.
        epochs: The lines of `epochs.jsonl`.
        frozen_sha256: Hash of the weights that must not move.
    """

    phase: int = 0
    epoch: int = 1
    task: int = 0
    step: int = 0
    total_steps: int = 0
    total_epochs: int = 1
    loss_sum: float = 0.0
    examples: int = 0
    train_seconds: float = 0.0
    first_seconds: float = 0.0
    first_steps: int = 0
    trace_seconds: float = 0.0
    elapsed: float = 0.0
    prefix_seconds: float = 0.0
    prefix_engine: str = ""
    prefixes: dict[str, float] = dataclasses.field(default_factory=dict)
    stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    best: Record = dataclasses.field(default_factory=dict)
    phase_records: list[PhaseResult] = dataclasses.field(default_factory=list)
    epochs: list[Record] = dataclasses.field(default_factory=list)
    frozen_sha256: str = ""

    def add(self, chunk: Chunk) -> None:
        """Adds the steps of a chunk to those of the pass."""
        for loss, count in zip(chunk.losses.tolist(), chunk.counts.tolist()):
            self.loss_sum += loss * count
        self.examples += int(chunk.counts.sum())
        self.step += len(chunk.counts)
        self.total_steps += len(chunk.counts)
        self.trace_seconds += chunk.trace_seconds
        if chunk.is_first:
            self.first_seconds += chunk.seconds
            self.first_steps += 1
        else:
            self.train_seconds += chunk.seconds
            self.elapsed += chunk.seconds

    def add_prefix(
        self, objective: str, engine: tuple[str, str], cost: "BuildCost"
    ) -> None:
        """Adds the seconds that the stored output of a prefix cost.

        Args:
            objective: Name of the objective that reads it.
            engine: What built it, and its precision.
            cost: Its seconds.
        """
        self.prefixes[f"{self.phase} {objective}"] = cost.original
        self.prefix_engine = " ".join(engine)
        self.prefix_seconds += cost.paid
        self.trace_seconds += cost.traced
        self.elapsed += cost.paid

    def end_pass(self) -> None:
        """Divides the seconds of first steps into training and compiling.

        Such a step counts as training for the mean of the pass's other steps.
        Without others, it is training.
        """
        seconds = self.first_seconds
        others = self.step - self.first_steps
        if others:
            mean = self.train_seconds / others
            seconds = min(seconds, mean * self.first_steps)
        self.train_seconds += seconds
        self.elapsed += seconds
        self.trace_seconds += self.first_seconds - seconds
        self.first_seconds, self.first_steps = 0.0, 0

    def start_pass(self, task: int) -> None:
        """Moves to the beginning of an epoch's pass, numbered from 0."""
        self.task, self.step = task, 0
        self.loss_sum, self.examples = 0.0, 0
        self.train_seconds = self.trace_seconds = 0.0

    def describe_pass(
        self, task: str | None, scores: Record, eval_seconds: float
    ) -> Record:
        """The line of `epochs.jsonl` on the pass that has just ended.

        Args:
            task: Whose pass it was; None where it was of all tasks.
            scores: Metrics of `validation` and `test`.
            eval_seconds: Of the evaluation, without tracing.
        """
        return {
            "epoch": self.total_epochs,
            "phase": self.phase + 1,
            "phase_epoch": self.epoch,
            "task": task,
            "train_loss": self.loss_sum / self.examples,
            **scores,
            "train_seconds": self.train_seconds,
            "eval_seconds": eval_seconds,
            "trace_seconds": self.trace_seconds,
            "elapsed_seconds": self.elapsed,
            "examples_per_second": self.examples
            / max(self.train_seconds, 1e-9),
        }

    def make_outcome(
        self, is_cached: bool, trainable: int, parameters: int
    ) -> Outcome:
        """The outcome of a run that is over.

        Args:
            is_cached: Whether the output of a frozen prefix is stored.
            trainable: Number of the parameters that trained.
            parameters: Number of all.
        """
        lines, best = self.epochs, self.best["line"]
        epochs = {line["epoch"] for line in lines}
        seconds = sum(line["train_seconds"] for line in lines)
        return {
            "validation": best["validation"],
            "test": best["test"],
            "test_last": lines[-1]["test"],
            "best_epoch": best["epoch"],
            "epochs_run": lines[-1]["epoch"],
            "stop_reason": self.phase_records[-1]["stop_reason"],
            "phases": self.phase_records,
            "train_seconds": self.elapsed,
            "seconds_per_epoch": seconds / len(epochs),
            "trace_seconds": sum(line["trace_seconds"] for line in lines),
            "prefix_seconds": self.prefix_seconds if is_cached else None,
            "prefix_build_seconds": (
                sum(self.prefixes.values()) if is_cached else None
            ),
            "prefix_engine": self.prefix_engine or None,
            "trainable_parameters": trainable,
            "total_parameters": parameters,
        }
