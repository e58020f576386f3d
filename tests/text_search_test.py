"""A search is an estimator of scikit-learn, and a grid may be searched."""

import os
import pickle

import numpy as np
import pytest
import sklearn
import sklearn.exceptions
from sklearn.base import clone

import tf_transfer
from tests.searches import fake_runs
from tests.support import own_data
from tests.support.estimator_texts import TEAMS, TEXTS


@pytest.mark.slow  # trains whole runs
def test_a_search_is_an_estimator(monkeypatch, tmp_path, capsys):
    """Its runs train nothing, so the TF-IDF baseline is the answer."""
    world = fake_runs.World()
    fake_runs.put_in(monkeypatch, world)
    columns = own_data.news(300)
    texts, stars = columns["body"], [*own_data.WORDS]
    labels = np.array([10 - 8 * stars.index(team) for team in columns["team"]])
    model = tf_transfer.TextSearch(
        "tiny", budget="2m", out=str(tmp_path), settings={"max_epochs": 4}
    )
    assert clone(model).fit(texts, labels).score(texts, labels) > 0.9
    model.fit(texts, labels)
    assert capsys.readouterr().out == ""
    assert model.classes_.tolist() == [-6, 2, 10]
    best = model.classes_[model.predict_proba(texts[:9]).argmax(axis=1)]
    np.testing.assert_array_equal(best, model.predict(texts[:9]))
    assert model.sentence_.startswith("Use the TF-IDF baseline: ")
    assert {"the probe", "last 1"} <= {*model.table_["approach"]}
    assert model.record_["approach"] == "tfidf"
    assert os.path.isfile(os.path.join(model.folder_, "search.html"))
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(best, loaded.predict(texts[:9]))
    done = len(world.done)
    clone(model).set_params(budget="3m").fit(texts, labels)
    assert os.listdir(tmp_path) == [os.path.basename(model.folder_)]
    assert len(world.done) >= done > 0


def test_what_a_search_cannot_use_is_a_value_error(monkeypatch, tmp_path):
    fake_runs.put_in(monkeypatch, fake_runs.World())
    model = tf_transfer.TextSearch("tiny", out=str(tmp_path))
    with pytest.raises(ValueError, match="only 13 labelled texts"):
        model.fit(TEXTS[:15], TEAMS[:15])
    with pytest.raises(ValueError, match="--budget=soon"):
        model.set_params(budget="soon").fit(TEXTS, TEAMS)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(TEXTS)


@pytest.mark.slow
def test_a_search_on_workers_predicts_with_its_answer(tmp_path):
    columns = own_data.news(300)
    pairs = [*zip(columns["title"], columns["body"])]
    model = tf_transfer.TextSearch(
        "tiny",
        budget="60s",
        out=str(tmp_path),
        settings={
            "approaches": "1",
            "max_length": 16,
            "cache_dir": str(tmp_path / "cache"),
        },
    ).fit(pairs, columns["team"])
    assert model.score(pairs, columns["team"]) > 0.5


def test_groups_stay_together_in_a_search(monkeypatch, tmp_path):
    fake_runs.put_in(monkeypatch, fake_runs.World())
    columns = own_data.news(300)
    model = tf_transfer.TextSearch("tiny", budget="2m", out=str(tmp_path))
    authors = np.arange(300) // 3
    model.fit(columns["body"], columns["team"], groups=authors)
    path = os.path.join(model.directory_, "predictions.npz")
    with np.load(path) as arrays:
        held = arrays["test_ids"]
        groups = arrays["test_groups"]
    assert len({*groups}) == len({*authors[held]})
    assert {*authors[held]}.isdisjoint(np.delete(authors, held))


def test_classes_that_a_table_holds_equal_are_refused(monkeypatch, tmp_path):
    fake_runs.put_in(monkeypatch, fake_runs.World())
    labels = [team + " " * (n % 2) for n, team in enumerate(TEAMS)]
    with pytest.raises(ValueError, match="two classes are one in a table"):
        tf_transfer.TextSearch("tiny", out=str(tmp_path)).fit(TEXTS, labels)
