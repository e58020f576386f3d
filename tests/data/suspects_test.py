"""Labels that look wrong are found, ranked, located and written."""

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer.data import suspects, table_files
from tf_transfer.data.task import Source, Task
from tf_transfer.own import table_source, task_file

TASK = Task("news", "", ("text",), "label", ("a", "b", "c"), "accuracy")


def to_logits(probabilities):
    return np.log(np.asarray(probabilities, np.float64))


def test_a_label_is_suspect_where_another_class_is_surer_than_usual():
    labels = np.array([0, 0, 0, 1, 1])
    logits = to_logits(
        [
            [0.9, 0.1],
            [0.8, 0.2],
            [0.1, 0.9],  # above the mean of the class: 0.75
            [0.1, 0.9],
            [0.4, 0.6],
        ]
    )
    [found] = suspects.find_suspects(labels, logits)
    assert (found.row, found.label, found.answer) == (2, 0, 1)
    assert found.probability == pytest.approx(0.9)
    assert found.margin == pytest.approx(0.8)


def test_a_more_probable_class_that_is_not_surer_than_usual_is_no_suspect():
    labels = np.array([0, 0, 1, 1])
    logits = to_logits([[0.9, 0.1], [0.3, 0.7], [0.1, 0.9], [0.05, 0.95]])
    assert suspects.find_suspects(labels, logits) == []


def test_the_largest_margin_is_first_and_a_class_without_texts_is_no_answer():
    labels = np.array([0, 0, 1, 1, 0, 1])
    rows = [[0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0.9, 0.1, 0.0]]
    rows += [[0.3, 0.3, 0.4], [0.9, 0.1, 0.0], [0.1, 0.9, 0.0]]
    found = suspects.find_suspects(labels, to_logits(np.add(rows, 1e-9)))
    assert [suspect.row for suspect in found] == [2, 1, 0]
    assert {suspect.answer for suspect in found} == {0, 1}


def test_one_unit_is_the_second_of_two_classes():
    labels, logits = np.array([0, 0, 1, 1]), np.array([[-3], [3], [2], [2.0]])
    [found] = suspects.find_suspects(labels, logits)
    assert (found.row, found.answer) == (1, 1)


def test_flipped_labels_come_first():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, 600)
    logits = 6 * np.eye(3)[true] + rng.normal(size=(600, 3))
    flipped = rng.choice(600, 30, replace=False)
    labels = true.copy()
    labels[flipped] = (true[flipped] + 1) % 3
    found = [s.row for s in suspects.find_suspects(labels, logits)][:30]
    assert len({*found} & {*flipped}) >= 27


def test_suspects_are_written_with_the_file_and_line_of_their_text(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('text,label\none,a\n"two\nlines",b\n=three,c\nfour,\n')
    with open(path, "a") as file:
        file.write("five,a\nsix,b\nseven,c\n")
    task = own_data.write_toml(
        tmp_path / "task.toml",
        {
            "texts": "text",
            "label": "label",
            "train": "train.csv",
            "skip_bad_rows": True,
        },
    )
    table = task_file.read_task_file(task)
    source = table_source.TableSource(table, 0, str(tmp_path))
    examples = source.read("train")
    found = [suspects.Suspect(2, 2, 0, 0.98765, 0.9)]
    found += [suspects.Suspect(1, 1, 0, 0.7, 0.5)]
    rows = suspects.name_suspects(
        found, TASK, examples.texts, source.locate("train", examples.ids)
    )
    assert [(row.file, row.line) for row in rows] == [
        (str(path), 5),
        (str(path), 4),  # its last
    ]
    suspects.write_csv(str(tmp_path / suspects.FILE), rows)
    columns = table_files.read_table(str(tmp_path / suspects.FILE)).columns
    assert columns["text"] == ["'=three", "two\nlines"]
    assert columns["label"] == ["c", "b"] and columns["answer"] == ["a", "a"]
    assert columns["probability"] == ["0.9877", "0.7"]
    assert suspects.describe(rows) == (  # the other one is not clear
        f"1 label looks wrong; the first: {path}, line 5: '=three' has the "
        "label 'c', and 'a' is more probable (99%)."
    )
    assert suspects.describe(rows[1:]) == suspects.describe([]) == ""


def test_a_source_without_files_names_the_ids():
    places = Source().locate("train", np.array([4, 2]))
    rows = suspects.name_suspects(
        [suspects.Suspect(1, 0, 1, 0.9, 0.8)],
        TASK,
        [["one", "two"], ["three", "four"]],
        places,
    )
    assert (rows[0].file, rows[0].line, rows[0].text) == ("", 2, "two | four")
    assert suspects.describe(rows).startswith(
        "1 label looks wrong; the first: 'two | four' has"
    )
