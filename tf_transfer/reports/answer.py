"""What a finished run comes to, in a few lines: the end of a command.

Its score with an interval, beside what the commonest answer and a baseline
score on the same texts; what it took; what to try next; and how to predict.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats

from tf_transfer.data import entities
from tf_transfer.data import metrics
from tf_transfer.training import records
from tf_transfer.utils import formatting

RESAMPLES = 500
LEVEL = 0.95
CUT_SHARE = 0.05  # of the texts, from which on more length is advised


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


def open_scored(path: str, kind: str = "") -> Scored | None:
    """A finished run; None where it is not, or has stored no predictions.

    Args:
        path: Of its directory.
        kind: `test` or `validation`; unset, the test if there is one.
    """
    directory = records.RunDirectory(path, None)
    record = directory.result()
    if record is None or "predictions.npz" not in record["sha256"]:
        return None
    kind = kind or ("test" if record["test"] else "validation")
    path_of_arrays = directory.check_file("predictions.npz", record)
    with np.load(path_of_arrays) as arrays:
        found = {
            name: arrays[f"{kind}_{name}"]
            for name in ("ids", "labels", "logits", "starts")
            if f"{kind}_{name}" in arrays
        }
    return Scored(path, record, kind, **found)


# === Intervals ===


def score_interval(run: Scored) -> tuple[float, float] | None:
    """95 % interval over texts, or sentences, in points.

    Of accuracy it is Wilson's, which is right near 0 and 100, too; of others a
    bootstrap's, and None where that has no width.
    """
    count, score = _scorer(run)
    if run.metric == "accuracy" and not run.is_tagged:
        right = round(count * run.score / 100)
        interval = scipy.stats.binomtest(right, count).proportion_ci(
            LEVEL, method="wilson"
        )
        return 100 * float(interval.low), 100 * float(interval.high)
    return None if count < 2 else _interval(count, score)


def difference_interval(
    run: Scored, other: Scored
) -> tuple[float, float] | None:
    """The bootstrap's of the difference, over the same texts.

    None if the texts differ, or if it has no width.
    """
    names = ("labels", "starts" if run.is_tagged else "ids")
    if run.kind != other.kind or not all(
        np.array_equal(getattr(run, name), getattr(other, name))
        for name in names
    ):
        return None
    (count, score), (_, other_score) = _scorer(run), _scorer(other)
    return _interval(count, lambda rows: score(rows) - other_score(rows))


def _scorer(run: Scored) -> tuple[int, Callable[[np.ndarray], float]]:
    """How many texts or sentences, and the score of some, in points."""
    if not run.is_tagged:
        measure = metrics.METRICS[run.metric]
        return len(
            run.labels
        ), lambda rows: 100 * measure(run.labels[rows], run.logits[rows])
    assert run.starts is not None
    names = [n[3:] for n in run.record[run.kind] if n.startswith("f1_")]
    counts = entities.count_by_sentence(
        entities.Tagged(run.labels, run.starts),
        entities.Tagged(run.logits.argmax(axis=1), run.starts),
        names,
    )[run.metric]
    return len(
        counts
    ), lambda rows: 100 * entities.divide(counts[rows].sum(axis=0))


def _interval(
    count: int, statistic: Callable[[np.ndarray], float]
) -> tuple[float, float] | None:
    rows = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    values = [statistic(drawn) for drawn in rows]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(values, [tail, 100 - tail])
    return (float(low), float(high)) if low < high else None


def majority(run: Scored) -> float | None:
    """What the commonest answer scores, in points; None of a score."""
    if run.is_tagged:
        return 0.0 if run.metric != "accuracy" else None
    if np.issubdtype(run.labels.dtype, np.floating):
        return None
    return 100 * metrics.majority(run.metric, run.labels)


# === The answer ===


def describe(
    run: Scored,
    baseline: Scored | None,
    predict: str,
    next_steps: list[str],
) -> str:
    """The lines at the end of a command.

    Args:
        run: what was asked for.
        baseline: words alone, on the same texts.
        predict: the command that predicts.
        next_steps: see `suggest`.
    """
    record = run.record
    what = "words" if run.is_tagged else "texts"
    verb = "tested" if run.kind == "test" else "validated"
    rows = [
        (
            f"{record['task']}, {record['approach']}",
            f"{run.metric} {run.score:.1f}{_in_brackets(score_interval(run))}",
            f"on {len(run.labels):,} {verb} {what}",
        )
    ]
    if baseline is not None and baseline.path != run.path:
        name = "commonest tag of each word" if run.is_tagged else "words alone"
        difference = difference_interval(run, baseline)
        rows.append(
            (
                name,
                f"{run.metric} {baseline.score:.1f}"
                f"{_in_brackets(score_interval(baseline))}",
                ""
                if difference is None
                else f"{run.score - baseline.score:+.1f} points ahead"
                f"{_in_brackets(difference)}",
            )
        )
    commonest = majority(run)
    if commonest is not None:
        rows.append(("commonest answer", f"{run.metric} {commonest:.1f}", ""))
    lines = ["", formatting.aligned(rows)]
    lines.append(
        f"In brackets: {LEVEL:.0%} intervals over "
        f"{'sentences' if run.is_tagged else 'texts'}. Training took "
        f"{formatting.duration(record['train_seconds'])}."
    )
    lines += [f"Next: {step}" for step in next_steps]
    lines.append(f"To predict: {predict}")
    return "\n".join(lines)


def _in_brackets(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return ""
    return f" ({interval[0]:.1f} to {interval[1]:.1f})"


def suggest(
    run: Scored, baseline: Scored | None, settings: Any, cut_share: float = 0.0
) -> list[str]:
    """What to try next, the most useful first.

    Args:
        run: what was asked for.
        baseline: words alone, on the same texts.
        settings: of the run.
        cut_share: share of its texts that were cut.
    """
    record, steps = run.record, []
    commonest = majority(run)
    if record["best_epoch"] is None:
        return ["an encoder: the same command without --features=tfidf."]
    if commonest is not None and run.score <= commonest + 0.05:
        steps.append(
            "it has not learned: another rate, such as "
            f"--lr={settings.lr / 3:.0e} or --lr={settings.lr * 3:.0e}."
        )
    elif baseline is not None:
        interval = difference_interval(run, baseline)
        if interval is not None and interval[0] <= 0:
            steps.append(
                "words alone are not clearly worse: more labelled texts, or "
                "stay with them."
            )
    if cut_share > CUT_SHARE:
        keep_ends = "--long_texts=head_tail, or "
        if settings.long_texts == "head_tail":
            keep_ends = ""
        steps.append(
            f"{cut_share:.0%} of the texts are cut: {keep_ends}a larger "
            "--max_length."
        )
    if record["best_epoch"] == record["epochs_run"]:
        steps.append(
            "the last epoch was the best: "
            f"--max_epochs={2 * settings.max_epochs}."
        )
    if settings.trains_everything:
        steps.append(
            "--trainable_layers=2 trains the last two blocks alone, several "
            "times faster; --seed=1 shows how much chance there is."
        )
    else:
        steps.append(
            "--trainable_layers=all trains everything; --seed=1 shows how much "
            "chance there is."
        )
    return steps
