"""The estimators are what scikit-learn expects of estimators of text."""

import concurrent.futures
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.exceptions
from sklearn.base import clone
from sklearn.model_selection import cross_val_score, GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tf_transfer
from tests.support import quick
from tests.support.estimator_texts import COLUMNS, make_options, TEAMS, TEXTS
from tf_transfer import experiment, train
from tf_transfer.baselines import probe
from tf_transfer.models import tiny
from tf_transfer.utils.errors import Interrupted


@pytest.fixture
def options(tmp_path, eager, one_block):
    """Parameters of a fit that takes a second."""
    return make_options(tmp_path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A classifier that has seen enough to be right at times."""
    with quick.eagerly():
        model = tf_transfer.TextClassifier(
            "tiny",
            trainable_layers="head",
            max_epochs=2,
            max_length=16,
            lr=1e-2,
            out=str(tmp_path_factory.mktemp("fitted")),
        ).fit(TEXTS, TEAMS)
        model.predict(TEXTS[:1])  # opens the run, here where `tiny` is small
    return model


def test_a_fit_is_a_run_and_returns_the_estimator(fitted):
    assert isinstance(fitted, tf_transfer.TextClassifier)
    names = os.listdir(fitted.directory_)
    assert {"config.json", "result.json", "errors.json"} <= {*names}
    assert fitted.record_["epochs_run"] == 2
    assert fitted.classes_.tolist() == sorted(set(TEAMS))


def test_probabilities_are_of_the_classes_in_their_order(fitted, eager):
    probabilities = fitted.predict_proba(TEXTS[:5])
    assert probabilities.shape == (5, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    best = fitted.classes_[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(TEXTS[:5]), best)
    right = np.mean(fitted.predict(TEXTS) == np.array(TEAMS))
    assert fitted.score(TEXTS, TEAMS) == right


def test_a_pickle_predicts_the_same_from_its_run_directory(
    fitted, eager, one_block, tmp_path, monkeypatch
):
    content = pickle.dumps(fitted)
    assert len(content) < 10_000  # no weights
    monkeypatch.chdir(tmp_path)
    loaded = pickle.loads(content)
    np.testing.assert_allclose(
        loaded.predict_proba(TEXTS[:3]),
        fitted.predict_proba(TEXTS[:3]),
        atol=1e-6,
    )


def test_parameters_are_those_of_the_constructor(options):
    classifier = tf_transfer.TextClassifier(**options)
    assert classifier.get_params()["trainable_layers"] == "head"
    classifier.set_params(lr=0.5, features="frozen")
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    assert not hasattr(copy, "directory_")
    assert "lr=0.5" in repr(copy)


@pytest.mark.slow  # trains whole runs
@pytest.mark.parametrize(
    "labels",
    [
        np.arange(36) % 2 == 0,
        np.arange(36) % 3 * 10,
        np.where(np.arange(36) % 2, 1.0, 2.0),
        pd.Series(["b", "a"] * 18),
    ],
    ids=["bool", "int", "float", "series"],
)
def test_labels_may_be_of_any_type(labels, options):
    classifier = tf_transfer.TextClassifier(**options).fit(TEXTS, labels)
    answers = classifier.predict(pd.Series(TEXTS[:4]))
    assert answers.dtype == classifier.classes_.dtype
    assert set(answers) <= set(np.asarray(labels))


def test_the_probe_is_an_estimator_too(options):
    probe = tf_transfer.TextClassifier(**options).set_params(features="frozen")
    probe.fit(TEXTS, TEAMS)
    assert probe.record_["approach"].startswith("probe")
    assert set(probe.predict(TEXTS[:4])) <= set(TEAMS)


@pytest.fixture
def reads_least(monkeypatch):
    """The probe chooses the states above the fewest blocks."""

    def choose(validated):
        return min(validated, key=lambda states: states.block)

    monkeypatch.setattr(probe, "choose_states", choose)


@pytest.mark.slow  # fits many regressions
def test_the_probe_predicts_below_the_blocks_that_would_train(
    options, reads_least, monkeypatch
):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    classifier = tf_transfer.TextClassifier(**options)
    classifier.set_params(trainable_layers=2, method="lora")
    search = GridSearchCV(
        classifier, {"features": ["frozen"]}, cv=2, error_score="raise"
    ).fit(TEXTS, TEAMS)
    best = search.best_estimator_
    assert search.cv_results_["mean_test_score"][0] >= 0
    path, folder = best.directory_, options["settings"]["cache_dir"]
    run = experiment.open_run(path, folder)
    assert run.experiment.data.fitted_probe["block"] < 2
    answers = run.predictor().answer(TEXTS)
    assert [label for label, _ in answers] == best.predict(TEXTS).tolist()


def test_fits_in_threads_leave_the_program_its_output(options, capsys):
    standard_output = sys.stdout
    alone, other = (
        tf_transfer.TextClassifier(**{**options, "features": features})
        for features in ("tfidf", "frozen")
    )
    began = threading.Barrier(2)

    def fit(classifier):
        began.wait()
        classifier.fit(TEXTS, TEAMS)
        print("fitted")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, (alone, other)))
    assert sys.stdout is standard_output
    assert capsys.readouterr().out == "fitted\nfitted\n"


@pytest.mark.parametrize(
    "texts, is_ahead", [(TEXTS, True), (["Any text."] * 36, False)]
)
def test_a_fit_warns_if_tfidf_scores_more(options, texts, is_ahead):
    """Words name the team, and nothing tells the same texts apart."""
    labels = [team == TEAMS[0] for team in TEAMS]
    if not is_ahead:
        labels = [False, True] * 18
    classifier = tf_transfer.TextClassifier(**options)
    classifier.set_params(lr=1e-9, validation_fraction=1 / 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(texts, labels)
    said = [str(one.message) for one in caught if one.filename == __file__]
    assert len(said) == is_ahead
    for text in said:
        assert re.match(r"texts: TF-IDF of .* is \+[\d.]+ .* above the", text)


def test_pairs_may_be_a_data_frame_or_a_list(options):
    pairs = pd.DataFrame({"a": TEXTS, "b": COLUMNS["body"]})
    classifier = tf_transfer.TextClassifier(**options).fit(pairs, TEAMS)
    rows = [*zip(TEXTS[:3], COLUMNS["body"])]
    np.testing.assert_array_equal(
        classifier.predict(rows), classifier.predict(pairs[:3])
    )
    with pytest.raises(ValueError, match="fitted on 2"):
        classifier.predict(TEXTS)


def test_scores_are_predicted_in_their_own_unit(options):
    scores = 1000 + np.array(COLUMNS["stars"])
    regressor = tf_transfer.TextRegressor(**options).fit(TEXTS, scores)
    answers = regressor.predict(TEXTS)
    assert answers.shape == (36,) and abs(answers.mean() - 1002) < 10
    residuals = ((scores - answers) ** 2).sum()
    spread = ((scores - scores.mean()) ** 2).sum()
    expected = 1 - residuals / spread
    assert regressor.score(TEXTS, scores) == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow  # trains whole runs
def test_a_second_fit_on_the_same_texts_finds_the_run(options, capsys):
    first = tf_transfer.TextClassifier(**options).fit(TEXTS, TEAMS)
    again = clone(first).set_params(verbose=True).fit(TEXTS, TEAMS)
    assert again.directory_ == first.directory_
    assert "Already done" in capsys.readouterr().out
    np.testing.assert_allclose(
        again.predict_proba(TEXTS[:3]),
        first.predict_proba(TEXTS[:3]),
        atol=1e-6,
    )
    other = clone(first).fit(TEXTS, TEAMS[::-1])
    assert other.directory_ != first.directory_


@pytest.mark.slow  # trains whole runs
def test_it_works_in_a_pipeline_and_under_cross_validation(options):
    upper = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    model = make_pipeline(upper, tf_transfer.TextClassifier(**options))
    assert len(model.fit(TEXTS, TEAMS).predict(TEXTS[:2])) == 2
    scores = cross_val_score(
        tf_transfer.TextClassifier(**options), TEXTS, TEAMS, cv=2
    )
    assert len(scores) == 2 and (scores >= 0).all() and (scores <= 1).all()


@pytest.mark.slow
def test_a_grid_search_tries_layers_and_rates(options):
    search = GridSearchCV(
        tf_transfer.TextClassifier(**options),
        {"trainable_layers": ["head", 1], "lr": [1e-2]},
        cv=2,
        error_score="raise",
    ).fit(TEXTS, TEAMS)
    assert search.best_params_["trainable_layers"] in ("head", 1)
    assert len(search.predict(TEXTS[:2])) == 2


def test_labels_may_be_a_column(options):
    labels = pd.DataFrame({"team": TEAMS, "stars": COLUMNS["stars"]})
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        one = tf_transfer.TextClassifier(**options).fit(TEXTS, labels[["team"]])
    assert one.classes_.tolist() == sorted(set(TEAMS))
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        two = tf_transfer.TextRegressor(**options).fit(TEXTS, labels[["stars"]])
    assert two.predict(TEXTS[:3]).shape == (3,)


def test_parameters_may_be_numpy_s_and_the_caller_s_generators_stay(options):
    np.random.seed(7)
    expected = np.random.rand(2)
    np.random.seed(7)
    classifier = tf_transfer.TextClassifier(**options)
    classifier.set_params(batch_size=np.int64(16)).fit(TEXTS, TEAMS)
    np.testing.assert_array_equal(np.random.rand(2), expected)


@pytest.fixture
def tfidf(tmp_path):
    """A classifier that is fitted without an encoder."""
    return tf_transfer.TextClassifier(features="tfidf", out=tmp_path)


def test_paths_may_be_pathlib_s(tfidf, tmp_path, options):
    texts = clone(tfidf).set_params(out=str(tmp_path)).fit(TEXTS, TEAMS)
    paths = tfidf.set_params(settings={"cache_dir": tmp_path / "cache"})
    assert paths.fit(TEXTS, TEAMS).directory_ == texts.directory_
    assert paths.get_params()["out"] == tmp_path
    loaded = pickle.loads(pickle.dumps(clone(paths).fit(TEXTS, TEAMS)))
    assert loaded.predict(TEXTS[:2]).tolist() == (
        texts.predict(TEXTS[:2]).tolist()
    )
    assert train.Settings(data=tmp_path).data == str(tmp_path)
    missing = tmp_path / "missing"
    for model in (missing, [missing]):
        classifier = tf_transfer.TextClassifier(**{**options, "model": model})
        with pytest.raises(ValueError, match=f"model={missing}: no such fold"):
            classifier.fit(TEXTS, TEAMS)


def test_a_random_state_draws_the_seed_of_each_fit(tfidf, monkeypatch):
    seeds = []

    def stop(self, source, parameters):
        seeds.append(parameters["random_state"])
        raise Interrupted("Seen.")

    monkeypatch.setattr(tf_transfer.TextClassifier, "_train", stop)

    def seeds_of(random_state):
        seeds.clear()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                tfidf.set_params(random_state=random_state).fit(TEXTS, TEAMS)
        return [*seeds]

    draw = np.random.RandomState(7)
    expected = [draw.randint(2**31 - 1) for _ in range(2)]
    assert seeds_of(np.random.RandomState(7)) == expected
    np.random.seed(7)
    assert seeds_of(None) == expected
    assert np.random.randint(2**31 - 1) == draw.randint(2**31 - 1)
    assert seeds_of(np.int64(3)) == [3, 3]
    assert clone(tfidf.set_params(random_state=draw)).random_state is not draw


def test_a_signal_ends_a_search_over_a_grid(options, monkeypatch):
    def stop(*arguments, **keywords):
        raise Interrupted("Stopped and saved.")

    monkeypatch.setattr(train.Train, "train", stop)
    search = GridSearchCV(
        tf_transfer.TextClassifier(**options), {"lr": [1e-2, 1e-3]}, cv=2
    )
    with pytest.raises(KeyboardInterrupt, match="Stopped and saved"):
        search.fit(TEXTS, TEAMS)


# === Groups ===


AUTHORS = np.arange(36) // 3


@pytest.mark.slow  # trains whole runs
def test_texts_of_a_group_train_or_validate(options):
    classifier = tf_transfer.TextClassifier(**options)
    alone = classifier.fit(TEXTS, TEAMS).directory_
    grouped = classifier.fit(TEXTS, TEAMS, groups=[f"a{a}" for a in AUTHORS])
    assert grouped.directory_ != alone
    arrays = np.load(os.path.join(grouped.directory_, "predictions.npz"))
    held = arrays["validation_ids"]
    assert {*AUTHORS[held]}.isdisjoint(np.delete(AUTHORS, held))
    np.testing.assert_array_equal(arrays["validation_groups"], AUTHORS[held])
    assert grouped.predict(TEXTS[:2]).shape == (2,)


def test_a_grid_hands_groups_to_each_fit(options):
    """Metadata routing of scikit-learn does."""
    with sklearn.config_context(enable_metadata_routing=True):
        classifier = tf_transfer.TextClassifier(**options)
        classifier.set_params(features="tfidf", trainable_layers=2, lr=None)
        classifier.set_params(max_epochs=None, max_length=256, model="minilm")
        classifier.set_fit_request(groups=True)
        folds = GroupKFold(3)
        search = GridSearchCV(classifier, {"random_state": [0]}, cv=folds)
        search.fit(TEXTS, TEAMS, groups=AUTHORS)
        fitted = search.best_estimator_
    arrays = np.load(os.path.join(fitted.directory_, "predictions.npz"))
    assert "validation_groups" in arrays
    assert not np.isnan(search.best_score_)


@pytest.mark.slow  # starts processes
def test_the_package_alone_loads_no_library():
    code = (
        "import sys, tf_transfer; "
        "print({'tensorflow', 'sklearn', 'numpy'} & {*sys.modules}); "
        "tf_transfer.TextClassifier; print('tensorflow' in sys.modules)"
    )
    lines = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert lines == ["set()", "False"]
    assert not hasattr(tf_transfer, "TextThing")
