"""Sparse features and logistic regression, by scikit-learn: no TensorFlow.

As in Jack Hart, "Task-Specific Training": line breaks are dropped, NLTK's word
tokeniser makes words, punctuation and English stop words among them are
dropped, Porter's stemmer makes stems of the rest, joined by spaces; then
TF-IDF, counts or hashed counts, and a logistic regression.

His code as committed stems first and drops then, which misses his figures. The
order here gives all six to 0.001, with a stemmer that leaves words of one or
two letters as they are (as NLTK's did at the time) and a text as one
sentence.
"""

import functools
import os
import string
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

FEATURES = ("tfidf", "count", "hash")
PREPROCESSING = ("hart", "none")
STOP_WORDS = os.path.join(os.path.dirname(__file__), "stop_words.txt")
MIN_DOCUMENTS = 10  # of a term, with TF-IDF
RANDOM_STATE = 88
TOKEN = r"\S+"
SHORT = 2  # letters of a word that is its own stem
MAX_ITERATIONS = 100  # scikit-learn's default


@functools.lru_cache
def stop_words() -> frozenset[str]:
    """NLTK's list of English stop words."""
    with open(STOP_WORDS, encoding="utf-8") as file:
        return frozenset(file.read().split())


def preprocess(texts: Iterable[str]) -> list[str]:
    """Turns texts into stems without punctuation and stop words.

    Stop words are in small letters, so "The" is none.

    Returns:
        The stems of each text, joined by spaces.
    """
    from nltk.stem import PorterStemmer
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenize = NLTKWordTokenizer().tokenize
    stem = functools.lru_cache(100_000)(PorterStemmer().stem)
    dropped = stop_words() | set(string.punctuation)
    results = []
    for text in texts:
        words = tokenize(text.replace("\r", "").replace("\n", ""))
        results.append(
            " ".join(
                stem(word) if len(word) > SHORT else word
                for word in words
                if word not in dropped
            )
        )
    return results


def make_vectoriser(features: str) -> Any:
    """scikit-learn's vectoriser, for texts of words between spaces."""
    from sklearn.feature_extraction import text

    options: dict[str, Any] = {"lowercase": False, "token_pattern": TOKEN}
    if features == "tfidf":
        return text.TfidfVectorizer(min_df=MIN_DOCUMENTS, **options)
    if features == "count":
        return text.CountVectorizer(**options)
    return text.HashingVectorizer(**options)


class Baseline:
    """A vectoriser and a logistic regression, fitted together.

    Args:
        features: One of `FEATURES`.
    """

    def __init__(self, features: str) -> None:
        from sklearn.linear_model import LogisticRegression

        self.vectoriser = make_vectoriser(features)
        self.classifier = LogisticRegression(
            random_state=RANDOM_STATE, max_iter=MAX_ITERATIONS
        )

    def fit(
        self, texts: Sequence[str] | np.ndarray, labels: np.ndarray
    ) -> "Baseline":
        """Learns terms and weights.

        Args:
            texts: The texts.
            labels: int64 [texts].

        Raises:
            ValueError: No term is left.
        """
        self.classifier.fit(self.vectoriser.fit_transform(texts), labels)
        return self

    def logits(self, texts: Sequence[str] | np.ndarray) -> np.ndarray:
        """float64 [texts, units]; one unit for two labels."""
        logits = self.classifier.decision_function(
            self.vectoriser.transform(texts)
        )
        return logits[:, None] if logits.ndim == 1 else logits

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return self.classifier.coef_.size + self.classifier.intercept_.size


def as_array(texts: Sequence[str]) -> np.ndarray:
    """An array of the texts, to index by row numbers, without copying them."""
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
