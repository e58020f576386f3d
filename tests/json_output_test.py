"""`--json`: one object on the standard output, with the documented keys."""

import functools
import json
import os
import pathlib
import re

import pandas as pd
import pytest

from tests.reports import synthetic
from tests.searches import fake_runs
from tests.support import commands, own_data
from tf_transfer import predict, report, train
from tf_transfer.baselines import ranking
from tf_transfer.config import command_line

PAGE = pathlib.Path(commands.ROOT, "docs/reference/conventions.md")


def documented(command):
    """The keys of a command's object, of the page."""
    text = PAGE.read_text(encoding="utf-8")
    [table] = re.findall(
        rf"^### tf-transfer {command}\n\n(.*?)(?:\n\n|\Z)", text, re.M | re.S
    )
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


@pytest.fixture
def answer(capfd):
    """Runs a command in this process; the object that it prints."""

    def call(main, settings, *words):
        assert commands.call(main, settings, *words, "--json") == 0
        return json.loads(capfd.readouterr().out)

    return call


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    path = own_data.write(folder / "news.csv", own_data.news())
    return ["--text_column=title", "--label_column=team", f"--data={path}"]


run_train = functools.partial(commands.execute, train.Train)


def test_train_and_predict_print_an_object(table, answer, tmp_path):
    words = [*table, "--features=tfidf", f"--out={tmp_path / 'runs'}"]
    trained = answer(run_train, train.Settings, *words)
    assert trained.keys() == documented("train")
    assert os.path.isfile(os.path.join(trained["run"], "result.json"))
    assert trained["metric"] in trained["validation"]
    found = answer(run_train, train.Settings, *words)  # the finished run
    assert found == trained
    run = f"--run={trained['run']}"
    path = table[-1].removeprefix("--data=")
    predicted = answer(
        predict.main,
        predict.Settings,
        *(run, f"--input={path}", "--label_column=team"),
    )
    assert predicted.keys() == {"task", "answers", "scores"}
    [first, *_] = predicted["answers"]
    assert first["team"] == first["predicted_label"]
    written = answer(
        predict.main,
        predict.Settings,
        *(run, "--text=goal cup", f"--output={tmp_path / 'out.csv'}"),
    )
    exported = answer(
        predict.main, predict.Settings, run, f"--export={tmp_path / 'model'}"
    )
    assert written.keys() == {"task", "output"}
    assert exported.keys() == {"task", "export"}
    keys = {*predicted, *written, *exported}
    assert keys == documented("predict")


def test_a_ranking_prints_an_object(table, answer, monkeypatch):
    runs = pd.DataFrame(
        {"directory": ["b", "a"], "metric": "accuracy", "score": [80.5, 81.0]},
        index=["minilm", "mpnet"],
    )
    found = ranking.Ranking(runs, "Use minilm.")
    monkeypatch.setattr(train, "rank", lambda settings, models: found)
    ranked = answer(run_train, train.Settings, *table, "--models=minilm,mpnet")
    assert ranked.keys() == documented("train --models")
    assert ranked["encoders"][1] == {
        "model": "mpnet",
        "run": "a",
        "metric": "accuracy",
        "score": 81.0,
    }
    assert "--model=minilm" in ranked["train"]


def test_a_report_prints_an_object(answer, tmp_path):
    for layers, score in (("all", 0.8), ("4", 0.78)):
        synthetic.write(tmp_path, [score], trainable_layers=layers)
    reported = answer(
        lambda: report.main(["report", str(tmp_path)]), report.Settings
    )
    assert reported.keys() == documented("report")
    assert reported["runs"] == 2 and os.path.isfile(reported["report"])
    [study] = reported["studies"]
    assert study.keys() == {"title", "advice", "table"}
    assert len(study["table"]) == 2


@pytest.mark.slow  # starts workers
def test_a_search_prints_an_object(tmp_path):
    fake_runs.write_task(tmp_path)
    code, out, err = commands.finish(
        commands.start(
            "search",
            f"--task={tmp_path / 'news.toml'}",
            *("--model=tiny", "--approaches=1", "--max_length=16"),
            *(f"--out={tmp_path / 'out'}", "--budget=40s", "--json"),
        )
    )
    assert code == 0, err
    found = json.loads(out)
    assert found.keys() == documented("search")
    assert os.path.isfile(os.path.join(found["run"], "result.json"))
    assert os.path.isfile(found["report"]) and found["sentence"] in out


def test_no_other_output_is_on_the_standard_output(capfd):
    def work():
        print("from Python")
        os.write(1, b"from C\n")
        return {"a": "ö"}

    command_line.answer(work, True)
    out, err = capfd.readouterr()
    assert json.loads(out) == {"a": "ö"}
    assert "from Python" in err and "from C" in err
    command_line.answer(work, False)
    assert "from Python" in capfd.readouterr().out


def test_an_error_prints_no_object(table, capfd, tmp_path):
    words = [*table, "--describe", "--json", f"--out={tmp_path}"]
    assert commands.call(run_train, train.Settings, *words) == 2
    out, err = capfd.readouterr()
    assert not out and err.startswith("error: --json: ")
