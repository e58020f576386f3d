"""What makes a score mean little is said."""

import numpy as np
import pytest

from tf_transfer.data import conll, glue, splits
from tf_transfer.data.task import Examples

RTE, MNLI, STSB = (glue.TASKS[name] for name in ("rte", "mnli", "stsb"))


def examples(*labels):
    texts = [["a"] * len(labels)] * 2
    return Examples(np.arange(len(labels)), texts, np.array(labels))


@pytest.mark.parametrize(
    "task, train, test, said",
    [
        (RTE, (0, 1), (0, 1), []),
        (RTE, (1, 1), (0, 1), ["all 2 training labels are of one class"]),
        (RTE, (0, 1), (0, 0), ["of 2 labels lacks 1 of 2 classes"]),
        (MNLI, (0, 1), (0, 1, 2), ["2 training labels, fewer than the 3"]),
        (STSB, (0.5,), (1.0,), []),
    ],
)
def test_one_class_few_rows_and_lacking_classes_are_warned_of(
    task, train, test, said
):
    texts = {"train": {"": examples(*train)}, "test": {"": examples(*test)}}
    found = splits.find_warnings(task, texts)
    assert len(found) == len(said)
    for warning, words in zip(found, said):
        assert warning.startswith(f"{task.name}: ") and words in warning


def test_words_without_a_tag_are_warned_of():
    def sentences(*tags):
        return conll.Sentences(np.arange(1), [["w"] * len(tags)], [[*tags]])

    texts = {
        "train": {"": sentences("O", "O")},
        "test": {"": sentences(*conll.TAGS[1:])},
    }
    assert splits.find_warnings(conll.TASK, texts) == [
        "ner: all 2 training labels are of one class.",
        "ner: has 2 training labels, fewer than the 9 outputs of its head.",
        "ner: a test set of 8 labels lacks 1 of 9 classes (O).",
    ]
