"""Sparse features and logistic regression, by scikit-learn: no TensorFlow.

As in the code of Jack Hart, "Task-Specific Training": line breaks dropped,
tokens by NLTK's word tokeniser, Porter stems, of which punctuation and English
stop words are dropped, joined by spaces; then TF-IDF, counts or hashed counts,
and a logistic regression. NLTK's sentence splitter needs a download, so a text
is tokenised as one sentence.
"""

import functools
import os
import string

import numpy as np

FEATURES = ("tfidf", "count", "hash")
PREPROCESSING = ("hart", "none")
STOP_WORDS = os.path.join(os.path.dirname(__file__), "stop_words.txt")
MIN_DOCUMENTS = 10  # of a term, with TF-IDF
RANDOM_STATE = 88
TOKEN = r"\S+"
MOST_ITERATIONS = 100  # scikit-learn's default


@functools.lru_cache
def stop_words():
    """NLTK's list of English stop words, as a frozenset."""
    with open(STOP_WORDS, encoding="utf-8") as file:
        return frozenset(file.read().split())


def preprocess(texts, progress=lambda items, **options: items):
    """Texts as stems without punctuation and stop words, joined by spaces."""
    from nltk.stem import PorterStemmer
    from nltk.tokenize.destructive import NLTKWordTokenizer

    tokenize = NLTKWordTokenizer().tokenize
    stem = functools.lru_cache(100_000)(PorterStemmer().stem)
    dropped = stop_words() | set(string.punctuation)
    found = []
    for text in progress(texts, desc="stemming", unit=" texts"):
        words = tokenize(text.replace("\r", "").replace("\n", ""))
        stems = (stem(word) for word in words)
        found.append(" ".join(word for word in stems if word not in dropped))
    return found


def vectoriser(features):
    """scikit-learn's vectoriser, for texts of words between spaces."""
    from sklearn.feature_extraction import text

    options = {"lowercase": False, "token_pattern": TOKEN}
    if features == "tfidf":
        return text.TfidfVectorizer(min_df=MIN_DOCUMENTS, **options)
    if features == "count":
        return text.CountVectorizer(**options)
    return text.HashingVectorizer(**options)


class Baseline:
    """A vectoriser and a logistic regression, fitted together.

    Args:
        features: one of `FEATURES`.
    """

    def __init__(self, features):
        from sklearn.linear_model import LogisticRegression

        self.vectoriser = vectoriser(features)
        self.classifier = LogisticRegression(
            random_state=RANDOM_STATE, max_iter=MOST_ITERATIONS
        )

    def fit(self, texts, labels):
        """Learns terms and weights.

        Raises:
            ValueError: no term is left.
        """
        self.classifier.fit(self.vectoriser.fit_transform(texts), labels)
        return self

    def logits(self, texts):
        """float64 [texts, units]; one unit tells two labels apart."""
        found = self.classifier.decision_function(
            self.vectoriser.transform(texts)
        )
        return found[:, None] if found.ndim == 1 else found

    @property
    def parameters(self):
        """Weights and biases."""
        return self.classifier.coef_.size + self.classifier.intercept_.size


def as_array(texts):
    """Texts that row numbers can choose from, without a copy of each."""
    found = np.empty(len(texts), object)
    found[:] = texts
    return found
