"""Runs on three tasks with known scores after every pass over one's data."""

import dataclasses

import numpy as np

from tests.reports import synthetic
from tf_transfer import multitask
from tf_transfer.data import cs224n
from tf_transfer.data.task import Task

ORDER = ("paraphrase", "similarity", "sentiment")

SIZES = {
    "train_sentiment": 8544,
    "validation_sentiment": 1101,
    "train_paraphrase": 15000,
    "validation_paraphrase": 5000,
    "train_similarity": 6040,
    "validation_similarity": 863,
}

# Of five sentiments, the commonest is two of four; of pairs, three of four.
ARRAYS = {
    "validation_sentiment_labels": np.array([3, 3, 0, 1]),
    "validation_paraphrase_labels": np.array([0, 0, 0, 1]),
    "validation_similarity_labels": np.array([0.0, 5.0], np.float32),
}


@dataclasses.dataclass(frozen=True)
class Multitask(multitask.Settings):
    """Settings whose files need not be there."""

    row = Task("cs224n", "", (), "", None, "overall", "", ())


def measured(sentiment, paraphrase, similarity):
    """Metrics of one evaluation, from points."""
    metrics = {
        "sentiment_accuracy": sentiment / 100,
        "paraphrase_accuracy": paraphrase / 100,
        "similarity_pearson": similarity / 100,
    }
    return {**metrics, "overall": cs224n.overall(metrics)}


def lines_of(phase, epoch, passes):
    """Lines of an epoch, a pass each; or one of tasks that share it."""
    return [
        {
            "phase": phase,
            "epoch": epoch,
            "task": task,
            "validation": measured(*points),
            "test": None,
            "elapsed_seconds": 1.0,
            "peak_memory_bytes": 2e9,
        }
        for task, points in passes
    ]


def write(root, scores, seeds=1, step=0.0, **changes):
    """Runs that end with these scores in points; seeds go up by `step`."""
    for seed in range(seeds):
        end = [score + seed * step for score in scores]
        write_lines(
            root, lines_of(1, 1, [(None, end)]), **{"seed": seed, **changes}
        )


def write_lines(root, lines, **changes):
    """A run with these lines of `epochs.jsonl`; heads took no time."""
    seconds = changes.get("seconds", 10.0)
    times = {"head": 0.0, "all": 2 * seconds}
    phases = [
        {"trainable_layers": name, "epochs": 2, "seconds": times[name]}
        for name in multitask.PHASES[changes.get("train", Multitask.train)]
    ]
    synthetic.write(
        root,
        None,
        cls=Multitask,
        tested=0,
        sizes=SIZES,
        lines=lines,
        facts={"phases": phases},
        **{"model": "minilm", "arrays": ARRAYS, **changes},
    )
