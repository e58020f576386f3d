"""The probe as a run: its files, its predictions, and an encoder cut short."""

import os

import numpy as np
import pytest
import tensorflow as tf

from tests.support import own_data, quick
from tf_transfer import experiment, train
from tf_transfer.models import loading
from tf_transfer.training import records
from tf_transfer.utils.errors import UserError

KINDS = {
    "classes": {},
    "labels": {"kind": "labels", "label": "tags"},
    "score": {"kind": "score", "label": "stars", "metric": "spearman"},
    "pair": {"texts": ["title", "body"]},
    "entities": {"kind": "entities", "texts": "words", "label": "marks"},
}


def settings_of(path, out, **changes):
    return train.Settings(
        **{
            "task": path,
            "model": "tiny",
            "max_length": 16,
            "features": "frozen",
            "baseline": False,
            "out": str(out),
            "cache_dir": str(out) + "_cache",
            **changes,
        }
    )


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    path = own_data.write_task(
        folder,
        request.param,
        own_data.news(150),
        ending="jsonl",
        **KINDS[request.param],
    )
    with quick.eagerly(3):
        yield train.run(settings_of(path, folder / "runs"))


def test_it_is_a_run_like_any_other(run):
    record = run.record
    assert record["approach"] == "probe" and record["best_epoch"] == 1
    assert record["trainable_parameters"] < record["total_parameters"]
    assert f"{os.sep}probe{os.sep}model=tiny,split_seed=0" in run.directory
    directory = records.RunDirectory(run.directory, None)
    assert directory.result() == record and len(directory.epochs()) == 1
    assert [n for n in os.listdir(run.directory) if "tfevents" in n]
    profile = directory.profile()
    assert [line["block"] for line in profile["blocks"]] == [0, 1, 2, 3]
    assert profile["metric"] == record["metric"]
    directory.check_file("depth_profile.json")


def test_it_predicts_what_it_scored(run):
    """From the stored states, from texts, and inside of a graph."""
    arrays = np.load(os.path.join(run.directory, "predictions.npz"))
    found = experiment.open_run(
        run.directory, run.experiment.settings.cache_dir
    )
    predictor = found.predictor()
    test = found.experiment.data.source.read("test")
    if predictor.task.is_tagging:
        tags = predictor.tags(test.words)
        names = predictor.task.labels
        said = arrays["test_logits"].argmax(axis=1)
        assert [t for words in tags for t in words] == [names[n] for n in said]
        return
    scale = np.abs(arrays["test_logits"]).max()
    np.testing.assert_allclose(
        predictor.logits(test), arrays["test_logits"], atol=0.02 * scale
    )
    fitted = found.experiment.data.fitted_probe
    assert len(predictor.network.encoder.blocks) == fitted["block"]
    assert fitted["words"] == (len(test.texts) == 1)
    columns = tuple(map(tf.constant, test.texts))
    answers = found.model()(columns if len(columns) > 1 else columns[0])
    assert answers.shape[0] == len(test)


def test_words_are_left_out_where_the_flag_asks(tmp_path):
    path = own_data.write_task(tmp_path, columns=own_data.news(150))
    with quick.eagerly(3):
        found = train.run(settings_of(path, tmp_path / "runs", words=False))
    assert not found.experiment.data.fitted_probe["words"]
    with_words = settings_of(path, tmp_path / "runs").resolve()
    assert with_words.hashed()["words"]
    assert "words" not in found.experiment.settings.hashed()


@pytest.mark.slow  # fits many regressions
def test_a_second_probe_on_the_same_texts_runs_no_block(tmp_path, capsys):
    path = own_data.write_task(tmp_path, ending="jsonl")
    with quick.eagerly(3):
        first = train.run(settings_of(path, tmp_path / "runs"))
        assert "built now" in capsys.readouterr().out
        again = train.run(
            settings_of(
                path,
                tmp_path / "runs",
                max_train_examples=30,
                class_weights="balanced",
            )
        )
    assert "built now" not in capsys.readouterr().out
    assert again.directory != first.directory
    assert again.record["prefix_seconds"] == 0


def test_it_does_not_read_how_weights_train(tmp_path):
    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path).resolve()
    for name in ("lr", "trainable_layers", "method", "seed", "max_epochs"):
        assert name in settings.unread()
    for name in ("class_weights", "cache_dtype", "keep_blocks", "max_length"):
        assert name not in settings.unread()
    other = settings_of(path, tmp_path, lr=1.0, seed=3, method="lora").resolve()
    assert other.hashed() == settings.hashed()


def test_nothing_is_written_where_labels_teach_nothing(tmp_path):
    columns = own_data.news(30)
    columns["team"] = [str(number // 3) for number in range(30)]
    path = own_data.write_task(tmp_path, columns=columns)
    with pytest.raises(UserError, match="news: --features=frozen chooses by 5"):
        train.run(settings_of(path, tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


# === Fewer blocks ===


def test_dropped_blocks_leave_the_others_as_they_were():
    whole = loading.load("tiny", "", 0.0)
    ids = tf.constant([[5, 9, 12, 6]])
    segments, mask = tf.zeros_like(ids), tf.ones_like(ids, tf.bool)
    for blocks in (0, 2):
        kept = loading.load("tiny", "", 0.0, keep_blocks=blocks)
        assert len(kept.blocks) == blocks
        below = whole.run_blocks(
            whole.embed(ids, segments, False), mask, 1, blocks, False
        )
        np.testing.assert_array_equal(kept(ids, segments, mask, False), below)


@pytest.mark.slow  # fits many regressions
@pytest.mark.parametrize("features", ["bert", "frozen"])
def test_keep_blocks_drops_the_others_for_good(tmp_path, features):
    path = own_data.write_task(tmp_path)
    settings = settings_of(
        path,
        tmp_path / "runs",
        features=features,
        keep_blocks=2,
        trainable_layers="1" if features == "bert" else "all",
        max_epochs=1,
    )
    with quick.eagerly(3):
        found = train.run(settings)
        predictor = experiment.open_run(
            found.directory, settings.cache_dir
        ).predictor()
    assert found.record["approach"].endswith("_keep2")
    assert len(predictor.network.encoder.blocks) <= 2


def test_more_blocks_than_the_encoder_has_cannot_be_kept(tmp_path):
    path = own_data.write_task(tmp_path)
    with pytest.raises(UserError, match="--keep_blocks=9: this encoder has 3"):
        train.run(settings_of(path, tmp_path / "runs", keep_blocks=9))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", ["classes", "entities"])
def test_it_says_how_much_of_the_texts_is_cut(kind, tmp_path, capsys):
    columns = own_data.news(60)
    columns["body"] = [f"{text} {text}" * 3 for text in columns["body"]]
    path = own_data.write_task(
        tmp_path, kind, columns, ending="jsonl", **KINDS[kind]
    )
    with quick.eagerly(2):
        result = train.run(settings_of(path, tmp_path / "runs", max_length=8))
    is_cut = kind == "classes"  # words are cut into further rows
    assert (result.record["cut_texts"] > 0.9) == is_cut
    said = capsys.readouterr().out
    assert said.count("of the training texts have more than") == is_cut


def test_a_pair_is_cut_as_a_pair(tmp_path):
    columns = own_data.news(60)
    columns["title"] = ["bank rate"] * 60
    path = own_data.write_task(
        tmp_path, "pair", columns, ending="jsonl", **KINDS["pair"]
    )
    with quick.eagerly(2):
        result = train.run(settings_of(path, tmp_path / "runs", max_length=16))
    assert result.record["cut_texts"] > 0.9  # of letters, hardly a word is one
