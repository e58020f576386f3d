"""Describes the errors of a model on one split: `errors.json` of a run.

Precision, recall and F1 by label, the confusion matrix, the calibration and the
worst texts; for scores, the residuals.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn.metrics

from tf_transfer.data import calibration, entities, metrics
from tf_transfer.data.task import Task

MOST_LISTED = 20  # texts
MOST_CHARACTERS = 200  # of a text


def describe(task: Task, examples: Any, logits: np.ndarray) -> dict[str, Any]:
    """Describes the errors on a split.

    Args:
        task: The task.
        examples: Labelled `Examples`, or `Sentences` of a task that labels
            words.
        logits: float [examples or words, units].

    Returns:
        A dict that JSON can hold:

        - `labels`: for each label or type of entity `label`, `count`,
          `precision`, `recall` and `f1`;
        - `confusion`: of classes and of the words of entities, `names` and
          `counts`, a row for each label and a column for each answer;
        - `calibration`: of classes and of several labels, `expected_error` and
          `brier`; see `calibration.measure`;
        - `residuals`: of scores, `mean`, `standard_deviation`, `absolute`
          (mean) and `quantiles` (5, 25, 50, 75, 95 %) of answer - score;
        - `worst`: at most `MOST_LISTED` errors, the worst first: `id` and
          `text` of the example, `label`, `answer`, and the `probability` of
          the answer; of scores the `residual`; of entities also the `word`.
    """
    labels, starts = examples.targets(task)
    logits = np.asarray(logits, np.float64)
    if starts is not None:
        return _describe_words(task, examples, labels, logits, starts)
    if task.kind == "score":
        return _describe_scores(task, examples, labels, logits)
    describe = _describe_several if labels.ndim == 2 else _describe_classes
    return {
        **describe(task, examples, labels, logits),
        "calibration": calibration.measure(labels, logits),
    }


def describe_splits(
    scored: Mapping[str, tuple[Task, Any]], logits: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """The content of `errors.json`.

    Args:
        scored: Task and examples of each split.
        logits: Those of each split that was scored, such as `test_logits`.
    """
    return {
        name: describe(task, examples, logits[f"{name}_logits"])
        for name, (task, examples) in scored.items()
        if f"{name}_logits" in logits and examples.labels is not None
    }


def _describe_classes(
    task: Task,
    examples: Any,
    labels: np.ndarray,
    logits: np.ndarray,
) -> dict[str, Any]:
    names = list(task.labels or ())
    probabilities = metrics.probabilities(logits)
    answers = metrics.decide(logits)
    confidence = probabilities[np.arange(len(labels)), answers]
    wrong = np.flatnonzero(answers != labels)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")]
    return {
        "labels": _score_labels(names, labels, answers),
        "confusion": _count_confusions(names, labels, answers),
        "worst": [
            {
                **_example(examples, row),
                "label": names[labels[row]],
                "answer": names[answers[row]],
                "probability": float(confidence[row]),
            }
            for row in worst[:MOST_LISTED]
        ],
    }


def _describe_several(
    task: Task,
    examples: Any,
    labels: np.ndarray,
    logits: np.ndarray,
) -> dict[str, Any]:
    """Each label is a decision; a text is as wrong as its worst one."""
    names = np.asarray(task.labels)
    probabilities = metrics.sigmoid(logits)
    answers = metrics.decide_each(logits)
    confidence = np.where(answers, probabilities, 1 - probabilities)
    errors = np.where(answers != labels, confidence, 0).max(axis=1)
    worst = np.argsort(-errors, kind="stable")[: (errors > 0).sum()]
    return {
        "labels": _score_labels([*names.tolist()], labels, answers),
        "worst": [
            {
                **_example(examples, row),
                "label": ", ".join(names[labels[row] > 0]),
                "answer": ", ".join(names[answers[row] > 0]),
                "probability": float(errors[row]),
            }
            for row in worst[:MOST_LISTED]
        ],
    }


def _describe_scores(
    task: Task, examples: Any, labels: np.ndarray, logits: np.ndarray
) -> dict[str, Any]:
    answers = metrics.clip_scores(task, logits)
    residuals = answers - labels
    worst = np.argsort(-np.abs(residuals), kind="stable")
    return {
        "residuals": {
            "mean": float(residuals.mean()),
            "standard_deviation": float(residuals.std()),
            "absolute": float(np.abs(residuals).mean()),
            "quantiles": np.quantile(
                residuals, (0.05, 0.25, 0.5, 0.75, 0.95)
            ).tolist(),
        },
        "worst": [
            {
                **_example(examples, row),
                "label": float(labels[row]),
                "answer": float(answers[row]),
                "residual": float(residuals[row]),
            }
            for row in worst[:MOST_LISTED]
        ],
    }


def _describe_words(
    task: Task,
    sentences: Any,
    labels: np.ndarray,
    logits: np.ndarray,
    starts: np.ndarray,
) -> dict[str, Any]:
    """Entities by type; confusions and the worst errors of single words."""
    tags = list(task.labels or ())
    types = entities.types_of(tags)
    answers = logits.argmax(axis=1)
    counts = {
        name: numbers.sum(axis=0)
        for name, numbers in entities.count_by_sentence(
            entities.Tagged(labels, starts),
            entities.Tagged(answers, starts),
            types,
        ).items()
    }
    confidence = metrics.probabilities(logits).max(axis=1)
    wrong = np.flatnonzero(answers != labels)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")][:MOST_LISTED]
    owners = np.searchsorted(starts, worst, side="right") - 1
    return {
        "labels": [
            {
                "label": name,
                "count": int(counts[f"recall_{name}"][1]),
                **{
                    rate: _divide(*counts[f"{rate}_{name}"])
                    for rate in ("precision", "recall", "f1")
                },
            }
            for name in types
        ],
        "confusion": _count_confusions(
            ["no entity", *types], (labels + 1) // 2, (answers + 1) // 2
        ),
        "worst": [
            {
                **_example(sentences, owner),
                "word": sentences.words[owner][word - starts[owner]],
                "label": tags[labels[word]],
                "answer": tags[answers[word]],
                "probability": float(confidence[word]),
            }
            for word, owner in zip(worst, owners)
        ],
    }


def _score_labels(
    names: list[str], labels: np.ndarray, answers: np.ndarray
) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each label; 0 where undefined."""
    ids = [*range(len(names))]
    if labels.ndim == 2 and len(names) == 1:
        # Else scikit-learn takes "it does not apply" for a second label.
        labels, answers, ids = labels[:, 0], answers[:, 0], [1]
    rates = sklearn.metrics.precision_recall_fscore_support(
        labels, answers, labels=ids, zero_division=0.0
    )
    return [
        {
            "label": name,
            "count": int(count),
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
        }
        for name, precision, recall, f1, count in zip(names, *rates)
    ]


def _count_confusions(
    names: list[str], labels: np.ndarray, answers: np.ndarray
) -> dict[str, Any]:
    counts = sklearn.metrics.confusion_matrix(
        labels, answers, labels=range(len(names))
    )
    return {"names": names, "counts": counts.tolist()}


def _example(examples: Any, row: int) -> dict[str, Any]:
    """The id of an example, and its text in a line that is cut."""
    [*columns] = examples.take(np.array([row])).texts
    text = " | ".join(" ".join(text.split()) for [text] in columns)
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS - 3] + "..."
    return {"id": int(examples.ids[row]), "text": text}


def _divide(right: float, count: float) -> float:
    """A rate; 0 of nothing."""
    return float(right / max(count, 1))
