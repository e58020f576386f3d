"""The labels in a cell, as people write several of them."""

import csv
import itertools
import types

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer.data.task import Task
from tf_transfer.own import label_cells, table_source, task_file
from tf_transfer.runs import input_texts
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
    assert label_cells.split_labels(cell, ";") == labels


@pytest.mark.parametrize("cell", [["a", {"b": 1}], '[["a"], "b"]', {"a": 1}])
def test_a_label_is_a_text_or_a_number(cell):
    with pytest.raises(ValueError, match="is neither a text nor a number"):
        label_cells.split_labels(cell, ";")


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
    source = open_table(tmp_path, ["a/b", "a", "c"] * 2)
    assert source.task.labels == ("a", "a/b", "c")
    line = "a.csv, column 'tags': no cell of train has several labels. --la"
    assert line in capsys.readouterr().err


# === Cells that can be read in several ways ===

VECTORS = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 0]]
NAMED = [["label_0", "label_2"], [], ["label_1"], ["label_0", "label_1"]]
WRITERS = {
    "Python": str,
    "floats": lambda row: str([*map(float, row)]),
    "truth values": lambda row: str([*map(bool, row)]),
    "NumPy": lambda row: str(np.array(row)),
    "NumPy's floats": lambda row: str(np.array(row, float)),
    "NumPy's truth values": lambda row: str(np.array(row, bool)),
    "an array's name": lambda row: f"tensor({row}, dtype=torch.int8)",
    "semicolons": lambda row: ";".join(map(str, row)),
    "a tuple": lambda row: str(tuple(row)),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_lists_of_0_and_1_are_vectors(write, tmp_path, capsys):
    source = open_table(tmp_path, map(write, VECTORS))
    assert source.task.labels == ("label_0", "label_1", "label_2")
    assert read_sets(source) == NAMED
    printed = capsys.readouterr().err
    assert "are read as 0 and 1 for each of 'label_0', 'label_1'" in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize("kind", [int, float, bool])
def test_vectors_of_every_format_and_type_are_read(name, kind, tmp_path):
    rows = [[*map(kind, row)] for row in VECTORS]
    path = own_data.write(tmp_path / name, {"text": [*"stuv"], "tags": rows})
    task = task_file.from_flags(
        path, text_column="text", label_column="tags", kind="labels"
    )
    assert read_sets(table_source.TableSource(task)) == NAMED


def write_task(folder, cells, **values):
    own_data.write(
        folder / "a.csv",
        {"text": [f"text {n}" for n in range(len(cells))], "tags": cells},
    )
    common = {"texts": "text", "label": "tags", "kind": "labels"}
    path = own_data.write_toml(
        folder / "mine.toml", {**common, "train": "a.csv", **values}
    )
    return table_source.TableSource(task_file.read_task_file(path))


def test_the_task_file_names_the_numbers_of_vectors(tmp_path):
    names = ["plot", "music", "cast"]
    source = write_task(tmp_path, [*map(str, VECTORS)], labels=names)
    assert source.task.labels == tuple(names)
    assert read_sets(source)[0] == ["plot", "cast"]


def test_other_files_have_the_vectors_of_the_training_file(tmp_path):
    cells = ["[0, 1, 1]", "[1, 0]", ""]
    own_data.write(tmp_path / "b.csv", {"text": [*"xyz"], "tags": cells})
    source = write_task(tmp_path, [*map(str, VECTORS)], test="b.csv")
    with pytest.raises(UserError) as error:
        source.read("test")
    lines = str(error.value).splitlines()
    assert "2 rows cannot be used" in lines[0]
    assert "line 3" in lines[1] and "'[1, 0]' is not a list of 3" in lines[1]


@pytest.mark.parametrize(
    "cells, labels",
    [
        (["[1]", "[0]", "[1]"], ("0", "1")),  # one number is a label
        (["[1, 0]", "[2, 5]", "[2]"], ("0", "1", "2", "5")),
        (
            ["New York", "New Jersey", "Ohio"],
            ("New Jersey", "New York", "Ohio"),
        ),
        (["10", "20", "10"], ("10", "20")),
        (['["a b", "a", "b"]', "[]", '["a"]'], ("a", "a b", "b")),
    ],
)
def test_other_cells_are_labels(cells, labels, tmp_path):
    assert open_table(tmp_path, cells * 4).task.labels == labels


def test_labels_that_are_given_are_not_doubted(tmp_path):
    source = write_task(
        tmp_path, ["[0, 1]", "[1, 0]", "[0, 1]"], labels=["0", "1"]
    )
    assert read_sets(source) == [["0", "1"]] * 3
    cells = ["plot music", "plot", "music"]
    given = write_task(tmp_path, cells, labels=cells)
    assert read_sets(given) == [[cell] for cell in cells]
    one = open_table(tmp_path, cells * 2, separator=";")
    assert read_sets(one) == [[cell] for cell in cells * 2]


@pytest.mark.parametrize(
    "cells, shown",
    [
        (["101", "010", "110"], "line 2, column 'tags': '101'"),
        (["0", "1", "11"], "line 4, column 'tags': '11'"),
        (["1 0 1", "0 1 0", "1 1 0"], "line 2, column 'tags': '1 0 1'"),
        (["<plot>", "<plot><music>"], "line 3, column 'tags': '<plot><music>'"),
        (["[plot]", "[plot][music]"], "'[plot][music]'"),
        (
            ["music", "plot", "plot music"],
            "line 4, column 'tags': 'plot music'",
        ),
        (["a b", "b c", "a c", "c d", "a d"], "line 2, column 'tags': 'a b'"),
        (["a/b", "a", "b"], "'a/b'"),
        (["a & b", "a", "b"], "'a & b'"),
        (["[1, 0, 1]", "[0, 1]"], "'[1, 0, 1]'"),
        (["[1, null, 0]", "[0, 0, 1]"], "'[0, 0, 1]'"),
    ],
)
def test_a_cell_that_may_be_read_in_two_ways_is_an_error(
    cells, shown, tmp_path
):
    with pytest.raises(UserError, match="--label_separator") as error:
        open_table(tmp_path, cells).read_all("train")
    assert shown in str(error.value) and " may be " in str(error.value)


def test_an_object_is_no_label(tmp_path):
    with pytest.raises(UserError, match="neither a text nor a number"):
        open_table(tmp_path, ['{"plot": 1}', "plot"]).read_all("train")


# === In predictions ===


@pytest.mark.parametrize(
    "separator, cells",
    [
        ("/", ["a/b", "b"]),
        ("", ["['a', 'b']", "b"]),
        ("", ["[1, 1]", "[0, 1]"]),
    ],
)
def test_predictions_are_scored_by_labels_of_the_same_form(
    separator, cells, tmp_path
):
    path = own_data.write(
        tmp_path / "b.csv", {"text": ["x", "y"], "tags": cells}
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
    rows = input_texts.read_file(task, settings, path, "", "tags").rows
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
