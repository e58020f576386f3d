"""JSON as pandas and others write it."""

import gzip
import json

import pandas as pd
import pytest

from tf_transfer.data import table_files
from tf_transfer.utils.errors import UserError

COLUMNS = {"text": ["a film", "two", "three"], "label": [0, 1, 1]}
NEEDED = {"text": "--text_column", "label": "--label_column"}
FRAME = pd.DataFrame(COLUMNS)
ROWS = FRAME.to_dict("records")


def read(tmp_path, content, name="a.json", columns=NEEDED):
    path = tmp_path / name
    path.write_text(content)
    return table_files.read_table(str(path), columns)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "orient", ["columns", "index", "split", "records", "table"]
)
def test_what_pandas_writes_is_read(orient, indent, tmp_path):
    content = json.loads(FRAME.to_json(orient=orient))
    table = read(tmp_path, json.dumps(content, indent=indent))
    assert table.columns == COLUMNS
    assert table.locate(2).endswith("a.json, row 3")


def test_rows_of_other_numbers_keep_their_order(tmp_path):
    frame = FRAME.iloc[[2, 0]]
    expected = {name: [cells[2], cells[0]] for name, cells in COLUMNS.items()}
    for orient in ("columns", "index"):
        content = frame.to_json(orient=orient)
        assert read(tmp_path, content).columns == expected
        assert read(tmp_path, content, columns=None).columns == expected


@pytest.mark.parametrize(
    "document",
    [
        {"data": ROWS},
        {"version": "1.1", "rows": ROWS},
        {"schema": {"fields": []}, "data": ROWS},
    ],
)
def test_an_object_may_hold_the_rows(document, tmp_path):
    assert read(tmp_path, json.dumps(document)).columns == COLUMNS


def test_lines_are_rows_also_if_they_hold_objects(tmp_path):
    lines = [json.dumps({**row, "more": {"a": [{}]}}) for row in ROWS]
    table = read(tmp_path, "\n".join(lines), "a.jsonl")
    assert table.columns == COLUMNS and table.locate(0).endswith("line 1")
    assert len(read(tmp_path, lines[0], "b.jsonl")) == 1


def test_a_packed_document_is_read(tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(FRAME.to_json().encode()))
    assert table_files.read_table(str(path), NEEDED).columns == COLUMNS


def test_values_without_names_are_refused(tmp_path):
    with pytest.raises(UserError, match='arrays, so.*orient="records"'):
        read(tmp_path, FRAME.to_json(orient="values"))


def test_a_row_of_too_few_cells_is_named(tmp_path):
    document = {"columns": ["text", "label"], "data": [["a", 1], ["b"]]}
    with pytest.raises(UserError, match="row 2: has 1 cells, needs 2"):
        read(tmp_path, json.dumps(document))


def test_a_missing_column_of_a_document_is_named(tmp_path):
    with pytest.raises(UserError, match="has no column 'label'"):
        read(tmp_path, FRAME.drop(columns="label").to_json())
