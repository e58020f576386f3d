"""A sparse baseline, tested in folds, as a run like any other."""

import contextlib
import functools
import time
from typing import Any, TYPE_CHECKING

import numpy as np
import tqdm

from tf_transfer.baselines import recording, sparse
from tf_transfer.data import held_out, metrics, splits
from tf_transfer.data.task import Examples, Task
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.training import records

_bar = functools.partial(tqdm.tqdm, leave=False, disable=None)


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
        The content of `result.json`.

    Raises:
        UserError: Nothing can be learned from the training texts of a fold.
    """
    with contextlib.closing(directory):
        began = time.monotonic()
        labels, [stems] = examples.labels, examples.texts
        assert labels is not None
        if settings.preprocessing == "hart":
            stems = sparse.preprocess(
                _bar(stems, desc="stemming", unit=" texts")
            )
        texts = sparse.as_array(stems)
        elapsed = time.monotonic() - began
        lines: list[dict[str, Any]] = []
        logits = np.zeros((len(labels), task.units))
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
                    f"--features={settings.features}: nothing can be learned "
                    f"from {settings.data} ({error})."
                ) from None
            train_seconds = time.monotonic() - began
            logits[tested] = baseline.logits(texts[tested])
            scores = metrics.measure(
                task.metrics, tested_labels, logits[tested]
            )
            eval_seconds = time.monotonic() - began - train_seconds
            elapsed += train_seconds
            if not lines:
                parameters = baseline.parameters
                directory.begin(
                    settings,
                    recording.CPU,
                    {"classifier": parameters},
                    {"train": len(train), "test": len(tested)},
                )
            lines.append(
                recording.make_line(
                    len(lines) + 1,
                    {"test": scores},
                    len(train),
                    train_seconds,
                    eval_seconds,
                    elapsed,
                )
            )
        rows = np.sort(np.concatenate([tested for _, tested in folds]))
        return recording.end(
            settings,
            directory,
            task,
            lines,
            {
                "test_ids": rows,
                "test_labels": labels[rows],
                "test_logits": logits[rows],
            },
            seed=settings.fold_seed,
            trainable_parameters=parameters,
            total_parameters=parameters,
            warnings=[*warnings],
        )
