"""The TF-IDF baseline: words, or words and pairs of words, in a linear model.

Users of scikit-learn try it first: logistic regression, and ridge regression
for a score. The regularisation and the range of n-grams are chosen
by cross-validation within the training set. A pair's features are those of both
texts, their product and their difference. For entities, each word gets its most
frequent tag of the training set.
"""

import collections
import itertools
import warnings
from typing import Any

import numpy as np

from tf_transfer.baselines import linear
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.utils.errors import UserError

FOLDS = 3
# The parameter that regularises each model, and the values tried.
STRENGTHS = {
    "classes": ("C", (1.0, 10.0)),
    "labels": ("estimator__C", (1.0, 10.0)),
    "score": ("alpha", (1.0, 0.1)),
}
# A pair has four times the features of a text, so it has single words alone.
NGRAMS = ((1, 1), (1, 2))
MAX_ITERATIONS = 200
MOST_SEARCHED = 20_000  # texts on which the settings are chosen
SCORING = {
    "classes": "accuracy",
    "labels": "f1_micro",
    "score": "neg_mean_squared_error",
}


class Words:
    """TF-IDF of one column, or of two columns and of their differences.

    Args:
        ngram_range: See `TfidfVectorizer`.
        examples: Whose words are learned.
    """

    def __init__(
        self, ngram_range: tuple[int, int], examples: Examples
    ) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectoriser = TfidfVectorizer(ngram_range=ngram_range)
        self._vectoriser.fit(itertools.chain(*examples.texts))

    def features(self, examples: Examples) -> Any:
        """Sparse features, a row an example."""
        import scipy.sparse

        columns = [self._vectoriser.transform(c) for c in examples.texts]
        if len(columns) == 1:
            return columns[0]
        first, second = columns
        return scipy.sparse.hstack(
            [first, second, first.multiply(second), abs(first - second)],
            format="csr",
        )


class Usual:
    """The baseline of a task on texts.

    Args:
        task: What it learns.
        seed: Of the folds.

    Attributes:
        chosen: The settings that the cross-validation chose, by name.
    """

    def __init__(self, task: Task, seed: int = 0) -> None:
        self.task = task
        self.seed = seed
        self.chosen: dict[str, Any] = {}

    def fit(self, examples: Examples) -> "Usual":
        """Chooses the settings, and learns.

        Raises:
            UserError: No word is left to learn from.
        """
        import sklearn.exceptions
        import sklearn.model_selection
        import threadpoolctl

        labels = examples.labels
        assert labels is not None
        rows = np.random.default_rng(self.seed).permutation(len(examples))
        rows = rows[:MOST_SEARCHED]
        name, values = STRENGTHS[self.task.kind]
        ngrams = NGRAMS[:1] if len(examples.texts) == 2 else NGRAMS
        # The steps of a solver are short: threads would wait for each other.
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            # Of a class with fewer rows than folds, and of a solver's limit.
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter(
                "ignore", sklearn.exceptions.ConvergenceWarning
            )
            try:
                searches = []
                for ngram_range in ngrams:
                    words = Words(ngram_range, examples)
                    features = words.features(examples)
                    search = sklearn.model_selection.GridSearchCV(
                        self._model(),
                        {name: values},
                        scoring=SCORING[self.task.kind],
                        cv=self._folds(len(rows)),
                        refit=False,
                        error_score=-np.inf,
                    ).fit(features[rows], labels[rows])
                    searches.append((search, ngram_range, words, features))
                search, ngram_range, self.words, features = max(
                    searches, key=lambda one: one[0].best_score_
                )
                self.chosen = {
                    **search.best_params_,
                    "ngram_range": ngram_range,
                }
                self.model = self._model().set_params(**search.best_params_)
                self.model.fit(features, labels)
            except ValueError as error:
                raise UserError(
                    "--features=tfidf: nothing can be learned from these "
                    f"texts ({str(error).splitlines()[0]})."
                ) from None
        return self

    def logits(self, examples: Examples) -> np.ndarray:
        """float64 [examples, units]."""
        features = self.words.features(examples)
        if self.task.kind == "score":
            return self.model.predict(features)[:, None]
        rows = np.atleast_2d(self.model.decision_function(features).T)
        if self.task.kind == "classes":
            count, classes = len(self.task.labels or ()), self.model.classes_
            rows = linear.spread(rows, classes, count, linear.NEVER)
        return np.ascontiguousarray(rows.T)

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        models = getattr(self.model, "estimators_", [self.model])
        return sum(
            np.size(getattr(m, "coef_", ()))
            + np.size(getattr(m, "intercept_", ()))
            for m in models
        )

    def _model(self) -> Any:
        from sklearn import linear_model, multiclass

        if self.task.kind == "score":
            return linear_model.Ridge()
        model = linear_model.LogisticRegression(max_iter=MAX_ITERATIONS)
        if self.task.kind == "labels":
            return multiclass.OneVsRestClassifier(model)
        return model

    def _folds(self, rows: int) -> Any:
        from sklearn import model_selection

        options = {"shuffle": True, "random_state": self.seed}
        count = max(2, min(FOLDS, rows))
        if self.task.kind == "classes":
            return model_selection.StratifiedKFold(count, **options)
        return model_selection.KFold(count, **options)


class MostFrequentTags:
    """Each word's most frequent tag in the training set; `O` of any other.

    Args:
        task: Its labels are the tags.
    """

    def __init__(self, task: Task) -> None:
        self._numbers = {tag: n for n, tag in enumerate(task.labels or ())}
        self._tag_of: dict[str, int] = {}
        self.chosen: dict[str, Any] = {}

    def fit(self, sentences: Sentences) -> "MostFrequentTags":
        """Counts the tags of each word."""
        counts: dict[str, collections.Counter] = collections.defaultdict(
            collections.Counter
        )
        for words, tags in zip(sentences.words, sentences.tags):
            for word, tag in zip(words, tags):
                counts[word][tag] += 1
        self._tag_of = {
            word: self._numbers[tags.most_common(1)[0][0]]
            for word, tags in counts.items()
        }
        return self

    def logits(self, sentences: Sentences) -> np.ndarray:
        """float64 [words, tags]."""
        chosen = [
            self._tag_of.get(word, 0)
            for words in sentences.words
            for word in words
        ]
        return np.eye(len(self._numbers))[np.asarray(chosen, np.int64)]

    @property
    def parameters(self) -> int:
        """Words that it knows."""
        return len(self._tag_of)


def make(task: Task, seed: int) -> Any:
    """The baseline of a task."""
    return MostFrequentTags(task) if task.is_tagging else Usual(task, seed)
