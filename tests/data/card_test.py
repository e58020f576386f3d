"""The report card of a task's data."""

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer.data import card, splits
from tf_transfer.glue import experiment as glue


def open_task(folder, **keys):
    path = own_data.write_task(folder, ending="jsonl", **keys)
    settings = glue.Settings(task=path, validation_fraction=0.0, select="last")
    data = glue.Glue(settings).data
    return data.task, data.read_splits(data.task)


def test_a_card_counts_labels_repeats_and_what_is_cut(tmp_path):
    columns = own_data.news(60)
    columns["team"][:40] = ["space"] * 40
    columns["body"][:10] = ["The same text"] * 10
    task, examples = open_task(tmp_path, columns=columns)
    lengths = np.array([10] * 40 + [300] * 8)
    text = card.describe_data(task, examples, lengths, 100)
    assert "task news: classes, accuracy" in text
    assert "examples" in text and "48" in text and "12" in text
    assert "training texts that repeat another: " in text
    assert "16.7 % of the texts and 57.1 % of the tokens are cut" in text
    score = 100 * np.bincount(examples["test"][""].labels).max() / 12
    assert f"majority baseline: accuracy {score:.1f}" in text


@pytest.mark.parametrize(
    "keys, words",
    [
        ({"kind": "score", "label": "stars"}, ["lowest", "0.25", "highest"]),
        ({"kind": "labels", "label": "tags"}, ["label sports", "f1_micro"]),
    ],
)
def test_a_card_fits_every_kind(keys, words, tmp_path):
    text = card.describe_data(*open_task(tmp_path, **keys))
    for word in words:
        assert word in text
    assert "\n\n" not in text


def test_labels_beyond_the_twentieth_are_counted_together(tmp_path):
    columns = own_data.news(200)
    columns["team"] = [f"team {number % 25:02}" for number in range(200)]
    task, examples = open_task(tmp_path, columns=columns)
    [line] = [
        line
        for line in card.describe_data(task, examples).splitlines()
        if "more labels" in line
    ]
    train, test = (examples[kind][""].labels for kind in ("train", "test"))
    assert line.split() == [
        *("5", "more", "labels"),
        *(str((some >= 20).sum()) for some in (train, test)),
    ]


def test_texts_in_both_splits_are_counted(tmp_path):
    columns = own_data.news(30)
    columns["body"] = [f"text {number % 3}" for number in range(30)]
    _, examples = open_task(tmp_path, columns=columns)
    assert card.count_shared(splits.flatten(examples)) == {
        "test": len(examples["test"][""])
    }
    _, examples = open_task(tmp_path, columns=columns, duplicates="group")
    assert card.count_shared(splits.flatten(examples)) == {"test": 0}
