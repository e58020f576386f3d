"""What looks wrong with a user's labels is said; nothing is refused."""

import numpy as np
import pytest

from tf_transfer.data import card
from tf_transfer.data.task import Examples, Sentences, Task


def problems_of(counts, kind="classes", metric="accuracy"):
    """The problems of labels that occur this often."""
    task = Task("own", "", ("text",), "label", tuple(counts), metric, kind=kind)
    labels = np.repeat(np.arange(len(counts)), [*counts.values()])
    if kind == "labels":
        labels = np.eye(len(counts), dtype=np.int64)[labels]
    texts = [f"text {row}" for row in range(len(labels))]
    examples = Examples(np.arange(len(labels)), [texts], labels)
    return card.find_label_problems(task, examples)


def test_usual_labels_have_no_problem():
    assert problems_of({"cat": 50, "car": 40, "dog": 60}) == []
    assert problems_of({str(star): 20 for star in range(1, 6)}) == []
    assert problems_of({"0": 650, "1": 350}) == []
    assert problems_of({"1": 60, "2": 900, "3": 700}) == []


@pytest.mark.parametrize(
    "rare, common", [("OK", "ok"), ("not  ok", "Not ok"), ("bugg", "bug")]
)
def test_labels_that_may_be_one_are_named(rare, common):
    [problem] = problems_of({rare: 6, common: 90, "other": 70})
    assert f"{rare!r} (6 texts) and {common!r} (90) may be one" in problem


def test_two_common_labels_that_differ_by_a_letter_are_two():
    assert problems_of({"cat": 50, "car": 40}) == []


@pytest.mark.parametrize(
    "name", ["NA", "null", "n/a", "-", "?", "Unknown", "UNLABELED", "no_label"]
)
def test_a_label_that_stands_for_none_is_named(name):
    [problem] = problems_of({name: 30, "good": 40, "bad": 40})
    assert f"{name!r} (30 texts) may stand for a missing label" in problem
    assert "--ignore_labels=" in problem


@pytest.mark.parametrize("name", ["-1", "-100"])
def test_a_negative_number_next_to_0_1_2_is_named(name):
    [problem] = problems_of({"0": 30, "1": 40, "2": 40, name: 20})
    assert f"--ignore_labels={name} " in problem
    assert problems_of({name: 50, "1": 60}) == []
    assert problems_of({"0": 50, "1": 60, "-a": 70}) == []


def test_labels_of_few_texts_are_listed():
    [problem] = problems_of({"much": 50, "some": 40, "one": 1, "two": 2})
    assert "fewer than 5 training texts (2): 'one', 'two'" in problem


def test_many_numbers_may_be_a_score():
    [problem] = problems_of({str(number): 10 for number in range(12)})
    assert "--kind=score" in problem


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "matthews"])
def test_a_large_majority_suggests_weights_and_another_metric(metric):
    [problem] = problems_of({"usual": 80, "rare": 20}, metric=metric)
    assert "80% of the training texts are 'usual'" in problem
    assert "--class_weights=balanced" in problem
    assert ("Prefer the metric f1_macro" in problem) == (metric == "accuracy")


def test_of_several_labels_no_majority_is_expected():
    assert problems_of({"usual": 80, "rare": 20}, kind="labels") == []


def test_scores_have_no_labels():
    task = Task("own", "", ("text",), "label", None, "spearman")
    examples = Examples(np.arange(2), [["a", "b"]], np.zeros(2, np.float32))
    assert card.find_label_problems(task, examples) == []


def test_repeated_texts_and_their_labels_are_counted():
    task = Task("own", "", ("text",), "label", ("a", "b"), "accuracy")
    texts = ["One", "one ", "two", "two", "three", *map(str, range(15))]
    labels = np.array([0, 1, 0, 0, 1, *[0, 1] * 7, 0])
    examples = Examples(np.arange(20), [texts], labels)
    assert card.find_label_problems(task, examples) == [
        "training texts that repeat another: 2; texts with several labels: 1."
    ]


@pytest.mark.parametrize("rare", ["go\u200bod", "go\u00adod", "ｇｏｏｄ"])
def test_labels_that_look_alike_are_named_with_what_differs(rare):
    [problem] = problems_of({rare: 70, "good": 90, "other": 70})
    assert "may be one label" in problem
    assert ascii(rare) in problem or rare == "ｇｏｏｄ"
    assert '"' not in problem


def test_a_decomposed_label_is_named():
    [problem] = problems_of({"cafe\u0301": 40, "café": 50})
    assert "'cafe\\u0301' (40 texts) and 'café' (50)" in problem


def test_types_of_entities_that_differ_in_case_are_named():
    tags = ("O", "B-PER", "I-PER", "B-per", "I-per", "B-LOC", "I-LOC")
    task = Task("own", "", ("words",), "tags", tags, "f1", kind="entities")
    words = [["a"] * len(tags)]
    sentences = Sentences(np.arange(1), words, [list(tags)])
    [problem] = card.find_label_problems(task, sentences)
    assert "(1 entities)" in problem
    assert "PER" in problem and "per" in problem
