"""What an estimator cannot fit is a ValueError that says why."""

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.exceptions

import tf_transfer
from tests.support.estimator_texts import COLUMNS, make_options, TEAMS, TEXTS


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
        ("random_state", None, "random_state"),
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
