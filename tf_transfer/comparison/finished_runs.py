"""Finished runs: their scores with intervals, and their comparison.

All runs on the same texts are scored on the same samples of these, so that the
chance of the texts cancels in the difference of two runs.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.stats

from tf_transfer.comparison import estimates
from tf_transfer.comparison.decisions import Row
from tf_transfer.comparison.estimates import FEWEST_SEEDS, Ranged, UNKNOWN
from tf_transfer.comparison.predictions import draw, read_arrays
from tf_transfer.data import entities, metrics
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.formatting import count
from tf_transfer.utils.json_files import Record

SAMPLES = 500  # of the texts, for the intervals of one run
BELOW_CHANCE = 0.005  # p-value; several runs and splits are tested
BASELINES = ("probe", "tfidf")  # approaches of `train` that train no encoder


@dataclasses.dataclass(frozen=True)
class Scored:
    """A run on the texts of one split.

    Attributes:
        path: of its directory.
        record: what `result.json` says.
        kind: `test` or `validation`.
        ids: int64 [examples].
        labels: see `task.Examples`; of words, int64 [words].
        logits: float [examples or words, units].
        starts: of words, int64 [sentences]: each one's first word.
        groups: int64 [examples or sentences]; see `task.Examples`.
    """

    path: str
    record: Record
    kind: str
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray
    starts: np.ndarray | None = None
    groups: np.ndarray | None = None

    @property
    def metric(self) -> str:
        """The headline."""
        return self.record["metric"]

    @property
    def score(self) -> float:
        """Of the headline metric, in points."""
        return 100 * self.record[self.kind][self.metric]

    @property
    def drawn(self) -> str:
        """What the samples draw."""
        return "texts" if self.groups is None else "groups of texts"

    @property
    def is_tagged(self) -> bool:
        """Whether words are labelled."""
        return "token_f1" in self.record[self.kind]

    @functools.cached_property
    def samples(self) -> np.ndarray:
        """Scores on samples of the texts, or sentences: float [SAMPLES]."""
        if self.starts is None:
            measure = metrics.METRICS[self.metric]
            rows = np.arange(len(self.labels))
            scores = []
            for times in draw(len(rows), SAMPLES, self.groups):
                drawn = rows.repeat(times)
                scores.append(measure(self.labels[drawn], self.logits[drawn]))
            return 100 * np.array(scores)
        names = [n[3:] for n in self.record[self.kind] if n.startswith("f1_")]
        counts = entities.count_by_sentence(
            entities.Tagged(self.labels, self.starts),
            entities.Tagged(self.logits.argmax(axis=1), self.starts),
            names,
        )[self.metric]
        times = draw(len(counts), SAMPLES, self.groups)
        right, whole = (times @ counts).T
        return 100 * right / np.maximum(whole, 1)

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
        """What the majority baseline scores, in points; nan of a score."""
        if self.is_tagged:
            return math.nan if self.metric == "accuracy" else 0.0
        if self.is_of_numbers:
            return math.nan
        return 100 * metrics.majority(self.metric, self.labels)

    @property
    def is_of_numbers(self) -> bool:
        """Whether the labels are scores."""
        return np.issubdtype(self.labels.dtype, np.floating)

    @property
    def constant(self) -> "Scored":
        """The majority baseline on the same texts; of scores any number."""
        logits, score = np.zeros_like(self.logits), 0.0  # words: no entity
        if not (self.is_tagged or self.is_of_numbers):
            logits = metrics.majority_logits(self.labels)
            score = metrics.majority(self.metric, self.labels)
        scores = {**self.record[self.kind], self.metric: score}
        record = {**self.record, self.kind: scores}
        return dataclasses.replace(self, record=record, logits=logits)

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
        if self.is_of_numbers:
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
        name = "starts" if self.is_tagged else "ids"
        texts, other_texts = getattr(self, name), getattr(other, name)
        if self.kind != other.kind or not np.array_equal(texts, other_texts):
            return UNKNOWN
        if not np.array_equal(self.labels, other.labels):
            return UNKNOWN
        freedom = math.inf
        if self.groups is not None:
            freedom = len(np.unique(self.groups)) - 1
        value = self.score - other.score
        error = float(np.std(self.samples - other.samples, ddof=1))
        if not error:
            return Ranged(value)
        return estimates.Estimate(
            value, error, freedom, {"texts": error}
        ).ranged()


def open_scored(path: str, kind: str = "") -> Scored | None:
    """A finished run; None where it is not, or has stored no predictions.

    Args:
        path: of its directory.
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
    ids, labels, logits = (arrays[n] for n in ("ids", "labels", "logits"))
    starts, groups = arrays.get("starts"), arrays.get("groups")
    return Scored(path, record, kind, ids, labels, logits, starts, groups)


