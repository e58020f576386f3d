"""A finished run on the texts of one split: its score, with an interval."""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping

import numpy as np
import scipy.stats

from tf_transfer.comparison import bootstrap, estimates
from tf_transfer.comparison.estimates import Cell, Ranged
from tf_transfer.comparison.predictions import read_arrays
from tf_transfer.data import metrics
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.json_files import Record

SAMPLES = 500  # of the texts, for the intervals of one run
JOINED = 256  # cached joins
BELOW_CHANCE = 0.005  # p-value; several runs and splits are tested


@dataclasses.dataclass(frozen=True, eq=False)
class Scored:
    """A run on the texts of one split.

    Attributes:
        kind: `test` or `validation`.
        metric: The headline.
        scores: All metrics on the split, 0..1.
        ids: int64 [examples].
        labels: See `task.Examples`; of words, int64 [words].
        logits: float [examples or words, units].
        starts: Of words, int64 [sentences]: each one's first word.
        groups: int64 [examples or sentences]; see `task.Examples`.
        path: Of its directory.
        approach: Such as `last_2`.
        seconds: That it took, as if it had built its feature cache.
        trainable_parameters: Number of them.
    """

    kind: str
    metric: str
    scores: Mapping[str, float]
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray
    starts: np.ndarray | None = None
    groups: np.ndarray | None = None
    path: str = ""
    approach: str = ""
    seconds: float = math.nan
    trainable_parameters: int = 0

    @property
    def score(self) -> float:
        """The score of the headline metric, in points."""
        return 100 * self.scores[self.metric]

    @property
    def drawn(self) -> str:
        """The units that the bootstrap draws."""
        return "texts" if self.groups is None else "groups of texts"

    @property
    def is_tagged(self) -> bool:
        """Whether words are labelled."""
        return "token_f1" in self.scores

    @property
    def types(self) -> list[str]:
        """The types of the entities, if words are labelled."""
        return [n[3:] for n in self.scores if n.startswith("f1_")]

    @functools.cached_property
    def samples(self) -> np.ndarray:
        """Scores on samples of the texts, or sentences: float [SAMPLES]."""
        texts = self.labels if self.starts is None else self.starts
        times = bootstrap.draw(len(texts), SAMPLES, self.groups)
        return 100 * bootstrap.score_samples(
            self.metric,
            self.labels,
            self.logits,
            times,
            self.starts,
            self.types,
        )

    @functools.cached_property
    def cell(self) -> Cell:
        """Its score as that of a fixed model: texts vary, seeds do not."""
        texts = hashlib.sha256(self.kind.encode() + self.labels.tobytes())
        texts.update(self.ids.tobytes())
        freedom = math.inf
        if self.starts is not None:
            texts.update(self.starts.tobytes())
        if self.groups is not None:
            freedom = len(np.unique(self.groups)) - 1
        return Cell(
            np.array([self.score]),
            texts=texts.hexdigest(),
            resampled=(self.samples - self.score)[None],
            texts_freedom=freedom,
            is_trained=False,
        )

    @property
    def ranged(self) -> Ranged:
        """The score with its 95 % interval over texts, sentences or groups.

        Of accuracy it is Wilson's, which is right near 0 and 100, too; of
        other metrics, and of groups, a bootstrap's, and none where all samples
        score the same.
        """
        count, is_grouped = len(self.labels), self.groups is not None
        if self.metric == "accuracy" and not (self.is_tagged or is_grouped):
            test = scipy.stats.binomtest(round(count * self.score / 100), count)
            ends = test.proportion_ci(estimates.LEVEL, method="wilson")
            return Ranged(self.score, 100 * ends.low, 100 * ends.high)
        share = (1 - estimates.LEVEL) / 2
        low, high = np.quantile(self.samples, [share, 1 - share]).tolist()
        if low < high:
            return Ranged(self.score, low, high)
        return Ranged(self.score)

    @property
    def majority(self) -> float:
        """The majority baseline's score in points; nan for tasks of scores."""
        if self.is_tagged:
            return math.nan if self.metric == "accuracy" else 0.0
        if bootstrap.is_number(self.labels):
            return math.nan
        return 100 * metrics.majority(self.metric, self.labels)

    @property
    def constant(self) -> "Scored":
        """The majority baseline on the same texts; of scores any number."""
        if self.is_tagged:
            logits, score = np.zeros_like(self.logits), 0.0  # no entity
        else:
            logits = bootstrap.answer_majority(self.labels, self.logits)
            score = metrics.majority(self.metric, self.labels)
        scores = {**self.scores, self.metric: score}
        return dataclasses.replace(self, scores=scores, logits=logits)

    @property
    def is_below_chance(self) -> bool:
        """Whether labels and answers are shown to contradict each other.

        Of classes, they agree less often than independent answers of the same
        frequencies would (Cohen's kappa is negative); scores have a negative
        rank correlation. Words and several labels are not tested. One text
        of each group is, since the test is of independent texts.
        """
        if self.is_tagged or self.labels.ndim == 2:
            return False
        labels, logits = self.labels, self.logits
        if self.groups is not None:
            _, rows = np.unique(self.groups, return_index=True)
            labels, logits = labels[rows], logits[rows]
        if bootstrap.is_number(labels):
            if not np.ptp(logits):
                return False
            test = scipy.stats.spearmanr(
                labels, logits[:, 0], alternative="less"
            )
        else:
            answers = metrics.decide(logits)
            units = max(2, logits.shape[1])
            shares = [
                np.bincount(values, minlength=units) / len(values)
                for values in (labels, answers)
            ]
            right = int((labels == answers).sum())
            test = scipy.stats.binomtest(
                right, len(answers), np.dot(*shares), alternative="less"
            )
        return bool(test.pvalue < BELOW_CHANCE)

    def minus(self, other: "Scored") -> Ranged:
        """The difference of two scores in points, over the same texts.

        It is unknown if the texts differ, and has no interval if it is the same
        on all samples.
        """
        return estimates.subtract([self.cell], [other.cell])


