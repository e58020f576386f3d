"""A sparse baseline, tested in folds, as a run like any other."""

import dataclasses
import sys
import time

import numpy as np
import tqdm

from tf_transfer.baselines import sparse
from tf_transfer.data import heldout
from tf_transfer.data import metrics
from tf_transfer.data import subsets
from tf_transfer.training import session
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

NOT_IN_A_FOLD = {
    "phase": 1,
    "turn": None,
    "train_loss": None,
    "validation": None,
}


@dataclasses.dataclass(frozen=True)
class _Machine:
    """What `session.open_directory` asks of devices."""

    names: tuple = ("/device:CPU:0",)
    replicas: int = 1
    workers: int = 1


def run(settings, directory, task, table, folds):
    """Fits and tests in every fold. Returns what `result.json` says.

    Args:
        settings: `tweets.TweetsSettings`, resolved, with sparse features.
        directory: `records.RunDirectory`.
        task: `tasks.Task`.
        table: `tables.Table`.
        folds: list of (rows to train on, rows to test).
    """
    result = session.finished(settings, directory)
    if result is not None:
        return result
    try:
        return _run(settings, directory, task, table, folds)
    finally:
        directory.close()


def _run(settings, directory, task, table, folds):
    began = time.monotonic()
    texts = table.texts
    if settings.preprocessing == "hart":
        texts = sparse.preprocess(texts, _bar)
    texts = sparse.as_array(texts)
    prepared = time.monotonic() - began
    logits = np.zeros((len(table), task.units))
    lines, parameters = [], 0
    for train, tested in _bar(folds, desc="folds", unit=" folds"):
        train = train[
            subsets.subset(
                table.labels[train],
                settings.max_train_examples,
                settings.split_seed,
            )
        ]
        heldout.check_labels(
            train, table.labels, table.words, "max_train_examples"
        )
        began = time.monotonic()
        try:
            baseline = sparse.Baseline(settings.features)
            baseline.fit(texts[train], table.labels[train])
        except ValueError as error:
            raise UserError(
                f"--features={settings.features}: nothing can be learned from "
                f"{settings.data} ({error})."
            ) from None
        trained = time.monotonic() - began
        logits[tested] = baseline.logits(texts[tested])
        measured = metrics.measure(
            task.metrics, table.labels[tested], logits[tested]
        )
        ended = time.monotonic() - began
        if not lines:
            sizes = {"train": len(train), "test": len(tested)}
            parameters = baseline.parameters
            session.open_directory(
                directory,
                settings,
                _Machine(),
                {"classifier": parameters},
                sizes,
            )
            directory.start_events(0, {"approach": settings.approach})
        before = lines[-1]["elapsed_seconds"] if lines else prepared
        lines.append(
            {
                "epoch": len(lines) + 1,
                "phase_epoch": len(lines) + 1,
                "test": measured,
                "train_seconds": trained,
                "eval_seconds": ended - trained,
                "elapsed_seconds": before + trained,
                "examples_per_second": len(train) / max(trained, 1e-9),
                "peak_memory_bytes": machine.own_memory(),
                **NOT_IN_A_FOLD,
            }
        )
        for name, value in measured.items():
            directory.scalar(f"test/{name}", value, len(lines))
    directory.write_epochs(lines)
    rows = np.sort(np.concatenate([tested for _, tested in folds]))
    directory.write_predictions(
        {
            "test_ids": rows,
            "test_labels": table.labels[rows],
            "test_logits": logits[rows],
        }
    )
    facts = _facts(settings, task, lines, parameters)
    session.write(directory, facts, len(lines))
    return facts


def _facts(settings, task, lines, parameters):
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


def _stop_reason(folds):
    return f"mean of {folds} folds" if folds > 1 else "one held-out set"


def _bar(items, **options):
    return tqdm.tqdm(
        items, leave=False, disable=None, file=sys.stderr, **options
    )
