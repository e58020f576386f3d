"""Encoders of several kinds, ranked by runs of their probes."""

import functools
import os
import shlex

import numpy as np
import pytest

import tf_transfer
from tests.models import encoders, saving
from tests.probe_test import KINDS, settings_of
from tests.support import commands, own_data, quick
from tf_transfer import train
from tf_transfer.baselines import probe, ranking
from tf_transfer.config import command_line
from tf_transfer.models import loading, presets
from tf_transfer.training import records
from tf_transfer.utils.errors import FullDiskError, Interrupted, UserError


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """`tiny`; shuffled words; other tokens, no pooler, other width and depth.

    The names of the folders have a comma.
    """
    folder = tmp_path_factory.mktemp("models")
    with quick.eagerly(3):
        bert = encoders.bert()
    names = [str(folder / "bert, shuffled"), str(folder / "roberta, small")]
    words = bert.tokenizer.vocabulary  # of all tests
    with pytest.MonkeyPatch.context() as patch:
        shuffled = [*words[:5], *words[:4:-1]]
        patch.setattr(bert.tokenizer, "vocabulary", shuffled)
        saving.as_hugging_face(bert, names[0])
    saving.as_keras(encoders.roberta(), names[1])
    return ["tiny", *names]


@pytest.fixture
def eager(monkeypatch):
    with quick.eagerly(3):
        yield


@pytest.fixture
def folds(monkeypatch):
    """What each probe chooses on: rows, labels and folds."""
    seen = []

    def make_folds(self, repeats):
        made = original(self, repeats)
        seen.append([self.rows, self.labels, *map(np.concatenate, zip(*made))])
        return made

    original = probe._Subset.make_folds
    monkeypatch.setattr(probe._Subset, "make_folds", make_folds)
    return seen


@pytest.mark.slow  # fits many regressions
@pytest.mark.parametrize("kind", ["classes", "pair", "score", "entities"])
def test_encoders_that_tokenise_differently_have_the_same_folds(
    kind, models, folds, eager, tmp_path
):
    path = own_data.write_task(
        tmp_path, kind, own_data.news(45), ending="jsonl", **KINDS[kind]
    )
    models = models[::2]
    ranking = train.rank(settings_of(path, tmp_path / "runs"), models)
    assert {*ranking.runs.index} == {*models}, ranking.text
    count = len(folds) // len(models)  # of each probe
    assert count > 1 and len(folds) == count * len(models)
    for first, *others in (folds[n::count] for n in range(count)):
        for other in others:
            for expected, array in zip(first, other, strict=True):
                np.testing.assert_array_equal(expected, array)
    assert ranking.runs.texts.nunique() == 1
    for run in ranking.runs.itertuples():
        directory = records.RunDirectory(run.directory, None)
        assert directory.profile()["fold_scores"] == run.fold_scores
        assert run.score == pytest.approx(100 * np.mean(run.fold_scores))
        assert run.seconds_per_text > 0


def test_the_size_on_disk_is_that_of_the_weights(models):
    tiny, shuffled, roberta = models
    assert loading.size_on_disk(tiny, "") == 0
    for folder, name in (
        (shuffled, "model.safetensors"),
        (roberta, "model.weights.h5"),
    ):
        expected = os.path.getsize(os.path.join(folder, name))
        assert loading.size_on_disk(folder, "") == expected > 0


def rank_by_command(*words):
    """Runs `train` with these words in this process; its exit code."""
    return commands.call(
        functools.partial(commands.execute, train.Train),
        functools.partial(command_line.define_flags, train.Settings, "train"),
        *words,
    )


def test_the_command_ranks_and_says_how_to_train_the_first(
    models, eager, tmp_path, capsys
):
    path = own_data.write_task(tmp_path)
    _, shuffled, _ = models
    words = [
        f"--task={path}",
        f'--models=tiny,"{shuffled}", nowhere,tiny',
        f"--out={tmp_path / 'runs'}",
        f"--cache_dir={tmp_path / 'cache'}",
    ]
    assert rank_by_command(*words) == 0
    *_, titles, first, second, left_out, command = (
        capsys.readouterr().out.splitlines()
    )
    assert titles.startswith("encoder")
    assert sorted([first.split("  ")[0], second.split("  ")[0]]) == sorted(
        ["tiny", shuffled]
    )
    assert left_out.startswith("Left out: nowhere (--model=nowhere: no such")
    best = first.split("  ")[0]
    assert f"--model={best}" in shlex.split(command)
    assert "--models" not in command and "--features" not in command
    # The same command finds the finished runs.
    assert rank_by_command(*words) == 0
    out = capsys.readouterr().out
    assert out.count("Already done") == 2 and "Feature cache" not in out
    assert first in out.splitlines()


