"""A baseline on the splits of a task, as a run like any other."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

import numpy as np

from tf_transfer.baselines import recording
from tf_transfer.data import entities, metrics, splits
from tf_transfer.data.task import Task
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.training import records


def run(
    settings: Any,
    directory: "records.RunDirectory",
    task: Task,
    examples: dict[str, dict[str, Any]],
    baseline: Any,
    inputs: dict[str, dict[str, Any]] | None = None,
    devices: Any = recording.CPU,
    finish: Callable[[], dict[str, Any]] = dict,
    input_seconds: float = 0.0,
) -> dict[str, Any]:
    """Fits and scores a baseline.

    Args:
        settings: Resolved, of an experiment with such features.
        directory: The run directory.
        task: The task.
        examples: See `RunData.read`.
        baseline: Has `fit` and `logits`, `chosen` and `parameters`.
        inputs: The inputs of each split; None for the examples themselves.
        devices: See `RunDirectory.begin`.
        finish: Called once all is scored, to write further files. It returns
            further content of `result.json`.
        input_seconds: Of making the inputs, which count as training.

    Returns:
        The content of `result.json`.

    Raises:
        UserError: No example is left to score.
    """
    inputs = inputs or examples
    if not (examples["validation"] or examples["test"]):
        raise UserError(splits.NOTHING_SCORED)
    with contextlib.closing(directory):
        began = time.monotonic() - input_seconds
        baseline.fit(inputs["train"][""])
        train_seconds = time.monotonic() - began
        sizes = {
            join(kind, name): len(part)
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
        scores: dict[str, recording.Scores] = {"validation": None, "test": None}
        arrays: dict[str, np.ndarray] = {}
        for kind in scores:
            for name, part in examples[kind].items():
                logits = baseline.logits(inputs[kind][name])
                measured = measure(task, part, logits)
                scores[kind] = (scores[kind] or {}) | {
                    join(name, metric): v for metric, v in measured.items()
                }
                prefix = join(kind, name)
                arrays |= {
                    f"{prefix}_ids": part.ids,
                    f"{prefix}_labels": labels_of(task, part),
                    f"{prefix}_logits": logits,
                }
                if task.is_tagging:
                    tagged = entities.encode(part.tags, task.labels or ())
                    arrays[f"{prefix}_starts"] = tagged.starts
        seconds = time.monotonic() - began - train_seconds
        line = recording.make_line(
            1, scores, sizes["train"], train_seconds, seconds, train_seconds
        )
        return recording.end(
            settings,
            directory,
            task,
            [line],
            arrays,
            **{
                "seed": settings.split_seed,
                "trainable_parameters": baseline.parameters,
                "total_parameters": baseline.parameters,
                "warnings": splits.find_warnings(task, examples),
                **finish(),
            },
        )


def join(*names: str) -> str:
    """The name of a split or metric, such as `test_mismatched`."""
    return "_".join(filter(None, names))


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
