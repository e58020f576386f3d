"""A sparse baseline, tested in folds, as a run like any other."""

import dataclasses
import functools
import time
from collections.abc import Iterator
from typing import Any, TYPE_CHECKING

import tqdm

from tf_transfer.baselines import runs, sparse
from tf_transfer.data import held_out, splits
from tf_transfer.data.task import Examples, Task

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
    began = time.monotonic()
    if settings.preprocessing == "hart":
        [texts] = examples.texts
        stems = sparse.preprocess(_bar(texts, desc="stemming", unit=" texts"))
        examples = dataclasses.replace(examples, texts=[stems])
    return runs.run(
        settings,
        directory,
        task,
        _take_folds(settings, task, examples, folds),
        sparse.Baseline(settings.features, settings.data),
        settings.fold_seed,
        input_seconds=time.monotonic() - began,
    )


def _take_folds(
    settings: Any, task: Task, examples: Examples, folds: list[held_out.Split]
) -> Iterator[dict[str, dict[str, Examples]]]:
    """Yields the texts of each fold."""
    labels = examples.labels
    assert labels is not None
    for train, tested in _bar(folds, desc="folds", unit=" folds"):
        train = train[
            splits.choose_subset(
                labels[train], settings.max_train_examples, settings.split_seed
            )
        ]
        held_out.check_labels(
            labels[train],
            task.labels or (),
            "--max_train_examples: leaves",
            "Leave more rows to train on.",
        )
        yield {
            "train": {"": examples.take(train)},
            "validation": {},
            "test": {"": examples.take(tested)},
        }
