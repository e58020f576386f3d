"""The position of a run, and the rule that stops a phase."""

import dataclasses
from typing import Any

OVERALL = "overall"  # the metric that summarises those of all objectives
SAMPLE = "train"  # split name of a fixed sample of the training set


@dataclasses.dataclass
class EarlyStopping:
    """Wang's rule: stop when validation has not risen for two epochs.

    A rise is more than `min_delta` above the best score so far: many smaller
    steps do not count, whatever their sum. The best epoch has the highest
    score, the first of equal ones, whether it was a rise or not.

    Attributes:
        patience: epochs without a rise after which to stop; 0 never stops.
        min_delta: the bound that a rise must exceed, in units of the score.
        wait: epochs since the last rise.
        best: the highest score so far.
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
class Progress:
    """The state of a run, apart from arrays.

    Attributes:
        phase, epoch, task, step: position: phase from 0, epoch within it from
            1, index of the task (the pass of the epoch) from 0, and steps of
            the pass that have been trained.
        total_steps, total_epochs: over all phases.
        loss_sum, examples: of the pass so far.
        train_seconds: of the pass so far, without its first steps.
        first_seconds, first_steps: seconds and number of the steps of the pass
            so far that a program ran for the first time.
        trace_seconds: of the pass so far, evaluation included; of a phase's
            first pass also that of its feature cache.
        elapsed: seconds of training and of building a feature cache, over all
            starts.
        prefix_seconds, prefix_build_seconds, prefix_engine: as in
            `result.json`.
        prefixes: phase and objective of each frozen prefix that was stored:
            its original cost is counted once.
        stopping: the phase's `EarlyStopping`.
        best: the record of the selected epoch, and the file of its weights.
        phase_records: the phases that are over, as `result.json` has them.
        epochs: the lines of `epochs.jsonl`.
        frozen_sha256: hash of the weights that must not move.
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
    prefix_build_seconds: float = 0.0
    prefix_engine: str = ""
    prefixes: list[str] = dataclasses.field(default_factory=list)
    stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    best: Any = None
    phase_records: list[dict] = dataclasses.field(default_factory=list)
    epochs: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    frozen_sha256: str = ""

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
