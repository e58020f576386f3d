"""Tables as people have them: near names, bad rows, Parquet and Excel."""

import csv
import datetime
import sys

import pyarrow
import pytest
from pyarrow import parquet

from tests.support import own_data
from tf_transfer.data import table_files
from tf_transfer.data.columns import BadRows
from tf_transfer.own import table_source, task_file
from tf_transfer.utils.errors import UserError

ROWS = [("text", "label"), ("café, good", "a"), ('two\n"lines" 🙂', "b")]


def write(path, rows=ROWS):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def open_table(path, folder="", label="label", **options):
    task = task_file.from_flags(
        str(path), text_column="text", label_column=label, **options
    )
    return table_source.TableSource(task, 0, str(folder))


@pytest.mark.parametrize("encoding", ["", "utf-8"])
def test_the_usual_encoding_has_the_name_of_none(encoding, tmp_path):
    path = write(tmp_path / "a.csv")
    expected = open_table(path, encoding="utf-8").identity
    assert open_table(path, encoding=encoding).identity == expected


@pytest.mark.parametrize("first", ["{\n[]\n", '{"text": "a", "label": "x"}\n'])
def test_json_lines_of_which_none_is_valid_are_listed(first, tmp_path):
    (tmp_path / "a.jsonl").write_text(first)
    (tmp_path / "b.jsonl").write_text("[]\nnull\n")
    path = own_data.write_toml(
        tmp_path / "mine.toml",
        {
            "name": "mine",
            "texts": "text",
            "label": "label",
            "train": ["b.jsonl", "a.jsonl"],
        },
    )
    source = table_source.TableSource(task_file.read_task_file(path))
    with pytest.raises(BadRows, match="rows cannot be used") as error:
        source.read("train")
    assert "b.jsonl, line 2: is not a JSON object" in str(error.value)


# === Columns ===


def test_a_column_of_nearly_the_name_is_suggested(tmp_path):
    rows = [("Text", "label", "Label"), ("a", "x", "y"), ("b", "y", "x")]
    path = write(tmp_path / "a.csv", rows)
    with pytest.raises(UserError, match="Is 'label' meant"):
        table_files.read_table(path, {"lable": "--label_column"})
    table = table_files.read_table(path, {"label": "--label_column"})
    assert table.columns == {"label": ["x", "y"]}


@pytest.mark.parametrize("takes_all", [False, True])
def test_a_line_of_no_table_is_not_printed(takes_all, tmp_path):
    path = tmp_path / "passwords"
    columns = {"text": "--text_column"}
    path.write_text("root:secret:0\nme:other,1:2\n")
    with pytest.raises(UserError) as error:
        table_files.read_table(str(path), columns, takes_all=takes_all)
    assert "secret" not in str(error.value)
    path.write_text("root:secret:0\n")
    with pytest.raises(UserError, match="commas, it has one column") as error:
        table_files.read_table(str(path), columns, takes_all=takes_all)
    assert "secret" not in str(error.value)


# === Bad rows ===


def write_bad(path, more=0):
    rows = [("text", "label"), ("a", "x"), ("b", "y"), ("", "x"), ("c", "")]
    rows += [("d", "x", "y"), ("e",), ("f", "NA"), ("g", "x"), ("h", "y")]
    return write(path, [*rows, *[("", "x")] * more])


@pytest.mark.parametrize("more", [0, 20])
def test_an_error_lists_the_first_bad_rows_and_counts_all(more, tmp_path):
    path = write_bad(tmp_path / "a.csv", more)
    with pytest.raises(UserError) as error:
        open_table(path).read("train")
    first, *lines = str(error.value).splitlines()
    assert first == (
        f"{path}: {4 + more} rows cannot be used. --skip_bad_rows leaves them "
        "out."
    )
    assert lines[:4] == [
        f"  {path}, line 4, column 'text': is empty.",
        f"  {path}, line 5, column 'label': is empty.",
        f"  {path}, line 6: has 3 cells, needs 2: 'text', 'label'.",
        f"  {path}, line 7: has 1 cells, needs 2: 'text', 'label'.",
    ]
    assert len(lines) == (11 if more else 4)


def test_bad_rows_are_left_out_and_written(tmp_path, capsys):
    path = write_bad(tmp_path / "a.csv")
    source = open_table(path, tmp_path / "out", skip_bad_rows=True)
    assert source.read_all("train").texts == [["a", "b", "g", "h"]]
    skipped = tmp_path / "out" / "a-train-skipped.csv"
    printed = capsys.readouterr().err
    assert printed == f"{path}: skipped 5 rows, written to {skipped}.\n"
    written = table_files.read_table(str(skipped)).columns
    assert written["number"] == ["4", "5", "6", "7", "8"]
    assert written["problem"][-1] == "'NA' stands for no label"
    assert written["text"][1:3] == ["c | ", "d,x,y"]
    assert source.identity != open_table(path).identity


def test_na_is_a_label_where_it_is_listed_or_nothing_is_skipped(tmp_path):
    rows = [("text", "label"), *[("a", "NA"), ("b", "x"), ("c", "y")] * 2]
    path = write(tmp_path / "a.csv", rows)
    assert open_table(path).task.labels == ("NA", "x", "y")
    toml = tmp_path / "own.toml"
    toml.write_text(
        'train = "a.csv"\ntexts = "text"\nlabel = "label"\n'
        'labels = ["NA", "x", "y"]\nskip_bad_rows = true\n'
    )
    source = table_source.TableSource(task_file.read_task_file(str(toml)))
    assert len(source.read_all("train")) == 6


