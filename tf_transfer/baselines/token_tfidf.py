"""TF-IDF of the encoder's own tokens, and of pairs of neighbours.

The probe adds it to its states. It needs no further tokeniser, so that a head
of the network computes it too: `models.heads.words.WordsHead`.
"""

import numpy as np
import scipy.sparse

from tf_transfer.data.task import Task
from tf_transfer.data.tokens import NEIGHBOURS, number_neighbours, Tokens

FEWEST_TEXTS = 100  # labelled ones; of fewer, the terms are too rare
MOST_LABELS = 100  # each has a weight for each term
STRENGTH = 10.0  # see `linear.fit`; 1 and 3 score no better


def can_read(task: Task, texts: int) -> bool:
    """Whether the probe of a task reads TF-IDF.

    Args:
        task: The task.
        texts: The number of labelled texts, those of validation included, so
            that a refit reads the same.
    """
    is_single = len(task.texts) == 1 and not task.is_tagging
    has_enough = texts >= FEWEST_TEXTS and task.units <= MOST_LABELS
    return is_single and has_enough


def count_terms(tokens: Tokens, vocabulary: int) -> scipy.sparse.csr_matrix:
    """How often a text has each token, and each pair of neighbours.

    Args:
        tokens: Of the texts.
        vocabulary: The number of tokens that the encoder knows.

    Returns:
        float32 [texts, vocabulary + NEIGHBOURS].
    """
    lengths = tokens.lengths
    rows = np.repeat(np.arange(len(tokens)), lengths)
    # The number of a token in its text.
    order = np.arange(len(rows)) - np.repeat(
        np.cumsum(lengths) - lengths, lengths
    )
    ids = tokens.flat[tokens.starts[rows] + order].astype(np.int64)
    has_left = np.flatnonzero(order)
    pairs = number_neighbours(ids[has_left - 1], ids[has_left])
    columns = np.concatenate([ids, vocabulary + pairs])
    return scipy.sparse.csr_matrix(
        (
            np.ones(len(columns), np.float32),
            (np.concatenate([rows, rows[has_left]]), columns),
        ),
        (len(tokens), vocabulary + NEIGHBOURS),
    )


def fit_idf(counts: scipy.sparse.csr_matrix) -> np.ndarray:
    """float32 [terms]: scikit-learn's smooth idf; 0 of terms in no text.

    Args:
        counts: See `count_terms`.
    """
    texts = counts.getnnz(axis=0)
    idf = np.log((1 + counts.shape[0]) / (1 + texts)) + 1
    return np.where(texts == 0, 0, idf).astype(np.float32)


def weigh(
    counts: scipy.sparse.csr_matrix, idf: np.ndarray
) -> scipy.sparse.csr_matrix:
    """float32 [texts, terms]: TF-IDF.

    It is divided by the root of the sum of idf² over all tokens and pairs,
    which is the length of the vector if none repeats.

    Args:
        counts: See `count_terms`.
        idf: See `fit_idf`.
    """
    scaled = scipy.sparse.diags(1 / _measure_lengths(counts, idf)) @ counts
    return (scaled @ scipy.sparse.diags(idf)).tocsr()


def add_terms(counts: scipy.sparse.csr_matrix, terms: np.ndarray) -> np.ndarray:
    """float32 [texts, units]: the logits that `WordsHead` adds.

    Args:
        counts: See `count_terms`.
        terms: Its weight, float32 [terms, units + 1].
    """
    lengths = _measure_lengths(counts, terms[:, -1])
    logits: np.ndarray = counts @ terms[:, :-1] / lengths[:, None]
    return logits


def _measure_lengths(
    counts: scipy.sparse.csr_matrix, idf: np.ndarray
) -> np.ndarray:
    """float32 [texts]: the lengths of vectors; see `weigh`."""
    squares: np.ndarray = counts @ (idf * idf)
    lengths: np.ndarray = np.sqrt(np.maximum(squares, 1e-9))
    return lengths
