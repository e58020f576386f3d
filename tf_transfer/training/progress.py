"""Where a run stands, and how a line of its record reads."""

import dataclasses

OVERALL = "overall"  # what the metrics of several objectives come to
SAMPLE = "train_"  # before the metrics on a sample of the training set


@dataclasses.dataclass
class Progress:
    """Where a run stands: everything of its state that is no array.

    Attributes:
        phase, epoch, turn, step: position: phase from 0, epoch within it
            from 1, turn and step from 0. `step` steps of the turn are done.
        total_steps, total_epochs: over all phases.
        loss_sum, seen: of the turn so far.
        train_seconds: of the turn so far.
        elapsed: seconds of training and of building a prefix cache, over
            all starts.
        prefix_seconds, prefix_build_seconds: as in `result.json`.
        prefix_stops: dict from phase and objective to `Prefix.stops`: a
            resume goes on with the same.
        started_in: total epochs in which a process started: they trace.
        stopper: of the phase.
        best: where the weights of the best epoch are, with its record.
        finished: the phases that are done, as `result.json` has them.
        epochs: the lines of `epochs.jsonl`.
        frozen_sha256: what must not have moved.
    """

    phase: int = 0
    epoch: int = 1
    turn: int = 0
    step: int = 0
    total_steps: int = 0
    total_epochs: int = 1
    loss_sum: float = 0.0
    seen: int = 0
    train_seconds: float = 0.0
    elapsed: float = 0.0
    prefix_seconds: float = 0.0
    prefix_build_seconds: float = 0.0
    prefix_stops: dict = dataclasses.field(default_factory=dict)
    started_in: list = dataclasses.field(default_factory=list)
    stopper: dict = None
    best: dict = None
    finished: list = dataclasses.field(default_factory=list)
    epochs: list = dataclasses.field(default_factory=list)
    frozen_sha256: str = ""


def one_line(line):
    """What the terminal shows of a line of `epochs.jsonl`."""
    parts = [
        f"epoch {line['phase_epoch']:>2}",
        *([f"{line['turn']:<10}"] if line["turn"] else []),
        f"loss {line['train_loss']:.4f}",
    ]
    for kind in ("validation", "test"):
        for metric, value in _told(line[kind] or {}):
            parts.append(f"{kind} {metric} {value:.4f}")
    parts.append(
        f"{line['train_seconds']:.1f} s "
        f"({line['examples_per_second']:.1f} examples/s)"
    )
    return "  ".join(parts)


def _told(metrics):
    """The first two metrics; of several objectives, what they come to."""
    if OVERALL in metrics:
        return [(OVERALL, metrics[OVERALL])]
    return list(metrics.items())[:2]
