"""The TF-IDF baseline: words or characters, in a linear model.

Users of scikit-learn try it first: logistic regression, and ridge regression
for a score. Cross-validation within the training set chooses what is counted
(words, words and pairs of words, or characters within words) and the
regularisation. Where texts have no words, as emojis have none, characters are
counted. A pair's features are those of both texts, their difference,
their product and its sum, the cosine. For entities, each word gets its most
frequent tag of the training set.
"""

import collections
import dataclasses
import itertools
import json
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np
import scipy.sparse
from scipy.sparse import csr_matrix

from tf_transfer.baselines import linear
from tf_transfer.data import groups as groups_lib, metrics
from tf_transfer.data.task import Examples, Sentences, Task
from tf_transfer.training.checkpoint import Arrays
from tf_transfer.utils import json_files, screen
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

FOLDS = 3
STRENGTHS = (1.0, 10.0)  # see `linear.fit`
# What is counted: the analyzer and the range of n-grams, as in scikit-learn.
Analyzer = Literal["word", "char_wb"]
NGRAMS: tuple[tuple[Analyzer, tuple[int, int]], ...] = (
    ("word", (1, 1)),
    ("word", (1, 2)),
    ("char_wb", (2, 5)),
)
MOST_TERMS = 100_000  # the most frequent ones; more take memory and minutes
MOST_CHARACTERS = 20_000_000  # of all texts; of more, words alone are counted
LONGEST_WORD = 10_000  # characters; the parts of a longer word take minutes
MOST_SEARCHED = 10_000  # texts on which the settings are chosen


@dataclasses.dataclass(frozen=True)
class Choice:
    """The choice of a cross-validation.

    Attributes:
        analyzer, ngram_range: See `NGRAMS`.
        strength: See `linear.fit`.
    """

    analyzer: Analyzer
    ngram_range: tuple[int, int]
    strength: float


