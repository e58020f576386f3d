"""A report card of a task's data, before anything is trained."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.data import entities
from tf_transfer.data import texts as texts_lib
from tf_transfer.data.task import Task
from tf_transfer.utils import formatting

SHOWN = 20  # labels that are listed
QUANTILES = (50, 90, 99, 100)
BALANCE = 10  # times as many of the commonest label as of the rarest


def describe(
    task: Task,
    examples: dict[str, dict[str, Any]],
    lengths: Sequence[int] | np.ndarray = (),
    max_length: int = 0,
) -> str:
    """Sizes, labels, lengths, duplicates, and the majority baseline.

    Args:
        task: whose examples they are.
        examples: see `tasks.read_splits`.
        lengths: tokens of each training text, uncut, special ones included;
            empty where there is no tokenizer.
        max_length: where texts are cut.
    """
    parts = {
        "_".join(filter(None, (kind, name))): some
        for kind, named in examples.items()
        for name, some in named.items()
    }
    counts = {name: _count_labels(task, some) for name, some in parts.items()}
    rows = [("", *parts)]
    rows.append(("examples", *(f"{len(some):,}" for some in parts.values())))
    if task.kind == "score":
        for name, function in (("lowest", np.min), ("mean", np.mean)):
            rows.append((name, *_of_scores(function, parts)))
        rows.append(("highest", *_of_scores(np.max, parts)))
    else:
        names = _names(task)
        for number, name in list(enumerate(names))[:SHOWN]:
            shown = (f"{counts[part][number]:,}" for part in parts)
            rows.append((f"label {name}", *shown))
        if len(names) > SHOWN:
            shown = (f"{counts[part][SHOWN:].sum():,}" for part in parts)
            rows.append((f"{len(names) - SHOWN} more labels", *shown))
    lines = [f"task {task.name}: {task.kind}, {task.metric}"]
    lines.append(formatting.aligned(rows))
    lines += _notes(task, parts, counts["train"])
    if len(lengths):
        lines.append(_describe_lengths(np.asarray(lengths), max_length))
    return "\n".join(lines)


def count_shared(examples: dict[str, dict[str, Any]]) -> dict[str, int]:
    """How many examples of each other split have a text of the training set.

    Args:
        examples: see `tasks.read_splits`.

    Returns:
        A count for `validation` and `test`, of those that have any.
    """
    known = set(_keys(examples["train"][""]))
    shared = {}
    for kind in ("validation", "test"):
        texts = examples[kind].get("")
        count = sum(key in known for key in _keys(texts)) if texts else 0
        if count:
            shared[kind] = count
    return shared


def _keys(some: Any) -> list[str]:
    """The text of each example, or its pair, but for case and space."""
    return [*map(texts_lib.normalize, zip(*some.texts))]


def _names(task: Task) -> Sequence[str]:
    if task.is_tagging:
        return entities.types_of(task.labels or ())
    return task.labels or ()


def _count_labels(task: Task, some: Any) -> np.ndarray:
    """int64 [labels]. How often each label occurs."""
    names = _names(task)
    if task.kind == "score":
        return np.zeros(0, np.int64)
    if task.is_tagging:
        found = collections.Counter(
            tag[2:]
            for tags in some.tags
            for tag in tags
            if tag.startswith("B-")
        )
        return np.asarray([found[name] for name in names])
    if task.kind == "labels":
        return some.labels.sum(axis=0)
    return np.bincount(some.labels, minlength=len(names))


def _of_scores(function: Any, parts: dict[str, Any]) -> list[str]:
    return [f"{function(some.labels):.2f}" for some in parts.values()]


def _notes(task: Task, parts: dict[str, Any], counts: np.ndarray) -> list[str]:
    notes = []
    scored = parts.get("test", parts.get("validation"))
    if scored is not None and task.kind in ("classes", "labels"):
        from tf_transfer.data import metrics  # takes seconds to import

        score = 100 * metrics.majority(task.metric, scored.labels)
        notes.append(f"majority baseline: {task.metric} {score:.1f}")
    train = parts["train"]
    texts = [*zip(*train.texts)]
    repeated = len(texts) - int(texts_lib.group_texts(texts).max()) - 1
    notes.append(f"repeated texts in train: {repeated:,}")
    known = set(_keys(train))
    for name, some in parts.items():
        if name != "train":
            shared = sum(key in known for key in _keys(some))
            notes.append(f"texts of {name} that are in train, too: {shared:,}")
    if len(counts) and counts.max() > BALANCE * max(counts.min(), 1):
        notes.append(
            f"labels are uneven: {counts.max():,} against {counts.min():,}; "
            "--class_weights=balanced weighs them alike"
        )
    return notes


def _describe_lengths(lengths: np.ndarray, max_length: int) -> str:
    """Quantiles of lengths, and what is cut."""
    quantiles = ", ".join(
        f"{q} % up to {int(np.percentile(lengths, q))}" for q in QUANTILES
    )
    cut = lengths > max_length
    lost = np.maximum(lengths - max_length, 0).sum() / lengths.sum()
    return (
        f"tokens of a text: {quantiles}; at --max_length={max_length} "
        f"{100 * cut.mean():.1f} % of the texts and {100 * lost:.1f} % of the "
        "tokens are cut"
    )
