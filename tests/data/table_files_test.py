"""Tables: what is read, refused and written."""

import datetime
import json

import pandas as pd
import pytest

from tests.support import own_data
from tf_transfer.data import delimited, table_files
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
        table_files.read_table(str(path), {"a": ""})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_what_is_written_is_read_again(ending, tmp_path):
    columns = {"text": ["a b", "c"], "label": ["x", "y"]}
    path = tmp_path / f"out.{ending}"
    path.write_bytes(table_files.write_table(columns, f".{ending}"))
    assert table_files.read_table(str(path)).columns == columns


def test_a_return_in_a_text_ends_no_row(tmp_path):
    columns = {"text": ["good\rfilm", "x"], "label": ["a", "b"]}
    (tmp_path / "out.csv").write_bytes(table_files.write_table(columns, ".csv"))
    read = pd.read_csv(tmp_path / "out.csv")
    assert read.label.tolist() == ["a", "b"] and len(read) == 2


def test_other_columns_are_written_as_they_were(tmp_path):
    columns = {"price": [0.00002, 1.5], "day": [datetime.date(2020, 1, 2)] * 2}
    assert table_files.write_table(columns, ".csv").decode().splitlines()[
        1:
    ] == [
        "2e-05,2020-01-02",
        "1.5,2020-01-02",
    ]
    first, _ = table_files.write_table(columns, ".jsonl").decode().splitlines()
    assert json.loads(first) == {"price": 2e-05, "day": "2020-01-02"}


def test_a_wrong_column_names_what_gives_it(tmp_path):
    path = own_data.write(tmp_path / "a.csv", {"b": ["x"], "c": [" "]})
    with pytest.raises(UserError, match="line 1.*'a'.*'b', 'c'.*--text_column"):
        table_files.read_table(path, {"a": "--text_column"})
    assert list(table_files.read_table(path, {"a": None, "b": ""}).columns) == [
        "b"
    ]
    table = table_files.read_table(path, {"c": "--text_column"})
    with pytest.raises(UserError, match="line 2, column 'c'.*--text_column"):
        table.texts("c")


def test_a_column_that_occurs_twice_is_not_lost(tmp_path):
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    for columns in (None, {"a": ""}):
        with pytest.raises(UserError, match="line 1: has 2 columns 'a'"):
            table_files.read_table(str(tmp_path / "a.csv"), columns)


def test_a_damaged_page_of_parquet_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    own_data.write(path, {"a": ["a text"] * 9})
    content = bytearray(path.read_bytes())
    content[4:20] = bytes(16)
    path.write_bytes(content)
    with pytest.raises(UserError, match="a.parquet: is not Parquet, or dam"):
        table_files.read_table(str(path), {"a": ""})


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "a.csv"):
        with pytest.raises(UserError, match=f"^{path}: no such file"):
            table_files.read_table(str(path))


# === Columns ===


def read(tmp_path, content, *arguments, name="a.csv", **options):
    (tmp_path / name).write_text(content)
    path = str(tmp_path / name)
    return table_files.read_table(path, *arguments, **options)


def test_all_columns_are_read_or_those_that_are_named(tmp_path):
    content = "a,b,c\n1,2,3\n"
    everything = {"a": ["1"], "b": ["2"], "c": ["3"]}
    assert read(tmp_path, content).columns == everything
    some = read(tmp_path, content, {"c": "", "a": "--flag"})
    assert some.columns == {"c": ["3"], "a": ["1"]}
    assert [*some.columns] == ["c", "a"]
    assert some.flags == {"c": "", "a": "--flag"}
    every = read(tmp_path, content, {"c": ""}, takes_all=True)
    assert [*every.columns] == ["a", "b", "c"]
    assert read(tmp_path, content).flags == {}


@pytest.mark.parametrize(
    "flag, header, advice",
    [
        ("", "a,b", "Its columns are 'a', 'b'."),
        (
            "--label_column",
            "a,b",
            "Its columns are 'a', 'b'. Give one of them as --label_column.",
        ),
        (
            "",
            "a,texts",
            "Its columns are 'a', 'texts'. Is 'texts' meant?",
        ),
        (
            "--text_column",
            '"a,b",c',
            "Its columns are 'a,b', 'c'. Put a name that has a comma in "
            "double quotes. Give one of them as --text_column.",
        ),
        (
            "--text_column",
            "a,b",
            "Its columns are 'a', 'b'. Give one of them as --text_column.",
        ),
        ("", "a", "With cells separated by commas, it has one column."),
        (
            "--label_column",
            '"a,b",c',
            "Its columns are 'a,b', 'c'. Give one of them as --label_column.",
        ),
    ],
)
def test_a_missing_column_is_an_error_with_advice(
    flag, header, advice, tmp_path
):
    with pytest.raises(UserError) as error:
        read(tmp_path, f"{header}\n", {"text": flag})
    where = f"{tmp_path / 'a.csv'}, line 1: has no column 'text'."
    assert str(error.value) == f"{where} {advice}"


