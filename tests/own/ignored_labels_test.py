"""Rows whose label stands for none are left out, and counted."""

import pytest

from tests.support import own_data
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError

LABELS = ["0", "1", "-1", "0", "1", "unknown", "0", "1"]


def open_flags(folder, labels, ignored="", **options):
    columns = {"text": [f"text {n}" for n in range(len(labels))]}
    path = own_data.write(folder / "a.csv", {**columns, "label": labels})
    return table_source.TableSource(
        task_file.from_flags(
            path,
            text_column="text",
            label_column="label",
            ignore_labels=ignored,
            **options,
        )
    )


def test_rows_of_these_labels_are_left_out_and_counted(tmp_path, capsys):
    source = open_flags(tmp_path, LABELS, "-1, unknown,none")
    examples = source.read_all("train")
    assert source.task.labels == ("0", "1")
    assert examples.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert examples.ids.tolist() == [0, 1, 3, 4, 6, 7]  # as in the file
    assert capsys.readouterr().err.endswith(
        "a.csv: --ignore_labels: rows left out: 1 of '-1', 1 of 'unknown', 0 "
        "of 'none'.\n"
    )
    assert source.identity != open_flags(tmp_path, LABELS).identity


def test_a_task_file_lists_them_for_all_of_its_files(tmp_path):
    for name in ("a.csv", "b.csv"):
        texts = [f"{name} {row}" for row in range(len(LABELS))]
        own_data.write(tmp_path / name, {"text": texts, "label": LABELS})
    path = own_data.write_toml(
        tmp_path / "mine.toml",
        {
            "texts": "text",
            "label": "label",
            "train": "a.csv",
            "test": "b.csv",
            "ignore_labels": [-1, "unknown"],
        },
    )
    source = table_source.TableSource(task_file.read_task_file(path))
    assert len(source.read("train")) == len(source.read("test")) == 6
    assert source.read("test").ids.tolist() == [0, 1, 3, 4, 6, 7]


@pytest.mark.parametrize("cell", ["unknown", "['unknown']", "['b', 'unknown']"])
def test_a_row_of_several_labels_is_left_out_for_one(cell, tmp_path):
    cells = ["['a', 'b']", cell, "['b']", "['a']", "[]"]
    source = open_flags(tmp_path, cells, "unknown", kind="labels")
    assert source.read_all("train").labels.tolist() == [
        *([1, 1], [0, 1], [1, 0], [0, 0])
    ]


def test_vectors_are_found_without_the_rows_of_no_label(tmp_path):
    cells = ["[1, 0]", "-1", "[0, 1]"]
    source = open_flags(tmp_path, cells, "-1", kind="labels")
    assert source.read_all("train").labels.tolist() == [[1, 0], [0, 1]]


def test_a_number_may_stand_for_no_score(tmp_path):
    cells = ["1.5", "-999", "2", "-999.0", "2", "1.5"] * 4
    source = open_flags(tmp_path, cells, "-999", kind="score")
    assert {*source.read_all("train").labels} == {1.5, 2.0}


def test_no_row_is_left(tmp_path):
    with pytest.raises(UserError, match="--ignore_labels leaves no rows"):
        open_flags(tmp_path, ["-1", "-1"], "-1").read_all("train")


@pytest.mark.parametrize(
    "lines, message",
    [
        ('kind = "entities"', "line 2: ignore_labels: tags stay"),
        ('labels = ["a", "b"]', "line 2: ignore_labels: 'b' is in labels"),
    ],
)
def test_a_task_file_that_contradicts_itself_is_an_error(
    lines, message, tmp_path
):
    own_data.write(tmp_path / "a.csv", {"text": ["x"], "label": ["a"]})
    path = tmp_path / "mine.toml"
    path.write_text(
        'train = "a.csv"\nignore_labels = ["b"]\ntexts = "text"\n'
        f'label = "label"\n{lines}\n'
    )
    with pytest.raises(UserError, match=message):
        task_file.read_task_file(str(path))
