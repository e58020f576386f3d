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

import dataclasses
import functools
import pathlib
import string
from collections.abc import Iterable, Iterator
from typing import ClassVar, TYPE_CHECKING

import numpy as np
import tqdm

from tf_transfer.data import splits
from tf_transfer.data.task import Examples, Sentences, Task, Texts
from tf_transfer.own import held_out
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import (
        CountVectorizer,
        HashingVectorizer,
    )

_bar = functools.partial(tqdm.tqdm, leave=False, disable=None)

FEATURES = ("tfidf", "count", "hash")
PREPROCESSING = ("hart", "none")
STOP_WORDS = pathlib.Path(__file__).with_name("stop_words.txt")  # NLTK's
MIN_DOCUMENTS = 10  # of a term, with TF-IDF
RANDOM_STATE = 88
TOKEN = r"\S+"
SHORT = 2  # letters of a word that is its own stem
MAX_ITERATIONS = 100  # scikit-learn's default


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
    dropped = {*STOP_WORDS.read_text("utf-8").split(), *string.punctuation}
    return [
        " ".join(
            stem(word) if len(word) > SHORT else word
            for word in tokenize(text.replace("\r", "").replace("\n", ""))
            if word not in dropped
        )
        for text in texts
    ]


def make_vectoriser(features: str) -> "CountVectorizer | HashingVectorizer":
    """scikit-learn's vectoriser, for texts of words between spaces."""
    from sklearn.feature_extraction import text

    vectorisers = {
        "tfidf": functools.partial(text.TfidfVectorizer, min_df=MIN_DOCUMENTS),
        "count": text.CountVectorizer,
        "hash": text.HashingVectorizer,
    }
    return vectorisers[features](lowercase=False, token_pattern=TOKEN)


class Baseline:
    """A vectoriser and a logistic regression, fitted together.

    Args:
        features: One of `FEATURES`.
        source: What messages call the texts.
    """

    # No setting is chosen by cross-validation.
    chosen: ClassVar[Record] = {}

    def __init__(self, features: str, source: str = "the texts") -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        self._features, self._source = features, source
        self._classifier = LogisticRegression(
            random_state=RANDOM_STATE, max_iter=MAX_ITERATIONS
        )
        self._model = make_pipeline(make_vectoriser(features), self._classifier)

    def fit(self, examples: Examples | Sentences) -> "Baseline":
        """Learns terms and weights.

        Raises:
            UserError: No term is left.
        """
        try:
            self._model.fit(examples.texts[0], examples.labels)
        except ValueError as error:
            raise UserError(
                f"--features={self._features}: nothing can be learned from "
                f"{self._source} ({error})."
            ) from None
        return self

    def logits(self, examples: Examples | Sentences) -> np.ndarray:
        """float64 [texts, units]; one unit for two labels."""
        logits: np.ndarray = self._model.decision_function(examples.texts[0])
        return logits.reshape(len(examples), -1)

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        classifier = self._classifier
        return int(classifier.coef_.size + classifier.intercept_.size)


def stem(examples: Examples) -> Examples:
    """Examples whose texts are stems; see `preprocess`. Shows a bar."""
    [texts] = examples.texts
    stems = preprocess(_bar(texts, desc="stemming", unit=" texts"))
    return dataclasses.replace(examples, texts=[stems])


def take_folds(
    task: Task,
    examples: Examples,
    folds: list[held_out.Split],
    max_train_examples: int,
    seed: int,
) -> Iterator[Texts]:
    """Yields the texts of each fold, and shows a bar.

    Args:
        task: The task.
        examples: The texts and their labels.
        folds: For each fold the rows to train on, and the rows to test.
        max_train_examples: The number of rows to train on; 0 for all.
        seed: Draws them.

    Raises:
        UserError: A fold trains on no example of a label.
    """
    labels = examples.labels
    assert labels is not None
    for train, tested in _bar(folds, desc="folds", unit=" folds"):
        train = train[
            splits.choose_subset(labels[train], max_train_examples, seed)
        ]
        held_out.check_labels(
            labels[train],
            task.labels or (),
            "--max_train_examples: leaves",
            "Leave more rows to train on.",
        )
        yield {
            "train": {"": examples.take(train)},
            "validation": {},
            "test": {"": examples.take(tested)},
        }
