"""The tweets module: runs of an encoder, and their trials."""

import csv
import io
import json
import os

import numpy as np
import pytest

from tests import tweets_table
from tests.tweets_table import files_of
from tests.tweets_table import parsed
from tf_transfer import predict
from tf_transfer import tweets
from tf_transfer.utils.errors import UserError


@pytest.fixture
def table(tmp_path):
    """A user's table: its path."""
    return tweets_table.write(tmp_path)


def test_frozen_trains_the_head_alone(table, tmp_path):
    result = tweets.run(
        parsed(table, tmp_path, "--trainable_layers=0", "--lr=0.1")
    )
    assert result["approach"] == "last_0"
    _folder, config = files_of(tmp_path)
    assert result["trainable_parameters"] == config["parts"]["head tweets"]
    assert config["split_sizes"] == {"train": 55, "test": 7}
    assert set(result["test"]) == {
        "accuracy",
        "f1",
        "f1_other",
        "f1_macro",
        "f1_hart",
        "precision",
        "recall",
    }
    assert result["validation"] is None


def test_a_trained_run_answers_texts_and_tables(table, tmp_path, capsys):
    tweets.run(
        parsed(
            table,
            tmp_path,
            "--trainable_layers=1",
            "--lr=3e-3",
            "--max_epochs=6",
            "--clean=basic",
        )
    )
    folder, _ = files_of(tmp_path)
    predictor = predict.Predictor(folder)
    path = tmp_path / "new.csv"
    path.write_text('text,x\n"fire,\nflood",1\ngood lake &amp; cats,2\n')
    capsys.readouterr()
    predict.predict_file(predictor, str(path), None)
    found = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert found[0] == ["text", "x", "label", "score"]
    assert found[1][:3] == ["fire,\nflood", "1", "disaster"]
    assert found[2][:3] == ["good lake &amp; cats", "2", "calm"]
    predict.predict_texts(predictor, ["good lake &amp; cats"])
    assert capsys.readouterr().out.split()[1] == found[2][3]
    path.write_text("text,label\na\u2028b,1\n")
    predict.predict_file(predictor, str(path), str(tmp_path / "out.csv"))
    with open(tmp_path / "out.csv", newline="") as file:
        found = list(csv.reader(file))
    assert found[0] == ["text", "label", "predicted_label", "predicted_score"]
    assert found[1][:2] == ["a\u2028b", "1"] and len(found) == 2
    with pytest.raises(UserError, match="--glue_test: task tweets is none of"):
        predict.predict_glue_test(predictor, None, None, folder)


def test_several_labels_are_several_units(tmp_path):
    path = tmp_path / "three.tsv"
    rows = "".join(f"text {n}\t{'abc'[n % 3]}\n" for n in range(30))
    path.write_text("text\ttarget\n" + rows)
    settings = parsed(
        str(path),
        tmp_path,
        "--id_column=",
        "--trainable_layers=0",
        "--test_fraction=0.2",
    )
    result = tweets.run(settings)
    assert set(result["test"]) == {"accuracy", "f1_macro"}
    folder, _ = files_of(tmp_path)
    stored = np.load(os.path.join(folder, "predictions.npz"))
    assert stored["test_logits"].shape == (6, 3)


def test_trials_are_runs_of_a_sweep(table, tmp_path, monkeypatch, capsys):
    from tf_transfer.sweeps import work

    class Finished:
        def poll(self):
            return 0

    def start(run, board, slot, jobs):
        tweets.run(run.settings)
        return Finished()

    monkeypatch.setattr(work, "start_process", start)
    monkeypatch.setattr(work, "POLL_SECONDS", 0.001)
    tweets.run_trials(
        parsed(
            table, tmp_path, "--trainable_layers=0", "--trials=2", "--seed=4"
        )
    )
    said = capsys.readouterr().out
    assert "of 2 trials" in said
    seeds = {
        json.load(open(os.path.join(folder, "result.json")))["seed"]
        for folder, _, files in os.walk(tmp_path / "runs")
        if "result.json" in files
    }
    assert seeds == {4, 5}
