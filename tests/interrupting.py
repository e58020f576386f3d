"""Runs that are stopped inside an epoch, and what they saved."""

import os

import safetensors.numpy

from tf_transfer.training import steps
from tf_transfer.training import trainer


def stop_after(monkeypatch, count):
    """From now on each step is a chunk, and a signal comes after some.

    Args:
        count: chunks of all runs before it comes, once.

    Returns:
        List of the index of the task of each chunk; it grows.
    """
    monkeypatch.setattr(steps, "LONGEST_CHUNK", 1)
    tasks = []
    original = trainer.Trainer._after_chunk

    def stop(self, *arguments):
        tasks.append(self.progress.task)
        self._signals.came = len(tasks) == count
        return original(self, *arguments)

    monkeypatch.setattr(trainer.Trainer, "_after_chunk", stop)
    return tasks


def checkpoint_of(folder):
    """The arrays of a run directory's one checkpoint."""
    folder = os.path.join(folder, "checkpoint")
    [name] = [n for n in os.listdir(folder) if n.endswith(".safetensors")]
    return safetensors.numpy.load_file(os.path.join(folder, name))
