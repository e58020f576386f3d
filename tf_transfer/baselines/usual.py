"""Words alone, as anyone would try them first: TF-IDF and a linear model.

What scikit-learn's users do: TF-IDF of words, or of words and pairs of words,
and a logistic regression, ridge regression for a score. How strong it is
regularised, and which words, is chosen by cross-validation within the training
set. A pair's features are those of both texts, their product and their
difference. For entities, each word gets its commonest tag of the training set.
"""

import collections
import contextlib
import itertools
import warnings
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.data.task import Examples
from tf_transfer.data.task import Sentences
from tf_transfer.data.task import Task
from tf_transfer.utils.errors import UserError

FOLDS = 3
STRENGTHS = (1.0, 10.0)  # C; of the ridge regression, 1 / alpha
NGRAMS = ((1, 1), (1, 2))  # of a pair, words alone: its features are four
MAX_ITERATIONS = 200
MOST_SEARCHED = 20_000  # texts on which the settings are chosen
NEVER = -1e4  # the logit of a label that no training text has
ABOVE_PAIRS = np.iinfo(np.int64).max  # no pair has this number
SCORING = {
    "classes": "accuracy",
    "labels": "f1_micro",
    "score": "neg_mean_squared_error",
}
STRENGTH_NAMES = {"classes": "C", "labels": "estimator__C", "score": "alpha"}


