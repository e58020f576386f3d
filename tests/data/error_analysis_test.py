"""The errors of a model are counted, and the worst texts are listed."""

import numpy as np
import pytest
import sklearn.metrics

from tf_transfer.data import error_analysis
from tf_transfer.data.task import Examples, Sentences, Task


def make_task(labels, kind="classes", **changes):
    return Task(
        "news", "", ("text",), "label", labels, "accuracy", kind=kind, **changes
    )


def make_examples(labels, texts=None):
    texts = texts or [f"text {row}" for row in range(len(labels))]
    return Examples(
        np.arange(10, 10 + len(labels)), [texts], np.asarray(labels)
    )


def test_classes_have_rates_confusions_and_the_surest_wrong_answers():
    labels, answers = [0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 0, 2]
    logits = np.eye(3)[answers] * np.array([[1, 2, 5, 1, 3, 1]]).T
    described = error_analysis.describe_errors(
        make_task(("a", "b", "c")), make_examples(labels), logits
    )
    assert described["confusion"] == {
        "names": ["a", "b", "c"],
        "counts": [[1, 2, 0], [1, 1, 0], [0, 0, 1]],
    }
    first = described["labels"][0]
    assert (first["label"], first["count"]) == ("a", 3)
    assert first["precision"] == pytest.approx(1 / 2)
    assert first["recall"] == pytest.approx(1 / 3)
    assert first["f1"] == pytest.approx(2 / 5)
    assert [error["id"] for error in described["worst"]] == [12, 14, 11]
    worst = described["worst"][0]
    assert (worst["label"], worst["answer"]) == ("a", "b")
    assert worst["probability"] == pytest.approx(np.exp(5) / (np.exp(5) + 2))


def test_two_classes_of_one_unit_are_described_as_two():
    described = error_analysis.describe_errors(
        make_task(("no", "yes")),
        make_examples([0, 1]),
        np.array([[2.0], [1.0]]),
    )
    [worst] = described["worst"]
    assert (worst["label"], worst["answer"]) == ("no", "yes")
    assert worst["probability"] == pytest.approx(1 / (1 + np.exp(-2)))


def test_calibration_is_the_mean_gap_of_bins_and_brier_is_scikit_learns(rng):
    random = np.random.default_rng(rng.randrange(1000))
    logits = random.normal(size=(200, 1))
    labels = random.integers(0, 2, 200)
    described = error_analysis.describe_errors(
        make_task(("no", "yes")), make_examples(labels), logits
    )
    probability = 1 / (1 + np.exp(-logits[:, 0]))
    brier = 2 * sklearn.metrics.brier_score_loss(labels, probability)
    assert described["calibration"]["brier"] == pytest.approx(brier)
    confidence = np.maximum(probability, 1 - probability)
    is_right = (probability > 0.5) == labels
    gap = sum(
        abs((is_right[inside] - confidence[inside]).sum())
        for low in np.arange(0, 1, 0.1)
        for inside in [(confidence >= low) & (confidence < low + 0.1)]
    )
    assert described["calibration"]["expected_error"] == pytest.approx(
        gap / 200
    )


@pytest.mark.parametrize("count", [1, 3])
def test_several_labels_are_scored_one_by_one(count):
    names = ("x", "y", "z")[:count]
    labels = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]])[:, :count]
    logits = np.array([[1.0, -1, 1], [4, -1, -1], [1, 1, -1]])[:, :count]
    described = error_analysis.describe_errors(
        make_task(names, "labels"), make_examples(labels), logits
    )
    first = described["labels"][0]
    assert (first["count"], first["recall"]) == (2, 1.0)
    assert first["precision"] == pytest.approx(2 / 3)
    [worst] = described["worst"]
    assert (worst["id"], worst["label"], worst["answer"]) == (11, "", "x")


def test_scores_have_residuals_within_their_range():
    task = make_task(None, score_range=(0.0, 5.0))
    described = error_analysis.describe_errors(
        task, make_examples(np.float32([1, 2, 5])), np.array([[2.0], [2], [9]])
    )
    assert described["residuals"]["mean"] == pytest.approx(1 / 3)
    assert described["worst"][0] == {
        "id": 10,
        "text": "text 0",
        "label": 1.0,
        "answer": 2.0,
        "residual": 1.0,
    }


def test_words_have_entities_by_type_and_the_word_that_is_wrong():
    tags = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    sentences = Sentences(
        np.array([5, 6]),
        [["Anna", "runs"], ["in", "Rome"]],
        [["B-PER", "O"], ["O", "B-LOC"]],
    )
    logits = 3 * np.eye(5)[[1, 0, 0, 1]]
    described = error_analysis.describe_errors(
        make_task(tags, "entities"), sentences, logits
    )
    by_type = {label["label"]: label for label in described["labels"]}
    assert by_type["PER"]["precision"] == 1 / 2
    assert by_type["LOC"] == {
        "label": "LOC",
        "count": 1,
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
    }
    assert described["confusion"]["counts"] == [[2, 0, 0], [0, 1, 0], [0, 1, 0]]
    [worst] = described["worst"]
    assert (worst["id"], worst["word"], worst["answer"]) == (6, "Rome", "B-PER")


def test_a_text_is_cut_to_a_line():
    examples = make_examples([0, 1], ["a\nb " + "x" * 500, "c"])
    described = error_analysis.describe_errors(
        make_task(("no", "yes")), examples, np.array([[1.0], [1.0]])
    )
    text = described["worst"][0]["text"]
    assert text.startswith("a b xxx") and text.endswith("...")
    assert len(text) == error_analysis.MOST_CHARACTERS


def test_the_lines_name_labels_confusions_and_texts():
    described = error_analysis.describe_errors(
        make_task(("neg", "pos")),
        make_examples([0, 0, 1]),
        np.array([[3.0], [-1], [1]]),
    )
    text = error_analysis.summarize(described)
    assert "neg    2      100.0      50.0" in text
    assert "Most often: 1 of 2 'neg' are answered 'pos'." in text
    assert "Row 10 (from 0 on): text 0: neg, answered pos (95 % sure)." in text


def test_a_model_without_errors_lists_none():
    described = error_analysis.describe_errors(
        make_task(("no", "yes")), make_examples([0, 1]), np.array([[-1.0], [1]])
    )
    assert described["worst"] == []
    assert "Most often" not in error_analysis.summarize(described)