# === Runs on the same texts ===


def compare_runs(
    paths: Mapping[str, str], reference: str = "", kind: str = ""
) -> list[Row]:
    """A row for each finished run, with differences over the same texts.

    Args:
        paths: their directories, by what to call them.
        reference: the one that others are compared with. Unset: the best on
            the split that is compared.
        kind: of that split. Unset: `validation`, where all runs have it, as the
            test must not choose; else `test`.

    Returns:
        No row for runs that have stored no predictions.
    """
    opened = {}
    for name, path in paths.items():
        splits = (open_scored(path, split) for split in ("validation", "test"))
        opened[name] = {one.kind: one for one in splits if one is not None}
    if not kind:
        has_validated = ["validation" in splits for splits in opened.values()]
        kind = "validation" if all(has_validated) else "test"
    runs = {name: one[kind] for name, one in opened.items() if kind in one}
    if reference not in runs:
        reference = max(runs, key=lambda name: runs[name].score, default="")
    baselines = {
        name: run
        for name, run in runs.items()
        if run.record["approach"].startswith(BASELINES)
    }
    rows: list[Row] = []
    if not runs:
        return rows
    other = runs[reference]
    constant = other.constant
    for name, run in runs.items():
        is_baseline = name in baselines
        seconds = count_seconds(run.record)
        parameters = max(other.record["trainable_parameters"], 1)
        below = [
            f"{one.score:.1f} on {_count_texts(one)}"
            for one in opened[name].values()
            if one.is_below_chance
        ]
        shown = {split: one.ranged for split, one in opened[name].items()}
        rows.append(
            Row(
                name,
                validation=shown.get("validation", UNKNOWN),
                test=shown.get("test", UNKNOWN),
                difference=UNKNOWN if run is other else run.minus(other),
                time=Ranged(100 * seconds / count_seconds(other.record)),
                weights=100 * run.record["trainable_parameters"] / parameters,
                seeds=0 if is_baseline else 1,
                scored=_count_texts(run),
                is_reference=run is other,
                is_baseline=is_baseline,
                seconds=seconds,
                lead=run.minus(constant),
                gains={
                    baseline: run.minus(floor)
                    for baseline, floor in baselines.items()
                    if floor is not run
                },
                below_chance=", ".join(below),
            )
        )
    return rows


def _count_texts(run: Scored) -> str:
    return count(len(run.ids), f"{run.kind} text")


def count_seconds(record: Record) -> float:
    """What a finished run took, as if it had built its feature cache."""
    seconds = record["train_seconds"] - (record["prefix_seconds"] or 0.0)
    return max(seconds + (record["prefix_build_seconds"] or 0.0), 1e-3)


def compare_folds(
    row: Row,
    by_fold: Mapping[int, float],
    others: Mapping[str, Mapping[int, float]],
    reference: str,
) -> Row:
    """A row whose difference and gains are means over the shared folds.

    They have no interval over fewer than `FEWEST_SEEDS` folds.

    Args:
        row: by the texts of its first fold.
        by_fold: its scores.
        others: the scores of all that may be compared with it, by name.
        reference: the name of what it is compared with.
    """

    def average_over(name: str, ranged: Ranged) -> Ranged:
        gains = [
            by_fold[n] - v for n, v in others[name].items() if n in by_fold
        ]
        if len(gains) < 2:
            return ranged
        if len(gains) < FEWEST_SEEDS:
            return Ranged(float(np.mean(gains)))
        return average(gains)

    if len(by_fold) < 2:
        return row
    difference = row.difference
    if not row.is_reference:
        difference = average_over(reference, difference)
    return dataclasses.replace(
        row,
        difference=difference,
        gains={name: average_over(name, r) for name, r in row.gains.items()},
        scored=f"{len(by_fold)} folds of {row.scored}",
    )


def average(values: Sequence[float]) -> Ranged:
    """The mean of scores over seeds or folds, with an interval."""
    mean, error = float(np.mean(values)), float(scipy.stats.sem(values))
    return estimates.Estimate(mean, error, len(values) - 1).ranged()