def open_scored(path: str, kind: str = "") -> Scored | None:
    """A finished run; None where it is not, or has stored no predictions.

    Args:
        path: Of its directory.
        kind: `test` or `validation`; unset, the test if there is one.
    """
    directory = RunDirectory(path, None)
    record = directory.result()
    if record is None:
        return None
    kind = kind or ("test" if record["test"] else "validation")
    arrays = read_arrays(directory, record, kind)
    if "ids" not in arrays or not record[kind]:
        return None
    return Scored(
        kind,
        record["metric"],
        record[kind],
        arrays["ids"],
        arrays["labels"],
        arrays["logits"],
        arrays.get("starts"),
        arrays.get("groups"),
        path,
        record["approach"],
        count_seconds(record),
        record["trainable_parameters"],
    )


def count_seconds(record: Record) -> float:
    """The seconds of a run, as if it had built its feature cache.

    Args:
        record: The content of its `result.json`.
    """
    seconds: float = record["train_seconds"] - (record["prefix_seconds"] or 0.0)
    return max(seconds + (record["prefix_build_seconds"] or 0.0), 1e-3)


@functools.lru_cache(maxsize=JOINED)  # their samples take long
def join(runs: tuple[Scored, ...]) -> Scored:
    """The runs of one approach on several folds, as one run on all their texts.

    Texts that several runs have scored, with other seeds, are drawn together.
    Seconds are the median.

    Args:
        runs: One at least, each on the texts that its fold holds out.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    ids, labels, logits = (
        np.concatenate([getattr(run, name) for run in runs])
        for name in ("ids", "labels", "logits")
    )
    starts = groups = None
    if first.starts is not None:
        ends = np.cumsum([0, *(len(run.labels) for run in runs)])
        parts = [run.starts for run in runs if run.starts is not None]
        starts = np.concatenate([part + end for part, end in zip(parts, ends)])
    if first.groups is not None:
        groups = np.concatenate(
            [run.groups for run in runs if run.groups is not None]
        )
    elif len(np.unique(ids)) < len(ids):
        groups = ids
    texts = len(labels) if starts is None else len(starts)
    [score] = bootstrap.score_samples(
        first.metric,
        labels,
        logits,
        np.ones((1, texts), np.int64),
        starts,
        first.types,
    )
    return dataclasses.replace(
        first,
        scores={**first.scores, first.metric: float(score)},
        ids=ids,
        labels=labels,
        logits=logits,
        starts=starts,
        groups=groups,
        seconds=float(np.median([run.seconds for run in runs])),
    )
