"""Today's recipe on a task of one's own, and its TF-IDF baseline."""

import dataclasses
import json
import os

import numpy as np
import pytest

from tests.support import own_data
from tests.support.own_runs import settings_of
from tf_transfer import train
from tf_transfer.baselines import usual
from tf_transfer.data import metrics
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.utils import screen
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")
KINDS = {
    "news": {},
    "topics": {"kind": "labels", "label": "tags"},
    "stars": {"kind": "score", "label": "stars", "texts": ["title", "body"]},
}


# === Settings ===


def test_defaults_are_the_recipe_of_the_docstring():
    settings = train.Settings(task="rte").resolve()
    assert (settings.batch_size, settings.max_length) == (16, 256)
    assert (settings.schedule, settings.warmup_fraction) == ("linear", 0.1)
    assert settings.bias_correction and settings.max_epochs is None
    assert (settings.select, settings.frozen_prefix) == ("last", "cached")
    assert settings.batching == "grouped"
    last = train.Settings(task="rte", trainable_layers="2").resolve()
    assert last.batch_size == 32
    given = train.Settings(task="rte", batch_size=8)
    assert given.resolve().batch_size == 8


@pytest.mark.parametrize(
    "layers, model, lr",
    [
        ("all", "bert_base_en_uncased", 5e-5),
        ("all", "minilm", 2e-4),
        ("2", "minilm", 2e-4),
        ("0", "minilm", 1e-3),
    ],
)
def test_the_less_trains_the_higher_is_the_rate(layers, model, lr):
    settings = train.Settings(task="rte", trainable_layers=layers, model=model)
    assert settings.resolve().lr == lr


def test_a_method_has_the_same_rate_for_encoders_of_any_size():
    settings = train.Settings(task="rte", model="minilm", method="contrastive")
    assert settings.resolve().lr == train.RATES.everything


@pytest.mark.parametrize(
    "texts, layers, epochs",
    [(64, "all", 15), (300, "all", 4), (320, "all", 3), (40_000, "all", 3)]
    + [(64, "2", 30), (300, "2", 6), (40_000, "2", 6)],
)
def test_few_texts_make_more_epochs(texts, layers, epochs):
    settings = train.Settings(task="rte", trainable_layers=layers).resolve()
    assert train.usual_epochs(texts, settings) == epochs


def test_a_run_without_a_number_of_epochs_has_the_usual_one(tmp_path):
    path = own_data.write_task(tmp_path)
    settings = settings_of(path, tmp_path / "runs", max_epochs=None).resolve()
    asked = train.Train(settings)
    found = asked.find_run()
    epochs = train.usual_epochs(43, settings)
    assert asked.run_settings.max_epochs == epochs == 30
    settings = settings_of(path, tmp_path / "runs", max_epochs=30)
    assert train.Train(settings).find_run().path == found.path


@pytest.mark.usefixtures("eager")
def test_a_refit_trains_on_what_validates_too(tmp_path):
    columns = own_data.news(30)
    own_data.write(tmp_path / "more.csv", own_data.news(12))
    path = own_data.write_task(
        tmp_path, columns=columns, validation="more.csv", test=0.2
    )
    settings = settings_of(path, tmp_path / "runs", refit=True, baseline=False)
    result = train.run(settings)
    with open(os.path.join(result.directory, "config.json")) as file:
        assert json.load(file)["split_sizes"] == {"train": 36, "test": 6}
    assert result.record["validation"] is None
    other = train.Train(dataclasses.replace(settings, refit=False))
    assert other.find_run().path != result.directory


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind", ["classes", "entities"])
def test_groups_are_recorded_with_what_is_scored(kind, tmp_path, capsys):
    columns = own_data.news(60)
    columns["author"] = [f"author {number % 12}" for number in range(60)]
    keys = {"texts": "words", "label": "marks"} if kind == "entities" else {}
    path = own_data.write_task(
        tmp_path,
        columns=columns,
        ending="jsonl",
        group="author",
        kind=kind,
        **keys,
    )
    settings = settings_of(path, tmp_path / "runs")
    result = train.run(settings)
    assert "intervals over groups of texts" in capsys.readouterr().out
    runs = (tmp_path / "runs" / "train" / "news").glob("*/*/predictions.npz")
    arrays = [np.load(path) for path in runs]
    assert len(arrays) == 3  # the run, the probe and the TF-IDF baseline
    for stored in arrays:
        parts = []
        for part in ("validation", "test"):
            groups, ids = stored[f"{part}_groups"], stored[f"{part}_ids"]
            parts.append({*groups})
            if kind == "classes":
                assert len(parts[-1]) == len({*(ids % 12)})
        assert parts[0] and parts[1] and not parts[0] & parts[1]
    refit = dataclasses.replace(settings, refit=True, baseline=False)
    assert train.run(refit).directory != result.directory


