"""Words alone are what scikit-learn's own parts give, in less time."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn import model_selection
from sklearn import pipeline
from sklearn.feature_extraction import text

from tests import own_data
from tf_transfer.baselines import usual
from tf_transfer.data.task import Examples
from tf_transfer.data.task import Task


def task_of(kind):
    labels = None if kind == "score" else tuple(own_data.WORDS)
    return Task("t", "", ("text",), "label", labels, "accuracy", kind=kind)


def make_examples(count, seed):
    """Texts that share words and pairs of words, have some alone, or none."""
    draw = np.random.default_rng(seed)
    words = np.array([*"The cat sat on a mat-like thing I'd".split(), "Äpfel"])
    texts = [" ".join(draw.choice(words, n % 9)) for n in range(count)]
    texts[::7] = [f"{t} only{seed} {n}x" for n, t in enumerate(texts[::7])]
    labels = np.array([len(t) for t in texts]) // 9 % 3
    return Examples(np.arange(count), [texts], labels)


@pytest.mark.parametrize("kind", ["classes", "score"])
def test_it_chooses_and_answers_as_a_grid_search_of_scikit_learn(kind):
    examples, others = make_examples(150, 0), make_examples(60, 1)
    baseline = usual.Usual(task_of(kind)).fit(examples)
    is_score = kind == "score"
    model, folds = (
        linear_model.LogisticRegression(max_iter=200),
        "StratifiedKFold",
    )
    values = {"model__C": usual.STRENGTHS}
    if is_score:
        model, folds = linear_model.Ridge(), "KFold"
        values = {"model__alpha": [1 / value for value in usual.STRENGTHS]}
    rows = np.random.default_rng(0).permutation(150)
    texts = np.array(examples.texts[0], object)
    search = model_selection.GridSearchCV(
        pipeline.Pipeline(
            [("words", text.TfidfVectorizer()), ("model", model)]
        ),
        {"words__ngram_range": usual.NGRAMS, **values},
        scoring=usual.SCORING[kind],
        cv=getattr(model_selection, folds)(3, shuffle=True, random_state=0),
        refit=False,
    ).fit(texts[rows], examples.labels[rows])
    assert baseline.chosen == search.best_params_
    found = search.estimator.set_params(**search.best_params_)
    found.fit(texts, examples.labels)
    expected = (found.predict if is_score else found.decision_function)(
        others.texts[0]
    )
    np.testing.assert_allclose(
        baseline.logits(others).squeeze(), expected, atol=1e-4
    )
    parts = found.named_steps["model"]
    weights = np.size(parts.coef_) + np.size(parts.intercept_)
    assert baseline.parameters == weights


def test_each_text_is_read_once(monkeypatch):
    """Not once for each fold of each setting: that took a minute."""
    build, read = text.CountVectorizer.build_analyzer, []

    def build_and_count(self):
        split = build(self)
        return lambda one: read.append(one) or split(one)

    monkeypatch.setattr(text.CountVectorizer, "build_analyzer", build_and_count)
    usual.Usual(task_of("classes")).fit(make_examples(90, 0))
    assert len(read) == 90
