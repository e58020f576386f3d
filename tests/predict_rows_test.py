"""Rows that `predict` cannot answer, and columns that it does not need."""

import datetime
import json

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tf_transfer import predict
from tf_transfer.data import table_files
from tf_transfer.data.task import Task
from tf_transfer.glue import experiment as glue
from tf_transfer.runs import input_texts
from tf_transfer.utils.errors import UserError

TASK = Task("own", "", ("text",), "label", ("bad", "good"), "accuracy")
WORDS = Task("own", "", ("words",), "tags", ("O", "B-X"), "f1", kind="entities")
CONTENT = "text,other\none,1\n,2\nthree,3\n\u200b,4\n"


class Predictor:
    """Answers `good` where a text has an o."""

    task = TASK

    def logits(self, rows):
        return np.array([["o" in text] for text in rows.texts[0]], np.float32)

    def describe_answers(self, rows, logits, probabilities):
        return {"predicted_label": [["bad", "good"][int(x)] for [x] in logits]}


def read(path, task=TASK, **options):
    settings = glue.Settings()
    return input_texts.read_file(task, settings, str(path), **options)


def answer(texts, output):
    answers = predict.answer_texts(Predictor(), texts)
    predict.write_answers(answers, str(output), output.suffix)
    return table_files.read_table(str(output)).columns


@pytest.mark.parametrize("ending, empty", [(".csv", ""), (".jsonl", None)])
def test_a_row_without_a_text_has_no_answer(ending, empty, tmp_path, capsys):
    path = tmp_path / "in.csv"
    path.write_text(CONTENT)
    texts = read(path)
    columns = answer(texts, tmp_path / f"out{ending}")
    assert columns["predicted_label"] == ["good", empty, "bad", empty]
    assert columns["other"] == [*"1234"]
    assert texts.rows.ids.tolist() == [0, 2]
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == f"{path}: 2 rows cannot be used. Not answered."
    assert lines[0] == f"  {path}, line 3, column 'text': is empty."
    assert "line 5, column 'text': has only invisible" in lines[1]


def test_rows_that_cannot_be_used_are_left_out_where_asked(tmp_path, capsys):
    path = tmp_path / "in.csv"
    path.write_text(f"{CONTENT}five,5,6\n")
    with pytest.raises(UserError, match="line 6: has 3 cells.*--skip_bad_rows"):
        read(path)
    columns = answer(read(path, skip_bad_rows=True), tmp_path / "out.csv")
    assert columns["predicted_label"] == ["good", "bad"]
    assert columns["other"] == ["1", "3"]
    printed = capsys.readouterr().err
    assert "line 6: has 3 cells" in printed and "Left out." in printed


def test_a_table_without_any_text_is_an_error(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text,other\n,1\n ,2\n")
    for skip_bad_rows in (False, True):
        with pytest.raises(UserError, match="2 rows cannot be used"):
            read(path, skip_bad_rows=skip_bad_rows)


def test_only_answered_rows_are_scored(tmp_path, capsys):
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("text,gold\none,good\n,good\nthree,good\n")
    texts = read(path, label_column="gold")
    answer(texts, output)
    logits = np.array([[2.0], [-1.0]])
    predict.write_scores(TASK, texts.rows, logits, str(output))
    assert "2 rows: accuracy 0.5000" in capsys.readouterr().err
    written = json.loads((tmp_path / "out.csv.errors.json").read_text())
    assert [error["id"] for error in written["worst"]] == [2]


def test_an_empty_sentence_has_no_tags(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"words": ["a", "b"]}\n{"words": []}\n{"words": "c d"}\n')
    texts = read(path, WORDS)
    assert texts.columns["words"] == [["a", "b"], [], ["c", "d"]]
    assert texts.spread("predicted_tags", [["O"], ["B-X"]]) == [
        *(["O"], None, ["B-X"])
    ]


@pytest.mark.parametrize("header", ["text,a,a", "text,,"])
def test_columns_of_one_name_are_left_out(header, tmp_path, capsys):
    path = tmp_path / "in.csv"
    path.write_text(f"{header}\none,2,3\n")
    assert answer(read(path), tmp_path / "out.csv") == {
        "text": ["one"],
        "predicted_label": ["good"],
    }
    assert "occurs twice. It is left out" in capsys.readouterr().err
    path.write_text("text,text\none,2\n")
    with pytest.raises(UserError, match="has 2 columns 'text'. Rename"):
        read(path)


def test_a_far_date_in_a_column_that_nobody_needs_is_left_out(tmp_path, capsys):
    path = tmp_path / "in.parquet"
    far = pyarrow.array([2**62], pyarrow.timestamp("us"))
    near = pyarrow.array([datetime.datetime(2026, 1, 2)])
    table = {"text": ["one"], "far": far, "near": near}
    parquet.write_table(pyarrow.table(table), path)
    columns = answer(read(path), tmp_path / "out.csv")
    assert [*columns] == ["text", "near", "predicted_label"]
    assert columns["near"] == ["2026-01-02 00:00:00"]
    assert "column 'far' cannot be read" in capsys.readouterr().err
    with pytest.raises(UserError, match="is not Parquet, or damaged"):
        table_files.read_table(str(path), {"far": "--text_column"})


def test_answers_below_the_least_confidence_are_left_empty(tmp_path, capsys):
    class Unsure(Predictor):
        """Is the surer, the longer a text."""

        def answers(self, logits):
            return [("good", 0.5), ("bad", 0.9), ("good", 0.8999)]

        def describe_answers(self, rows, logits, probabilities):
            labels, scores = zip(*self.answers(logits))
            return {
                "predicted_label": [*labels],
                "predicted_score": [*scores],
            }

    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("text,other\none,1\ntwo,2\nthree,3\n")
    answers = predict.answer_texts(Unsure(), read(path), min_confidence=0.9)
    predict.write_answers(answers, str(out), ".csv")
    columns = table_files.read_table(str(out)).columns
    assert columns["predicted_label"] == ["", "bad", ""]
    assert columns["predicted_score"] == ["0.5", "0.9", "0.8999"]
    assert answers.rows.texts == [["two"]] and len(answers.logits) == 1
    assert capsys.readouterr().err == (
        "--min_confidence=0.9: 1 of 3 rows answered, 2 left empty.\n"
    )
