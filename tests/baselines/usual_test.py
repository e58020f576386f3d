"""The TF-IDF baseline, against scikit-learn's own parts."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.feature_extraction.text import TfidfVectorizer

from tf_transfer.baselines import usual
from tf_transfer.data.task import Examples, Task

WORDS = ("good bad fine poor plot film very not a the quite so").split()


def draw(columns=1, rows=90, classes=2):
    """Texts of words, whose first word says most of the class."""
    rng = np.random.default_rng(0)
    texts = [
        [" ".join(rng.choice(WORDS, 8)) for _ in range(rows)]
        for _ in range(columns)
    ]
    labels = np.array([WORDS.index(t.split()[0]) % classes for t in texts[0]])
    return Examples(np.arange(rows), texts, labels)


def task(examples):
    names = tuple(map(str, np.unique(examples.labels)))
    columns = tuple(f"text{number}" for number in range(len(examples.texts)))
    return Task("t", "", columns, "y", names, "accuracy", kind="classes")


def fit(examples):
    return usual.Usual(task(examples)).fit(examples)


@pytest.mark.parametrize("ngrams", usual.NGRAMS)
def test_it_is_tfidf_and_a_logistic_regression(monkeypatch, ngrams):
    """Texts are split once, for words alone and for pairs of words."""
    monkeypatch.setattr(usual, "NGRAMS", ((1, 1), ngrams))
    monkeypatch.setitem(usual.STRENGTHS, "classes", ("C", (3.0,)))
    examples, others = draw(), draw(rows=100)
    model = fit(examples)
    chosen = model.chosen["ngram_range"]
    vectoriser = TfidfVectorizer(ngram_range=chosen)
    theirs = linear_model.LogisticRegression(C=3.0, max_iter=200).fit(
        vectoriser.fit_transform(examples.texts[0]), examples.labels
    )
    expected = theirs.decision_function(vectoriser.transform(others.texts[0]))
    np.testing.assert_allclose(model.logits(others)[:, 0], expected)


def test_a_pair_is_both_texts_their_product_and_difference():
    examples = draw(columns=2)
    model = fit(examples)
    vectoriser = TfidfVectorizer().fit(sum(examples.texts, []))
    first, second = (
        vectoriser.transform(column).toarray() for column in examples.texts
    )
    features = [first, second, first * second, abs(first - second)]
    expected = model.model.decision_function(np.hstack(features))
    np.testing.assert_allclose(model.logits(examples)[:, 0], expected)


@pytest.mark.parametrize("classes", [2, 3])
def test_many_weights_are_fitted_as_well_and_faster(monkeypatch, classes):
    examples = draw(classes=classes)
    few = fit(examples)
    monkeypatch.setattr(usual, "MOST_LBFGS", 10)
    many = fit(examples)
    assert few.model.solver == "lbfgs" and many.model.solver == "newton-cg"
    assert few.chosen == many.chosen
    np.testing.assert_allclose(
        few.logits(examples), many.logits(examples), atol=0.02
    )


def test_many_texts_are_split_in_two_once(monkeypatch):
    labels = np.arange(90) % 3
    model = usual.Usual(task(draw(classes=3)))
    assert len(model._split(labels)) == usual.FOLDS
    monkeypatch.setattr(usual, "MOST_FOLDED", 80)
    [(train, scored)] = model._split(labels)
    assert (len(train), len(scored)) == (60, 30)
    assert np.bincount(labels[scored]).tolist() == [10, 10, 10]
