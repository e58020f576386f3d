"""The tweets module: sparse features under a linear model."""

import json
import os

import numpy as np
import pytest

from tests.support import commands, tweets_table
from tests.support.tweets_table import files_of, parsed
from tf_transfer import experiment
from tf_transfer.config import command_line
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError


@pytest.fixture
def table(tmp_path):
    """A user's table: its path."""
    return tweets_table.write(tmp_path)


def test_only_what_matters_is_in_the_name_of_a_sparse_run(table, tmp_path):
    def path(*words):
        settings = parsed(table, tmp_path, *words)
        return tweets.Tweets(settings).find_run().path

    assert path("--features=count") == path(
        "--features=count", "--lr=1", "--model=minilm", "--frozen_prefix=cached"
    )
    assert path("--features=count") != path("--features=count", "--folds=5")
    assert path("--lr=1e-3") == path("--lr=1e-3", "--folds=5")


def test_a_sparse_run_is_a_run_like_any_other(table, tmp_path, capsys):
    settings = parsed(table, tmp_path, "--features=count", "--folds=5")
    result = tweets.run(settings).record
    assert "2 texts" not in capsys.readouterr().out
    assert result["approach"] == "count"
    assert result["test"]["accuracy"] > 0.9
    assert result["trainable_parameters"] == result["total_parameters"] > 10
    folder, config = files_of(tmp_path)
    assert config["split_sizes"] == {"train": 49, "test": 13}
    with open(os.path.join(folder, "epochs.jsonl")) as file:
        folds = [json.loads(line) for line in file]
    assert [fold["epoch"] for fold in folds] == [1, 2, 3, 4, 5]
    mean = np.mean([fold["test"]["accuracy"] for fold in folds])
    assert result["test"]["accuracy"] == pytest.approx(mean)
    stored = np.load(os.path.join(folder, "predictions.npz"))
    assert stored["test_logits"].shape == (62, 1)
    # Again: found.
    assert tweets.run(settings).record == result
    assert "Already done" in capsys.readouterr().out


def test_repeated_texts_are_reported_and_may_be_kept_apart(
    table, tmp_path, capsys
):
    words = ["--features=count", "--folds=2", "--duplicates=group"]
    settings = parsed(table, tmp_path, *words)
    tweets.run(settings)
    assert (
        "tweets: training texts that repeat another: 1; texts with several "
        "labels: 1."
    ) in capsys.readouterr().out
    for train, _tested in tweets.Tweets(settings).data.source.folds():
        assert len({60, 61} & set(train)) in (0, 2)


def test_a_baseline_on_the_held_out_set_of_the_encoder_and_on_fewer(
    table, tmp_path
):
    words = ["--features=count", "--folds=0", "--max_train_examples=20"]
    settings = parsed(table, tmp_path, *words)
    result = tweets.run(settings).record
    folder, config = files_of(tmp_path)
    assert config["split_sizes"] == {"train": 20, "test": 7}
    assert result["stop_reason"] == "one held-out set"
    stored = np.load(os.path.join(folder, "predictions.npz"))
    encoder = tweets.Tweets(parsed(table, tmp_path)).data.source
    assert stored["test_ids"].tolist() == encoder.read("test").ids.tolist()
    assert tweets.Tweets(settings).data.source.identity == encoder.identity


PROGRAM = """
import json, pathlib, sys
from tests.support.tweets_table import parsed
from tf_transfer.tweets import experiment as tweets

table, folder = sys.argv[1:]
words = ("--features=hash", "--folds=2")
tweets.run(parsed(table, pathlib.Path(folder), *words))
loaded = sorted({"tensorflow", "keras"} & set(sys.modules))
print("RESULT" + json.dumps(loaded))
"""


@pytest.mark.slow
def test_a_sparse_run_loads_no_tensorflow(table, tmp_path):
    assert commands.results_of(PROGRAM, table, str(tmp_path)) == [[]]


def test_a_baseline_has_no_model_to_predict_with(table, tmp_path):
    tweets.run(parsed(table, tmp_path, "--features=count", "--folds=2"))
    with pytest.raises(UserError, match="is a baseline.*keeps no model"):
        experiment.open_run(files_of(tmp_path)[0])


# === What is refused ===


def test_texts_without_a_frequent_word_are_named(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("text,target\na b,1\nc d,0\ne f,1\ng h,0\n")
    settings = parsed(
        str(path),
        tmp_path,
        "--features=tfidf",
        "--folds=0",
        "--test_fraction=0.5",
        "--id_column=",
    )
    with pytest.raises(UserError, match="--features=tfidf: nothing can be"):
        tweets.run(settings)


def test_fewer_examples_than_labels_are_refused(tmp_path):
    path = tmp_path / "rare.csv"
    rows = "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(100))
    path.write_text("text,target\n" + rows + "x,c\ny,c\nz,c\n")
    settings = parsed(
        str(path),
        tmp_path,
        "--id_column=",
        "--features=count",
        "--folds=2",
        "--max_train_examples=10",
    )
    with pytest.raises(UserError, match="--max_train_examples: leaves no.*'c'"):
        tweets.run(settings)


# === The paper's tweets ===


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    "features, accuracy, f1",
    [
        ("tfidf", 0.7946, 0.7422),
        ("count", 0.7961, 0.7462),
        ("hash", 0.7930, 0.7349),
    ],
)
def test_the_author_s_fold_means_come_out(
    shared_data, tmp_path, features, accuracy, f1
):
    folder = os.path.join(shared_data, "tweets")
    settings = command_line.parse(
        tweets.Settings,
        [
            f"--data={folder}/train.csv",
            f"--features={features}",
            f"--row_order={folder}/hart_order.txt",
            f"--out={tmp_path}",
        ],
    ).resolve()
    result = tweets.run(settings).record
    assert abs(result["test"]["accuracy"] - accuracy) < 0.001
    assert abs(result["test"]["f1"] - f1) < 0.001
