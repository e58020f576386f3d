"""Columns: cells as labels, and the files of their rows."""

import math
import re
from decimal import Decimal

import numpy as np
import pytest

from tests.support import own_data
from tf_transfer.data import table_files
from tf_transfer.data.columns import (
    BadRow,
    BadRows,
    concatenate_tables,
    EXCEL_ERRORS,
    normalize_cell,
    Table,
)


@pytest.mark.parametrize(
    "cells, word",
    [
        ((1, 1.0, "1", "1.0", " 1 "), "1"),
        ((True, "True", "TRUE", "true"), "true"),
        ((Decimal("1.00"), Decimal(1)), "1"),
        ((Decimal("1.50"),), "1.5"),
        ((None, float("nan"), ""), ""),
        (("-2.0", -2), "-2"),
        ((2.5, "2.5"), "2.5"),
        (("x1.0",), "x1.0"),
        (("1.00",), "1.00"),
        (("1x0",), "1x0"),
        (("1.10",), "1.10"),
        (("01",), "01"),
    ],
)
def test_a_label_is_the_same_in_every_format(cells, word):
    assert {normalize_cell(cell) for cell in cells} == {word}


def test_rows_of_several_files_know_their_file(tmp_path):
    files = [
        own_data.write(tmp_path / name, {"a": ["x", "y"]})
        for name in ("one.csv", "two.parquet")
    ]
    table = concatenate_tables([table_files.read_table(file) for file in files])
    assert len(table) == 4 and table.columns == {"a": ["x", "y"] * 2}
    assert [table.locate(row) for row in (1, 2)] == [
        f"{files[0]}, line 3",
        f"{files[1]}, row 1",
    ]


# === Cells ===


def table_of(cells, path="a.csv", **flags):
    """A table of one column `a`, from the second line of a file on."""
    places = [(path, number) for number in range(2, 2 + len(cells))]
    return Table(path, places, {"a": cells}, flags)


def test_a_text_keeps_its_blanks():
    assert table_of([" a ", "b"]).texts("a") == [" a ", "b"]


@pytest.mark.parametrize(
    "cell, problem",
    [
        (None, "is empty"),
        ("", "is empty"),
        (" ", "is empty"),
        ("\u200b", r"has only invisible characters: '\\u200b'"),
        (5, "5 is not a text"),
        ([0] * 50, r"\[(0, ){19}0, is not a text"),
        (" #N/A ", "#N/A is a spreadsheet's error"),
    ],
)
def test_a_cell_that_is_no_text_is_named(cell, problem):
    with pytest.raises(BadRows, match=f"line 2, column 'a': {problem}"):
        table_of([cell, "b"]).texts("a")


def test_words_are_a_list_or_a_text_with_blanks():
    table = table_of([["New York", "is"], " it  is "])
    assert table.words("a") == [["New York", "is"], ["it", "is"]]


@pytest.mark.parametrize(
    "cell, problem",
    [
        ([], "has no words. Give a list"),
        (" ", "has no words"),
        (None, "has no words"),
        (("a", "b"), "has no words"),
        (["a", " "], "' ' is not a word"),
        (["a", 1], "1 is not a word"),
    ],
)
def test_cells_that_are_no_words_are_named(cell, problem):
    with pytest.raises(BadRows, match=f"line 3, column 'a': {problem}"):
        table_of(["a", cell]).words("a")


def test_scores_are_numbers_or_texts_of_numbers():
    assert table_of(["1", 2.5, "-3e2"]).scores("a") == [1.0, 2.5, -300.0]
    cells = [" .5 ", "5.", "+1E-1", Decimal("2.50"), 3]
    assert table_of(cells).scores("a") == [0.5, 5.0, 0.1, 2.5, 3.0]
    assert table_of(["0", "5"]).scores("a", 0.0, 5.0) == [0.0, 5.0]


@pytest.mark.parametrize(
    "cell",
    [
        *("x", "nan", "inf", "5_0", "2021_05", "５", "0x10", "1 0", "1,5", "."),
        *(math.inf, None, True, [1], 10**400, "1e999"),
    ],
)
def test_a_cell_that_is_no_finite_number_is_named(cell):
    with pytest.raises(BadRows, match="line 2, column 'a': .* not a number"):
        table_of([cell]).scores("a")


