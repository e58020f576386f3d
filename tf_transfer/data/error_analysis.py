"""Describes the errors of a model on one split: `errors.json` of a run.

Precision, recall and F1 by label, the confusion matrix, the calibration and the
worst texts; for scores, the residuals.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

import numpy as np

from tf_transfer.data import entities, metrics
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.utils import formatting

MOST_LISTED = 20  # texts
MOST_CHARACTERS = 200  # of a text
MOST_LABELS = 12  # of a table in a terminal
MOST_CONFUSIONS = 3
MOST_TEXTS = 3
RATES: tuple[Literal["precision", "recall", "f1"], ...]
RATES = ("precision", "recall", "f1")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the residuals of scores


class LabelScores(TypedDict):
    """Scores of a label, or of a type of entity."""

    label: str
    count: int
    precision: float
    recall: float
    f1: float


class ConfusionMatrix(TypedDict):
    """A row of counts for each label, and a column for each answer."""

    names: list[str]
    counts: list[list[int]]


class Residuals(TypedDict):
    """Answers minus scores; `absolute` is the mean of their sizes."""

    mean: float
    standard_deviation: float
    absolute: float
    quantiles: list[float]  # `QUANTILES`


class WrongText(TypedDict, total=False):
    """One error: a text or a word, its label, and the answer.

    A class has the probability of the answer, and a score the residual.
    """

    id: int
    text: str
    word: str  # of an entity's task
    label: str | float
    answer: str | float
    probability: float
    residual: float


class Errors(TypedDict, total=False):
    """The errors on a split.

    Classes and entities have labels and a confusion matrix, several labels no
    matrix, and scores residuals. Entities have no calibration.
    """

    labels: list[LabelScores]
    confusion: ConfusionMatrix
    residuals: Residuals
    worst: list[WrongText]  # at most `MOST_LISTED`, the worst first
    calibration: dict[str, float]  # see `metrics.measure_calibration`
    coverage: list[dict[str, float]]  # of classes; `metrics.measure_coverage`


class Confusion(TypedDict):
    """A label that is taken for another: how often, of how many texts."""

    label: str
    answer: str
    count: int
    of: int


def describe_errors(
    task: Task, examples: Examples | Sentences, logits: np.ndarray
) -> Errors:
    """Describes the errors on a split.

    Args:
        task: The task.
        examples: Labelled `Examples`, or `Sentences` of a task that labels
            words.
        logits: float [examples or words, units].
    """
    labels, starts = examples.targets(task)
    logits = np.asarray(logits, np.float64)
    if isinstance(examples, Sentences) and starts is not None:
        return _describe_words(task, examples, labels, logits, starts)
    if task.kind == "score":
        return _describe_scores(task, examples, labels, logits)
    describe = _describe_several if labels.ndim == 2 else _describe_classes
    errors = describe(task, examples, labels, logits)
    errors["calibration"] = metrics.measure_calibration(labels, logits)
    return errors


def describe_splits(
    scored: Mapping[str, tuple[Task, Examples | Sentences]],
    logits: Mapping[str, np.ndarray],
) -> dict[str, Errors]:
    """The content of `errors.json`.

    Args:
        scored: Task and examples of each split.
        logits: Those of each split that was scored, such as `test_logits`.
    """
    content = {}
    for name, (task, examples) in scored.items():
        found = logits.get(f"{name}_logits")
        if found is not None and examples.labels is not None:
            content[name] = describe_errors(task, examples, found)
    return content


def _describe_classes(
    task: Task,
    examples: Examples | Sentences,
    labels: np.ndarray,
    logits: np.ndarray,
) -> Errors:
    names = list(task.labels or ())
    probabilities = metrics.probabilities(logits)
    answers = metrics.decide(logits)
    confidence = probabilities[np.arange(len(labels)), answers]
    worst = _find_worst(answers != labels, confidence)
    return {
        "labels": _score_labels(names, labels, answers),
        "confusion": _count_confusions(names, labels, answers),
        "coverage": [
            dataclasses.asdict(line)
            for line in metrics.measure_coverage(labels, logits)
        ],
        "worst": _list_worst(
            examples,
            worst,
            labels=[names[label] for label in labels[worst]],
            answers=[names[answer] for answer in answers[worst]],
            probabilities=confidence[worst].tolist(),
        ),
    }


def _describe_several(
    task: Task,
    examples: Examples | Sentences,
    labels: np.ndarray,
    logits: np.ndarray,
) -> Errors:
    """Each label is a decision; a text is as wrong as its worst one."""
    names = np.asarray(task.labels)
    probabilities = metrics.sigmoid(logits)
    answers = metrics.decide_each(logits)
    confidence = np.where(answers, probabilities, 1 - probabilities)
    errors = np.where(answers != labels, confidence, 0).max(axis=1)
    worst = _find_worst(errors > 0, errors)
    return {
        "labels": _score_labels([*names.tolist()], labels, answers),
        "worst": _list_worst(
            examples,
            worst,
            labels=[", ".join(names[row > 0]) for row in labels[worst]],
            answers=[", ".join(names[row > 0]) for row in answers[worst]],
            probabilities=errors[worst].tolist(),
        ),
    }


def _describe_scores(
    task: Task,
    examples: Examples | Sentences,
    labels: np.ndarray,
    logits: np.ndarray,
) -> Errors:
    answers = metrics.clip_scores(task, logits)
    residuals = answers - labels
    sizes = np.abs(residuals)
    worst = np.argsort(-sizes, kind="stable")[:MOST_LISTED]
    return {
        "residuals": {
            "mean": float(residuals.mean()),
            "standard_deviation": float(residuals.std()),
            "absolute": float(sizes.mean()),
            "quantiles": np.quantile(residuals, QUANTILES).tolist(),
        },
        "worst": _list_worst(
            examples,
            worst,
            labels=labels[worst].astype(float).tolist(),
            answers=answers[worst].astype(float).tolist(),
            residuals=residuals[worst].astype(float).tolist(),
        ),
    }


def _describe_words(
    task: Task,
    sentences: Sentences,
    labels: np.ndarray,
    logits: np.ndarray,
    starts: np.ndarray,
) -> Errors:
    """Entities by type; confusions and the worst errors of single words."""
    tags = list(task.labels or ())
    types = entities.types_of(tags)
    answers = logits.argmax(axis=1)
    expected = entities.Tagged(labels, starts)
    scores = entities.score(expected, entities.Tagged(answers, starts), types)
    kinds = entities.find_entities(expected)[:, 2]
    counts = np.bincount(kinds, minlength=len(types)).tolist()
    rates: list[LabelScores] = [
        {
            "label": name,
            "count": count,
            "precision": scores[f"precision_{name}"],
            "recall": scores[f"recall_{name}"],
            "f1": scores[f"f1_{name}"],
        }
        for name, count in zip(types, counts)
    ]
    confidence = metrics.probabilities(logits).max(axis=1)
    worst = _find_worst(answers != labels, confidence)
    owners = np.searchsorted(starts, worst, side="right") - 1
    words = [
        sentences.words[owner][word - starts[owner]]
        for owner, word in zip(owners, worst)
    ]
    return {
        "labels": rates,
        "confusion": _count_confusions(
            ["no entity", *types], (labels + 1) // 2, (answers + 1) // 2
        ),
        "worst": _list_worst(
            sentences,
            owners,
            words=words,
            labels=[tags[label] for label in labels[worst]],
            answers=[tags[answer] for answer in answers[worst]],
            probabilities=confidence[worst].tolist(),
        ),
    }


def _score_labels(
    names: list[str], labels: np.ndarray, answers: np.ndarray
) -> list[LabelScores]:
    """Precision, recall and F1 of each label; 0 where undefined."""
    if labels.ndim == 1:
        ids = np.arange(len(names))
        labels, answers = labels[:, None] == ids, answers[:, None] == ids
    right, said, true = metrics.count_ones(labels, answers)
    rates = (
        metrics.divide(right, said),
        metrics.divide(right, true),
        metrics.divide(2.0 * right, true + said),
    )
    return [
        {
            "label": name,
            "count": int(count),
            "precision": float(precision),
            "recall": float(recall),
            "f1": float(f1),
        }
        for name, count, precision, recall, f1 in zip(names, true, *rates)
    ]


def _count_confusions(
    names: list[str], labels: np.ndarray, answers: np.ndarray
) -> ConfusionMatrix:
    size = len(names)
    counts = np.bincount(size * labels + answers, minlength=size**2)
    return {"names": names, "counts": counts.reshape(size, size).tolist()}


def _find_worst(is_wrong: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """int64. The numbers of the surest wrong answers, the surest first."""
    wrong = np.flatnonzero(is_wrong)
    return wrong[np.argsort(-confidence[wrong], kind="stable")][:MOST_LISTED]


def _list_worst(
    examples: Examples | Sentences,
    rows: np.ndarray,
    labels: Sequence[str | float],
    answers: Sequence[str | float],
    probabilities: Sequence[float] = (),
    residuals: Sequence[float] = (),
    words: Sequence[str] = (),
) -> list[WrongText]:
    """Errors, each with its text in a line that is cut.

    Args:
        examples: The examples.
        rows: The example of each error.
        labels: The right label of each error; these and the lists below are
            what `WrongText` has, empty for nothing.
        answers: The predicted label of each.
        probabilities: The probability of each answer.
        residuals: The answer less the label of each.
        words: The word of each.
    """
    some = examples.take(rows)
    entries: list[WrongText] = []
    for number, texts in enumerate(zip(*some.texts)):
        text = " | ".join(" ".join(text.split()) for text in texts)
        if len(text) > MOST_CHARACTERS:
            text = text[: MOST_CHARACTERS - 3] + "..."
        entry: WrongText = {"id": int(some.ids[number]), "text": text}
        if words:
            entry["word"] = words[number]
        entry["label"], entry["answer"] = labels[number], answers[number]
        if probabilities:
            entry["probability"] = probabilities[number]
        if residuals:
            entry["residual"] = residuals[number]
        entries.append(entry)
    return entries


# === In a few lines ===


def summarize(errors: Errors) -> str:
    """The errors on a split: by label, the most frequent, the worst texts.

    Args:
        errors: From `describe_errors`.
    """
    lines = []
    if "residuals" in errors:
        residuals = errors["residuals"]
        low, *_, high = residuals["quantiles"]
        lines.append(
            f"Answers minus scores: mean {residuals['mean']:+.3g}, standard "
            f"deviation {residuals['standard_deviation']:.3g}, 90 % between "
            f"{low:+.3g} and {high:+.3g}."
        )
    labels = errors.get("labels", [])
    if 1 < len(labels) <= MOST_LABELS:
        rows = [["label", "count", *RATES]]
        for label in labels:
            points = [f"{100 * label[rate]:.1f}" for rate in RATES]
            name = formatting.cut(label["label"])
            rows.append([name, f"{label['count']:,}", *points])
        lines.append(formatting.aligned(rows))
    lines.append(describe_confusions(errors))
    lines += map(_describe_text, errors["worst"][:MOST_TEXTS])
    return "\n".join(filter(None, lines))


def rank_confusions(errors: Errors) -> list[Confusion]:
    """The labels that are taken for another one, the most frequent first."""
    if "confusion" not in errors:
        return []
    names, counts = errors["confusion"]["names"], errors["confusion"]["counts"]
    pairs: list[Confusion] = [
        {"label": label, "answer": answer, "count": count, "of": sum(row)}
        for label, row in zip(names, counts)
        for answer, count in zip(names, row)
        if label != answer and count
    ]
    return sorted(pairs, key=lambda pair: -pair["count"])


def describe_confusions(errors: Errors) -> str:
    """The most frequent confusions, in a line; "" if there is none."""
    clauses = []
    for pair in rank_confusions(errors)[:MOST_CONFUSIONS]:
        label, answer = map(formatting.cut, (pair["label"], pair["answer"]))
        clauses.append(
            f"{pair['count']:,} of {pair['of']:,} {label!r} are "
            f"answered {answer!r}"
        )
    return f"Most often: {'; '.join(clauses)}." if clauses else ""


def _describe_text(error: WrongText) -> str:
    """One of the worst errors, as a sentence."""
    text = formatting.cut(error["text"])
    if "word" in error:
        text = f"{formatting.cut(error['word'])!r} in {text}"
    line = f"Row {error['id']} (from 0 on): {text}: {_show(error['label'])}"
    line += f", answered {_show(error['answer'])}"
    if "probability" in error:
        line += f" ({100 * error['probability']:.0f} % sure)"
    return f"{line}."


def _show(value: float | str) -> str:
    """A label or a score."""
    return f"{value:.7g}" if isinstance(value, float) else value or "no label"