class Usual:
    """The baseline of a task on texts.

    Args:
        task: The task to learn.
        seed: The seed of the folds.

    Attributes:
        choice: What the cross-validation chose.
        model: The fitted `linear.Linear`.
    """

    choice: Choice

    def __init__(self, task: Task, seed: int = 0) -> None:
        self.task = task
        self.seed = seed

    def fit(self, examples: Examples | Sentences) -> "Usual":
        """Chooses the settings, and learns.

        Raises:
            UserError: No term is left to learn from.
        """
        import threadpoolctl

        texts = [*map(cut_words, itertools.chain(*examples.texts))]
        labels = examples.labels
        assert labels is not None
        # The steps of a solver are short: threads would wait for each other.
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
            # Of a class with fewer rows than folds.
            warnings.simplefilter("ignore", UserWarning)
            try:
                features = self._choose(texts, labels, examples.groups)
            except ValueError as error:
                raise UserError(
                    "--features=tfidf: nothing can be learned from these "
                    f"texts ({str(error).splitlines()[0]})."
                ) from None
            self.model = linear.fit(
                self.task, features, labels, self.choice.strength
            )
        return self

    def logits(self, examples: Examples | Sentences) -> np.ndarray:
        """Float32 [examples, units]; float64 of scores with a scale."""
        texts = map(cut_words, itertools.chain(*examples.texts))
        weights = self._vectorizer.transform(texts)
        return self.model.answer(self.task, self._join_pair(weights))

    @property
    def chosen(self) -> Record:
        """The settings that the cross-validation chose, by name."""
        return dataclasses.asdict(self.choice)

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return self.model.parameters

    # === Choosing ===

    def _choose(
        self, texts: list[str], labels: np.ndarray, groups: np.ndarray | None
    ) -> csr_matrix:
        """Sets `choice` and the vectoriser; returns the features of the texts.

        Args:
            texts: Those of the examples, see `cut_words`.
            labels: The labels of the examples.
            groups: The groups of the examples, or None.

        Raises:
            UserError: There are fewer groups than folds.
            ValueError: There is no term, or too few texts to cross-validate.
        """
        from sklearn import model_selection
        from sklearn.feature_extraction import text

        draw = np.random.default_rng(self.seed)
        rows = draw.permutation(len(labels))[:MOST_SEARCHED]
        if groups is not None:
            folds = groups_lib.make_folds(
                labels[rows], groups[rows], FOLDS, self.seed
            )
        else:
            kfold = model_selection.check_cv(
                FOLDS, labels[rows], classifier=self.task.kind == "classes"
            )
            folds = [*kfold.split(rows, labels[rows])]
        best, features, problem = -math.inf, None, None
        is_long = sum(map(len, texts)) > MOST_CHARACTERS
        for analyzer, ngram_range in NGRAMS:
            if is_long and analyzer != "word" and problem is None:
                continue
            try:
                counts, terms = count_terms(texts, analyzer, ngram_range)
            except ValueError as error:  # there is no such term
                problem = error
                continue
            transformer = text.TfidfTransformer().fit(counts)
            weights = self._join_pair(transformer.transform(counts))
            for strength in STRENGTHS:
                score = self._score(
                    weights[rows], labels[rows], folds, strength
                )
                if score > best:
                    best, features = score, weights
                    self.choice = Choice(analyzer, ngram_range, strength)
                    self._set_terms(terms, transformer.idf_)
        if features is None and problem:
            raise problem
        if problem:
            screen.say(
                "TF-IDF counts characters: the texts have no words of two "
                "letters or digits."
            )
        return features

    def _set_terms(self, terms: Sequence[str], idf: np.ndarray) -> None:
        """Makes the vectoriser of the chosen terms."""
        from sklearn.feature_extraction import text

        self._vectorizer = text.TfidfVectorizer(
            analyzer=self.choice.analyzer,
            ngram_range=self.choice.ngram_range,
            vocabulary=terms,
            dtype=np.float32,
        )
        self._vectorizer.idf_ = idf

    def _score(
        self,
        features: csr_matrix,
        labels: np.ndarray,
        folds: Iterable[tuple[np.ndarray, np.ndarray]],
        strength: float,
    ) -> float:
        """The mean of the headline metric over the folds."""
        measure, scores = metrics.METRICS[self.task.metric], []
        for train, tested in folds:
            model = linear.fit(
                self.task, features[train], labels[train], strength
            )
            logits = model.logits(features[tested])
            scores.append(measure(labels[tested], logits))
        return float(np.mean(scores))

    def _join_pair(self, features: csr_matrix) -> csr_matrix:
        """Sparse features [examples, features] of one text or of a pair.

        Of a pair, the cosine says in one weight what many products say.

        Args:
            features: TF-IDF of the texts; of pairs, all first texts come first.
        """
        if len(self.task.texts) == 1:
            return features
        count = features.shape[0] // 2
        first, second = features[:count], features[count:]
        product = first.multiply(second)
        cosine = csr_matrix(product.sum(axis=1))
        return scipy.sparse.hstack(
            [first, second, product, abs(first - second), cosine], format="csr"
        )

    # === As arrays ===

    @property
    def arrays(self) -> Arrays:
        """The fitted model: `terms` (see `pack_terms`), `idf`, weights."""
        return {
            "terms": pack_terms(self._vectorizer.get_feature_names_out()),
            "idf": self._vectorizer.idf_,
            "kernel": self.model.kernel,
            "bias": self.model.bias,
        }

    def restore(self, chosen: Record, arrays: Arrays) -> None:
        """Becomes a fitted model.

        Args:
            chosen: What the fitted model chose.
            arrays: The arrays of the fitted model.

        Raises:
            ValueError, TypeError, LookupError, Damaged: They are damaged.
        """
        self.choice = msgspec.convert(chosen, Choice)
        self._set_terms(unpack_terms(arrays["terms"]), arrays["idf"])
        self.model = linear.Linear(arrays["kernel"], arrays["bias"])
        # Arrays that do not fit each other fail here.
        texts = [["a"]] * len(self.task.texts)
        logits = self.logits(Examples(np.arange(1), texts, None))
        if logits.shape != (1, self.task.units):
            raise ValueError("has weights of another task")


