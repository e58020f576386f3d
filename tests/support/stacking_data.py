"""A few tagged sentences, answers and pairs of questions."""

import csv
import os

import numpy as np

from tests.support import cs224n_runs, run_files
from tf_transfer.data import cs224n
from tf_transfer.stacking import experiment as stacking

WORDS = ("the dog was not in house good film water children two cats").split()
SIZES = {"train": 24, "testa": 9, "testb": 7}


def write_conll(folder):
    """Sentences in which `dog` is a person and `two cats` an organisation."""
    draw = np.random.default_rng(0)
    tags = {"dog": "I-PER", "two": "I-ORG", "cats": "I-ORG"}
    for split, count in SIZES.items():
        lines = []
        for _ in range(count):
            words = draw.choice(WORDS, draw.integers(3, 9))
            lines += [f"{word} {tags.get(word, 'O')}" for word in words] + [""]
        (folder / f"eng.{split}").write_text("\n".join(lines) + "\n")


def write_yahoo(folder):
    """Classes 1 and 2, told apart by a word, and a third."""
    for split, count in (("train", 30), ("test", 12)):
        with open(folder / f"{split}.csv", "w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            for number in range(count):
                word = ("film", "water", "dog")[number % 3]
                writer.writerow(
                    [number % 3 + 1, f"good {word}", "", f"not {word}"]
                )


def write_quora(folder):
    task = cs224n.TASKS["paraphrase"]
    for split, count in (("train", 30), ("dev", 12)):
        cs224n_runs.write(
            folder,
            task,
            split,
            [
                ("two cats", ("two cats", "water")[n % 2], float(1 - n % 2))
                for n in range(count)
            ],
        )


WRITE = {"ner": write_conll, "text": write_yahoo, "pairs": write_quora}


def settings_of(folder, task="ner", **changes):
    """Of a run that takes seconds; writes its data."""
    data = folder / task
    if not data.exists():
        data.mkdir()
        WRITE[task](data)
    return stacking.Settings(
        **{
            "task": task,
            "data": str(data),
            "model": "tiny",
            "max_length": 16,
            "batch_size": 8,
            "max_epochs": 1,
            "phase_one_epochs": 1,
            "phase_one_gap": -1.0,
            "lr": 1e-3,
            "head_lr": 1e-2,
            "validation_fraction": 0.2,
            "out": str(folder / "runs"),
            "cache_dir": str(folder / "cache"),
            **changes,
        }
    ).resolve()


def run_folder(settings):
    """The run directory of these settings."""
    return stacking.Stacking(settings).find_run().path


def lines_of(settings):
    """What the run's `epochs.jsonl` says."""
    return run_files.epochs_of(run_folder(settings))


def arrays_of(settings):
    """What the run's `predictions.npz` holds."""
    return np.load(os.path.join(run_folder(settings), "predictions.npz"))