def test_a_column_that_occurs_twice_matters_only_if_it_is_read(
    tmp_path, capsys
):
    content = "a,b,a\n1,2,3\n"
    assert read(tmp_path, content, {"b": ""}).columns == {"b": ["2"]}
    with pytest.raises(UserError, match="has 2 columns 'a'. Rename all but"):
        read(tmp_path, content, {"a": ""})
    assert read(tmp_path, content, {"b": ""}, takes_all=True).columns == {
        "b": ["2"]
    }
    assert "column 'a' occurs twice. It is left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, content, where",
    [
        ("a.csv", "a,b\n1,2\na,b\n3,4\n", "line 3"),
        ("a.tsv", "a\tb\n1\t2\na\tb\n3\t4\n", "line 3"),
        (
            "a.jsonl",
            '{"a": "1", "b": "2"}\n{"a": "a", "b": "b"}\n{"a":"3","b":"4"}\n',
            "line 2",
        ),
    ],
)
def test_a_row_that_repeats_the_header_is_bad(name, content, where, tmp_path):
    with pytest.raises(UserError, match=f"{where}: repeats the header. Remove"):
        read(tmp_path, content, name=name)
    bad = []
    table = read(tmp_path, content, name=name, bad_rows=bad)
    assert table.columns == {"a": ["1", "3"], "b": ["2", "4"]} and len(bad) == 1


def test_a_text_may_be_the_name_of_its_only_column(tmp_path):
    assert read(tmp_path, "text\na\ntext\n").columns["text"] == ["a", "text"]


def test_a_ragged_file_needs_the_columns_that_are_read(tmp_path):
    ragged = delimited.Dialect(is_ragged=True)
    content = "a,b,c\n1\n2,3\n4,5,6,7\n"
    columns = {"b": "", "a": ""}
    bad = []
    table = read(tmp_path, content, columns, dialect=ragged, bad_rows=bad)
    assert table.columns == {"b": ["3", "5"], "a": ["2", "4"]}
    assert [number for _, number in table.places] == [3, 4]
    [row] = bad
    assert (row.number, row.problem) == (2, "has 1 cells, needs 2: 'a', 'b'")
    with pytest.raises(UserError, match="line 2: has 1 cells, needs 2"):
        read(tmp_path, content, columns, dialect=ragged)


def test_a_table_without_a_header_has_lines_from_the_first_on(tmp_path):
    named = delimited.Dialect(header=("a", "b"))
    table = read(tmp_path, "1,2\n3,4\n", dialect=named)
    assert table.columns == {"a": ["1", "3"], "b": ["2", "4"]}
    assert table.locate(0).endswith("line 1")
    with pytest.raises(UserError, match="line 1: has no column 'c'"):
        read(tmp_path, "1,2\n", {"c": ""}, dialect=named)


# === JSON lines ===


def test_objects_need_not_have_all_columns(tmp_path):
    content = '{"a": 1}\n\n  \n{"b": [2], "a": null}\n'
    table = read(tmp_path, content, name="a.jsonl")
    assert table.columns == {"a": [1, None], "b": [None, [2]]}
    assert [number for _, number in table.places] == [1, 4]
    with pytest.raises(UserError, match="line 1: has no column 'c'"):
        read(tmp_path, content, {"c": ""}, name="a.jsonl")
    empty = read(tmp_path, "\n", {"c": ""}, name="a.jsonl")
    assert empty.columns == {"c": []} and len(empty) == 0


@pytest.mark.parametrize(
    "line, problem",
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("5", "is not a JSON object. Give one per line, such as"),
        ('{"a": "\\ud83d"}', r"half a character \('\\ud83d'\)"),
        ('{"a": "\\UD83D"}', "is not JSON"),
    ],
)
def test_a_line_of_no_object_is_left_out_or_an_error(line, problem, tmp_path):
    content = f'{{"a": 1}}\n{line}\n{{"a": 2}}\n'
    with pytest.raises(UserError, match=f"line 2: .*{problem}"):
        read(tmp_path, content, name="a.jsonl")
    bad = []
    table = read(tmp_path, content, name="a.jsonl", bad_rows=bad)
    assert table.columns == {"a": [1, 2]}
    assert [(row.number, row.text) for row in bad] == [(2, line)]


def test_a_whole_emoji_may_be_escaped(tmp_path):
    table = read(tmp_path, '{"a": "\\ud83d\\ude00"}\n', name="a.jsonl")
    assert table.columns == {"a": ["😀"]}


# === Parquet and Excel ===


def test_rows_of_parquet_are_numbered(tmp_path):
    path = own_data.write(
        tmp_path / "a.parquet", {"a": ["x", "y"], "b": [1, 2]}
    )
    table = table_files.read_table(path, {"b": "", "c": None})
    assert table.columns == {"b": [1, 2]}
    assert table.places == [(path, 1), (path, 2)]
    with pytest.raises(UserError, match="a.parquet: has no column 'd'"):
        table_files.read_table(path, {"d": ""})


def test_a_sheet_has_rows_of_the_header_s_width(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("a", "b"), ("x",), (), (None, 0), ("y", 1, 2)]:
        book.active.append(row)
    path = str(tmp_path / "a.xlsx")
    book.save(path)
    bad = []
    table = table_files.read_table(path, bad_rows=bad)
    assert table.columns == {"a": ["x", ""], "b": ["", "0"]}
    assert [number for _, number in table.places] == [2, 4]
    [row] = bad
    assert (row.number, row.problem, row.advice) == (
        5,
        "has 3 cells, and the header has 2",
        "Fix the row.",
    )


# === Writing ===


def test_cells_are_written_as_a_spreadsheet_shows_them():
    columns = {"=a": ["x,y", None, "=1"], "b": [["p", "q"], (1, 2), 'x"']}
    assert table_files.write_table(columns, ".csv").decode() == (
        '\'=a,b\n"x,y",p;q\n,1;2\n\'=1,"x"""\n'
    )


def test_json_lines_keep_what_they_are_given():
    columns = {"a": ["é", "=1"], "b": [[1], None]}
    assert table_files.write_table(columns, ".jsonl").decode() == (
        '{"a": "é", "b": [1]}\n{"a": "=1", "b": null}\n'
    )
