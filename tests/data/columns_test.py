"""Columns: cells as labels, and the files of their rows."""

import pytest

from tests.support import own_data
from tf_transfer.data import tables
from tf_transfer.data.columns import concatenate_tables, normalize_cell


@pytest.mark.parametrize(
    "cells, word",
    [
        ((1, 1.0, "1", "1.0", " 1 "), "1"),
        ((True, "True"), "true"),
        ((None, float("nan"), ""), ""),
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
    table = concatenate_tables([tables.read_table(file) for file in files])
    assert len(table) == 4 and table.columns == {"a": ["x", "y"] * 2}
    assert [table.locate(row) for row in (1, 2)] == [
        f"{files[0]}, line 3",
        f"{files[1]}, row 1",
    ]