def test_a_probe_of_the_ranking_is_the_run_of_the_probe_alone(
    eager, tmp_path, capsys
):
    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path / "runs")
    ranking = train.rank(settings, ["tiny"])
    alone = train.run(settings)
    assert alone.directory == ranking.runs.directory["tiny"]
    assert "Already done" in capsys.readouterr().out


def test_what_is_wrong_with_the_data_is_said_once(eager, tmp_path, capsys):
    columns = own_data.news(30)
    columns["team"][3] = ""
    path = own_data.write_task(tmp_path, columns=columns)
    settings = settings_of(path, tmp_path / "runs")
    with pytest.raises(UserError, match="news.csv, line 5") as error:
        train.rank(settings, ["tiny", "nowhere"])
    assert "nowhere" not in str(error.value)
    columns["team"] = ["one"] * 30
    path = own_data.write_task(tmp_path, columns=columns)
    with pytest.raises(UserError):
        train.rank(settings_of(path, tmp_path / "runs"), ["tiny"])
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow  # fits many regressions
def test_a_kill_leaves_the_finished_probes(eager, tmp_path, monkeypatch):
    from tf_transfer.feature_cache import feature_cache

    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path / "runs")
    attach = feature_cache.FeatureCache.attach
    calls = []

    def stop(self, *arguments, **keywords):
        calls.append(self.options.model)
        if len(calls) == 2:
            raise Interrupted("Stopped.")
        return attach(self, *arguments, **keywords)

    folder = tmp_path / "other"
    saving.as_hugging_face(encoders.bert(), str(folder))
    names = ["tiny", str(folder)]
    monkeypatch.setattr(feature_cache.FeatureCache, "attach", stop)
    with pytest.raises(Interrupted):
        train.rank(settings, names)
    ranking = train.rank(settings, names)
    assert calls == ["tiny", str(folder), str(folder)]
    assert {*ranking.runs.index} == {*names}


@pytest.mark.parametrize(
    "text, names",
    [
        ("", []),
        ("minilm", ["minilm"]),
        ("a, b", ["a", "b"]),
        ('"my, own",b', ["my, own", "b"]),
    ],
)
def test_names_have_commas_between(text, names):
    assert presets.split_names(text) == names


@pytest.mark.parametrize("text", ["a,,b", "a,", " "])
def test_an_empty_name_is_refused(text):
    with pytest.raises(UserError, match="--models=.*has an empty name"):
        presets.split_names(text)


def test_a_ranking_reads_what_a_probe_reads_and_no_run_reads_models(tmp_path):
    path = own_data.write_task(tmp_path)
    settings = settings_of(
        path, tmp_path / "runs", features="bert", models="tiny,other"
    )
    for name in ("lr", "model", "features", "baseline", "refit", "describe"):
        assert name in settings.unread()
    for name in ("models", "class_weights", "cache_dtype", "keep_blocks"):
        assert name not in settings.unread()
    with pytest.raises(UserError, match="--models=tiny,other: ranks encoders"):
        train.run(settings)


def test_a_full_disk_leaves_no_encoder_out():
    def fit(model):
        raise FullDiskError("runs: the disk is full. Free some space.")

    with pytest.raises(FullDiskError, match="Free some space"):
        ranking.rank_encoders(["first", "second"], fit)


@pytest.mark.slow  # trains whole runs
def test_an_estimator_trains_the_encoder_that_comes_first(
    models, eager, tmp_path
):
    columns = own_data.news(36)
    classifier = tf_transfer.TextClassifier(
        models[:2],
        trainable_layers="head",
        max_epochs=1,
        max_length=16,
        out=str(tmp_path),
        settings={"cache_dir": str(tmp_path / "cache")},
    ).fit(columns["title"], columns["team"])
    best = classifier.ranking_.model
    assert best in models[:2]
    config = records.RunDirectory(classifier.directory_, None).config()
    assert config["settings"]["model"] == best
    assert classifier.get_params()["model"] == models[:2]
    assert len(classifier.predict(columns["title"][:3])) == 3
    with pytest.raises(ValueError, match="--models: no encoder can be used"):
        classifier.set_params(model=["nowhere"]).fit(
            columns["title"], columns["team"]
        )
    assert os.path.isdir(classifier.directory_)


def test_a_fit_of_one_encoder_has_no_ranking(eager, tmp_path):
    columns = own_data.news(45)
    model = tf_transfer.TextClassifier(
        ["tiny", "tiny"],
        features="frozen",
        max_length=16,
        out=str(tmp_path / "runs"),
        settings={"cache_dir": str(tmp_path / "cache")},
    )
    model.fit(columns["title"], columns["team"])
    assert hasattr(model, "ranking_")
    model.set_params(model="tiny").fit(columns["title"], columns["team"])
    assert not hasattr(model, "ranking_")
