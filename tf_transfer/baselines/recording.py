"""Writes the run directory of a baseline, as a run like any other."""

import dataclasses
from typing import Any, TYPE_CHECKING

import numpy as np

from tf_transfer.data.task import Task
from tf_transfer.training import tensorboard
from tf_transfer.utils import machine

if TYPE_CHECKING:
    from tf_transfer.training import records

Scores = dict[str, float] | None


@dataclasses.dataclass(frozen=True)
class Processor:
    """The devices that `RunDirectory.begin` records."""

    names: tuple[str, ...] = ("/device:CPU:0",)
    replicas: int = 1
    workers: int = 1


CPU = Processor()


def make_line(
    number: int,
    scores: dict[str, Scores],
    examples: int,
    train_seconds: float,
    eval_seconds: float,
    elapsed: float,
) -> dict[str, Any]:
    """The line of `epochs.jsonl` for a fit.

    Args:
        number: Of the fit, from 1.
        scores: By `validation` and `test`, then by metric.
        examples: That were trained on.
        train_seconds, eval_seconds: Of this fit.
        elapsed: Seconds of training so far.
    """
    return {
        "epoch": number,
        "phase": 1,
        "phase_epoch": number,
        "task": None,
        "train_loss": None,
        "validation": scores.get("validation"),
        "test": scores.get("test"),
        "train_seconds": train_seconds,
        "eval_seconds": eval_seconds,
        "elapsed_seconds": elapsed,
        "examples_per_second": examples / max(train_seconds, 1e-9),
        "peak_memory_bytes": machine.own_memory(),
    }


def end(
    settings: Any,
    directory: "records.RunDirectory",
    task: Task,
    lines: list[dict[str, Any]],
    arrays: dict[str, np.ndarray],
    **result: Any,
) -> dict[str, Any]:
    """Ends a run, with the means over all fits as its scores.

    Args:
        settings: Resolved, of an experiment with such features.
        directory: The run directory; the run has begun.
        task: The task.
        lines: See `make_line`.
        arrays: Of `predictions.npz`.
        result: Further content of `result.json`, or other content.

    Returns:
        The content of `result.json`.
    """
    directory.write_epochs(lines)
    directory.write_predictions(arrays)
    events = tensorboard.RunEvents(directory.path)
    events.start(0, {"approach": settings.approach, "task": task.name})
    means: dict[str, Scores] = {}
    for kind in ("validation", "test"):
        means[kind] = lines[0][kind] and {
            metric: float(np.mean([line[kind][metric] for line in lines]))
            for metric in lines[0][kind]
        }
        for line in lines:
            for metric, value in (line[kind] or {}).items():
                events.scalar(f"{kind}/{metric}", value, line["epoch"])
    record = {
        "task": task.name,
        "metric": task.metric,
        "approach": settings.approach,
        "trainable_layers": None,
        "lr": None,
        "batch_size": None,
        **means,
        "test_last": means["test"],
        "best_epoch": None,
        "epochs_run": len(lines),
        "stop_reason": "one held-out set"
        if len(lines) == 1
        else f"mean of {len(lines)} folds",
        "phases": [],
        "train_seconds": lines[-1]["elapsed_seconds"],
        "seconds_per_epoch": float(
            np.mean([line["train_seconds"] for line in lines])
        ),
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        **result,
    }
    events.log_result(record, task.metric, len(lines))
    events.close()
    directory.end(record)
    return record
