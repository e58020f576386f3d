"""`tf_transfer.load` opens a finished run of any task, to predict with it."""

import json
import os

import numpy as np
import pandas as pd
import pytest

import tf_transfer
from tests.support import commands, own_data
from tf_transfer import predict, train
from tf_transfer.training import run_paths

COLUMNS = own_data.news()
TASKS = {
    "classes": {},
    "labels": {"kind": "labels", "label": "tags"},
    "score": {"kind": "score", "label": "stars", "texts": "title"},
    "entities": {"kind": "entities", "texts": "words", "label": "marks"},
    "pairs": {"texts": ["title", "body"]},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The directory of a run of each kind of task, without an encoder."""
    folder = tmp_path_factory.mktemp("runs")
    directories = {}
    for name, keys in TASKS.items():
        path = own_data.write_task(folder, name, ending="jsonl", **keys)
        settings = train.Settings(
            task=path, features="tfidf", baseline=False, out=str(folder)
        )
        directories[name] = train.run(settings).directory
    return directories


def test_classes_have_labels_and_probabilities(runs):
    model = tf_transfer.load(runs["classes"])
    assert isinstance(model, tf_transfer.TrainedModel)
    assert model.classes_.tolist() == sorted({*COLUMNS["team"]})
    assert model.directory_ == os.path.abspath(runs["classes"])
    assert model.record_["task"] == "classes"
    assert runs["classes"] in repr(model)
    texts = COLUMNS["body"]
    answers = model.predict(pd.Series(texts))
    assert np.mean(answers == np.array(COLUMNS["team"])) > 0.8
    probabilities = model.predict_proba(texts)
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    best = model.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(answers, best)


def test_several_labels_are_columns_of_zeros_and_ones(runs):
    model = tf_transfer.load(runs["labels"])
    answers = model.predict(COLUMNS["body"])
    assert answers.shape == (60, len(model.classes_))
    probabilities = model.predict_proba(COLUMNS["body"])
    np.testing.assert_array_equal(answers, probabilities > 0.5)
    expected = [
        [name in tags for name in model.classes_] for tags in COLUMNS["tags"]
    ]
    assert np.mean(answers == expected) > 0.8


def test_scores_have_no_probabilities(runs):
    model = tf_transfer.load(runs["score"])
    answers = model.predict(COLUMNS["title"])
    assert answers.dtype == np.float64 and answers.shape == (60,)
    assert abs(answers.mean() - np.mean(COLUMNS["stars"])) < 0.5
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="predicts scores, which have no prob"):
        model.predict_proba(COLUMNS["title"])


def test_entities_are_tags_of_the_words_of_sentences(runs):
    model = tf_transfer.load(runs["entities"])
    sentences = COLUMNS["words"]
    answers = model.predict(sentences)
    assert answers.tolist() == COLUMNS["marks"]
    assert "B-PLACE" in model.classes_
    assert model.predict([["moon"], ["a", "bank"]]).tolist() == [
        ["B-PLACE"],
        ["O", "B-PLACE"],
    ]
    with pytest.raises(ValueError, match="predicts entities, which have no"):
        model.predict_proba(sentences)
    for wrong, message in (
        (["the moon"], "X, row 0: 'the moon' is not a list of words"),
        ([["moon"], []], r"X, row 1: \[\] is not a list of words"),
        ([["moon", " "]], "X, row 0: ' ' is not a word"),
        ([], "X holds no sentences"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(wrong)


def test_pairs_are_rows_of_two(runs):
    model = tf_transfer.load(runs["pairs"])
    pairs = pd.DataFrame({name: COLUMNS[name] for name in ("title", "body")})
    np.testing.assert_array_equal(
        model.predict(pairs), model.predict([*zip(*pairs.T.values)])
    )
    with pytest.raises(ValueError, match="1 texts in a row, .* fitted on 2"):
        model.predict(COLUMNS["title"])


def test_it_answers_as_the_command_and_the_estimator_do(runs, tmp_path):
    table = own_data.write(tmp_path / "texts.csv", {"body": COLUMNS["body"]})
    output = tmp_path / "answers.csv"
    words = [f"--run={runs['classes']}", f"--input={table}"]
    words.append(f"--output={output}")
    assert commands.call(predict.main, predict.Settings, *words) == 0
    model = tf_transfer.load(runs["classes"])
    answers = pd.read_csv(output)["predicted_label"]
    assert model.predict(COLUMNS["body"]).tolist() == answers.tolist()
    classifier = tf_transfer.TextClassifier(features="tfidf", out=tmp_path)
    classifier.fit(COLUMNS["body"], COLUMNS["team"])
    loaded = tf_transfer.load(classifier.directory_)
    np.testing.assert_array_equal(
        loaded.predict_proba(COLUMNS["body"]),
        classifier.predict_proba(COLUMNS["body"]),
    )


def test_the_folder_of_a_search_gives_its_answer(runs, tmp_path):
    answer = {"lines": ["Use it."], "table": [], "run": runs["classes"]}
    path = tmp_path / run_paths.ANSWER
    path.parent.mkdir()
    path.write_text(json.dumps(answer))
    model = tf_transfer.load(tmp_path)
    assert model.directory_ == os.path.abspath(runs["classes"])


def test_what_cannot_be_opened_is_a_value_error(runs, tmp_path):
    with pytest.raises(ValueError, match=r"has no config\.json"):
        tf_transfer.load(tmp_path)
    with pytest.raises(ValueError, match="--task=mood: this run has classes"):
        tf_transfer.load(runs["classes"], task="mood")
