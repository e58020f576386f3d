"""A sparse baseline, tested in folds, as a run like any other."""

import sys
import time
from collections.abc import Iterable
from typing import Any
from typing import TYPE_CHECKING

import numpy as np
import tqdm

from tf_transfer.baselines import one_split
from tf_transfer.baselines import sparse
from tf_transfer.data import held_out
from tf_transfer.data import metrics
from tf_transfer.data import splits
from tf_transfer.data.task import Examples
from tf_transfer.data.task import Task
from tf_transfer.training import tensorboard
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.training import records

NOT_IN_A_FOLD: dict[str, Any] = {
    "phase": 1,
    "task": None,
    "train_loss": None,
    "validation": None,
}


def run(
    settings: Any,
    directory: "records.RunDirectory",
    task: Task,
    examples: Examples,
    folds: list[held_out.Split],
) -> dict[str, Any]:
    """Fits and tests a baseline in every fold.

    Args:
        settings: `tweets.TweetsSettings`, resolved, with sparse features.
        directory: The run directory.
        task: The task.
        examples: The texts and their labels.
        folds: For each fold the rows to train on, and the rows to test.

    Returns:
        What `result.json` says.
    """
    try:
        return _run(settings, directory, task, examples, folds)
    finally:
        directory.close()


def _run(
    settings: Any,
    directory: "records.RunDirectory",
    task: Task,
    examples: Examples,
    folds: list[held_out.Split],
) -> dict[str, Any]:
    began = time.monotonic()
    labels, [stems] = examples.labels, examples.texts
    assert labels is not None
    if settings.preprocessing == "hart":
        stems = sparse.preprocess(_bar(stems, desc="stemming", unit=" texts"))
    texts = sparse.as_array(stems)
    elapsed = time.monotonic() - began
    logits = np.zeros((len(labels), task.units))
    parameters = 0
    lines: list[dict[str, Any]] = []
    warnings: dict[str, None] = {}  # each once, in their order
    for train, tested in _bar(folds, desc="folds", unit=" folds"):
        train = train[
            splits.choose_subset(
                labels[train],
                settings.max_train_examples,
                settings.split_seed,
            )
        ]
        held_out.check_labels(
            labels[train],
            task.labels or (),
            "--max_train_examples: leaves",
            "Leave more rows to train on.",
        )
        tested_labels = labels[tested]
        warnings |= dict.fromkeys(
            splits.warn_of_labels(task, labels[train], [tested_labels])
        )
        began = time.monotonic()
        try:
            baseline = sparse.Baseline(settings.features)
            baseline.fit(texts[train], labels[train])
        except ValueError as error:
            raise UserError(
                f"--features={settings.features}: nothing can be learned from "
                f"{settings.data} ({error})."
            ) from None
        train_seconds = time.monotonic() - began
        elapsed += train_seconds
        logits[tested] = baseline.logits(texts[tested])
        scores = metrics.measure(task.metrics, tested_labels, logits[tested])
        eval_seconds = time.monotonic() - began - train_seconds
        if not lines:
            sizes = {"train": len(train), "test": len(tested)}
            parameters = baseline.parameters
            directory.begin(
                settings,
                one_split.Processor(),
                {"classifier": parameters},
                sizes,
            )
            events = tensorboard.RunEvents(directory.path)
            events.start(0, {"approach": settings.approach})
        lines.append(
            {
                "epoch": len(lines) + 1,
                "phase_epoch": len(lines) + 1,
                "test": scores,
                "train_seconds": train_seconds,
                "eval_seconds": eval_seconds,
                "elapsed_seconds": elapsed,
                "examples_per_second": len(train) / max(train_seconds, 1e-9),
                "peak_memory_bytes": machine.own_memory(),
                **NOT_IN_A_FOLD,
            }
        )
        for name, value in scores.items():
            events.scalar(f"test/{name}", value, len(lines))
    directory.write_epochs(lines)
    rows = np.sort(np.concatenate([tested for _, tested in folds]))
    directory.write_predictions(
        {
            "test_ids": rows,
            "test_labels": labels[rows],
            "test_logits": logits[rows],
        }
    )
    result = _make_result(settings, task, lines, parameters)
    result["warnings"] = [*warnings]
    events.log_result(result, task.metric, len(lines))
    events.close()
    directory.end(result)
    return result


def _make_result(
    settings: Any, task: Task, lines: list[dict[str, Any]], parameters: int
) -> dict[str, Any]:
    """What `result.json` says: means over the folds."""
    means = {
        name: float(np.mean([line["test"][name] for line in lines]))
        for name in task.metrics
    }
    return {
        "task": task.name,
        "metric": task.metric,
        "approach": settings.approach,
        "trainable_layers": None,
        "lr": None,
        "batch_size": None,
        "seed": settings.fold_seed,
        "validation": None,
        "test": means,
        "test_last": means,
        "best_epoch": None,
        "epochs_run": len(lines),
        "stop_reason": _stop_reason(len(lines)),
        "phases": [],
        "train_seconds": lines[-1]["elapsed_seconds"],
        "seconds_per_epoch": float(
            np.mean([line["train_seconds"] for line in lines])
        ),
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        "trainable_parameters": parameters,
        "total_parameters": parameters,
    }


def _stop_reason(folds: int) -> str:
    return f"mean of {folds} folds" if folds > 1 else "one held-out set"


def _bar(items: Iterable[Any], **options: Any) -> Iterable[Any]:
    return tqdm.tqdm(
        items, leave=False, disable=None, file=sys.stderr, **options
    )