@pytest.mark.parametrize("describe", [True, False])
def test_the_column_that_may_be_groups_is_reported(describe, tmp_path, capsys):
    news = own_data.news(180)
    columns = {name: news[name] for name in ("id", "title", "body", "team")}
    columns["author"] = [f"author {number % 12}" for number in range(180)]
    path = own_data.write_task(tmp_path, columns=columns)
    out = tmp_path / "runs"
    settings = train.Settings(
        task=path, features="tfidf", describe=describe, out=str(out)
    )
    train.Train(settings).execute()
    assert capsys.readouterr().out.count("column 'author' has few values") == 1
    with screen.silence(True):
        train.Train(dataclasses.replace(settings, rerun=True)).execute()
    assert not capsys.readouterr().out


def test_more_folds_than_groups_are_refused(tmp_path):
    columns = own_data.news(60)
    columns["author"] = [f"author {number % 4}" for number in range(60)]
    path = own_data.write_task(tmp_path, columns=columns, group="author")
    settings = settings_of(path, tmp_path / "runs")
    with pytest.raises(UserError, match="has 3 groups in 45 .*on fold 3 of"):
        train.run(dataclasses.replace(settings, fold=3))
    probe = dataclasses.replace(
        settings, features="frozen", max_epochs=None, trainable_layers="2"
    )
    with pytest.raises(UserError, match="has 2 groups in 30 .*than the 5 fold"):
        train.run(probe)
    assert not os.path.exists(tmp_path / "runs")


def test_without_a_task_it_says_what_to_give():
    with pytest.raises(UserError, match="--task: give a task file"):
        train.Settings().resolve()


# === The TF-IDF baseline ===


@pytest.fixture(scope="module", params=KINDS)
def tfidf(request, tmp_path_factory):
    """A run of TF-IDF, and what it printed last."""
    folder = tmp_path_factory.mktemp(request.param)
    path = own_data.write_task(
        folder, request.param, ending="jsonl", **KINDS[request.param]
    )
    return train.run(settings_of(path, folder / "runs", features="tfidf"))


def test_tfidf_is_a_run_with_predictions(tfidf):
    task = tfidf.experiment.data.task
    record = tfidf.record
    arrays = np.load(os.path.join(tfidf.directory, "predictions.npz"))
    for kind in ("validation", "test"):
        assert record[kind] == pytest.approx(
            metrics.measure(
                task.metrics, arrays[f"{kind}_labels"], arrays[f"{kind}_logits"]
            )
        )
    assert record["approach"] == "tfidf" and record["lr"] is None
    if task.kind == "classes":
        assert record["test"]["accuracy"] == 1.0
    if task.kind == "labels":
        assert record["test"]["f1_micro"] > 0.8


def test_tfidf_needs_no_encoder_to_be_named(tfidf):
    settings = tfidf.experiment.settings
    assert "model_identity" not in tfidf.experiment.identities
    assert f"{os.sep}tfidf{os.sep}" in tfidf.directory
    assert settings.title == "split_seed=0"


def test_an_end_says_score_interval_and_what_to_try(tfidf, capsys):
    tfidf.experiment.train()
    said = capsys.readouterr().out
    assert "Already done" in said
    task = tfidf.experiment.data.task
    assert f"{task.metric} in points on " in said
    assert ("majority baseline" in said) == (task.kind != "score")


@pytest.mark.parametrize("seen", [(0, 2), (1, 2, 3)])
def test_tfidf_knows_labels_that_no_training_text_has(seen):
    task = Task("t", "", ("text",), "label", ("a", "b", "c", "d"), "accuracy")
    words = ["red", "green", "blue", "white"]
    labels = np.array([label for label in seen for _ in range(9)])
    texts = [[f"{words[label]} {words[label]} thing" for label in labels]]
    examples = Examples(np.arange(len(labels)), texts, labels)
    logits = usual.Usual(task).fit(examples).logits(examples)
    assert logits.shape == (len(labels), 4)
    np.testing.assert_array_equal(logits.argmax(axis=1), labels)


def test_each_word_gets_its_most_frequent_tag():
    task = Task(
        "t", "", ("words",), "tags", ("O", "B-X", "I-X"), "f1", kind="entities"
    )
    sentences = Sentences(
        np.arange(2),
        [["a", "b", "a"], ["a", "c"]],
        [["B-X", "O", "B-X"], ["O", "O"]],
    )
    logits = (
        usual.MostFrequentTags(task)
        .fit(sentences)
        .logits(Sentences(np.arange(1), [["a", "new", "c"]], [["O"] * 3]))
    )
    assert logits.argmax(axis=1).tolist() == [1, 0, 0]
