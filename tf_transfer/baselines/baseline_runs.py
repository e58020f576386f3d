"""A baseline as a run like any other: fitted, scored and recorded."""

import contextlib
import time
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TYPE_CHECKING

import numpy as np

from tf_transfer.data import error_analysis, metrics, splits
from tf_transfer.data.task import Task, Texts
from tf_transfer.training import tensorboard
from tf_transfer.training.checkpoint import Arrays
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.training import records

# The devices that `RunDirectory.begin` records.
CPU = types.SimpleNamespace(names=["/device:CPU:0"], replicas=1, workers=1)


def run(
    settings: Any,
    directory: "records.RunDirectory",
    task: Task,
    folds: Iterable[Texts],
    baseline: Any,
    seed: int,
    inputs: Mapping[str, Any] | None = None,
    input_seconds: float = 0.0,
    devices: Any = CPU,
    finish: Callable[[], Record] = dict,
    may_score_nothing: bool = False,
) -> Record:
    """Fits and scores a baseline in every fold; the scores are the means.

    Args:
        settings: Resolved, of an experiment with such features.
        directory: The run directory.
        task: The task.
        folds: The texts of each fold; see `RunData.read`. One fold, or
            folds that are tested alone.
        baseline: Has `fit` and `logits`, `chosen` and `parameters`.
        seed: The seed that the result records.
        inputs: The inputs of a single fold; see `splits.flatten`. None for
            the texts themselves.
        input_seconds: Seconds of making the inputs, which count as training.
        devices: See `RunDirectory.begin`.
        finish: Called once all is scored, to write further files. It returns
            further content of `result.json`.
        may_score_nothing: Whether texts may be for training alone.

    Returns:
        The content of `result.json`.

    Raises:
        UserError: No example is left to score.
    """
    lines: list[Record] = []
    predictions: list[Arrays] = []
    warnings: dict[str, None] = {}  # each once, in their order
    with contextlib.closing(directory):
        for texts in folds:
            is_scored = bool(texts["validation"] or texts["test"])
            if not (is_scored or may_score_nothing):
                raise UserError(splits.NOTHING_SCORED)
            parts = splits.flatten(texts)
            read = inputs or parts
            began = time.monotonic() - (0 if lines else input_seconds)
            baseline.fit(read["train"])
            train_seconds = time.monotonic() - began
            if not lines:
                directory.begin(
                    settings,
                    devices,
                    {"classifier": baseline.parameters},
                    {name: len(part) for name, part in parts.items()},
                    {
                        "tasks": {task.name: task.record},
                        "chosen": baseline.chosen,
                    },
                )
            scores, arrays = _score(task, baseline, texts, read)
            predictions.append(arrays)
            warnings |= dict.fromkeys(splits.find_warnings(task, texts))
            lines.append(
                {
                    "epoch": len(lines) + 1,
                    "phase": 1,
                    "phase_epoch": len(lines) + 1,
                    "task": None,
                    "train_loss": None,
                    "validation": scores.get("validation"),
                    "test": scores.get("test"),
                    "train_seconds": train_seconds,
                    "eval_seconds": time.monotonic() - began - train_seconds,
                    "trace_seconds": 0.0,
                    "elapsed_seconds": train_seconds
                    + sum(line["train_seconds"] for line in lines),
                    "examples_per_second": len(parts["train"])
                    / max(train_seconds, 1e-9),
                    "peak_memory_bytes": machine.own_memory(),
                }
            )
        if len(predictions) > 1:
            every = {
                name: np.concatenate([fold[name] for fold in predictions])
                for name in arrays
            }
            order = every["test_ids"].argsort()
            arrays = {name: array[order] for name, array in every.items()}
        else:
            scored = {name: (task, part) for name, part in parts.items()}
            directory.write_errors(
                error_analysis.describe_splits(scored, arrays)
            )
        directory.write_epochs(lines)
        directory.write_predictions(arrays)
        test = _mean_scores(lines, "test")
        record = {
            "task": task.name,
            "metric": task.metric,
            "approach": settings.approach,
            "trainable_layers": None,
            "lr": None,
            "batch_size": None,
            "seed": seed,
            "validation": _mean_scores(lines, "validation"),
            "test": test,
            "test_last": test,
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
            "trace_seconds": 0.0,
            "prefix_seconds": None,
            "prefix_build_seconds": None,
            "prefix_engine": None,
            "trainable_parameters": baseline.parameters,
            "total_parameters": baseline.parameters,
            "warnings": [*warnings],
            **finish(),
        }
        _write_events(directory.path, record, lines)
        directory.end(record)
    return record


def _score(
    task: Task,
    baseline: Any,
    texts: Texts,
    inputs: Mapping[str, Any],
) -> tuple[dict[str, dict[str, float]], Arrays]:
    """The scores of validation and test, and the predictions."""
    scores: dict[str, dict[str, float]] = {}
    arrays: Arrays = {}
    for kind in ("validation", "test"):
        for name, part in texts[kind].items():
            split = splits.join_names(kind, name)
            labels, starts = part.targets(task)
            logits = baseline.logits(inputs[split])
            measured = metrics.measure_task(task, labels, logits, starts)
            scores.setdefault(kind, {}).update(
                (splits.join_names(name, metric), score)
                for metric, score in measured.items()
            )
            arrays |= {
                f"{split}_ids": part.ids,
                f"{split}_labels": labels,
                f"{split}_logits": logits,
            }
            if starts is not None:
                arrays[f"{split}_starts"] = starts
            if part.groups is not None:
                arrays[f"{split}_groups"] = part.groups
    return scores, arrays


def _mean_scores(lines: list[Record], kind: str) -> dict[str, float] | None:
    if lines[0][kind] is None:
        return None
    return {
        metric: float(np.mean([line[kind][metric] for line in lines]))
        for metric in lines[0][kind]
    }


def _write_events(folder: str, record: Record, lines: list[Record]) -> None:
    events = tensorboard.RunEvents(folder)
    events.start(0, {name: record[name] for name in ("approach", "task")})
    for line in lines:
        for kind in ("validation", "test"):
            for metric, score in (line[kind] or {}).items():
                events.scalar(f"{kind}/{metric}", score, line["epoch"])
    events.log_result(record, record["metric"], len(lines))
    events.close()
