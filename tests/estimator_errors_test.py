"""What an estimator cannot fit is a ValueError that says why."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.exceptions
from sklearn.base import clone

import tf_transfer
from tests.support.estimator_texts import COLUMNS, make_options, TEAMS, TEXTS
from tf_transfer.own import memory_source


@pytest.fixture
def options(tmp_path, eager, one_block):
    """Parameters of a fit that takes a second."""
    return make_options(tmp_path)


@pytest.mark.parametrize("name", ["TextClassifier", "TextRegressor"])
def test_an_estimator_predicts_nothing_before_it_is_fitted(name):
    with pytest.raises(sklearn.exceptions.NotFittedError):
        getattr(tf_transfer, name)().predict(["a text"])


@pytest.mark.parametrize(
    "texts, labels, message",
    [
        (TEXTS, ["one"] * 36, "one class only"),
        (TEXTS[:3], TEAMS, "inconsistent numbers of samples"),
        (["a", None], ["x", "y"], "row 1: None is not a text"),
        (["a", "b", "c"], ["x", None, "y"], "missing labels.*row 1"),
        (["a", "b", "c"], ["x", np.nan, "y"], "missing labels.*row 1"),
        (["a", "b", "c"], ["x", "y", pd.NA], "missing labels.*row 2"),
        (["a", "b"], pd.Series([1, None], dtype="Int64"), "missing labels"),
        (["a", "b", "c"], ["x", 1, 2.0], "of the types float, int, str"),
        (["a", "b"], [{}, {"x": 1}], "of the types dict"),
        (["a", "b"], [0, 0.25], "continuous values, such as 0.25"),
        ([], [], "no texts"),
        ([["a", "b", "c"]] * 2, ["x", "y"], r"shape \(2, 3\)"),
    ],
)
def test_invalid_input_is_a_value_error(texts, labels, message, options):
    with pytest.raises(ValueError, match=message):
        tf_transfer.TextClassifier(**options).fit(texts, labels)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("lr", -1.0, "--lr"),
        ("random_state", "7", "random_state: '7' is no seed"),
        ("random_state", np.random.default_rng(0), "random_state: Generator"),
        ("random_state", 1.5, "--seed=1.5"),
        ("model", [], "model: .. is no encoder"),
        ("model", 5, "model: 5 is no encoder"),
        ("features", "words", "features"),
    ],
)
def test_an_invalid_parameter_is_named(name, value, message, options):
    classifier = tf_transfer.TextClassifier(**options)
    with pytest.raises(ValueError, match=message):
        classifier.set_params(**{name: value}).fit(TEXTS, TEAMS)


def test_an_error_of_the_texts_names_no_task_that_the_user_has_not(options):
    classifier = tf_transfer.TextClassifier(**options)
    labels = ["a", "b", "c"] * 2
    with pytest.raises(ValueError, match="^texts: .*folds"):
        classifier.set_params(features="frozen").fit(TEXTS[:6], labels)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"max_epoch": 1}, "'max_epoch' is not .*train. Is 'max_epochs' meant"),
        ({"random_state": 1}, "'random_state' .*Give it to TextClassifier it"),
        ({"xyz": 1}, "'xyz' is not .*See: python -m tf_transfer.train --help"),
        ({7: 1}, "7 is not a setting"),
        (["patience"], "settings: .'patience'. is not a dictionary"),
        ({"patience": "two"}, "--patience=two: give a whole number"),
    ],
)
def test_an_unknown_setting_is_named(settings, message, options):
    classifier = tf_transfer.TextClassifier(**options)
    with pytest.raises(ValueError, match=message):
        classifier.set_params(settings=settings).fit(TEXTS, TEAMS)
    assert clone(classifier).get_params()["settings"] == settings


def test_an_unknown_setting_of_a_search_is_named(tmp_path):
    search = tf_transfer.TextSearch(
        "tiny", settings={"aproaches": "1"}, out=tmp_path
    )
    with pytest.raises(ValueError, match="of tf_transfer.search. Is 'approach"):
        search.fit(TEXTS, TEAMS)


DAY = datetime.date(2021, 5, 1)
DATES = [
    [DAY, datetime.date(2021, 5, 2)],
    [datetime.datetime(2021, 5, 1, 7), datetime.datetime(2022, 5, 1)],
    [datetime.time(7), datetime.time(8)],
    pd.to_datetime(["2021-05-01", "2021-05-02"]),
    pd.Series(pd.to_datetime(["2021-05-01", "2021-05-02"], utc=True)),
    pd.DataFrame({"y": pd.to_datetime(["2021-05-01", "2021-05-02"])}),
    pd.to_timedelta([1, 2], unit="D"),
    pd.period_range("2021-05", periods=2, freq="M"),
    np.array(["2021-05-01", "2021-05-02"], "datetime64[D]"),
    np.array(["2021-05-01", "2021-05-02"], "datetime64[ns]"),
    [np.datetime64("2021-05-01"), np.datetime64("2021-05-02")],
    ["2021-05-01", DAY],
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("dates", DATES)
def test_dates_are_neither_texts_nor_labels_nor_scores(dates, options):
    for name in ("TextClassifier", "TextRegressor"):
        estimator = getattr(tf_transfer, name)(**options)
        with pytest.raises(ValueError, match=r"y, row [01]: .* is a date or"):
            estimator.fit(["a", "b"], dates)
        with pytest.raises(ValueError, match=r"X, row [01]: .* is not a text"):
            estimator.fit(dates, [0, 1])


@pytest.mark.parametrize(
    "text", ["5_0", "2021_05", "infinity", "nan", "\uff15", "one", "", b"5"]
)
def test_a_text_is_a_score_if_files_have_it_as_a_number(text, options):
    regressor = tf_transfer.TextRegressor(**options)
    scores = ["1", "2.5", text] if isinstance(text, str) else [b"1", text, b"2"]
    with pytest.raises(ValueError, match=r"y, row [02]: .* is not a number"):
        regressor.fit(["a", "b", "c"], scores)


def test_scores_may_be_texts_and_decimals():
    expected = [1.0, -2.5, 1e3]
    for cells in (["1", " -2.5 ", "1e3"], [*map(decimal.Decimal, expected)]):
        scores = memory_source.read_scores([["a", "b", "c"]], cells)
        assert scores.tolist() == expected


def test_scores_of_other_types_are_a_value_error(options):
    regressor = tf_transfer.TextRegressor(**options)
    for scores in ([1.0, pd.NA], [1.0, "good"], ["bad", "good"], [{}, 1.0]):
        with pytest.raises(ValueError):
            regressor.fit(TEXTS[:2], scores)


@pytest.mark.parametrize(
    "groups, message",
    [
        (np.zeros(36), "groups has one value only: 0.0"),
        (["a", "b", None] * 12, "groups has missing values"),
        ([pd.NA, 1, 2] * 12, "groups has missing values"),
        ([1, 2], "inconsistent numbers of samples"),
    ],
)
def test_wrong_groups_are_named(groups, message, options):
    for name, y in (
        ("TextClassifier", TEAMS),
        ("TextRegressor", COLUMNS["stars"]),
    ):
        with pytest.raises(ValueError, match=message):
            getattr(tf_transfer, name)(**options).fit(TEXTS, y, groups=groups)


def test_the_probe_needs_a_group_for_each_fold(options):
    probe = tf_transfer.TextClassifier(**options).set_params(features="frozen")
    with pytest.raises(ValueError, match="has 2 groups .* than the 5 folds"):
        probe.fit(TEXTS, TEAMS, groups=np.arange(36) // 12)
