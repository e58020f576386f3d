"""TF-IDF of tokens: the same from counts, by scikit-learn and in the head."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.feature_extraction.text import TfidfTransformer

from tf_transfer.baselines import token_tfidf
from tf_transfer.data.task import Task
from tf_transfer.data.tokens import NEIGHBOURS, number_neighbours, Tokens
from tf_transfer.models.heads.words import WordsHead

VOCABULARY = 50
TEXTS = [[1, 7, 8, 2], [1, 2], [1, 9, 7, 8, 9, 2]]


def tokens_of(texts):
    lengths = np.array([len(ids) for ids in texts], np.int32)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    flat = np.concatenate(texts).astype(np.int32)
    return Tokens(flat, starts, lengths, lengths, np.zeros_like(lengths))


def column(left, right):
    return VOCABULARY + int(number_neighbours(np.int64(left), np.int64(right)))


def test_tokens_and_neighbours_are_counted_within_their_text():
    # In another order than that of the flat array.
    tokens = tokens_of(TEXTS).take(np.array([2, 0]))
    counts = token_tfidf.count_terms(tokens, VOCABULARY)
    assert counts.shape == (2, VOCABULARY + NEIGHBOURS)
    first, second = counts.toarray()
    assert first[9] == 2 and first[7] == first[8] == 1
    for pair in ((1, 9), (9, 7), (7, 8), (8, 9), (9, 2)):
        assert first[column(*pair)] == 1
    assert second[[1, 7, 8, 2, column(1, 7), column(8, 2)]].tolist() == [1] * 6
    assert first.sum() == 11 and second.sum() == 7  # none across texts


def test_it_is_that_of_scikit_learn_where_no_term_repeats():
    counts = token_tfidf.count_terms(tokens_of(TEXTS[:2]), VOCABULARY)
    expected = TfidfTransformer().fit(counts)
    idf = token_tfidf.fit_idf(counts)
    seen = np.flatnonzero(counts.getnnz(axis=0))
    np.testing.assert_allclose(idf[seen], expected.idf_[seen], rtol=1e-6)
    assert not np.delete(idf, seen).any()
    np.testing.assert_allclose(
        token_tfidf.weigh(counts, idf).toarray(),
        expected.transform(counts).toarray(),
        rtol=1e-5,
    )


def test_the_head_adds_what_the_counts_add():
    rng = np.random.default_rng(0)
    counts = token_tfidf.count_terms(tokens_of(TEXTS), VOCABULARY)
    idf = token_tfidf.fit_idf(counts)
    kernel = rng.normal(size=(len(idf), 3)).astype(np.float32)
    terms = np.concatenate([kernel * idf[:, None], idf[:, None]], axis=1)
    expected = token_tfidf.weigh(counts, idf) @ kernel
    added = token_tfidf.add_terms(counts, terms)
    np.testing.assert_allclose(added, expected, rtol=1e-4, atol=1e-5)

    head = WordsHead(3, 4, "mean", VOCABULARY, name="head")
    bias = np.float32([1, 2, 3])
    head.set_weights([np.zeros((4, 3)), bias, terms])
    ids = tf.ragged.constant(TEXTS).to_tensor(0)
    mask = tf.sequence_mask([len(text) for text in TEXTS])
    logits = head(tf.ones([3, 4]), ids=ids, mask=mask)
    np.testing.assert_allclose(logits - bias, added, rtol=1e-4, atol=1e-5)
    # Texts without a known token have the logits of their states alone.
    ids, mask = tf.constant([[40, 41]]), tf.constant([[True, True]])
    unknown = head(tf.ones([1, 4]), ids=ids, mask=mask)
    np.testing.assert_array_equal(unknown, [bias])


@pytest.mark.parametrize(
    "texts, labels, count, expected",
    [
        (("text",), ("a", "b"), 100, True),
        (("text",), ("a", "b"), 99, False),
        (("text",), tuple(map(str, range(101))), 1000, False),
        (("one", "two"), ("a", "b"), 1000, False),
        (("words",), ("O", "B-X", "I-X"), 1000, False),
    ],
)
def test_words_of_enough_single_texts_are_read(texts, labels, count, expected):
    task = Task("t", "", texts, "y", labels, "accuracy")
    if "O" in labels:
        task = Task("t", "", texts, "y", labels, "f1", kind="entities")
    assert token_tfidf.can_read(task, count) is expected
