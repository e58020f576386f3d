"""The tweets module: runs of an encoder, and their trials."""

import csv
import io
import json
import os

import numpy as np
import pytest

from tests import quick
from tests import tweets_table
from tests.tweets_table import files_of
from tests.tweets_table import parsed
from tf_transfer import experiment
from tf_transfer import predict
from tf_transfer import tweets
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")


@pytest.fixture
def table(tmp_path):
    """A user's table: its path."""
    return tweets_table.write(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run that can tell the two labels apart: its folder."""
    folder = tmp_path_factory.mktemp("trained")
    with quick.eagerly():
        result = tweets.run(
            parsed(
                tweets_table.write(folder),
                folder,
                "--trainable_layers=1",
                "--lr=3e-3",
                "--max_epochs=6",
                "--clean=basic",
            )
        )
    return result.directory


@pytest.fixture(scope="module")
def predictor(trained):
    """What answers with that run, loaded again."""
    with quick.eagerly():
        return experiment.open_run(trained).predictor()


def test_frozen_trains_the_head_alone(table, tmp_path, eager):
    result = tweets.run(
        parsed(table, tmp_path, "--trainable_layers=0", "--lr=0.1")
    ).record
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


def read_csv(text):
    """Rows of a CSV, its header first."""
    return list(csv.reader(io.StringIO(text)))


def test_a_trained_run_answers_a_table(predictor, tmp_path, capsys):
    path = tmp_path / "new.csv"
    path.write_text('text,x\n"fire,\nflood",1\ngood lake &amp; cats,2\n')
    predict.predict_file(predictor, str(path))
    rows = read_csv(capsys.readouterr().out)
    assert rows[0] == ["text", "x", "label", "score"]
    assert rows[1][:3] == ["fire,\nflood", "1", "disaster"]
    assert rows[2][:3] == ["good lake &amp; cats", "2", "calm"]
    # A text by itself is cleaned alike.
    predict.predict_texts(predictor, ["good lake &amp; cats"])
    assert capsys.readouterr().out.split()[1] == rows[2][3]


def test_a_table_with_labels_keeps_them(predictor, tmp_path):
    path, out = tmp_path / "new.csv", tmp_path / "out.csv"
    path.write_text("text,label\na\u2028b,1\n")
    predict.predict_file(predictor, str(path), str(out))
    with open(out, newline="") as file:
        rows = read_csv(file.read())
    assert rows[0] == ["text", "label", "predicted_label", "predicted_score"]
    assert rows[1][:2] == ["a\u2028b", "1"] and len(rows) == 2


def test_a_table_of_ones_own_has_no_hidden_test_set(predictor, tmp_path):
    with pytest.raises(UserError, match="--glue_test: tweets is not a task"):
        predict.predict_glue_test(predictor, "", str(tmp_path))


def test_several_labels_are_several_units(tmp_path, eager):
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
    result = tweets.run(settings).record
    assert set(result["test"]) == {"accuracy", "f1_macro"}
    folder, _ = files_of(tmp_path)
    stored = np.load(os.path.join(folder, "predictions.npz"))
    assert stored["test_logits"].shape == (6, 3)


def test_trials_are_runs_of_a_sweep(
    table, tmp_path, monkeypatch, capsys, eager
):
    from tests.sweeps import fakes
    from tf_transfer.sweeps import execute

    def do(run):
        tweets.run(run.settings)

    monkeypatch.setattr(
        execute, "open_pool", lambda *options: fakes.make_pool(do)
    )
    tweets.run_trials(
        parsed(
            table, tmp_path, "--trainable_layers=0", "--trials=2", "--seed=4"
        )
    )
    assert "of 2 trials" in capsys.readouterr().out
    seeds = {
        json.load(open(os.path.join(folder, "result.json")))["seed"]
        for folder, _, files in os.walk(tmp_path / "runs")
        if "result.json" in files
    }
    assert seeds == {4, 5}
