"""Flags that change how texts are read and labels weighed."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.support import cs224n_runs, own_data, stacking_data
from tests.support.flag_runs import shows
from tf_transfer.data.task import Examples
from tf_transfer.glue import experiment as glue
from tf_transfer.multitask import experiment as multitask
from tf_transfer.stacking import experiment as stacking
from tf_transfer.training import objectives, strategy
from tf_transfer.utils.errors import UserError


@shows(
    "text_column",
    "label_column",
    "kind",
    "metric",
    "test_fraction",
    "encoding",
    "skip_bad_rows",
    "ignore_labels",
    "duplicates",
    "group_column",
    "label_separator",
)
def test_what_is_said_of_a_table_changes_what_is_read(tmp_path):
    columns = {
        **own_data.news(30),
        "mood": ["sad", "glad"] * 15,
        "author": [f"author {row // 3}" for row in range(30)],
    }
    said = {
        "data": own_data.write(tmp_path / "news.csv", columns),
        "text_column": "body",
        "label_column": "team",
    }

    def examples(**changes):
        settings = tiny_settings(tmp_path, **{**said, **changes})
        read = glue.Glue(settings).data
        texts = read.read_splits(read.task)
        return read.task, texts["train"][""], texts["test"][""]

    task, train, test = examples()
    assert (task.metric, task.units, len(test)) == ("accuracy", 3, 3)
    assert examples(text_column="title")[1].texts != train.texts
    assert examples(label_column="mood")[0].units == 1
    assert examples(kind="score", label_column="stars")[0].labels is None
    assert train.groups is None
    _, train, test = examples(group_column="author", test_fraction=0.5)
    assert len(test) and not {*train.groups} & {*test.groups}
    split = examples(kind="labels", label_column="mood", label_separator="a")
    assert split[0].labels == ("d", "gl", "s")
    assert examples(ignore_labels=task.labels[0])[0].labels == task.labels[1:]
    assert examples(metric="f1_macro")[0].metric == "f1_macro"
    assert len(examples(test_fraction=0.5)[2]) == 15
    doubled = {name: cells * 2 for name, cells in columns.items()}
    said["data"] = own_data.write(tmp_path / "doubled.csv", doubled)
    for duplicates, is_apart in (("keep", False), ("group", True)):
        _, train, test = examples(duplicates=duplicates, test_fraction=0.5)
        apart = not set(train.texts[0]) & set(test.texts[0])
        assert apart == is_apart
    with pytest.raises(UserError, match="--encoding=utf-99"):
        examples(encoding="utf-99")
    columns["team"][3] = ""
    said["data"] = own_data.write(tmp_path / "empty.csv", columns)
    with pytest.raises(UserError, match="line 5.*--skip_bad_rows"):
        examples()
    _, train, test = examples(skip_bad_rows=True)
    assert len(train) + len(test) < 30


@shows("long_texts")
def test_a_long_text_keeps_its_end_where_asked(tmp_path):
    def first_row(**changes):
        settings = tiny_settings(tmp_path, task="sst2", **changes)
        reader = glue.Glue(settings)
        encoder = reader.load_encoder()
        text = "the dog was not in the house good film water children two"
        some = Examples(np.arange(1), [[text]], None)
        split = reader.data.encode(some, reader.data.task, encoder, "")
        return split.tokens.flat.tolist()

    whole = first_row()
    head = first_row(max_length=10)
    ends = first_row(max_length=10, long_texts="head_tail")
    assert len(whole) > len(head) == len(ends) == 10
    assert head[1:-1] == whole[1:9]
    assert ends[1:-1] == whole[1:3] + whole[-7:-1]


@shows("class_weights")
def test_balanced_labels_have_the_same_weight():
    labels = np.array([0, 0, 0, 1])
    logits = tf.constant([[0.3], [-1.0], [2.0], [0.5]])
    plain = objectives.binary_loss(tf.constant(labels), logits).numpy()
    balanced = objectives.balanced_loss(objectives.binary_loss, labels, 2)
    weighed = balanced(tf.constant(labels), logits).numpy()
    np.testing.assert_allclose(weighed / plain, [2 / 3] * 3 + [2], rtol=1e-5)
    several = np.array([[1, 0], [0, 0], [0, 1], [0, 1]])
    balanced = objectives.balanced_loss(objectives.several_loss, several, 2)
    zeros = tf.zeros([4, 2])
    np.testing.assert_allclose(  # the first label applies once, to 3 without
        balanced(tf.constant(several), zeros) / np.log(2), [2, 1, 1, 1]
    )


@pytest.mark.parametrize(
    "changes", [{}, {"class_weights": "balanced"}], ids=str
)
def test_several_tasks_balance_what_has_classes(changes, tmp_path, monkeypatch):
    balanced = []
    monkeypatch.setattr(
        objectives,
        "balanced_loss",
        lambda loss, labels, count: balanced.append(count) or loss,
    )
    cs224n_runs.write_all(tmp_path)
    of_three = multitask.Multitask(cs224n_runs.settings_of(tmp_path, **changes))
    of_three.build(strategy.single_device())
    assert balanced == ([5, 2] if changes else [])  # no scores
    of_one = stacking.Stacking(
        stacking_data.settings_of(tmp_path, "text", head="dense", **changes)
    )
    of_one.build(strategy.single_device())
    assert balanced == ([5, 2, 2] if changes else [])
