"""A few rows a file of the CS224N project, and a run on them."""

import numpy as np

from tests.support import run_files
from tf_transfer.data import cs224n
from tf_transfer.multitask import experiment as multitask

WORDS = ("the dog was not in house good film water children two cats").split()
SIZES = {"sentiment": 10, "paraphrase": 24, "similarity": 12}
LABELS = {
    "sentiment": lambda n: n % 5,
    "paraphrase": lambda n: float(n % 2),
    "similarity": lambda n: n % 6,
}


def write(folder, task, split, rows):
    """Writes a file: rows are cells behind the first column."""
    header = ["", "id", *task.texts, task.label]
    lines = ["\t".join(header)]
    for number, cells in enumerate(rows):
        lines.append("\t".join([str(number), f"id{number}", *map(str, cells)]))
    path = folder / cs224n.file_name(task, split)
    path.write_text("\n".join(lines) + "\n")


def write_all(folder):
    """Writes all that a run reads."""
    draw = np.random.default_rng(0)
    for task in cs224n.TASKS.values():
        for split in ("train", "dev"):
            write(
                folder,
                task,
                split,
                [
                    (
                        *(" ".join(draw.choice(WORDS, 4)) for _ in task.texts),
                        LABELS[task.name](number),
                    )
                    for number in range(SIZES[task.name])
                ],
            )


def settings_of(folder, **changes):
    """Of a run on those files that takes seconds."""
    return multitask.Settings(
        **{
            "data": str(folder),
            "model": "tiny",
            "max_length": 16,
            "batch_size": 8,
            "max_epochs": 2,
            "out": str(folder / "runs"),
            "cache_dir": str(folder / "cache"),
            "lr": 1e-3,
            "head_lr": 1e-2,
            **changes,
        }
    ).resolve()


def run_folder(settings):
    """The run directory of these settings."""
    return multitask.Multitask(settings).find_run().path


def lines_of(settings):
    """What the run's `epochs.jsonl` says."""
    return run_files.epochs_of(run_folder(settings))