class Terms:
    """Words, and pairs of words that follow each other, as scikit-learn's.

    A pair is the number of its words: to count these takes a fraction of what
    its vectorisers take to join and sort texts.

    Args:
        has_pairs: whether pairs are terms; they come after the words.
    """

    def __init__(self, has_pairs: bool) -> None:
        from sklearn.feature_extraction import text

        self._has_pairs = has_pairs
        self._split = text.CountVectorizer().build_analyzer()
        self._numbers: dict[str, int] = {}
        self._pairs = np.array([ABOVE_PAIRS])  # sorted

    def learn(self, texts: Sequence[str]) -> Any:
        """Learns the terms of texts, and counts them; see `count`.

        Raises:
            ValueError: There is none.
        """
        numbers = self._numbers

        def number(word: str) -> int:
            return numbers.setdefault(word, len(numbers))

        words = [list(map(number, self._split(text))) for text in texts]
        if not numbers:
            raise ValueError("there is no word")
        if self._has_pairs:
            pairs = self._pair(*_flatten(words))[0]
            self._pairs = np.append(np.unique(pairs), ABOVE_PAIRS)
        return self._count(words)

    def count(self, texts: Sequence[str]) -> Any:
        """How often each term is in each text, sparse [texts, terms]."""
        numbers = self._numbers
        return self._count(
            [[numbers.get(w, -1) for w in self._split(t)] for t in texts]
        )

    def _count(self, words: Sequence[Sequence[int]]) -> Any:
        import scipy.sparse

        numbers, rows = _flatten(words)
        pairs, pair_rows = self._pair(numbers, rows)
        places = np.searchsorted(self._pairs, pairs)
        is_known = self._pairs[places] == pairs
        columns = len(self._numbers) + places[is_known]
        columns = np.concatenate([numbers[numbers >= 0], columns])
        rows = np.concatenate([rows[numbers >= 0], pair_rows[is_known]])
        return scipy.sparse.csr_matrix(
            (np.ones(len(rows)), (rows, columns)), (len(words), self.size())
        )

    def _pair(
        self, numbers: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and rows of the pairs of words that are known."""
        first, second = numbers[:-1], numbers[1:]
        is_pair = (rows[:-1] == rows[1:]) & (first >= 0) & (second >= 0)
        pairs = first * len(self._numbers) + second
        return pairs[is_pair], rows[1:][is_pair]

    def size(self, with_pairs: bool = True) -> int:
        """How many terms there are."""
        return len(self._numbers) + with_pairs * len(self._pairs)


def _flatten(words: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all words, int64, and the texts that they are in."""
    rows = np.repeat(np.arange(len(words)), list(map(len, words)))
    flat = itertools.chain.from_iterable(words)
    return np.fromiter(flat, np.int64, len(rows)), rows


class Features:
    """TF-IDF of one or two columns; of two, how they differ, too.

    What one example alone has is one feature together: an L2 penalty would give
    it weights in proportion to its values. So the model is the same, with a
    fraction of the weights.

    Args:
        counts: of terms, sparse [examples, terms] of each column. What they do
            not hold is no feature.
        size: How many terms, from the first on, may be features.

    Attributes:
        learned: sparse features of these examples, a row an example.
        size: The number of features, before some are one.
    """

    def __init__(self, counts: Sequence[Any], size: int) -> None:
        import scipy.sparse
        from sklearn.feature_extraction import text

        stacked = scipy.sparse.vstack(counts, format="csr")
        self._terms = np.flatnonzero(stacked.getnnz(axis=0)[:size])
        self._tfidf = text.TfidfTransformer().fit(stacked[:, self._terms])
        features = self._weigh(counts)
        by_feature = features.tocsc()
        rows, self.size = features.shape
        is_lone = by_feature.getnnz(axis=0) == 1
        places = by_feature.indptr[:-1][is_lone]
        owners, values = by_feature.indices[places], by_feature.data[places]
        norms = np.sqrt(np.bincount(owners, values**2, rows))
        columns, weights = np.cumsum(~is_lone) - 1, np.ones(self.size)
        shared = self.size - len(places)
        columns[is_lone] = shared + owners
        weights[is_lone] = values / norms[owners]
        self._join = scipy.sparse.csr_matrix(
            (weights, columns, np.arange(self.size + 1)),
            (self.size, shared + rows),
        )
        self.learned = features @ self._join

    def transform(self, counts: Sequence[Any]) -> Any:
        """Sparse features, a row an example."""
        return self._weigh(counts) @ self._join

    def _weigh(self, counts: Sequence[Any]) -> Any:
        import scipy.sparse

        columns = [self._tfidf.transform(c[:, self._terms]) for c in counts]
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
        chosen: What the cross-validation has chosen, by name.
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
        import threadpoolctl

        labels = examples.labels
        assert labels is not None
        ngrams = NGRAMS[:1] if len(examples.texts) == 2 else NGRAMS
        rows = np.random.default_rng(self.seed).permutation(len(examples))
        rows = rows[:MOST_SEARCHED]
        # A solver's steps are short: several threads would wait for each other,
        # and most of all where the cores are busy.
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            # Of a class with fewer rows than folds, and of a solver's limit.
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter(
                "ignore", sklearn.exceptions.ConvergenceWarning
            )
            try:
                self._terms = Terms(ngrams[-1][1] == 2)
                counts = self._count(examples, self._terms.learn)
                sizes = {n: self._terms.size(n[1] == 2) for n in ngrams}
                strength, ngram_range = self._choose(
                    [column[rows] for column in counts], labels[rows], sizes
                )
                self._features = Features(counts, sizes[ngram_range])
                self.model = self._model(strength)
                self.model.fit(self._features.learned, labels)
            except ValueError as error:
                raise UserError(
                    "--features=tfidf: nothing can be learned from these "
                    f"texts ({str(error).splitlines()[0]})."
                ) from None
        name = STRENGTH_NAMES[self.task.kind]
        self.chosen = {
            f"model__{name}": 1 / strength if name == "alpha" else strength,
            "words__ngram_range": ngram_range,
        }
        return self

    def _count(
        self, examples: Examples, count: Callable[[Sequence[str]], Any]
    ) -> list[Any]:
        """What `count` returns for all texts, of each column."""
        counts, rows = count([*itertools.chain(*examples.texts)]), len(examples)
        columns = range(len(examples.texts))
        return [counts[number * rows :][:rows] for number in columns]

    def _choose(
        self,
        counts: Sequence[Any],
        labels: np.ndarray,
        sizes: dict[tuple[int, int], int],
    ) -> tuple[float, tuple[int, int]]:
        """The best strength and n-grams; the first of those that are equal.

        Args:
            counts: see `Features`.
            labels: of the examples.
            sizes: see `Features`, of each range of n-grams.
        """
        from sklearn import metrics

        scorer = metrics.get_scorer(SCORING[self.task.kind])
        scores = collections.defaultdict(list)
        for ngram_range, size in sizes.items():
            for learned, held in self._folds(len(labels)).split(labels, labels):
                found = [-np.inf] * len(STRENGTHS)
                with contextlib.suppress(ValueError):  # a single class
                    features = Features([c[learned] for c in counts], size)
                    texts = features.transform([c[held] for c in counts])
                    found = [
                        scorer(
                            self._model(strength).fit(
                                features.learned, labels[learned]
                            ),
                            texts,
                            labels[held],
                        )
                        for strength in STRENGTHS
                    ]
                for strength, score in zip(STRENGTHS, found):
                    scores[strength, ngram_range].append(score)
        return max(
            itertools.product(STRENGTHS, sizes),
            key=lambda cell: np.mean(scores[cell]),
        )

    def logits(self, examples: Examples) -> np.ndarray:
        """float64 [examples, units]."""
        counts = self._count(examples, self._terms.count)
        features = self._features.transform(counts)
        if self.task.kind == "score":
            return self.model.predict(features)[:, None]
        logits = self.model.decision_function(features)
        if self.task.kind == "classes":
            return _for_labels(
                logits, self.model.classes_, len(self.task.labels or ())
            )
        return logits[:, None] if logits.ndim == 1 else logits

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        models = getattr(self.model, "estimators_", [self.model])
        units = sum(np.size(getattr(m, "intercept_", ())) for m in models)
        return units * (self._features.size + 1)

    def _model(self, strength: float) -> Any:
        from sklearn import linear_model
        from sklearn import multiclass

        if self.task.kind == "score":
            return linear_model.Ridge(1 / strength)
        model = linear_model.LogisticRegression(
            C=strength, max_iter=MAX_ITERATIONS
        )
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


class CommonestTags:
    """Each word's commonest tag in the training set; `O` of any other.

    Args:
        task: Its labels are the tags.
    """

    def __init__(self, task: Task) -> None:
        self._numbers = {tag: n for n, tag in enumerate(task.labels or ())}
        self._tag_of: dict[str, int] = {}
        self.chosen: dict[str, Any] = {}

    def fit(self, sentences: Sentences) -> "CommonestTags":
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


def _for_labels(
    logits: np.ndarray, classes: np.ndarray, labels: int
) -> np.ndarray:
    """A column for each of a task's labels, those not trained on included.

    Args:
        logits: float64 of a model: [examples] of two classes, or [examples,
            classes].
        classes: int [classes]. Which labels these are.
        labels: of the task.

    Returns:
        float64 [examples, labels]; of two labels [examples, 1].
    """
    if labels == 2:
        return logits[:, None]
    if logits.ndim == 1:
        logits = np.stack([-logits / 2, logits / 2], axis=1)
    columns = np.full((len(logits), labels), NEVER)
    columns[:, classes] = logits
    return columns


def make(task: Task, seed: int) -> Any:
    """The baseline of a task."""
    return CommonestTags(task) if task.is_tagging else Usual(task, seed)
