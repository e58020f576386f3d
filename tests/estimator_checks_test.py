"""scikit-learn's own checks of estimators, on numbers written as texts."""

import pathlib

import numpy as np
import pytest
from sklearn.utils import estimator_checks

import tf_transfer
from tests.support import commands

pytest.importorskip("sklearn", minversion="1.6")  # knows expected failures

# docs/reference/python.md lists them, too.
NOT_APPLICABLE = {
    "check_complex_data": "texts are no numbers",
    "check_estimators_nan_inf": "texts are no numbers",
    "check_estimator_sparse_tag": "texts are no sparse matrix",
    "check_estimator_sparse_array": "texts are no sparse matrix",
    "check_estimator_sparse_matrix": "texts are no sparse matrix",
    "check_estimators_empty_data_messages": "texts have no features to count",
    "check_n_features_in": "texts have no features to count",
    "check_n_features_in_after_fitting": "texts have no features to count",
    "check_classifiers_train": "texts have no features to count",
    "check_fit1d": "texts are one-dimensional",
    "check_fit2d_predict1d": "texts are one-dimensional",
    "check_fit2d_1sample": "one text is refused in other words",
}
# They fit nothing, so they run with the estimators themselves.
QUICK = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
)


def write(X):
    """Each row of numbers as a text of words such as `c0v3.0`."""
    rows = np.asarray(X)
    return [
        " ".join(f"c{column}v{round(float(v))}" for column, v in enumerate(row))
        for row in rows.reshape(len(rows), -1)
    ]


class FromNumbers:
    """A mixin: an estimator takes rows of numbers, as the checks have them."""

    def fit(self, X, y, groups=None):
        return super().fit(write(X), y, groups)

    def predict(self, X):
        return super().predict(X if isinstance(X, list) else write(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.one_d_array = tags.input_tags.string = False
        return tags


class Classifier(FromNumbers, tf_transfer.TextClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X if isinstance(X, list) else write(X))


class Regressor(FromNumbers, tf_transfer.TextRegressor):
    pass


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Runs are written to the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow  # each check fits some runs
@estimator_checks.parametrize_with_checks(
    [Classifier(features="tfidf"), Regressor(features="tfidf")],
    expected_failed_checks=lambda estimator: NOT_APPLICABLE,
)
def test_scikit_learn_s_checks_pass_on_numbers_as_texts(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", QUICK)
@pytest.mark.parametrize(
    "name", ["TextClassifier", "TextFeatures", "TextRegressor", "TextSearch"]
)
def test_checks_that_fit_nothing_pass(name, check):
    estimator = getattr(tf_transfer, name)()
    getattr(estimator_checks, check)(name, estimator)


def test_the_page_names_the_checks_that_do_not_apply():
    page = pathlib.Path(commands.ROOT, "docs/reference/python.md")
    text = page.read_text(encoding="utf-8")
    assert not [name for name in NOT_APPLICABLE if f"`{name}`" not in text]
