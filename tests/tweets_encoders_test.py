"""The tweets module: runs of an encoder, and their trials."""

import csv
import io
import json
import os

import numpy as np
import pytest

from tests.support import answering, own_data, quick, tweets_table
from tests.support.tweets_table import files_of, parsed
from tf_transfer import experiment
from tf_transfer.data import texts as texts_lib
from tf_transfer.models import tiny
from tf_transfer.runs import input_texts
from tf_transfer.runs.warm import WarmState
from tf_transfer.tweets import experiment as tweets
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
                "--max_epochs=4",
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


@pytest.mark.slow  # trains whole runs
def test_a_trained_run_answers_a_table(predictor, tmp_path, capsys):
    path = tmp_path / "new.csv"
    path.write_text('text,x\n"fire,\nflood",1\ngood lake &amp; cats,2\n')
    answering.predict_file(predictor, str(path))
    rows = read_csv(capsys.readouterr().out)
    assert rows[0] == ["text", "x", "predicted_label", "predicted_score"]
    assert rows[1][:3] == ["fire,\nflood", "1", "disaster"]
    assert rows[2][:3] == ["good lake &amp; cats", "2", "calm"]
    # A text by itself is cleaned alike.
    answering.predict_texts(predictor, ["good lake &amp; cats"])
    assert read_csv(capsys.readouterr().out)[1][2] == rows[2][3]


@pytest.mark.parametrize("name", ["new.jsonl", "new.parquet"])
def test_texts_are_prepared_in_every_format(predictor, tmp_path, name):
    cells = {"text": ["good lake &amp; cats &gt; http://x.co/1"]}
    path = own_data.write(tmp_path / name, cells)
    answering.predict_file(predictor, path, str(tmp_path / "out.jsonl"))
    with open(tmp_path / "out.jsonl") as file:
        answer = json.load(file)
    [(label, score)] = predictor.answer(
        [texts_lib.clean_text(cells["text"][0])]
    )
    assert (answer["predicted_label"], answer["predicted_score"]) == (
        label,
        round(score, 6),
    )


def test_a_run_without_validation_texts_chooses_nothing(predictor):
    with pytest.raises(UserError, match="has no validation texts, by which"):
        predictor.calibrate()


def test_a_keyword_stands_before_the_text_of_a_row(table, tmp_path):
    settings = parsed(table, tmp_path, "--keyword_column=number")
    task = tweets.Tweets(settings).data.task
    path = tmp_path / "new.csv"
    path.write_text("text,number\n a b,x%20y\n")
    [[text]] = input_texts.read_file(task, settings, str(path)).rows.texts
    assert text == "x y: a b"
    [[text]] = input_texts.read_texts(task, settings, ["c"]).rows.texts
    assert text == "c"


def test_a_task_file_names_its_own_columns(tmp_path):
    path = own_data.write_task(tmp_path)
    unread = tweets.Settings(task=path).resolve().unread()
    assert {"clean", "keyword_column"} <= {*unread}


def test_a_table_with_labels_keeps_them(predictor, tmp_path):
    path, out = tmp_path / "new.csv", tmp_path / "out.csv"
    path.write_text("text,label\na\u2028b,1\n")
    answering.predict_file(predictor, str(path), str(out))
    with open(out, newline="") as file:
        rows = read_csv(file.read())
    assert rows[0] == ["text", "label", "predicted_label", "predicted_score"]
    assert rows[1][:2] == ["a\u2028b", "1"] and len(rows) == 2


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


def weights_of(table, tmp_path, *words, warm=None):
    """Values of an encoder's weights, by path."""
    settings = parsed(table, tmp_path, *words)
    encoder = tweets.Tweets(settings, warm=warm).load_encoder()
    return {
        weight.path: np.array(weight)
        for layer in encoder.layers
        for weight in layer.weights
    }


@pytest.mark.slow  # trains whole runs
def test_what_is_not_loaded_is_drawn_as_bert_draws_it(
    table, tmp_path, monkeypatch
):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    loaded = weights_of(table, tmp_path)
    upper = weights_of(table, tmp_path, "--load_blocks=2-2")
    none = weights_of(table, tmp_path, "--load_blocks=none")
    for path, value in loaded.items():
        is_kept = "transformer_layer_1/" in path
        is_drawn = not path.endswith(("gamma", "beta", "bias"))
        assert np.array_equal(upper[path], value) == (is_kept or not is_drawn)
        if is_drawn:
            assert 0.015 < none[path].std() < 0.0205, path
            assert np.abs(none[path]).max() < 0.05
        else:
            assert (none[path] == path.endswith("gamma")).all()
    again = weights_of(table, tmp_path, "--load_blocks=none")
    other = weights_of(table, tmp_path, "--load_blocks=none", "--seed=1")
    drawn = [path for path in none if path.endswith("embeddings")]
    assert drawn and all(np.array_equal(none[p], again[p]) for p in drawn)
    assert not any(np.array_equal(none[p], other[p]) for p in drawn)


def test_weights_that_were_drawn_do_not_stay_in_a_process(table, tmp_path):
    warm = WarmState()
    loaded = weights_of(table, tmp_path, warm=warm)
    weights_of(table, tmp_path, "--load_blocks=none", warm=warm)
    again = weights_of(table, tmp_path, warm=warm)
    assert all(np.array_equal(loaded[path], again[path]) for path in loaded)


@pytest.mark.parametrize("value", ["2-2", "1-2", "two", "0-1"])
def test_blocks_that_are_not_there_cannot_be_loaded(table, tmp_path, value):
    with pytest.raises(UserError, match=f"--load_blocks={value}: "):
        weights_of(table, tmp_path, f"--load_blocks={value}")


@pytest.mark.slow  # trains whole runs
def test_the_last_short_batch_is_left_out(table, tmp_path, eager):
    losses = []
    for words in ([], ["--nodrop_last"]):
        settings = parsed(table, tmp_path, "--trainable_layers=0", *words)
        history = tweets.run(settings).history
        losses.append(history.train_loss.iloc[0])
    assert losses[0] != losses[1]
    assert "drop_last" not in settings.hashed()  # as runs before the flag
