"""A task of one's own goes wherever a built-in one does."""

import dataclasses
import json
import os

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.support import answering, commands, own_data, quick
from tf_transfer import experiment, report, train
from tf_transfer.data import table_files
from tf_transfer.data.splits import TRAINING_SAMPLE
from tf_transfer.glue import experiment as glue
from tf_transfer.multitask import experiment as multitask
from tf_transfer.stacking import experiment as stacking
from tf_transfer.sweeps import grid
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")
KEYS = {
    "news": {"validation": 0.2},
    "topics": {"kind": "labels", "label": "tags"},
    "stars": {"kind": "score", "label": "stars", "texts": ["title", "body"]},
    "places": {"kind": "entities", "texts": "words", "label": "marks"},
}
SMALL = {
    "model": "tiny",
    "batch_size": 8,
    "max_epochs": 1,
    "max_length": 16,
    "lr": 1e-3,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Task files of three kinds, and their tables."""
    folder = tmp_path_factory.mktemp("own")
    for name, keys in KEYS.items():
        own_data.write_task(folder, name, ending="jsonl", **keys)
    return folder


@pytest.fixture(scope="module")
def mixed(folder):
    """A run of all three, and one of GLUE's."""
    tasks = ",".join(str(folder / f"{name}.toml") for name in KEYS)
    with quick.eagerly():
        return multitask.run(
            multitask.Settings(
                **{**SMALL, "batch_size": 32},
                tasks=f"{tasks},sst2",
                data="sample",
                train="all",
                out=str(folder / "runs"),
            )
        )


@pytest.fixture(scope="module")
def trained(folder):
    """A run of GLUE's experiment on classes of one's own."""
    with quick.eagerly():
        return glue.run(
            glue.Settings(
                **SMALL,
                task=str(folder / "news.toml"),
                trainable_layers="1",
                out=str(folder / "runs"),
            )
        )


def test_a_run_is_named_by_its_task_and_not_by_its_file(trained, folder):
    assert f"{os.sep}glue{os.sep}news{os.sep}last_1{os.sep}" in (
        trained.directory
    )
    assert trained.record["task"] == "news"
    assert set(trained.scores["test"]) == {"accuracy", "f1_macro"}
    config = json.load(open(os.path.join(trained.directory, "config.json")))
    assert config["split_sizes"] == {"train": 38, "validation": 10, "test": 12}
    assert config["key"]["task"] == "news"
    assert "text_column" not in config["key"]


def test_the_same_task_elsewhere_is_the_same_run(trained, tmp_path, capsys):
    path = own_data.write_task(tmp_path, "news", ending="jsonl", **KEYS["news"])
    settings = trained.experiment.settings
    again = glue.run(
        glue.Settings(
            **SMALL, task=path, trainable_layers="1", out=settings.out
        )
    )
    assert "Already done" in capsys.readouterr().out
    assert again.record == trained.record


@pytest.mark.usefixtures("eager")
@pytest.mark.slow
def test_mrpc_as_a_task_file_gives_the_numbers_of_mrpc(tmp_path):
    from tests.data import glue_files

    glue_files.copy_sample(tmp_path)
    own_task = own_data.write_toml(
        tmp_path / "mine.toml",
        {
            "texts": ["#1 String", "#2 String"],
            "label": "Quality",
            "metric": "f1",
            "train": "glue/MRPC/train.tsv",
            "test": "glue/MRPC/dev.tsv",
        },
    )
    runs = [
        glue.run(tiny_settings(tmp_path / "runs", task=task, max_epochs=1))
        for task in ("mrpc", own_task)
    ]
    arrays = [
        np.load(os.path.join(run.directory, "predictions.npz")) for run in runs
    ]
    assert sorted(arrays[0].files) == sorted(arrays[1].files)
    for name in arrays[0].files:
        np.testing.assert_array_equal(arrays[0][name], arrays[1][name])
    assert runs[0].record["metric"] == runs[1].record["metric"] == "f1"


# === Answers ===


@pytest.mark.parametrize("ending", own_data.FORMATS)
def test_a_file_is_answered_in_the_formats_that_train(
    ending, trained, tmp_path, eager
):
    columns = own_data.news(7)
    source = own_data.write(tmp_path / f"in.{ending}", columns)
    target = tmp_path / f"out.{'jsonl' if ending == 'jsonl' else 'csv'}"
    predictor = trained.predictor()
    answering.predict_file(predictor, source, str(target), probabilities=True)
    found = table_files.read_table(str(target))
    answers = predictor.answer(columns["body"])
    assert found.columns["predicted_label"] == [label for label, _ in answers]
    assert found.columns["title"] == columns["title"]
    assert set(found.columns["predicted_label"]) <= set(own_data.WORDS)
    chances = [
        list(map(float, found.columns[f"probability_{name}"]))
        for name in predictor.task.labels
    ]
    np.testing.assert_allclose(np.sum(chances, axis=0), 1, atol=1e-3)


def test_a_run_answers_where_its_task_file_is_gone(folder, trained, tmp_path):
    away = tmp_path / "news.toml"
    os.rename(folder / "news.toml", away)
    try:
        with quick.eagerly():
            opened = experiment.open_run(trained.directory).predictor()
            texts = ["match goal team cup"]
            assert opened.answer(texts) == trained.predictor().answer(texts)
    finally:
        os.rename(away, folder / "news.toml")


# === Every other command ===


@pytest.mark.slow  # trains whole runs
def test_tasks_of_every_kind_train_together(mixed):
    scores = mixed.scores["test"]
    assert {
        "news_accuracy",
        "topics_f1_micro",
        "stars_spearman",
        "places_f1_PLACE",
        "sst2_accuracy",
    } < set(scores)
    overall = np.mean(
        [
            scores["news_accuracy"],
            scores["topics_f1_micro"],
            (scores["stars_spearman"] + 1) / 2,
            scores["places_f1"],
            scores["sst2_accuracy"],
        ]
    )
    assert scores["overall"] == pytest.approx(overall)
    assert f"{os.sep}news+topics+stars+places+sst2{os.sep}" in mixed.directory


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_words_are_answered_in_the_formats_that_train(
    ending, mixed, tmp_path, eager
):
    predictor = mixed.predictor("places")
    words = [["the", "moon"], ["bank"]]
    source = own_data.write(tmp_path / f"in.{ending}", {"words": words})
    target = tmp_path / "out.jsonl"
    answering.predict_file(predictor, source, str(target))
    found = table_files.read_table(str(target)).columns
    assert found == {"words": words, "predicted_tags": predictor.tags(words)}


def test_two_tasks_of_one_name_are_refused(folder):
    path = folder / "news.toml"
    with pytest.raises(UserError, match="two tasks are called 'news'"):
        multitask.Settings(tasks=f"{path},{path}").resolve()


def test_the_report_shows_them(mixed, trained, tmp_path):
    code = commands.call(
        lambda: report.main(["report", trained.experiment.settings.out]),
        report.Settings,
        f"--out={tmp_path}",
    )
    assert code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "news" in page and "multitask" in page


@pytest.mark.slow  # trains whole runs
def test_a_mix_with_one_of_the_paper_s_three_tasks_has_a_report(tmp_path):
    with quick.eagerly():
        multitask.run(
            multitask.Settings(
                **{**SMALL, "batch_size": 32},
                tasks="sentiment,rte",
                data="sample",
                train="all",
                out=str(tmp_path),
            )
        )
    code = commands.call(
        lambda: report.main(["report", str(tmp_path)]), report.Settings
    )
    assert code == 0
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "rte" in page and ">Quora<" not in page


@pytest.mark.parametrize(
    "name, head", [("news", "densenet"), ("stars", "sim_transformer")]
)
def test_big_heads_fit_a_task_by_its_texts(name, head, folder):
    settings = stacking.Settings(task=str(folder / f"{name}.toml")).resolve()
    assert settings.head == head and settings.task_name == name
    with pytest.raises(UserError, match="--head=bilstm: fits --task=ner"):
        stacking.Settings(
            task=str(folder / f"{name}.toml"), head="bilstm"
        ).resolve()


@pytest.mark.usefixtures("eager")
def test_a_sample_of_the_training_set_counts_as_no_leak(folder, capsys):
    settings = stacking.Settings(
        task=str(folder / "stars.toml"), head="dense", **SMALL
    )
    [texts] = stacking.Stacking(settings).data.examples.values()
    assert TRAINING_SAMPLE in texts["validation"]
    assert "are also in the training set" not in capsys.readouterr().out


def test_a_mix_is_opened_again_whatever_it_held_out(folder):
    settings = multitask.Settings(
        tasks=f"{folder / 'stars.toml'},sst2",
        data="sample",
        validation_fraction=0.2,
        **SMALL,
    ).resolve()
    config = {"settings": dataclasses.asdict(settings)}
    recalled = multitask.Multitask.restore_settings(config)
    assert not multitask.Settings(**recalled).resolve().tasks


@pytest.mark.slow  # trains whole runs
def test_a_big_head_trains_on_your_own_task(folder, tmp_path):
    result = stacking.run(
        stacking.Settings(
            **{**SMALL, "max_epochs": 1},
            task=str(folder / "stars.toml"),
            head="dense",
            adaptation="joint",
            out=str(tmp_path),
        )
    )
    assert {"spearman", "pearson"} == set(result.scores["test"])
    opened = experiment.open_run(result.directory).predictor()
    [(_, score)] = opened.answer(["bank"], ["price"])
    assert np.isfinite(score)


@pytest.mark.usefixtures("eager")
def test_scores_of_any_size_are_learned_equally(tmp_path):
    """Stars, and the same as prices: mean and deviation are all that differ."""
    columns = own_data.news(30)
    runs = {}
    for name, unit, start in (("stars", 1, 0), ("prices", 1000, 2 * 10**5)):
        columns["stars"] = [
            start + unit * s for s in own_data.news(30)["stars"]
        ]
        path = own_data.write_task(
            tmp_path, name, columns, kind="score", label="stars", texts=["body"]
        )
        result = glue.run(
            glue.Settings(
                **{**SMALL, "max_epochs": 1},
                task=path,
                trainable_layers="0",
                out=str(tmp_path / "runs"),
            )
        )
        arrays = np.load(os.path.join(result.directory, "predictions.npz"))
        runs[name] = result, arrays["test_logits"][:, 0]
    stars, prices = runs["stars"], runs["prices"]
    np.testing.assert_allclose((prices[1] - 2e5) / 1000, stars[1], atol=1e-3)
    assert 1 < stars[1].mean() < 4  # of stars from 0.25 to 4.25
    losses = [r.history["train_loss"].tolist() for r, _ in runs.values()]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    opened = experiment.open_run(prices[0].directory).predictor()
    [(word, score)] = opened.answer(["match goal"])
    assert float(word) == pytest.approx(score, abs=1e-3) and score > 1e5


def test_a_sweep_names_its_runs(folder, tmp_path):
    task = str(folder / "news.toml")
    runs = grid.expand(
        "grid",
        grid.Grid(
            "glue",
            flags={"model": "tiny", "data": "sample", "task": task},
            axes={"trainable_layers": [0, 1]},
        ),
        str(tmp_path),
    )
    assert len(runs) == 2
    for run in runs:
        assert f"{os.sep}news{os.sep}last_" in run.directory.path


def test_sparse_baselines_of_tweets_read_no_task_file(folder):
    task = str(folder / "news.toml")
    with pytest.raises(UserError, match="--features=count: reads a table"):
        tweets.Settings(task=task, features="count").resolve()


# === A table without a task file ===


def test_a_table_trains_by_its_columns(folder, tmp_path):
    def settings(**changes):
        return glue.Settings(
            **SMALL, data=str(folder / "news.jsonl"), **changes
        ).resolve()

    named = glue.Glue(settings(text_column="body", label_column="team"))
    assert named.data.name == "news"
    assert named.data.task.labels == ("money", "space", "sports")
    other = glue.Glue(
        settings(task="mine", text_column="body", label_column="team")
    )
    assert other.data.name == "mine"
    assert named.find_run().path != other.find_run().path
    with pytest.raises(UserError, match="--task=mrpc: has data of its own"):
        _ = glue.Glue(
            settings(task="mrpc", text_column="body", label_column="team")
        ).data.name


def test_a_task_may_have_any_name(tmp_path, eager, one_block):
    """TensorFlow's names have fewer letters."""
    path = own_data.write_task(tmp_path, "März-1_新")
    result = train.run(
        train.Settings(
            task=path,
            model="tiny",
            max_length=16,
            max_epochs=1,
            trainable_layers="head",
            baseline=False,
            out=str(tmp_path / "runs"),
        )
    )
    assert result.record["task"] == "März-1_新"
    answers = experiment.open_run(result.directory).predictor().answer(["goal"])
    assert answers[0][0] in own_data.WORDS