@pytest.mark.parametrize("cell", ["-0.1", "5.1"])
def test_a_score_beyond_its_range_is_named(cell):
    with pytest.raises(BadRows, match=f"'{cell}' is not a score from 0 to 5"):
        table_of([cell]).scores("a", 0.0, 5.0)


@pytest.mark.parametrize("error", EXCEL_ERRORS)
def test_errors_of_a_spreadsheet_are_no_labels(error):
    with pytest.raises(BadRows, match=f"{re.escape(error)} is a spread"):
        table_of([error]).convert("a", str)
    assert table_of(["#"]).convert("a", str) == ["#"]


def test_the_error_of_a_label_shows_the_cells_of_its_row():
    table = table_of(["x", "y"])
    with pytest.raises(BadRows, match="line 3, column 'a'") as error:
        table.label_ids("a", ["1", "z"], ("1", "2"))
    assert error.value.rows[0].text == "y"


def test_labels_are_the_numbers_of_their_order():
    table = table_of(["x", "y", "x"])
    ids = table.label_ids("a", table.columns["a"], ("y", "x"))
    assert ids.tolist() == [1, 0, 1] and ids.dtype == np.int64
    with pytest.raises(BadRows, match="line 3.*'y' is not one of the labels"):
        table.label_ids("a", table.columns["a"], ("x", "z"))


def test_several_labels_are_ones_in_their_columns():
    table = table_of(["x y", "", "y"])
    sets = [["x", "y"], [], ["y"]]
    several = table.label_sets("a", sets, ("y", "x", "z"))
    assert several.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert several.dtype == np.int64
    with pytest.raises(BadRows, match="line 2.*'x' is not one of the labels"):
        table.label_sets("a", sets, ("y",))


# === Rows ===


@pytest.mark.parametrize(
    "flags, advice",
    [
        ({}, "Fix the row, or remove it."),
        ({"a": ""}, "Fix the row, or remove it."),
        (
            {"a": "--text"},
            "Fix the row, or remove it, or give another --text.",
        ),
    ],
)
def test_an_error_ends_with_what_to_do(flags, advice):
    with pytest.raises(BadRows) as error:
        table_of(["", "b"], **flags).texts("a")
    assert str(error.value) == f"a.csv, line 2, column 'a': is empty. {advice}"


@pytest.mark.parametrize(
    "count, dots", [(2, False), (10, False), (11, True), (1200, True)]
)
def test_an_error_lists_ten_rows(count, dots):
    rows = [BadRow("a.csv", n, "is bad", "Fix it.") for n in range(count)]
    error = BadRows(rows)
    assert error.rows == rows
    lines = [f"a.csv: {count:,} rows cannot be used. Fix it."]
    lines += [f"  a.csv, line {n}: is bad." for n in range(min(count, 10))]
    assert str(error).splitlines() == lines + ["  ..."] * dots
    assert str(BadRows(rows, "Go.")).splitlines()[0].endswith("used. Go.")


def test_one_bad_row_has_its_own_advice_and_that_of_the_caller():
    row = BadRow("a.parquet", 3, "is bad", "Fix it.")
    assert str(BadRows([row])) == "a.parquet, row 3: is bad. Fix it."
    assert str(BadRows([row], "Go.")) == "a.parquet, row 3: is bad. Fix it. Go."


def test_rows_that_are_left_out_are_known_by_file_and_line():
    table = Table(
        "a.csv",
        [("a.csv", 2), ("b.csv", 2), ("a.csv", 3)],
        {"a": ["x", "y", "z"]},
        {"a": "--text"},
    )
    left = table.without(
        [BadRow("a.csv", 2, "", ""), BadRow("b.csv", 3, "", "")]
    )
    assert left.columns == {"a": ["y", "z"]}
    assert left.places == [("b.csv", 2), ("a.csv", 3)]
    assert (left.path, left.flags) == (table.path, table.flags)
    assert table.take([2, 0]).columns == {"a": ["z", "x"]}


def test_a_line_inside_of_a_row_is_counted_from_its_first():
    assert table_of(["x"]).locate(0, 3) == "a.csv, line 5"
    assert table_of(["x"], "a.parquet").locate(0, 3) == "a.parquet, row 2"


def test_columns_without_flags_have_none():
    assert Table("a.csv", [], {}).flags == {}
    one, other = table_of(["x"], a="--text"), table_of(["y"], "b.csv")
    joined = concatenate_tables([one, other])
    assert joined.flags == {"a": "--text"} and joined.path == "a.csv"
    assert one.columns == {"a": ["x"]}
