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
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, TYPE_CHECKING

import numpy as np
import tqdm

from tf_transfer.data import splits
from tf_transfer.data.task import Examples, Task, Texts
from tf_transfer.own import held_out
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.training.records import RunDirectory

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


def make_vectoriser(features: str) -> Any:
    """scikit-learn's vectoriser, for texts of words between spaces."""
    from sklearn.feature_extraction import text

    vectorisers: dict[str, Any] = {
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

    def fit(self, examples: Examples) -> "Baseline":
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

    def logits(self, examples: Examples) -> np.ndarray:
        """float64 [texts, units]; one unit for two labels."""
        logits = self._model.decision_function(examples.texts[0])
        return logits.reshape(len(examples), -1)

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return self._classifier.coef_.size + self._classifier.intercept_.size


# === In folds ===


def cross_validate(
    settings: Any,
    directory: "RunDirectory",
    task: Task,
    examples: Examples,
    folds: list[held_out.Split],
) -> Record:
    """Fits and tests a baseline in every fold.

    Args:
        settings: `tweets.Settings`, resolved, with sparse features.
        directory: The run directory.
        task: The task.
        examples: The texts and their labels.
        folds: For each fold the rows to train on, and the rows to test.

    Returns:
        The content of `result.json`.

    Raises:
        UserError: Nothing can be learned from the training texts of a fold.
    """
    from tf_transfer.baselines import baseline_runs  # takes seconds to import

    began = time.monotonic()
    if settings.preprocessing == "hart":
        [texts] = examples.texts
        stems = preprocess(_bar(texts, desc="stemming", unit=" texts"))
        examples = dataclasses.replace(examples, texts=[stems])
    return baseline_runs.run(
        settings,
        directory,
        task,
        _take_folds(settings, task, examples, folds),
        Baseline(settings.features, settings.data),
        settings.fold_seed,
        input_seconds=time.monotonic() - began,
    )


def _take_folds(
    settings: Any, task: Task, examples: Examples, folds: list[held_out.Split]
) -> Iterator[Texts]:
    """Yields the texts of each fold."""
    labels = examples.labels
    assert labels is not None
    for train, tested in _bar(folds, desc="folds", unit=" folds"):
        train = train[
            splits.choose_subset(
                labels[train], settings.max_train_examples, settings.split_seed
            )
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
