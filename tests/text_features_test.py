"""Vectors of texts by a frozen encoder, as a step of a pipeline."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import tf_transfer
from tests.support.estimator_texts import TEAMS, TEXTS
from tf_transfer.estimators import text_features


@pytest.fixture(autouse=True)
def small(eager, one_block):
    """One block; no test has the encoder of another."""
    text_features._open.cache_clear()
    yield
    text_features._open.cache_clear()


@pytest.fixture
def features(tmp_path):
    return tf_transfer.TextFeatures("tiny", cache_dir=tmp_path)


def test_vectors_are_pooled_states_of_one_block(features):
    texts = [f"{text} {text} {text}" for text in TEXTS]  # 14 tokens or more
    vectors = features.fit_transform(texts)
    assert vectors.shape == (36, 32) and vectors.dtype == np.float32
    assert features.block_ == 1
    alone = features.transform(texts[:1])
    np.testing.assert_allclose(alone, vectors[:1], atol=1e-3)
    for changes in ({"block": 0}, {"pooling": "cls"}, {"max_length": 8}):
        other = clone(features).set_params(**changes).fit_transform(texts)
        assert other.shape == vectors.shape
        assert np.abs(other - vectors).max() > 1e-2, changes


def test_the_mean_is_over_all_tokens_of_the_text(features):
    """The states of `[CLS] text [SEP]`, as the encoder itself computes them."""
    vector = features.fit(TEXTS).transform(TEXTS[:1])[0]
    encoder = text_features._open("tiny", None, features.cache_dir).encoder
    words = encoder.tokenizer.encode(TEXTS[:1])[0]
    special = encoder.special
    ids = np.array([[special.start, *words, special.end]], np.int32)
    x = encoder.embed(ids, np.zeros_like(ids), training=False)
    states = encoder.run_blocks(x, ids >= 0, 1, 1, training=False)
    np.testing.assert_allclose(vector, np.mean(states[0], axis=0), atol=1e-2)


def test_a_pipeline_classifies_by_them_and_reads_each_text_once(
    features, monkeypatch
):
    model = make_pipeline(features, LogisticRegression(C=100))
    scores = cross_val_score(model, TEXTS, TEAMS, cv=3)
    assert scores.mean() > 0.6
    copy = pickle.loads(pickle.dumps(model.fit(TEXTS, TEAMS)))
    monkeypatch.setattr(
        text_features.FeatureCache, "_build", lambda *_: pytest.fail("read")
    )
    np.testing.assert_array_equal(copy.predict(TEXTS), model.predict(TEXTS))
    names = model[:1].get_feature_names_out()
    assert names[[0, -1]].tolist() == ["textfeatures0", "textfeatures31"]


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"pooling": "max"},
            "pooling: 'max' is unknown. Give one of mean, cls",
        ),
        ({"block": 2}, "block: 2 is no block. Give a number from 0 to 1"),
        ({"block": "1"}, "block: '1' is no block"),
        ({"model": "nowhere/x"}, "nowhere/x"),
        ({"max_length": 2}, "--max_length=2"),
    ],
)
def test_a_wrong_parameter_is_named(features, changes, message):
    with pytest.raises(ValueError, match=message):
        features.set_params(**changes).fit(TEXTS)


def test_pairs_and_unfitted_transformers_are_refused(features):
    with pytest.raises(ValueError, match="X has pairs of texts"):
        features.fit([*zip(TEXTS, TEXTS)])
    with pytest.raises(NotFittedError):
        features.transform(TEXTS)
