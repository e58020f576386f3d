"""The position of a run, and a line of its record as text."""

import dataclasses
from typing import Any

from tf_transfer.training.stopping import EarlyStopping

OVERALL = "overall"  # the metric that summarises those of all objectives
SAMPLE = "train"  # split name of a fixed sample of the training set


@dataclasses.dataclass
class Progress:
    """The state of a run, apart from arrays.

    Attributes:
        phase, epoch, task, step: position: phase from 0, epoch within it from
            1, index of the task (the pass of the epoch) from 0, and steps of
            the pass that have been trained.
        total_steps, total_epochs: over all phases.
        loss_sum, examples: of the pass so far.
        train_seconds: of the pass so far.
        elapsed: seconds of training and of building a feature cache, over all
            starts.
        prefix_seconds, prefix_build_seconds: as in `result.json`.
        prefixes: phase and objective of each frozen prefix that was stored:
            its original cost is counted once.
        started_in: total epochs that began with new or restored programs:
            their seconds include tracing.
        stopping: the phase's `EarlyStopping`.
        first: the first block that still trains, where blocks freeze during
            the phase; 0 before.
        norms: gradient norms of the blocks that train, of the last interval.
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
    elapsed: float = 0.0
    prefix_seconds: float = 0.0
    prefix_build_seconds: float = 0.0
    prefixes: list[str] = dataclasses.field(default_factory=list)
    started_in: list[int] = dataclasses.field(default_factory=list)
    stopping: EarlyStopping = dataclasses.field(default_factory=EarlyStopping)
    first: int = 0
    norms: list[float] = dataclasses.field(default_factory=list)
    best: Any = None
    phase_records: list[dict] = dataclasses.field(default_factory=list)
    epochs: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    frozen_sha256: str = ""


def format_line(line: dict[str, Any]) -> str:
    """A line of `epochs.jsonl` as the terminal shows it."""
    parts = [
        f"epoch {line['phase_epoch']:>2}",
        *([f"{line['task']:<10}"] if line["task"] else []),
        f"loss {line['train_loss']:.4f}",
    ]
    for kind in ("validation", "test"):
        for metric, value in _headlines(line[kind] or {}):
            parts.append(f"{kind} {metric} {value:.4f}")
    parts.append(
        f"{line['train_seconds']:.1f} s "
        f"({line['examples_per_second']:.1f} examples/s)"
    )
    return "  ".join(parts)


def _headlines(metrics: dict[str, float]) -> list[tuple[str, float]]:
    """The first two metrics; of several objectives, the overall one."""
    if OVERALL in metrics:
        return [(OVERALL, metrics[OVERALL])]
    return list(metrics.items())[:2]