def test_numbers_are_checked_like_texts(tmp_path):
    rows = [("text", "label"), ("a", "1"), ("b", "NA"), ("c", "inf")]
    rows += [("d", "2.5"), ("e", "3")]
    path = write(tmp_path / "a.csv", rows)
    with pytest.raises(UserError, match="2 rows(.|\n)*'NA' is not a number"):
        open_table(path, kind="score").read("train")
    source = open_table(path, tmp_path, kind="score", skip_bad_rows=True)
    assert source.read_all("train").labels.tolist() == [1, 2.5, 3]


def test_a_table_of_bad_rows_alone_is_refused(tmp_path):
    path = write(tmp_path / "a.csv", [("text", "label"), ("", "a"), ("b", "")])
    with pytest.raises(UserError, match="2 rows cannot be used"):
        _ = open_table(path, tmp_path, skip_bad_rows=True).task


def test_lines_of_no_json_are_rows_like_others(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a", "label": "x"}\n{"text": \n["b"]\n'
        '{"text": 5, "label": "y"}\n{"text": "b", "label": null}\n'
        '{"text": "c", "label": "y"}\n'
    )
    with pytest.raises(UserError, match="4 rows cannot be used") as error:
        open_table(path).read("train")
    for line in (
        "line 2: is not JSON",
        "line 3: is not a JSON object",
        "line 4, column 'text': 5 is not a text",
        "line 5, column 'label': is empty",
    ):
        assert line in str(error.value)


def test_a_quote_in_a_row_costs_that_row_and_an_open_one_all(tmp_path):
    path = tmp_path / "a.csv"
    text = 'text,label\n"a "b" c",x\nd,x\ne,y\nf,y\ng,x\n'
    path.write_text(text)
    with pytest.raises(UserError, match="line 2: is not CSV"):
        open_table(path).read("train")
    source = open_table(path, tmp_path, skip_bad_rows=True)
    assert source.read_all("train").texts == [["d", "e", "f", "g"]]
    path.write_text(f'{text}"h,x\ni,y\nj,y\n')
    with pytest.raises(UserError, match="line 7: is not CSV.*end of data"):
        open_table(path, tmp_path, skip_bad_rows=True).read("train")


def test_entities_are_not_skipped_by_rows(tmp_path):
    path = write(tmp_path / "a.csv")
    source = open_table(path, kind="entities", skip_bad_rows=True)
    with pytest.raises(UserError, match="--skip_bad_rows: sentences stay"):
        _ = source.task


# === Parquet and Excel ===


@pytest.mark.parametrize("cell", [datetime.date(2020, 1, 1), ["x"], {"x": 1}])
def test_cells_of_other_types_are_refused(cell, tmp_path):
    for number, name in enumerate(("text", "label"), 1):
        path = str(tmp_path / f"{number}.parquet")
        columns = {"text": ["a", "b"], "label": ["x", "y"], name: [cell] * 2}
        parquet.write_table(pyarrow.table(columns), path)
        with pytest.raises(UserError) as error:
            open_table(path).read("train")
        problem = ("is not a text", "is neither a text nor a number")[
            number - 1
        ]
        line = f"row 1, column {name!r}: {cell!r} {problem}"
        assert line in str(error.value)


def test_parquet_with_two_columns_of_a_name_is_refused(tmp_path):
    path = str(tmp_path / "a.parquet")
    cells = [pyarrow.array(["a", "b"])] * 2
    parquet.write_table(pyarrow.Table.from_arrays(cells, ["a", "a"]), path)
    with pytest.raises(UserError, match=r"a.parquet: has 2 columns 'a'"):
        table_files.read_table(path, {"a": ""})


def test_parquet_with_text_of_no_utf_8_is_refused(tmp_path):
    path = str(tmp_path / "a.parquet")
    binary = pyarrow.array([b"a", b"\xff\xfe"], pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), 2, binary.buffers())
    parquet.write_table(pyarrow.table({"a": text}), path)
    with pytest.raises(UserError, match="or damaged .*'utf-8' codec"):
        table_files.read_table(path, {"a": ""})


def test_the_first_sheet_of_excel_is_a_table(tmp_path, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [
        ("text", "label", None),
        ("one", 1, None),
        (2, True, None),
        (),
        (None, "x", None),
    ]:
        book.active.append(row)
    book.create_sheet("other")
    path = str(tmp_path / "a.xlsx")
    book.save(path)
    table = table_files.read_table(path)
    assert table.columns == {
        "text": ["one", "2", ""],
        "label": ["1", "TRUE", "x"],
    }
    assert "only its first sheet, 'Sheet', is read" in capsys.readouterr().err
    with pytest.raises(UserError, match="a.xlsx, row 5, column 'text': is em"):
        table.texts("text")
    with pytest.raises(UserError, match="a.xlsx, row 1: has no column 'b'"):
        table_files.read_table(path, {"b": ""})
    book.active.append(["three", 1, "lost"])
    book.save(path)
    with pytest.raises(UserError, match="row 6: has 3 cells, and the h"):
        table_files.read_table(path)
    (tmp_path / "b.xlsx").write_bytes(b"PK text,label")
    with pytest.raises(UserError, match="is not an Excel file, or damaged"):
        table_files.read_table(str(tmp_path / "b.xlsx"))


def test_excel_without_its_extra_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"")
    with pytest.raises(UserError, match=r"tf_transfer\[excel\]"):
        table_files.read_table(str(tmp_path / "a.xlsx"))
