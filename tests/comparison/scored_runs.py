"""Finished runs in memory, scored on texts of two classes.

run = answer_texts(labels, answers)
better = answer_first(180)
"""

import numpy as np

from tf_transfer.comparison.finished_runs import Scored
from tf_transfer.data import metrics


def score_run(labels, logits, metric="accuracy", **changes):
    """A run on the test.

    Args:
        labels, logits: see `finished_runs.Scored`.
        metric: the only one.
        changes: what else is in the run.
    """
    scores = {metric: metrics.METRICS[metric](labels, logits)}
    fields = {"scores": scores, "ids": np.arange(len(labels)), **changes}
    return Scored(
        kind="test", metric=metric, labels=labels, logits=logits, **fields
    )


def answer_texts(labels, answers, metric="accuracy", **changes):
    """A run that gives texts of two classes these answers."""
    logits = np.where(answers == 1, 1.0, -1.0)[:, None]
    return score_run(labels, logits, metric, **changes)


def answer_first(right, count=200, **changes):
    """A run that answers the first `right` texts correctly, no others."""
    labels = np.arange(count) % 2
    answers = np.where(np.arange(count) < right, labels, 1 - labels)
    return answer_texts(labels, answers, **changes)
