"""The probe: a convex model on pooled states of the frozen encoder.

It measures what an encoder knows of a task before any weight trains. The
training texts decide which states it reads. The default of a text is the mean
of all tokens above every block, side by side; for pairs it is the cosine of
both texts' means above the last block. Other states replace the default only if
repeated cross-validation shows them better by a standard error of the paired
difference: with few texts the highest of many scores is mostly noise. TF-IDF of
the tokens may be added, with a weight that held-out texts give: it knows words
that the states blur.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, TypeVarTuple

import joblib
import numpy as np
import threadpoolctl

from tf_transfer.baselines import linear, token_tfidf
from tf_transfer.data import groups as groups_lib, metrics
from tf_transfer.data.task import Task
from tf_transfer.data.tokens import Tokens
from tf_transfer.training.record_types import BlockScore
from tf_transfer.utils.json_files import Record

FOLDS = 5
REPEATS = 3  # of the cross-validation
FEW = 1000  # texts, up to which it is repeated
# States are chosen on this many texts, or the sentences of this many words.
MOST_TEXTS, MOST_WORDS = 2000, 5000
FINALISTS = 3  # states that are compared with the default
STRENGTHS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 0.1, 1.0)
TOLERANCE = 1e-3  # where strengths are compared; the scores hardly differ
PENALTIES = (1.0, 10.0, 100.0, 1e3, 1e4)  # of the ridge regression that screens

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class States:
    """The states of the encoder that a probe reads.

    Attributes:
        block: Above which they are taken; 0 for the embeddings.
        pooling: `mean`, of all tokens; `block_means`, the means above this
            block and all below, side by side; `cls_state`, [CLS]; `cls`, [CLS]
            through the pooler; or `tokens`, the first token of each word.
        pair_features: One of `pooled.PAIR_FEATURES`, of two texts that are
            read each by itself; "" if all is read in one row.
    """

    block: int
    pooling: str
    pair_features: str = ""

    def __str__(self) -> str:
        """Such as `cosine of mean, block 6`."""
        if self.pooling == "block_means":
            return "means of all blocks"
        features = f"{self.pair_features} of " if self.pair_features else ""
        return f"{features}{self.pooling}, block {self.block}"

    @property
    def texts_per_row(self) -> int:
        """Texts of an example that the encoder reads each by itself."""
        return 2 if self.pair_features else 1


class Inputs(Protocol):
    """The labels and states of a split's examples.

    Attributes:
        labels: See `task.Examples`; of words, int64 [words].
        sentences: int64 [words]. Of words, the sentence of each; else None.
        groups: int64 [examples or sentences], or None; see `task.Examples`.
        tokens: `Tokens` of texts.
    """

    labels: np.ndarray
    sentences: np.ndarray | None
    groups: np.ndarray | None
    tokens: Tokens

    def matrix(
        self, states: States, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """float32 [examples, width], of some rows or all."""
        ...


@dataclasses.dataclass(frozen=True)
class Validated:
    """A model's scores in the folds of a cross-validation.

    Attributes:
        strength: The one of the highest mean.
        scores: float64 [folds], with that strength.
    """

    strength: float
    scores: np.ndarray


def standard_error(values: np.ndarray) -> float:
    """The standard error of a mean over folds with overlapping training sets.

    The plain standard error is too small; Nadeau and Bengio (2003, "Inference
    for the generalization error") add the ratio of tested to training examples.

    Args:
        values: float [folds], of one or more repetitions.
    """
    factor = 1 / len(values) + 1 / (FOLDS - 1)
    return float(np.sqrt(factor * values.var(ddof=1)))


@dataclasses.dataclass
class Probe:
    """The probe of a task.

    Attributes:
        task: The task to learn.
        blocks: The number of the encoder's blocks.
        has_pooler: Whether the encoder was pretrained with one.
        seed: The seed of the folds and of the subset that chooses.
        is_balanced: Whether all classes have the same weight.
        vocabulary: The number of tokens that the encoder knows; 0 if the probe
            reads states alone.
        states: The states that it reads, once it is fitted.
        model: The fitted `linear.Linear` of the states.
        terms: The fitted weights of TF-IDF, float32 [terms, units + 1]; see
            `WordsHead`. None if the probe reads states alone.
        validated: The scores of these states in the cross-validation.
        halved: The scores in the same folds of half of their training texts,
            float64 [folds].
        profile: The depth profile: the score of each block.
        texts: The number of texts or sentences that chose them.
    """

    task: Task
    blocks: int
    has_pooler: bool
    seed: int = 0
    is_balanced: bool = False
    vocabulary: int = 0
    terms: np.ndarray | None = None

    def choose(self, inputs: Inputs) -> "Probe":
        """Chooses states and strength, and makes the depth profile.

        Args:
            inputs: The inputs of the training texts, or of some.
        """
        subset = _Subset(self.task, inputs, self.seed)
        repeats = REPEATS if len(subset.rows) <= FEW else 1
        with threadpoolctl.threadpool_limits(1, "blas"):
            finalists = self._screen(subset)
            scores = self._cross_validate(subset, finalists, repeats)
            validated = dict(zip(finalists, scores))
            self.states = choose_states(validated)
            self.validated = validated[self.states]
            self._profile(subset)
            self.halved = self._score_halves(subset, repeats)
        self.texts = subset.texts
        return self

    def fit(self, inputs: Inputs) -> "Probe":
        """Fits; what is not chosen yet is chosen first.

        Args:
            inputs: The inputs of the training texts.
        """
        if not hasattr(self, "states"):
            self.choose(inputs)
        strength = self.validated.strength
        states = inputs.matrix(self.states)
        self.model = self._fit_linear(states, inputs.labels, strength)
        if self.vocabulary:
            self._add_words(inputs, states)
        return self

    def _fit_linear(
        self, features: linear.Features, labels: np.ndarray, strength: float
    ) -> linear.Linear:
        return linear.fit(
            self.task, features, labels, strength, self.is_balanced
        )

    def _add_words(self, inputs: Inputs, states: np.ndarray) -> None:
        """Adds a model of TF-IDF to that of the states.

        Held-out logits of both, on the texts that choose the states, give the
        weights of their sum.
        """
        counts = token_tfidf.count_terms(inputs.tokens, self.vocabulary)
        idf = token_tfidf.fit_idf(counts)
        columns = np.flatnonzero(idf)
        words = token_tfidf.weigh(counts, idf)[:, columns]
        subset = _Subset(self.task, inputs, self.seed)
        models = (
            (states[subset.rows], self.validated.strength),
            (words[subset.rows], token_tfidf.STRENGTH),
        )

        def hold_out(train: np.ndarray, tested: np.ndarray) -> list[np.ndarray]:
            labels = subset.labels[train]
            return [
                self._fit_linear(x[train], labels, strength).logits(x[tested])
                for x, strength in models
            ]

        folds = subset.make_folds(1)
        with threadpoolctl.threadpool_limits(1, "blas"):
            held_out = _in_parallel(hold_out, folds)
            fitted = self._fit_linear(
                words, inputs.labels, token_tfidf.STRENGTH
            )
        tested = np.concatenate([rows for _, rows in folds])
        of_states, of_words = metrics.fit_weights(
            self.task,
            subset.labels[tested],
            [np.concatenate(logits) for logits in zip(*held_out)],
        )
        kernel, bias = self.model.kernel, self.model.bias
        self.model = linear.Linear(
            np.float32(of_states) * kernel,
            np.float32(of_states) * bias + np.float32(of_words) * fitted.bias,
        )
        self.terms = np.zeros((len(idf), self.task.units + 1), np.float32)
        self.terms[columns, :-1] = of_words * idf[columns, None] * fitted.kernel
        self.terms[:, -1] = idf

    def logits(self, inputs: Inputs) -> np.ndarray:
        """Float32 [examples, units]; float64 of scores with a scale."""
        logits = self.model.logits(inputs.matrix(self.states))
        if self.terms is not None:
            counts = token_tfidf.count_terms(inputs.tokens, self.vocabulary)
            logits += token_tfidf.add_terms(counts, self.terms)
        return linear.restore_scale(self.task, logits)

    @property
    def chosen(self) -> Record:
        """The settings that the cross-validation chose, by name."""
        return {
            **dataclasses.asdict(self.states),
            "strength": self.validated.strength,
            "words": self.terms is not None,
        }

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        terms = 0
        if self.terms is not None:
            terms = int(np.count_nonzero(self.terms))
        return self.model.parameters + terms

    # === Choosing ===

    def _candidates(self) -> list[States]:
        """States that may be read, the default first."""
        numbers = range(self.blocks, -1, -1)
        if self.task.is_tagging:
            return [States(block, "tokens") for block in numbers]
        candidates = [States(self.blocks, "block_means")]
        if len(self.task.texts) == 2:
            candidates = [
                States(block, "mean", features)
                for block in numbers
                for features in ("cosine", "product")
            ]
        candidates += [
            States(block, pooling)
            for block in numbers
            for pooling in ("mean", "cls_state")
        ]
        if self.has_pooler:
            candidates.append(States(self.blocks, "cls"))
        return candidates

    def _screen(self, subset: "_Subset") -> list[States]:
        """The default, and the states that ridge regression finds best."""

        def score(states: States) -> float:
            held_out = linear.leave_one_out(
                self.task, subset.matrix(states), subset.labels, PENALTIES
            )
            return max(subset.measure(slice(None), z) for z in held_out)

        default, *others = self._candidates()
        scores = _in_parallel(score, [(states,) for states in others])
        order = np.argsort(scores)[::-1]
        return [default, *(others[index] for index in order[:FINALISTS])]

    def _cross_validate(
        self,
        subset: "_Subset",
        candidates: Sequence[States],
        repeats: int,
    ) -> list[Validated]:
        """Scores of some states, each with its best strength."""
        features = [subset.matrix(states) for states in candidates]
        folds = subset.make_folds(repeats)

        def score(
            x: np.ndarray, train: np.ndarray, tested: np.ndarray
        ) -> list[float]:
            models = linear.fit_each(
                self.task,
                x[train],
                subset.labels[train],
                STRENGTHS,
                self.is_balanced,
                TOLERANCE,
            )
            return [
                subset.measure(tested, model.logits(x[tested]))
                for model in models
            ]

        cells = [(x, *fold) for x in features for fold in folds]
        scores = np.reshape(
            _in_parallel(score, cells),
            (len(features), len(folds), len(STRENGTHS)),
        )
        best = scores.mean(axis=1).argmax(axis=1)
        return [
            Validated(STRENGTHS[index], scores[number, :, index])
            for number, index in enumerate(best)
        ]

    def _profile(self, subset: "_Subset") -> None:
        """Validates the mean, or the chosen pair features of it, by block."""
        pooling = "tokens" if self.task.is_tagging else "mean"
        kinds = [
            dataclasses.replace(self.states, block=block, pooling=pooling)
            for block in range(self.blocks + 1)
        ]
        self.profile: list[BlockScore] = [
            {
                "block": states.block,
                "score": float(validated.scores.mean()),
                "standard_error": standard_error(validated.scores),
                "strength": validated.strength,
            }
            for states, validated in zip(
                kinds, self._cross_validate(subset, kinds, 1)
            )
        ]

    def _score_halves(self, subset: "_Subset", repeats: int) -> np.ndarray:
        """The scores of the chosen states, with half of each training set."""
        x, strength = subset.matrix(self.states), self.validated.strength

        def score(train: np.ndarray, tested: np.ndarray) -> float:
            half = subset.halve(train)
            model = self._fit_linear(x[half], subset.labels[half], strength)
            return subset.measure(tested, model.logits(x[tested]))

        return np.array(_in_parallel(score, subset.make_folds(repeats)))


class _Subset:
    """The training texts that states and strength are chosen on."""

    def __init__(self, task: Task, inputs: Inputs, seed: int) -> None:
        self._task = dataclasses.replace(task, also=())
        self._inputs = inputs
        self._seed = seed
        sentences = inputs.sentences
        if sentences is None:
            sentences = np.arange(len(inputs.labels))
        most = MOST_WORDS if task.is_tagging else MOST_TEXTS
        counts = np.bincount(sentences)
        order = np.random.default_rng(seed).permutation(len(counts))
        drawn = order[
            : max(FOLDS, int((np.cumsum(counts[order]) <= most).sum()))
        ]
        self.rows = np.flatnonzero(np.isin(sentences, drawn))
        self.labels = inputs.labels[self.rows]
        self.texts = len(drawn)
        _, self._sentences = np.unique(
            sentences[self.rows], return_inverse=True
        )
        self._groups = inputs.groups
        if inputs.groups is not None:
            self._groups = inputs.groups[np.sort(drawn)]

    def matrix(self, states: States) -> np.ndarray:
        """float32 [examples or words, width]."""
        return self._inputs.matrix(states, self.rows)

    def measure(self, rows: np.ndarray | slice, logits: np.ndarray) -> float:
        """The headline metric of some rows, whole sentences among words."""
        starts = None
        if self._task.is_tagging:
            starts = np.flatnonzero(np.diff(self._sentences[rows], prepend=-1))
        scores = metrics.measure_task(
            self._task, self.labels[rows], logits, starts
        )
        return scores[self._task.metric]

    def make_folds(self, repeats: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to train on and to test; classes in proportion."""
        from sklearn import model_selection

        cls, labels = model_selection.RepeatedKFold, np.zeros(self.texts)
        if self._task.kind == "classes":
            cls = model_selection.RepeatedStratifiedKFold
            labels = self.labels
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # see `find_warnings`
            if self._groups is not None:
                folds = groups_lib.make_folds(
                    labels, self._groups, FOLDS, self._seed, repeats
                )
            else:
                splitter = cls(
                    n_splits=FOLDS, n_repeats=repeats, random_state=self._seed
                )
                folds = [*splitter.split(labels, labels)]
        if not self._task.is_tagging:
            return folds
        return [(self._find(train), self._find(test)) for train, test in folds]

    def halve(self, rows: np.ndarray) -> np.ndarray:
        """The rows of every second of their texts or sentences."""
        return self._find(np.unique(self._sentences[rows])[::2])

    def _find(self, sentences: np.ndarray) -> np.ndarray:
        """int64. The words of some sentences; of texts, their rows."""
        return np.flatnonzero(np.isin(self._sentences, sentences))


def choose_states(validated: dict[States, Validated]) -> States:
    """The states to read: the default unless others are clearly better.

    Args:
        validated: The scores in the same folds, the default states first.
    """
    default, *others = validated
    usual = validated[default].scores
    ahead = {states: validated[states].scores - usual for states in others}
    better = [s for s in others if ahead[s].mean() > standard_error(ahead[s])]
    return max(better, key=lambda s: float(ahead[s].mean()), default=default)


def blocks_needed(profile: Sequence[BlockScore]) -> int:
    """The fewest blocks whose probe is within a standard error of the best."""
    best = max(profile, key=lambda line: line["score"])
    enough = best["score"] - best["standard_error"]
    return next(line["block"] for line in profile if line["score"] >= enough)


def _in_parallel(
    function: Callable[[*Arguments], T], items: Sequence[tuple[*Arguments]]
) -> list[T]:
    """A function's results for all arguments; threads share the arrays."""
    results: list[T] = joblib.Parallel(n_jobs=-1, prefer="threads")(
        joblib.delayed(function)(*item) for item in items
    )
    return results
