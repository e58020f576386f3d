"""What validation chooses for answers, their scores, and cells of a table."""

import errno
import json
import os

import numpy as np
import pytest
import sklearn.metrics

from tests import own_tasks_test
from tests.support import answering, commands, own_data, quick
from tests.utils import disks
from tf_transfer import experiment, predict
from tf_transfer.data import metrics, table_files
from tf_transfer.data.task import Examples
from tf_transfer.multitask import experiment as multitask
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directory of a run of every kind of task."""
    folder = tmp_path_factory.mktemp("choices")
    paths = [
        own_data.write_task(folder, name, ending="jsonl", **keys)
        for name, keys in own_tasks_test.KEYS.items()
    ]
    with quick.eagerly():
        return multitask.run(
            multitask.Settings(
                **{**own_tasks_test.SMALL, "batch_size": 32},
                tasks=",".join([*paths, "sst2"]),
                data="sample",
                train="all",
                out=str(folder / "runs"),
            )
        ).directory


@pytest.fixture
def choose(run, eager):
    """Returns what answers for a task of that run."""
    return lambda task: experiment.open_run(run).predictor(task)


def command(*words):
    return commands.call(predict.main, predict.Settings, *words)


TEXTS = ["match goal team", "bank price moon", "rocket rocket", "a dog is here"]


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("name", ["news", "topics", "sst2"])
def test_a_temperature_divides_logits_and_changes_no_answer(name, choose):
    predictor = choose(name)
    examples = Examples(np.arange(4), [TEXTS], None)
    logits = predictor.logits(examples)
    labels, stored = predictor.read_validation()
    predictor.calibrate()
    once = predictor.temperature
    assert once == metrics.fit_temperature(labels, stored)
    assert once != pytest.approx(1, abs=1e-3)
    scaled = predictor.logits(examples)
    np.testing.assert_allclose(once * scaled, logits, rtol=1e-5)
    words = [[a for a, _ in predictor.answers(x)] for x in (logits, scaled)]
    assert words[0] == words[1]
    predictor.calibrate()
    assert predictor.temperature == once


def test_a_file_is_scored_by_its_labels(choose, run, tmp_path, capsys):
    columns = own_data.news(12)
    path = own_data.write(tmp_path / "in.jsonl", columns)
    out = tmp_path / "out.jsonl"
    words = [f"--run={run}", "--task=topics", f"--input={path}"]
    words += [f"--output={out}", "--label_column=tags", "--calibrate"]
    assert command(*words) == 0
    err = capsys.readouterr().err
    predictor = choose("topics")
    predictor.calibrate()
    assert f"--calibrate: temperature {predictor.temperature:.3f}." in err
    assert "on the 5 validation texts that chose it." in err
    answers = table_files.read_table(str(out)).columns["predicted_label"]
    expected = [label for label, _ in predictor.answer(columns["body"])]
    assert answers == expected
    written = json.loads((tmp_path / "out.jsonl.errors.json").read_text())
    names = predictor.task.labels
    predicted = [[n in a.split(";") for n in names] for a in answers]
    labels = [[n in tags for n in names] for tags in columns["tags"]]
    assert written["scores"]["f1_micro"] == pytest.approx(
        sklearn.metrics.f1_score(labels, predicted, average="micro")
    )
    recalls = [label["recall"] for label in written["labels"]]
    assert recalls == pytest.approx(
        sklearn.metrics.recall_score(
            labels, predicted, average=None, zero_division=0
        )
    )


def test_entities_are_scored_by_the_tags_of_a_file(choose, tmp_path, capsys):
    predictor = choose("places")
    columns = own_data.news(12)
    words, tags = columns["words"], columns["marks"]
    rows = own_data.write(tmp_path / "in.jsonl", columns)
    lines = tmp_path / "in.txt"
    lines.write_text(
        "\n".join(
            "".join(f"{word} {tag}\n" for word, tag in zip(*sentence))
            for sentence in zip(words, tags)
        )
    )
    answering.predict_file(
        predictor, rows, str(tmp_path / "a.jsonl"), label_column="marks"
    )
    answering.predict_file(
        predictor, str(lines), str(tmp_path / "b.jsonl"), label_column="any"
    )
    assert capsys.readouterr().err.count("12 rows: f1 ") == 2
    first, second = (
        json.loads((tmp_path / f"{name}.jsonl.errors.json").read_text())
        for name in "ab"
    )
    assert first == second
    right = [
        tag == answer
        for pair in zip(tags, predictor.tags(words))
        for tag, answer in zip(*pair)
    ]
    assert first["scores"]["accuracy"] == pytest.approx(np.mean(right))
    lines.write_text("the O\ndog B-ANIMAL\n")
    with pytest.raises(UserError, match="line 2: 'ANIMAL' is not one of"):
        answering.predict_file(predictor, str(lines), label_column="any")
    with pytest.raises(UserError, match="=words: is one of the texts"):
        answering.predict_file(predictor, rows, label_column="words")


@pytest.mark.parametrize(
    "task, flag, said",
    [
        ("stars", "--calibrate", "stars has scores. Leave it out"),
        ("places", "--calibrate", "places has entities. Leave it out"),
        ("stars", "--min_confidence=0.5", "stars has other answers"),
        ("places", "--min_confidence=0.5", "places has other answers"),
    ],
)
def test_a_task_without_such_probabilities_is_named(
    task, flag, said, run, capsys, eager
):
    words = [f"--run={run}", f"--task={task}", flag]
    words += ["--export=a"] if flag == "--calibrate" else ["--text=a"]
    assert command(*words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, said",
    [
        (["--text=a", "--output={0}"], "--output={0}: is a folder. Give"),
        (["--text=a", "--output={0}/a/b"], "there is no folder {0}/a. Make"),
        (["--export={1}"], "--export={1}: is a file. Give a folder."),
    ],
)
def test_wrong_paths_and_numbers_are_said_before_a_model_is_loaded(
    words, said, tmp_path, capsys
):
    path = tmp_path / "file"
    path.touch()
    assert command("--run=none", *(w.format(tmp_path, path) for w in words))
    assert said.format(tmp_path, path) in capsys.readouterr().err


def test_cells_that_a_spreadsheet_computes_are_escaped(choose, tmp_path):
    predictor = choose("news")
    columns = {"body": ["=1+1", "@a", "-1"], "-x": ["a", "+b", "-0.5"]}
    path = own_data.write(tmp_path / "in.csv", columns)
    out = {}
    for name in ("a.csv", "b.jsonl"):
        answering.predict_file(predictor, path, str(tmp_path / name), True)
        out[name] = table_files.read_table(str(tmp_path / name)).columns
    assert out["a.csv"]["body"] == ["'=1+1", "'@a", "-1"]
    assert out["a.csv"]["'-x"] == ["a", "'+b", "-0.5"]
    assert {n: out["b.jsonl"][n] for n in columns} == columns


def test_excel_is_answered_as_csv(choose, tmp_path, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    book, predictor = openpyxl.Workbook(), choose("news")
    for row in [("body",), ("match goal",)]:
        book.active.append(row)
    path = str(tmp_path / "in.xlsx")
    book.save(path)
    answering.predict_file(predictor, path)
    assert capsys.readouterr().out.startswith(
        "body,predicted_label,predicted_score\nmatch goal,"
    )


def test_a_full_disk_leaves_the_old_answers(
    choose, run, tmp_path, capsys, monkeypatch
):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    own_data.write(path, {"body": ["moon"]})
    out.write_text("old")
    monkeypatch.setattr(os, "fsync", disks.fail(errno.ENOSPC))
    words = [f"--run={run}", "--task=news", f"--input={path}"]
    assert command(*words, f"--output={out}") == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {out}: the disk is full")
    assert out.read_text() == "old" and len(os.listdir(tmp_path)) == 2
