"""The tweets module: sparse and encoder runs on a user's table."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests import commands
from tf_transfer import predict
from tf_transfer import settings as settings_lib
from tf_transfer import tweets
from tf_transfer.errors import UserError

WORDS = {
    "calm": "good day at the lake with two cats".split(),
    "disaster": "fire and flood in the old town again".split(),
}


@pytest.fixture
def table(tmp_path):
    """Sixty rows that tell themselves apart, two of them the same text."""
    draw = np.random.default_rng(0)
    path = tmp_path / "mine.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text", "target"])
        for number in range(60):
            label = ("calm", "disaster")[number % 2]
            words = draw.choice(WORDS[label], 5)
            writer.writerow([number, " ".join([*words, str(number)]), label])
        writer.writerow([60, "the same text", "calm"])
        writer.writerow([61, "The same  text", "disaster"])
    return str(path)


def parsed(table, tmp_path, *words):
    return settings_lib.parse(
        tweets.TweetsSettings,
        [
            f"--data={table}", "--id_column=number", "--model=tiny",
            "--max_length=16", "--batch_size=8", "--max_epochs=1",
            f"--out={tmp_path / 'runs'}", *words,
        ],
    ).resolve()  # fmt: skip


def files_of(tmp_path):
    [folder] = [
        folder
        for folder, _, files in os.walk(tmp_path / "runs")
        if "result.json" in files
    ]
    return folder, json.load(open(os.path.join(folder, "config.json")))


# === Settings ===


def test_defaults_are_the_author_s(table, tmp_path):
    settings = settings_lib.parse(
        tweets.TweetsSettings, [f"--data={table}"]
    ).resolve()
    assert settings.model == "bert_base_en"  # cased
    assert (settings.lr, settings.batch_size) == (5e-5, 32)
    assert (settings.max_epochs, settings.max_length) == (3, 128)
    assert (settings.schedule, settings.warmup_fraction) == ("linear", 0.1)
    assert (settings.weight_decay, settings.adam_epsilon) == (0.01, 1e-6)
    assert not settings.bias_correction
    assert (settings.select, settings.validation_fraction) == ("last", 0.0)
    assert (settings.folds, settings.fold_seed) == (10, 57)


def test_the_pooler_is_frozen_where_no_block_trains(table, tmp_path):
    def pooler(*words):
        settings = parsed(table, tmp_path, *words)
        return settings.trainable(3).includes("pooler")

    assert not pooler("--trainable_layers=0")
    assert pooler("--trainable_layers=2") and pooler()
    assert pooler("--blocks=1-2")
    assert pooler("--trainable_layers=0", "--pooler=trained")
    # RoBERTa's is new.
    assert pooler("--trainable_layers=0", "--model=roberta_base_en")
    with pytest.raises(UserError, match="--pooler=frozen: this encoder comes"):
        pooler(
            "--trainable_layers=0", "--model=roberta_base_en", "--pooler=frozen"
        )


@pytest.mark.parametrize(
    "words, said",
    [
        (["--data="], "--data: give the CSV"),
        (["--pooler=half"], "--pooler=half"),
        (["--pooler=frozen"], "--pooler=frozen: --trainable_layers=all"),
        (["--test_fraction=1"], "--test_fraction=1"),
        (["--trials=0"], "--trials=0"),
        (["--features=words"], "--features"),
        (["--clean=all"], "--clean"),
        (["--features=count", "--describe"], "--describe: --features=count"),
        (["--trials=2", "--rerun"], "--rerun is for one run"),
    ],
)
def test_bad_flags_are_named(table, tmp_path, words, said):
    with pytest.raises(UserError, match=said):
        parsed(table, tmp_path, *words)


def test_the_last_four_blocks_are_a_way_of_pooling(table, tmp_path):
    assert parsed(table, tmp_path).pooling == "cls"
    last4 = parsed(table, tmp_path, "--encoder_output=last4")
    assert last4.pooling == "last4"
    assert last4.hashed() == parsed(table, tmp_path, "--pooling=last4").hashed()
    with pytest.raises(UserError, match="--encoder_output=last4 and --pool"):
        parsed(table, tmp_path, "--encoder_output=last4", "--pooling=mean")


def test_only_what_matters_is_in_the_name_of_a_sparse_run(table, tmp_path):
    def path(*words):
        settings = parsed(table, tmp_path, *words)
        return tweets.locate(settings, 1).path

    assert path("--features=count") == path(
        "--features=count", "--lr=1", "--model=minilm", "--frozen_prefix=cached"
    )
    assert path("--features=count") != path("--features=count", "--folds=5")
    assert path("--lr=1e-3") == path("--lr=1e-3", "--folds=5")


# === Sparse runs ===


def test_a_sparse_run_is_a_run_like_any_other(table, tmp_path, capsys):
    settings = parsed(table, tmp_path, "--features=count", "--folds=5")
    result = tweets.run(settings)
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
    assert tweets.run(settings) == result
    assert "Already done" in capsys.readouterr().out


def test_repeated_texts_are_told_of_and_may_be_kept_apart(
    table, tmp_path, capsys
):
    ways = {
        "kept; --duplicates=group": [],
        "kept on one side": ["--duplicates=group"],
    }
    for kept, words in ways.items():
        settings = parsed(
            table, tmp_path, "--features=count", "--folds=2", *words
        )
        tweets.run(settings)
        said = capsys.readouterr().out
        assert "1 of 62 rows repeat a text, 1 texts have several labels" in said
        assert kept in said
    for train, tested in settings.source().folds():
        assert len({60, 61} & set(train)) in (0, 2)


def test_a_baseline_on_the_held_out_set_of_the_encoder_and_on_fewer(
    table, tmp_path
):
    words = ["--features=count", "--folds=0", "--max_train_examples=20"]
    settings = parsed(table, tmp_path, *words)
    result = tweets.run(settings)
    folder, config = files_of(tmp_path)
    assert config["split_sizes"] == {"train": 20, "test": 7}
    assert result["stop_reason"] == "one held-out set"
    stored = np.load(os.path.join(folder, "predictions.npz"))
    encoder = parsed(table, tmp_path).source()
    assert stored["test_ids"].tolist() == encoder.read("test").ids.tolist()
    assert settings.source().identity == encoder.identity


def test_a_sparse_run_loads_no_tensorflow(table, tmp_path):
    code = (
        "import sys; from tests import tweets_test as t; "
        "from tf_transfer import tweets; "
        f"tweets.run(t.parsed({table!r}, __import__('pathlib').Path("
        f"{str(tmp_path)!r}), '--features=hash', '--folds=2')); "
        "print([n for n in ('tensorflow', 'keras') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        cwd=commands.ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_texts_without_a_frequent_word_are_named(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("text,target\na b,1\nc d,0\ne f,1\ng h,0\n")
    settings = parsed(
        str(path), tmp_path, "--features=tfidf", "--folds=0",
        "--test_fraction=0.5", "--id_column=",
    )  # fmt: skip
    with pytest.raises(UserError, match="--features=tfidf: nothing can be"):
        tweets.run(settings)


def test_fewer_examples_than_labels_are_refused(tmp_path):
    path = tmp_path / "rare.csv"
    rows = "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(100))
    path.write_text("text,target\n" + rows + "x,c\ny,c\nz,c\n")
    settings = parsed(
        str(path), tmp_path, "--id_column=", "--features=count", "--folds=2",
        "--max_train_examples=10",
    )  # fmt: skip
    with pytest.raises(UserError, match="--max_train_examples: leaves no.*'c'"):
        tweets.run(settings)


def test_how_a_file_is_read_and_split_is_part_of_its_identity(table, tmp_path):
    def identity(*words):
        return parsed(table, tmp_path, *words).source().identity

    changes = (
        ["--encoding=latin-1"], ["--clean=basic"], ["--duplicates=group"],
        ["--test_fraction=0.2"], ["--split_seed=1"], ["--label_column=number",
        "--text_column=target"], ["--keyword_column=target"],
    )  # fmt: skip
    found = []
    for words in changes:
        with contextlib.suppress(UserError):  # of labels that are none
            found.append(identity(*words))
    assert len({identity(), *found}) == len(found) + 1 >= 7


def test_validation_is_kept_apart_from_training_too(table, tmp_path):
    settings = parsed(table, tmp_path, "--duplicates=group")
    source = settings.source()
    rows = np.array([0, 1, 60])
    assert source.keep_apart(rows, np.array([61])).tolist() == [0, 1]


def test_nothing_left_to_train_on_is_named(table, tmp_path):
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(map(str, range(62))))
    settings = parsed(table, tmp_path, f"--test_ids={ids}")
    with pytest.raises(UserError, match="--test_ids: leaves no example"):
        settings.source().read("train")


# === Encoder runs ===


def test_the_table_is_split_once_for_every_trial(table, tmp_path):
    one = parsed(table, tmp_path, "--seed=0").source()
    other = parsed(table, tmp_path, "--seed=1").source()
    assert one.read("test").ids.tolist() == other.read("test").ids.tolist()
    assert len(one.read("test")) == 7 and len(one.read("train")) == 55


def test_the_ids_that_are_tested_may_be_given(table, tmp_path):
    ids = tmp_path / "ids.txt"
    ids.write_text("60\n3\n")
    settings = parsed(table, tmp_path, f"--test_ids={ids}")
    source = settings.source()
    assert source.read("test").ids.tolist() == [3, 60]
    assert len(source.read("train")) == 60
    before = source.identity
    ids.write_text("60\n4\n")
    assert settings.source().identity != before
    grouped = parsed(table, tmp_path, f"--test_ids={ids}", "--duplicates=group")
    assert 61 not in grouped.source().read("train").ids


def test_frozen_trains_the_head_alone(table, tmp_path):
    result = tweets.run(
        parsed(table, tmp_path, "--trainable_layers=0", "--lr=0.1")
    )
    assert result["approach"] == "last_0"
    folder, config = files_of(tmp_path)
    assert result["trainable_parameters"] == config["parts"]["head tweets"]
    assert config["split_sizes"] == {"train": 55, "test": 7}
    assert set(result["test"]) == {
        "accuracy", "f1", "f1_other", "f1_macro", "f1_hart", "precision",
        "recall",
    }  # fmt: skip
    assert result["validation"] is None


def test_a_trained_run_answers_texts_and_tables(table, tmp_path, capsys):
    tweets.run(
        parsed(
            table, tmp_path, "--trainable_layers=1", "--lr=3e-3",
            "--max_epochs=6", "--clean=basic",
        )
    )  # fmt: skip
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


def test_a_baseline_has_no_model_to_predict_with(table, tmp_path):
    tweets.run(parsed(table, tmp_path, "--features=count", "--folds=2"))
    with pytest.raises(UserError, match="is a baseline.*keeps no model"):
        predict.Predictor(files_of(tmp_path)[0])


def test_several_labels_are_several_units(tmp_path):
    path = tmp_path / "three.tsv"
    rows = "".join(f"text {n}\t{'abc'[n % 3]}\n" for n in range(30))
    path.write_text("text\ttarget\n" + rows)
    settings = parsed(
        str(path), tmp_path, "--id_column=", "--trainable_layers=0",
        "--test_fraction=0.2",
    )  # fmt: skip
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


# === The paper's tweets ===


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
    settings = settings_lib.parse(
        tweets.TweetsSettings,
        [
            f"--data={folder}/train.csv", f"--features={features}",
            f"--row_order={folder}/hart_order.txt", f"--out={tmp_path}",
        ],
    ).resolve()  # fmt: skip
    result = tweets.run(settings)
    assert abs(result["test"]["accuracy"] - accuracy) < 0.005
    assert abs(result["test"]["f1"] - f1) < 0.005
