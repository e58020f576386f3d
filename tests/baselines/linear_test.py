"""Convex models on dense features, against scikit-learn's own."""

import numpy as np
import pytest
from sklearn import linear_model, pipeline, preprocessing

from tf_transfer.baselines import linear
from tf_transfer.data import metrics
from tf_transfer.data.task import Task

LABELS = ("a", "b", "c", "d")


def draw(rows=80, width=6):
    """Features of very different scales, one of them constant."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, width)) * 10.0 ** np.arange(width) / 100 + 3
    x[:, 0] = 7
    return x.astype(np.float32), rng


def task(kind, labels=LABELS, metric="accuracy"):
    return Task("t", "", ("text",), "y", labels, metric, kind=kind)


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("is_balanced", [False, True])
def test_classes_are_a_logistic_regression_on_scaled_features(
    labels, is_balanced
):
    x, rng = draw()
    y = (x[:, 1] + x[:, 2] > 6).astype(np.int64)
    y = y if labels == 2 else rng.integers(0, 4, len(x))
    model = linear.fit(task("classes", LABELS[:labels]), x, y, 0.1, is_balanced)
    theirs = pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        linear_model.LogisticRegression(
            C=0.1,
            max_iter=500,
            class_weight="balanced" if is_balanced else None,
        ),
    ).fit(x, y)
    expected = theirs.decision_function(x).reshape(len(x), -1)
    np.testing.assert_allclose(model.logits(x), expected, atol=2e-3)


def test_a_label_that_no_training_text_has_is_never_chosen():
    x, _ = draw()
    y = np.where(x[:, 1] > 3, 3, 1)
    logits = linear.fit(task("classes"), x, y, 1.0).logits(x)
    assert logits.shape == (len(x), 4)
    assert set(logits.argmax(axis=1)) == {1, 3}


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("only", [0, 1])
def test_texts_of_one_label_alone_have_it_as_the_answer(labels, only):
    x, _ = draw(20)
    y = np.full(20, only)
    model = linear.fit(task("classes", LABELS[:labels]), x, y, 1.0)
    np.testing.assert_array_equal(metrics.decide(model.logits(x)), y)


def test_several_labels_are_a_regression_each_and_constant_ones_none():
    x, _ = draw()
    y = np.stack([x[:, 1] > 3, np.ones(len(x)), np.zeros(len(x))], axis=1)
    y = y.astype(np.int64)
    model = linear.fit(task("labels", LABELS[:3], "f1_micro"), x, y, 1.0)
    np.testing.assert_array_equal(model.logits(x)[:, 1:] > 0, y[:, 1:])
    assert np.mean((model.logits(x)[:, 0] > 0) == y[:, 0]) > 0.95


def test_scores_are_ridge_regression():
    x, rng = draw()
    y = (x[:, 1] + rng.normal(size=len(x))).astype(np.float32)
    theirs = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.Ridge(alpha=10.0)
    ).fit(x, y)
    model = linear.fit(task("score", None, "spearman"), x, y, 0.1)
    np.testing.assert_allclose(
        model.logits(x)[:, 0], theirs.predict(x), atol=1e-3
    )


@pytest.mark.parametrize("rows", [12, 40])  # fewer and more than features
def test_leave_one_out_is_what_fitting_without_each_example_gives(rows):
    x, rng = draw(rows, 20)
    x = preprocessing.StandardScaler().fit_transform(x).astype(np.float32)
    x[:, 1:] = rng.normal(size=(rows, 19))
    y = rng.normal(size=rows).astype(np.float32)
    found = next(
        linear.leave_one_out(task("score", None, "spearman"), x, y, [50.0])
    )[:, 0]
    scaled = linear.standardise(x)[0]
    expected = []
    for row in range(rows):
        others = np.delete(np.arange(rows), row)
        model = linear_model.Ridge(alpha=50.0).fit(scaled[others], y[others])
        expected.append(model.predict(scaled[[row]])[0])
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert np.corrcoef(found, expected)[0, 1] > 0.99


@pytest.mark.parametrize("kind", ["classes", "score"])
def test_fewer_examples_than_features_give_the_same_model(kind):
    """Rotated to as many features as examples, which the width then undoes."""
    rng = np.random.default_rng(0)
    x, unseen = (rng.normal(size=(n, 90)).astype(np.float32) for n in (40, 5))
    x[:, 7] = 3  # constant
    if kind == "score":
        about = task("score", None, "spearman")
        labels = (x[:, 0] + rng.normal(size=40)).astype(np.float32)
        model = linear_model.Ridge(alpha=10)
    else:
        about, labels = task("classes"), rng.integers(0, 4, 40)
        model = linear_model.LogisticRegression(C=0.1, max_iter=5000, tol=1e-8)
    expected = pipeline.make_pipeline(preprocessing.StandardScaler(), model)
    expected.fit(x, labels)
    answer = expected.predict if kind == "score" else expected.decision_function
    fitted = linear.fit(about, x, labels, 0.1)
    assert fitted.kernel.shape == (90, about.units)
    np.testing.assert_allclose(
        fitted.logits(unseen), answer(unseen).reshape(5, -1), atol=2e-3
    )
