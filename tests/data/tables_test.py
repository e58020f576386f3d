"""Tables: what is read, refused and written."""

import datetime
import json

import pandas as pd
import pytest

from tests.support import own_data
from tf_transfer.data import tables
from tf_transfer.utils.errors import UserError


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.jsonl", b'{"a": 1}\n{"a": \n', ["line 2", "is not JSON"]),
        ("a.jsonl", b'{"a": "x \\ud83d"}\n', ["line 1", "half a character"]),
        ("a.jsonl", b'["a"]\n', ["line 1", "is not a JSON object"]),
        ("a.jsonl", b'{"a": "\xe9"}\n', ["line 1", "0xe9", "UTF-8"]),
        ("a.parquet", b"text,label\n", ["is not Parquet"]),
        ("a.csv", b"a,b\n1\n", ["line 2", "has 1 cells"]),
        ("a.csv", b"a,\xc3\xa9\n\xe9,b\n", ["line 2", "is not utf-8", "0xe9"]),
        ("a.csv", b"a,\xe9\n\0,b\n", ["line 1", "is not utf-8", "0xe9"]),
        ("a.csv", b"", ["is empty"]),
        ("a.csv", b"b,c\n", ["line 1", "no column 'a'", "'b', 'c'"]),
    ],
)
def test_a_file_that_cannot_be_read_says_where(name, content, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        tables.read_table(str(path), {"a": ""})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_what_is_written_is_read_again(ending, tmp_path):
    columns = {"text": ["a b", "c"], "label": ["x", "y"]}
    path = tmp_path / f"out.{ending}"
    path.write_bytes(tables.write_table(columns, f".{ending}"))
    assert tables.read_table(str(path)).columns == columns


def test_a_return_in_a_text_ends_no_row(tmp_path):
    columns = {"text": ["good\rfilm", "x"], "label": ["a", "b"]}
    (tmp_path / "out.csv").write_bytes(tables.write_table(columns, ".csv"))
    read = pd.read_csv(tmp_path / "out.csv")
    assert read.label.tolist() == ["a", "b"] and len(read) == 2


def test_other_columns_are_written_as_they_were(tmp_path):
    columns = {"price": [0.00002, 1.5], "day": [datetime.date(2020, 1, 2)] * 2}
    assert tables.write_table(columns, ".csv").decode().splitlines()[1:] == [
        "2e-05,2020-01-02",
        "1.5,2020-01-02",
    ]
    first, _ = tables.write_table(columns, ".jsonl").decode().splitlines()
    assert json.loads(first) == {"price": 2e-05, "day": "2020-01-02"}


def test_a_wrong_column_names_what_gives_it(tmp_path):
    path = own_data.write(tmp_path / "a.csv", {"b": ["x"], "c": [" "]})
    with pytest.raises(UserError, match="line 1.*'a'.*'b', 'c'.*--text_column"):
        tables.read_table(path, {"a": "--text_column"})
    assert list(tables.read_table(path, {"a": None, "b": ""}).columns) == ["b"]
    table = tables.read_table(path, {"c": "--text_column"})
    with pytest.raises(UserError, match="line 2, column 'c'.*--text_column"):
        table.texts("c")


def test_a_column_that_occurs_twice_is_not_lost(tmp_path):
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    for columns in (None, {"a": ""}):
        with pytest.raises(UserError, match="line 1: has 2 columns 'a'"):
            tables.read_table(str(tmp_path / "a.csv"), columns)


def test_a_damaged_page_of_parquet_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    own_data.write(path, {"a": ["a text"] * 9})
    content = bytearray(path.read_bytes())
    content[4:20] = bytes(16)
    path.write_bytes(content)
    with pytest.raises(UserError, match="a.parquet: is not Parquet, or dam"):
        tables.read_table(str(path), {"a": ""})
