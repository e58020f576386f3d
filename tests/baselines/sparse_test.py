"""Sparse features: the paper's preprocessing, and what is learned from it."""

import numpy as np
import pytest

from tf_transfer.baselines import sparse
from tf_transfer.data.task import Examples
from tf_transfer.utils.errors import UserError

TEXTS = ["fire in the hall"] * 12 + ["sun over the hill"] * 12
LABELS = np.array([1] * 12 + [0] * 12)


def test_preprocessing_is_the_paper_s():
    """Tokens, Porter stems, no punctuation, no stop words, joined."""
    [found] = sparse.preprocess(
        ["The houses of LA weren't\nburning; 3 fires @ #LA! https://t.co/x"]
    )
    # Stop words are in small letters, short words keep theirs, and a line
    # break is no space.
    assert found == "the hous LA weren'tburn 3 fire LA http //t.co/x"


def test_there_are_179_stop_words():
    words = sparse.STOP_WORDS.read_text("utf-8").split()
    assert len(words) == 179
    assert {"i", "the", "wouldn't", "ain"} <= {*words}


@pytest.mark.parametrize("features", sparse.FEATURES)
def test_a_baseline_learns_two_labels(features):
    examples = Examples(np.arange(24), [TEXTS], LABELS)
    baseline = sparse.Baseline(features).fit(examples)
    logits = baseline.logits(examples)
    assert logits.shape == (24, 1)
    assert ((logits[:, 0] > 0) == LABELS).all()
    terms = 2**20 if features == "hash" else 7
    assert baseline.parameters == terms + 1


def test_a_baseline_learns_three_labels():
    texts, labels = [*TEXTS, *["rain"] * 12], [*LABELS, *[2] * 12]
    examples = Examples(np.arange(36), [texts], np.array(labels))
    baseline = sparse.Baseline("count").fit(examples)
    logits = baseline.logits(examples)
    assert logits.shape == (36, 3)
    assert logits.argmax(1).tolist() == labels


def test_a_rare_term_is_no_feature_of_tfidf():
    examples = Examples(np.arange(2), [["a", "b"]], np.array([0, 1]))
    with pytest.raises(UserError, match="--features=tfidf: .* from a.csv "):
        sparse.Baseline("tfidf", "a.csv").fit(examples)
