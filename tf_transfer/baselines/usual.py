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
MOST_FOLDED = 10_000  # texts in three folds; of more, one third decides
MOST_LBFGS = 100_000  # weights; with more, Newton's method is ten times as fast
SCORING = {
    "classes": "accuracy",
    "labels": "f1_micro",
    "score": "neg_mean_squared_error",
}


class Usual:
    """The baseline of a task on texts.

    Args:
        task: The task to learn.
        seed: The seed of the folds.

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
        import sklearn.model_selection
        import threadpoolctl
        from sklearn.feature_extraction import text

        labels = examples.labels
        assert labels is not None
        rows = np.random.default_rng(self.seed).permutation(len(examples))
        rows = rows[:MOST_SEARCHED]
        name, values = STRENGTHS[self.task.kind]
        is_pair = len(examples.texts) == 2
        ngrams = NGRAMS[:1] if is_pair else NGRAMS
        # The steps of a solver are short: threads would wait for each other.
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            # Of a class with fewer rows than folds, and of a solver's limit.
            warnings.simplefilter("ignore", UserWarning)
            try:
                # Splitting texts takes longer than a fit: it is done once.
                counter = text.CountVectorizer(ngram_range=ngrams[-1])
                counts = counter.fit_transform(itertools.chain(*examples.texts))
                terms = counter.get_feature_names_out()
                lengths = np.array([term.count(" ") + 1 for term in terms])
                splits = self._split(labels[rows])
                searches = []
                for ngram_range in ngrams:
                    columns = np.flatnonzero(lengths <= ngram_range[1])
                    weights = text.TfidfTransformer().fit(counts[:, columns])
                    features = _join_pair(
                        weights.transform(counts[:, columns]), is_pair
                    )
                    search = sklearn.model_selection.GridSearchCV(
                        self._model(features.shape[1]),
                        {name: values},
                        scoring=SCORING[self.task.kind],
                        cv=splits,
                        refit=False,
                        error_score=-np.inf,
                    ).fit(features[rows], labels[rows])
                    counter = text.CountVectorizer(
                        ngram_range=ngram_range, vocabulary=terms[columns]
                    )
                    searches.append((search, counter, weights, features))
                search, self._counter, self._weights, features = max(
                    searches, key=lambda one: one[0].best_score_
                )
                self.chosen = {
                    **search.best_params_,
                    "ngram_range": self._counter.ngram_range,
                }
                self.model = search.estimator.set_params(**search.best_params_)
                self.model.fit(features, labels)
            except ValueError as error:
                raise UserError(
                    "--features=tfidf: nothing can be learned from these "
                    f"texts ({str(error).splitlines()[0]})."
                ) from None
        return self

    def logits(self, examples: Examples) -> np.ndarray:
        """float64 [examples, units]."""
        counts = self._counter.transform(itertools.chain(*examples.texts))
        features = _join_pair(
            self._weights.transform(counts), len(examples.texts) == 2
        )
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

    def _model(self, width: int) -> Any:
        """An unfitted model of so many features."""
        from sklearn import linear_model, multiclass

        if self.task.kind == "score":
            return linear_model.Ridge()
        classes = self.task.units if self.task.kind == "classes" else 1
        model = linear_model.LogisticRegression(
            max_iter=MAX_ITERATIONS,
            solver="newton-cg" if width * classes > MOST_LBFGS else "lbfgs",
        )
        if self.task.kind == "labels":
            return multiclass.OneVsRestClassifier(model)
        return model

    def _split(self, labels: np.ndarray) -> list[Any]:
        """The folds that the settings are chosen on, as rows; of many, one."""
        from sklearn import model_selection

        kfold = (
            model_selection.StratifiedKFold
            if self.task.kind == "classes"
            else model_selection.KFold
        )
        count = max(2, min(FOLDS, len(labels)))
        folds = kfold(count, shuffle=True, random_state=self.seed)
        splits = [*folds.split(labels, labels)]
        return splits[:1] if len(labels) > MOST_FOLDED else splits


def _join_pair(features: Any, is_pair: bool) -> Any:
    """Sparse features [examples, features] of one text or of a pair.

    A pair's features are those of both texts, their product and difference.

    Args:
        features: TF-IDF of the texts; of pairs, all first texts come first.
        is_pair: Whether they are pairs.
    """
    import scipy.sparse

    if not is_pair:
        return features
    count = features.shape[0] // 2
    first, second = features[:count], features[count:]
    return scipy.sparse.hstack(
        [first, second, first.multiply(second), abs(first - second)],
        format="csr",
    )


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
        words = itertools.chain(*sentences.words)
        for word, tag in zip(words, itertools.chain(*sentences.tags)):
            counts[word][tag] += 1
        self._tag_of = {
            word: self._numbers[tags.most_common(1)[0][0]]
            for word, tags in counts.items()
        }
        return self

    def logits(self, sentences: Sentences) -> np.ndarray:
        """float64 [words, tags]."""
        words = itertools.chain(*sentences.words)
        chosen = [self._tag_of.get(word, 0) for word in words]
        return np.eye(len(self._numbers))[np.asarray(chosen, np.int64)]

    @property
    def parameters(self) -> int:
        """The number of words that it knows."""
        return len(self._tag_of)


def make(task: Task, seed: int) -> Any:
    """The baseline of a task."""
    return MostFrequentTags(task) if task.is_tagging else Usual(task, seed)
