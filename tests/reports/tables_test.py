"""Tables: how their cells are written, and the errors of runs."""

import json
import os
import types

import pytest

from tests.support import own_data
from tf_transfer import report, train
from tf_transfer.comparison.estimates import Ranged
from tf_transfer.data import error_analysis as errors_lib
from tf_transfer.reports import (
    reading,
    summary as summary_lib,
    tables as tables_lib,
)

MARKUP = "<script>alert(1)</script>"


def test_a_value_is_written_in_one_way():
    assert tables_lib.spread([80.0, None, 82.0]) == "81.00 ± 1.41"
    assert tables_lib.spread([80.0], 1, "+") == "+80.0"
    assert tables_lib.spread([]) == Ranged().show(2) == ""
    assert Ranged(-0.001, -1, 1).show(1, "+") == "+0.0 (-1.0 to +1.0)"


def test_the_residuals_of_scores_are_a_table():
    residuals = {
        "mean": 0.25,
        "standard_deviation": 0.5,
        "absolute": 0.4,
        "quantiles": [-1.0, -0.5, 0.0, 0.5, 1.25],
    }
    worst = [{"id": 3, "text": "t", "label": 1.0, "answer": 3.0, "residual": 2}]
    [table, texts] = tables_lib.tabulate_errors(
        {"validation": {"residuals": residuals, "worst": worst}}, "The run"
    )
    assert table.caption.startswith("The run: errors on validation, answers")
    assert table.frame.to_dict("records") == [
        {
            "mean": 0.25,
            "standard deviation": 0.5,
            "absolute": 0.4,
            "quantiles": "-1; -0.5; +0; +0.5; +1.25",
        }
    ]
    assert texts.frame.columns.tolist()[:2] == ["row", "text"]


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Two baselines of a task with labels that are noise; their summary."""
    folder = tmp_path_factory.mktemp("errors")
    columns = own_data.news(120)
    columns["team"][::2] = columns["team"][1::2]
    columns["body"] = [f"{text} {MARKUP}" for text in columns["body"]]
    path = own_data.write_task(folder, columns=columns)
    out = str(folder / "runs")
    paths = [
        train.run(
            train.Settings(
                task=path,
                features="tfidf",
                out=out,
                max_train_examples=count,
            )
        ).directory
        for count in (0, 30)
    ]
    return types.SimpleNamespace(
        root=out, paths=paths, summary=summary_lib.summarize_folder(out)
    )


def test_a_document_publishes_no_texts(reported, tmp_path):
    path = tmp_path / "docs" / "page.md"
    path.parent.mkdir()
    path.write_text(f"{report.BEGIN}\n{report.END}\n")
    page = report.compose(reported.summary)
    report.write_document(str(path), page, reported.summary)
    for written in path.parent.iterdir():
        assert b"alert" not in written.read_bytes(), written


def test_errors_are_tables_by_label_and_of_the_worst_texts(reported):
    with open(os.path.join(reported.paths[0], "errors.json")) as file:
        tables = [*tables_lib.tabulate_errors(json.load(file), "The run")]
    assert [table.caption.partition(", ")[2] for table in tables[:3]] == [
        "by label, in points",
        "the labels most often taken for another",
        "the worst texts, by row from 0 on",
    ]
    assert tables[0].open and not tables[-1].open  # validation is open
    by_label = tables[0].frame
    assert by_label["label"].tolist() == ["money", "space", "sports"]
    assert by_label["f1"].max() > 1  # in points
    assert len(tables[2].frame) <= errors_lib.MOST_LISTED


def test_damaged_errors_or_profiles_leave_out_their_run_alone(reported):
    path = os.path.join(reported.paths[1], "errors.json")
    with open(path, "a") as file:
        file.write(" ")
    runs, left_out = reading.read_runs(reported.root)
    assert len(runs) == 1
    [(name, reason)] = left_out
    assert "errors.json: is damaged" in reason, (name, reason)
