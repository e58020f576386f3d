"""The result of a finished run in a few lines, at the end of a command.

Its score with an interval, next to what the majority baseline and a baseline
score on the same texts; what it took; what to try next; and how to predict.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.stats

from tf_transfer.data import entities, metrics
from tf_transfer.reports import errors, resampling
from tf_transfer.reports.predictions import read_arrays
from tf_transfer.training import records
from tf_transfer.utils import formatting

RESAMPLES = 500
LEVEL = 0.95
PROBE, MAJORITY = "the probe", "the majority baseline"
TFIDF, MOST_FREQUENT_TAG = "the TF-IDF baseline", "the most frequent tag"


@dataclasses.dataclass(frozen=True)
class Scored:
    """A run on the texts that it is judged by.

    Attributes:
        path: Of its directory.
        record: What `result.json` says.
        kind: `test`, or `validation` where nothing is tested.
        ids: int64 [examples].
        labels: See `task.Examples`; of words, int64 [words].
        logits: float [examples or words, units].
        starts: Of words, int64 [sentences]: each one's first word.
    """

    path: str
    record: dict[str, Any]
    kind: str
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray
    starts: np.ndarray | None = None

    @property
    def metric(self) -> str:
        """The headline."""
        return self.record["metric"]

    @property
    def score(self) -> float:
        """Of the headline metric, in points."""
        return 100 * self.record[self.kind][self.metric]

    @property
    def is_tagged(self) -> bool:
        """Whether words are labelled."""
        return "token_f1" in self.record[self.kind]

    @functools.cached_property
    def samples(self) -> np.ndarray:
        """Scores on samples of the texts, or sentences: float [RESAMPLES]."""
        if self.starts is None:
            measure = metrics.METRICS[self.metric]
            rows = np.arange(len(self.labels))
            scores = []
            for times in resampling.draw(len(rows), RESAMPLES):
                drawn = rows.repeat(times)
                scores.append(measure(self.labels[drawn], self.logits[drawn]))
            return 100 * np.array(scores)
        names = [n[3:] for n in self.record[self.kind] if n.startswith("f1_")]
        counts = entities.count_by_sentence(
            entities.Tagged(self.labels, self.starts),
            entities.Tagged(self.logits.argmax(axis=1), self.starts),
            names,
        )[self.metric]
        times = resampling.draw(len(counts), RESAMPLES)
        right, whole = (times @ counts).T
        return 100 * right / np.maximum(whole, 1)


def open_scored(path: str, kind: str = "") -> Scored | None:
    """A finished run; None where it is not, or has stored no predictions.

    Args:
        path: Of its directory.
        kind: `test` or `validation`; unset, the test if there is one.
    """
    directory = records.RunDirectory(path, None)
    record = directory.result()
    if record is None:
        return None
    kind = kind or ("test" if record["test"] else "validation")
    arrays = read_arrays(directory, record, kind)
    if "ids" not in arrays:
        return None
    ids, labels, logits = (arrays[n] for n in ("ids", "labels", "logits"))
    starts = arrays.get("starts")
    return Scored(path, record, kind, ids, labels, logits, starts)


def name_baseline(features: str, is_tagging: bool) -> str:
    """What to call a baseline.

    Args:
        features: `frozen` or `tfidf`.
        is_tagging: whether words are labelled.
    """
    if features == "frozen":
        return PROBE
    return MOST_FREQUENT_TAG if is_tagging else TFIDF


# === Intervals ===


def score_interval(run: Scored) -> tuple[float, float] | None:
    """95 % interval over texts, or sentences, in points.

    Of accuracy it is Wilson's, which is right near 0 and 100, too; of others a
    bootstrap's, and None where that has no width.
    """
    if run.metric != "accuracy" or run.is_tagged:
        return _interval(run.samples)
    count = len(run.labels)
    test = scipy.stats.binomtest(round(count * run.score / 100), count)
    low, high = test.proportion_ci(LEVEL, method="wilson")
    return 100 * float(low), 100 * float(high)


def difference_interval(
    run: Scored, other: Scored
) -> tuple[float, float] | None:
    """The bootstrap's of the difference, over the same texts.

    None if the texts differ, or if it has no width.
    """
    name = "starts" if run.is_tagged else "ids"
    texts, other_texts = getattr(run, name), getattr(other, name)
    if run.kind != other.kind or not np.array_equal(texts, other_texts):
        return None
    if not np.array_equal(run.labels, other.labels):
        return None
    return _interval(run.samples - other.samples)


def _interval(values: np.ndarray) -> tuple[float, float] | None:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if low < high:
        return float(low), float(high)
    return None


def majority(run: Scored) -> float | None:
    """What the majority baseline scores, in points; None of a score."""
    if run.is_tagged:
        return 0.0 if run.metric != "accuracy" else None
    if np.issubdtype(run.labels.dtype, np.floating):
        return None
    return 100 * metrics.majority(run.metric, run.labels)


# === The answer ===


def describe(
    run: Scored,
    baselines: Mapping[str, Scored],
    predict: str,
    profile: Mapping[str, Any] | None = None,
    wrong: Mapping[str, Any] | None = None,
) -> str:
    """The lines at the end of a command.

    Args:
        run: what was asked for.
        baselines: on the same texts, by what to call them, such as `PROBE`.
        predict: the command that predicts.
        profile: what `depth_profile.json` says, if there is one.
        wrong: the entry of `errors.json` for the scored split.
    """
    task, approach = run.record["task"], run.record["approach"]
    rows = [(f"{task}, {approach}", run.metric, format_score(run), "")]
    for name, other in baselines.items():
        lead = ""
        if interval := difference_interval(run, other):
            lead = _show_lead(run.score - other.score, *interval)
        rows.append((name, other.metric, format_score(other), lead))
    majority_score = majority(run)
    if majority_score is not None:
        rows.append((MAJORITY, run.metric, f"{majority_score:.1f}", ""))
    examples, resampled = "texts", "texts"
    if run.is_tagged:
        examples, resampled = "words", "sentences"
    duration = formatting.duration(run.record["train_seconds"])
    lines = [
        f"\n{run.kind.capitalize()}: {run.metric} {format_score(run)} on "
        f"{len(run.labels):,} {examples}.",
        formatting.aligned(rows),
        f"In brackets: {LEVEL:.0%} intervals over {resampled}. Training took "
        f"{duration}.",
    ]
    if profile is not None:
        lines.append(describe_profile(profile))
    if wrong is not None:
        lines.append(f"Errors (all of them in {run.path}/errors.json):")
        lines.append(errors.summarize(wrong))
    return "\n".join([*lines, f"To predict: {predict}"])


def format_score(run: Scored) -> str:
    """A score with its interval in brackets."""
    return show_score(run.score, score_interval(run))


def show_score(score: float, interval: tuple[float, float] | None) -> str:
    """Points, and an interval if there is one; see `format_score`."""
    if interval is None:
        return f"{score:.1f}"
    low, high = interval
    return f"{score:.1f} ({low:.1f} to {high:.1f})"


def _show_lead(lead: float, low: float, high: float) -> str:
    """How much more or less than the run a baseline scores."""
    if lead < 0:
        return f"{-lead:.1f} points more ({-high:.1f} to {-low:.1f})"
    return f"{lead:.1f} points less ({low:.1f} to {high:.1f})"


def describe_profile(profile: Mapping[str, Any]) -> str:
    """The depth profile in a line.

    Args:
        profile: what `depth_profile.json` says.
    """
    scores = " ".join(
        f"{100 * line['score']:.1f}" for line in profile["blocks"]
    )
    needed, last = profile["blocks_needed"], profile["blocks"][-1]["block"]
    if 0 < needed < last:
        scores += (
            f"; {needed} of {last} blocks are within a standard error of the "
            f"best: --keep_blocks={needed}"
        )
    return (
        f"Depth profile, {profile['metric']} of the probe below block 1 and "
        f"above each block: {scores}."
    )
