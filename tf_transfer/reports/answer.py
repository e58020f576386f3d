"""What a finished run comes to, in a few lines: the end of a command.

Its score with an interval, beside what the commonest answer and a baseline
score on the same texts; what it took; what to try next; and how to predict.
"""

import dataclasses
from typing import Any

import numpy as np

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
    """

    path: str
    record: dict[str, Any]
    kind: str
    ids: np.ndarray
    labels: np.ndarray
    logits: np.ndarray

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
        found = [arrays[f"{kind}_{n}"] for n in ("ids", "labels", "logits")]
    return Scored(path, record, kind, *found)


# === Intervals ===


def score_interval(run: Scored) -> tuple[float, float] | None:
    """95 % bootstrap interval over texts, in points; None of words."""
    if run.is_tagged or len(run.labels) < 2:
        return None
    return _interval(len(run.labels), lambda rows: _score(run, rows))


def difference_interval(
    run: Scored, other: Scored
) -> tuple[float, float] | None:
    """The same of the difference, over the same texts; None if they differ."""
    if run.is_tagged or not np.array_equal(run.ids, other.ids):
        return None
    return _interval(
        len(run.labels), lambda rows: _score(run, rows) - _score(other, rows)
    )


def _score(run: Scored, rows: np.ndarray) -> float:
    measure = metrics.METRICS[run.metric]
    return 100 * measure(run.labels[rows], run.logits[rows])


def _interval(count: int, statistic: Any) -> tuple[float, float]:
    rows = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    values = [statistic(drawn) for drawn in rows]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


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
        f"In brackets: {LEVEL:.0%} intervals over texts. Training took "
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
        steps.append(
            f"{cut_share:.0%} of the texts are cut: --long_texts=head_tail, or "
            "a larger --max_length."
        )
    if record["best_epoch"] == record["epochs_run"]:
        steps.append(
            "the last epoch was the best: "
            f"--max_epochs={2 * settings.max_epochs}."
        )
    if settings.approach == "fine_tuning":
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
