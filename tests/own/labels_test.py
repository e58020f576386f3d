"""The labels in a cell, as people write several of them."""

import csv
import itertools
import types

import pytest

from tests.support import own_data
from tf_transfer import predict
from tf_transfer.data.task import Task
from tf_transfer.own import labels as labels_lib, table_source, task_file
from tf_transfer.utils.errors import UserError

SETS = [["a", "b"], ["a"], ["b", "c d"], ["a", "c d"], [], ["b"]]


def open_table(folder, cells, **options):
    path = folder / "a.csv"
    with open(path, "w", newline="") as file:
        rows = [(f"text {n}", cell) for n, cell in enumerate(cells)]
        csv.writer(file).writerows([("text", "tags"), *rows])
    task = task_file.from_flags(
        str(path),
        text_column="text",
        label_column="tags",
        kind="labels",
        **options,
    )
    return table_source.TableSource(task)


def read_sets(source):
    examples, names = source.read_all("train"), source.task.labels
    return [
        [*itertools.compress(names, row)] for row in examples.labels.tolist()
    ]


@pytest.mark.parametrize(
    "cell, labels",
    [
        ("['a', 'b']", ["a", "b"]),
        ('["a", "b", null]', ["a", "b"]),
        ('["caf\\u00e9", 1.0, true]', ["café", "1", "true"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),  # NumPy's
        ("('a', 'b')", ["a", "b"]),
        ("{'a'}", ["a"]),
        ("[]", []),
        ("[a; b]", ["a", "b"]),
        ("(a)", ["(a)"]),
        ("['it', \"it's\"]", ["it", "it's"]),
        ("[" * 1000, ["[" * 1000]),
        (" a ;; b", ["a", "b"]),
        (["a", 1], ["a", "1"]),
        (None, []),
    ],
)
def test_a_cell_is_a_list_or_text(cell, labels):
    assert labels_lib.split_labels(cell, ";") == labels


@pytest.mark.parametrize("cell", [["a", {"b": 1}], '[["a"], "b"]', {"a": 1}])
def test_a_label_is_a_text_or_a_number(cell):
    with pytest.raises(ValueError, match="is neither a text nor a number"):
        labels_lib.split_labels(cell, ";")


@pytest.mark.parametrize("join", [str, *(f"{c} ".join for c in ";|,\n；、")])
def test_several_labels_are_read_as_they_are_written(join, tmp_path, capsys):
    source = open_table(tmp_path, map(join, SETS))
    assert source.task.labels == ("a", "b", "c d")
    assert read_sets(source) == SETS
    separator, printed = source.task.separator, capsys.readouterr().err
    is_usual = separator in ("", ";")
    assert (f"labels are separated by {separator!r}" in printed) != is_usual


def test_the_separator_is_that_whose_labels_recur(tmp_path):
    cells = [*["food, drink"] * 6, *["sports"] * 3, "food, drink; sports"]
    source = open_table(tmp_path, cells)
    assert source.task.labels == ("food, drink", "sports")
    cells = [*["a, b", "a", "b"] * 9, "a; b"]
    assert open_table(tmp_path, cells).task.labels == ("a", "a; b", "b")


def test_a_separator_is_given(tmp_path, capsys):
    source = open_table(tmp_path, map(" / ".join, SETS), separator="/")
    assert read_sets(source) == SETS and source.task.separator == "/"
    assert capsys.readouterr().err == ""


def test_other_files_have_the_separator_of_the_training_file(tmp_path):
    own_data.write(tmp_path / "a.csv", {"text": [*"stu"], "tags": SETS[1:4]})
    own_data.write(tmp_path / "b.csv", {"text": ["v"], "tags": ["c d, x"]})
    path = own_data.write_toml(
        tmp_path / "mine.toml",
        {
            "texts": "text",
            "label": "tags",
            "kind": "labels",
            "labels": ["a", "b", "c d", "c d, x"],
            "train": "a.csv",
            "test": "b.csv",
        },
    )
    source = table_source.TableSource(task_file.read_task_file(path))
    assert source.read("test").labels.tolist() == [[0, 0, 0, 1]]


def test_a_column_without_several_labels_is_named(tmp_path, capsys):
    source = open_table(tmp_path, ["a/b", "a", "b"] * 2)
    assert source.task.labels == ("a", "a/b", "b")
    line = "a.csv, column 'tags': no cell of train has several labels. --la"
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("separator, cell", [("/", "a/b"), ("", "['a', 'b']")])
def test_predictions_are_scored_by_labels_of_the_same_form(
    separator, cell, tmp_path
):
    path = own_data.write(
        tmp_path / "b.csv", {"text": ["x", "y"], "tags": [cell, "b"]}
    )
    task = Task(
        "t",
        "",
        ("text",),
        "tags",
        ("a", "b"),
        "f1_micro",
        kind="labels",
        separator=separator,
    )
    settings = types.SimpleNamespace(
        keyword_column="", encoding="", clean="none"
    )
    rows = predict.read_file(task, settings, path, "", "tags").rows
    assert rows.labels.tolist() == [[1, 1], [0, 1]]


# === One label ===


@pytest.mark.parametrize(
    "given, cells",
    [
        ('["0.0", "1.0"]', ["0.0", "1.0", "0", "1"]),
        ("[0.0, 1.0]", ["0.0", "1.0", "0", "1"]),
        ("[0, 1]", ["0.0", "1.0", "0", "1"]),
        ('["False", "True"]', ["False", "True", "false", "true"]),
        ("[false, true]", ["False", "True", "false", "true"]),
    ],
)
def test_labels_of_a_task_file_are_those_of_cells(given, cells, tmp_path):
    own_data.write(tmp_path / "a.csv", {"text": [*"stuv"], "y": cells})
    (tmp_path / "a.toml").write_text(
        f'train = "a.csv"\ntexts = "text"\nlabel = "y"\nlabels = {given}\n'
    )
    task = task_file.read_task_file(str(tmp_path / "a.toml"))
    source = table_source.TableSource(task)
    assert source.read("train").labels.tolist() == [0, 1, 0, 1]


def test_labels_that_are_one_in_cells_are_refused(tmp_path):
    (tmp_path / "a.toml").write_text('labels = ["1", "1.0"]\n')
    with pytest.raises(UserError, match="line 1: labels: has a name twice"):
        task_file.read_task_file(str(tmp_path / "a.toml"))


@pytest.mark.parametrize("error", ["#N/A", "#REF!", "#NAME?", " #DIV/0! "])
@pytest.mark.parametrize("kind", ["classes", "labels", "score"])
def test_errors_of_a_spreadsheet_are_missing_values(kind, error, tmp_path):
    labels = ["1", "2", "1", "2", "3"]
    for column in ("text", "y"):
        columns = {"text": [*"stuvw"], "y": [*labels]}
        columns[column][1] = error
        path = own_data.write(tmp_path / "a.csv", columns)
        task = task_file.from_flags(
            path, text_column="text", label_column="y", kind=kind
        )
        problem = f"line 3, column '{column}': {error.strip()} is a spread"
        with pytest.raises(UserError, match=problem.replace("?", r"\?")):
            table_source.TableSource(task).read("train")
