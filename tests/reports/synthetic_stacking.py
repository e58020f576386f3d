"""Runs of stacking with known scores after every epoch of both phases."""

import dataclasses

import numpy as np

from tests.reports import synthetic
from tests.reports.composed import tables
from tf_transfer import stacking
from tf_transfer.data.task import Task

BASE = {"adaptation": "finetune_only"}

LABELS = {
    "ner": np.array([0, 0, 0, 1, 2]),  # O for three words of five
    "text": np.array([0, 1, 1, 1]),
    "pairs": np.array([0, 0, 0, 1]),
}

KINDS = ("PER", "ORG")


@dataclasses.dataclass(frozen=True)
class Stacking(stacking.Settings):
    """Settings whose files need not be there."""

    @property
    def row(self):
        metric = "f1" if self.task == "ner" else "accuracy"
        return Task(self.task, self.task, (), "", None, metric, "", ())


def metrics_of(task, score):
    """All that a task is measured by, from one score in points."""
    score /= 100
    if task != "ner":
        return {"accuracy": score, "f1": score - 0.1}
    found = {
        "accuracy": score + 0.05,
        "f1": score,
        "token_f1": score + 0.01,
        "precision": score - 0.02,
        "recall": score + 0.02,
    }
    for kind in KINDS:
        found |= {f"{n}_{kind}": found[n] for n in ("precision", "recall")}
        found[f"f1_{kind}"] = score
    return found


def lines_of(settings, scores, seconds):
    """A line an epoch of both phases; training is two points better."""
    first = settings.phase_one_epochs
    if settings.adaptation != "stack_and_finetune":
        first = 0
    lines = []
    for number, score in enumerate(scores, 1):
        own = metrics_of(settings.task, score)
        sample = metrics_of(settings.task, score + 2)
        lines.append(
            {
                "phase": 1 if number <= max(first, 0) or not first else 2,
                "phase_epoch": number if number <= first else number - first,
                "validation": {
                    **own,
                    **{f"train_{n}": v for n, v in sample.items()},
                },
                "test": own,
                "elapsed_seconds": seconds * number,
                "peak_memory_bytes": 1000,
            }
        )
    return lines


def phases_of(settings, scores, seconds, kept):
    """What `result.json` says of the phases."""
    trains = {"stack_and_finetune": ["head", "all"], "stack_only": ["head"]}
    found = []
    for name in trains.get(settings.adaptation, ["all"]):
        epochs = len(scores)
        if settings.adaptation == "stack_and_finetune":
            first = settings.phase_one_epochs
            epochs = first if name == "head" else epochs - first
        found.append(
            {
                "trainable_layers": name,
                "epochs": epochs,
                "lr": settings.head_lr if name == "head" else settings.lr,
                "seconds": seconds * epochs,
                "stop_reason": "max_epochs",
                **({"kept_epoch": kept} if name == "head" and kept else {}),
            }
        )
    return found


def write(
    root,
    task,
    scores,
    seeds=1,
    step=0.0,
    seconds=10.0,
    kept=None,
    logits=None,
    labels=None,
    prefix=None,
    **changes,
):
    """Runs with these scores in points after each epoch.

    They go up by `step` a seed.

    Args:
        kept: the epoch that the first phase ends with; unset, its last.
        logits: function from a seed to what it put out for the test set.
    """
    labels = LABELS[task] if labels is None else labels
    changes = {"task": task, "model": "tiny", **changes}
    for seed in range(seeds):
        settings = Stacking(**changes, seed=seed).resolve()
        here = [score + seed * step for score in scores]
        lines = lines_of(settings, here, seconds)
        units = 9 if task == "ner" else 1
        if logits is None:
            put_out = np.ones((len(labels), units))
        else:
            put_out = logits(seed)
        synthetic.write(
            root,
            None,
            cls=Stacking,
            lines=lines,
            seconds=seconds,
            seed=seed,
            sizes={"train": 10, "validation": 4, "test": 6, "sample": 4},
            predictions=(labels, put_out),
            prefix=prefix,
            facts={
                "validation": lines[-1]["validation"],
                "test": lines[-1]["test"],
                "phases": phases_of(settings, here, seconds, kept),
                "train_seconds": seconds * len(here),
            },
            **changes,
        )


def signs(parts, name):
    """Dict from (comparison, metric) to the cells of its line."""
    return {
        (row["comparison"], row["metric"]): row
        for row in tables(parts)[f"signs_A_{name}"]
    }