def count_terms(
    texts: list[str], analyzer: str, ngram_range: tuple[int, int]
) -> tuple[csr_matrix, list[str]]:
    """Counts the terms of texts, as scikit-learn does.

    Args:
        texts: The texts.
        analyzer: See `NGRAMS`.
        ngram_range: See `NGRAMS`.

    Returns:
        float32 [texts, terms] of the most frequent terms, and these.

    Raises:
        ValueError: There is no term.
    """
    from sklearn.feature_extraction import text

    counter = text.CountVectorizer(
        analyzer=analyzer, ngram_range=ngram_range, dtype=np.float32
    )
    if analyzer == "word":
        counts = counter.fit_transform(texts)
    else:
        # Each distinct word is split once, which is many times as fast.
        words = text.CountVectorizer(
            tokenizer=str.split, token_pattern=None, dtype=np.float32
        )
        counts = words.fit_transform(texts)
        counts = counts @ counter.fit_transform(words.get_feature_names_out())
    totals = np.asarray(counts.sum(axis=0))[0]
    columns = np.sort(np.argsort(-totals, kind="stable")[:MOST_TERMS])
    terms = counter.get_feature_names_out()[columns].tolist()
    return counts[:, columns], terms


def cut_words(text: str) -> str:
    """A text whose words have at most `LONGEST_WORD` characters each."""
    if len(text) <= LONGEST_WORD:
        return text
    return re.sub(rf"(\S{{{LONGEST_WORD}}})\S+", r"\1", text)


class MostFrequentTags:
    """Each word's most frequent tag in the training set; `O` of any other.

    Args:
        task: Its labels are the tags.
    """

    def __init__(self, task: Task) -> None:
        self._numbers = {tag: n for n, tag in enumerate(task.labels or ())}
        self._tag_of: dict[str, int] = {}
        self.chosen: Record = {}

    def fit(self, sentences: Examples | Sentences) -> "MostFrequentTags":
        """Counts the tags of each word."""
        assert isinstance(sentences, Sentences)
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(
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

    def logits(self, sentences: Examples | Sentences) -> np.ndarray:
        """float64 [words, tags]."""
        assert isinstance(sentences, Sentences)
        words = itertools.chain(*sentences.words)
        tags = [self._tag_of.get(word, 0) for word in words]
        return np.eye(len(self._numbers))[np.asarray(tags, np.int64)]

    @property
    def parameters(self) -> int:
        """The number of words that it knows."""
        return len(self._tag_of)

    @property
    def arrays(self) -> Arrays:
        """The words (see `pack_terms`), and the number of each one's tag."""
        tags = np.array([*self._tag_of.values()], np.int64)
        return {"terms": pack_terms([*self._tag_of]), "tags": tags}

    def restore(self, chosen: Record, arrays: Arrays) -> None:
        """Becomes a fitted model; see `Usual.restore`."""
        words, tags = unpack_terms(arrays["terms"]), arrays["tags"].tolist()
        self._tag_of = dict(zip(words, tags, strict=True))
        self.logits(Sentences(np.arange(1), [words], []))


def make(task: Task, seed: int) -> Usual | MostFrequentTags:
    """The baseline of a task."""
    return MostFrequentTags(task) if task.is_tagging else Usual(task, seed)


def pack_terms(terms: Sequence[str]) -> np.ndarray:
    """Terms as an array, uint8 [bytes] of a list in JSON."""
    return np.frombuffer(json.dumps([*terms]).encode(), np.uint8)


def unpack_terms(packed: np.ndarray) -> list[str]:
    """Reverses `pack_terms`.

    Raises:
        Damaged: It is no list of texts.
    """
    return json_files.parse("terms", packed.tobytes(), list[str])
