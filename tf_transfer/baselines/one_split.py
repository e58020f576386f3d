"""A baseline on the splits of a task, as a run like any other."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.data import entities
from tf_transfer.data import metrics
from tf_transfer.data import splits
from tf_transfer.data.task import Task
from tf_transfer.training import tensorboard
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.training import records


@dataclasses.dataclass(frozen=True)
class Processor:
    """The devices that `RunDirectory.begin` records."""

    names: tuple[str, ...] = ("/device:CPU:0",)
    replicas: int = 1
    workers: int = 1


def run(
    settings: Any,
    directory: "records.RunDirectory",
    task: Task,
    examples: dict[str, dict[str, Any]],
    baseline: Any,
    inputs: dict[str, dict[str, Any]] | None = None,
    devices: Any = Processor(),
    finish: Callable[[], dict[str, Any]] = dict,
    input_seconds: float = 0.0,
) -> dict[str, Any]:
    """Fits and scores a baseline.

    Args:
        settings: Resolved, of an experiment with such features.
        directory: The run directory.
        task: The task.
        examples: See `tasks.read_splits`.
        baseline: Has `fit` and `logits`, `chosen` and `parameters`.
        inputs: What it reads of each split; None for the examples themselves.
        devices: What it runs on; see `RunDirectory.begin`.
        finish: Called once all is scored, to write what else the run keeps.
            It returns what else `result.json` says.
        input_seconds: That the inputs took, which count as training.

    Returns:
        What `result.json` says.

    Raises:
        UserError: No example is left to score.
    """
    inputs = inputs or examples
    if not (examples["validation"] or examples["test"]):
        raise UserError(splits.NOTHING_SCORED)
    with contextlib.closing(directory):
        train = examples["train"][""]
        began = time.monotonic()
        baseline.fit(inputs["train"][""])
        train_seconds = time.monotonic() - began + input_seconds
        sizes = {
            "_".join(filter(None, (kind, name))): len(part)
            for kind, named in examples.items()
            for name, part in named.items()
        }
        directory.begin(
            settings,
            devices,
            {"classifier": baseline.parameters},
            sizes,
            {"tasks": {task.name: task.record}, "chosen": baseline.chosen},
        )
        events = tensorboard.RunEvents(directory.path)
        events.start(0, {"approach": settings.approach, "task": task.name})
        scores: dict[str, dict[str, float] | None] = {}
        arrays: dict[str, np.ndarray] = {}
        for kind in ("validation", "test"):
            scores[kind] = None
            for name, part in examples[kind].items():
                prefix = f"{name}_" if name else ""
                labels = labels_of(task, part)
                logits = baseline.logits(inputs[kind][name])
                measured = measure(task, part, logits)
                for metric, value in measured.items():
                    events.scalar(f"{kind}/{prefix}{metric}", value, 1)
                scores[kind] = {
                    **(scores[kind] or {}),
                    **{prefix + metric: v for metric, v in measured.items()},
                }
                arrays |= {
                    f"{kind}_{prefix}ids": part.ids,
                    f"{kind}_{prefix}labels": labels,
                    f"{kind}_{prefix}logits": logits,
                }
                if task.is_tagging:
                    tagged = entities.encode(part.tags, task.labels or ())
                    arrays[f"{kind}_{prefix}starts"] = tagged.starts
        seconds = time.monotonic() - began + input_seconds
        line = {
            "epoch": 1,
            "phase": 1,
            "phase_epoch": 1,
            "task": None,
            "train_loss": None,
            **scores,
            "train_seconds": train_seconds,
            "eval_seconds": seconds - train_seconds,
            "elapsed_seconds": train_seconds,
            "examples_per_second": len(train) / max(train_seconds, 1e-9),
            "peak_memory_bytes": machine.own_memory(),
        }
        directory.write_epochs([line])
        directory.write_predictions(arrays)
        result = {
            "task": task.name,
            "metric": task.metric,
            "approach": settings.approach,
            "trainable_layers": None,
            "lr": None,
            "batch_size": None,
            "seed": settings.split_seed,
            **scores,
            "test_last": scores["test"],
            "best_epoch": None,
            "epochs_run": 1,
            "stop_reason": "one held-out set",
            "phases": [],
            "train_seconds": train_seconds,
            "seconds_per_epoch": train_seconds,
            "prefix_seconds": None,
            "prefix_build_seconds": None,
            "trainable_parameters": baseline.parameters,
            "total_parameters": baseline.parameters,
            "warnings": splits.find_warnings(task, examples),
            **finish(),
        }
        events.log_result(result, task.metric, 1)
        events.close()
        directory.end(result)
        return result


def labels_of(task: Task, part: Any) -> np.ndarray:
    """Labels of a split's texts, or of its words."""
    if not task.is_tagging:
        return part.labels
    return entities.encode(part.tags, task.labels or ()).ids


def measure(task: Task, part: Any, logits: np.ndarray) -> dict[str, float]:
    """The metrics of a split.

    Args:
        task: Whose.
        part: Its examples, or sentences.
        logits: float [examples or words, units].
    """
    if not task.is_tagging:
        return metrics.measure(task.metrics, part.labels, logits)
    expected = entities.encode(part.tags, task.labels or ())
    predicted = entities.Tagged(logits.argmax(axis=1), expected.starts)
    types = entities.types_of(task.labels or ())
    scores = entities.score(expected, predicted, types)
    return {n: scores[n] for n in dict.fromkeys((*task.metrics, *scores))}
