"""Runs that are stopped inside an epoch, and what they saved."""

import os

import safetensors.numpy

from tf_transfer.training import loop
from tf_transfer.training import run as run_lib


def stop_after(monkeypatch, count):
    """From now on each step is a chunk, and a signal comes after some.

    Args:
        count: chunks of all runs before it comes, once.

    Returns:
        List of the turn that each chunk was of; it grows.
    """
    monkeypatch.setattr(loop, "LONGEST_CHUNK", 1)
    turns = []
    original = run_lib.Run._after_chunk

    def stop(self, *arguments):
        turns.append(self.progress.turn)
        self.signals.came = len(turns) == count
        return original(self, *arguments)

    monkeypatch.setattr(run_lib.Run, "_after_chunk", stop)
    return turns


def checkpoint_of(folder):
    """The arrays of a run directory's one checkpoint."""
    folder = os.path.join(folder, "checkpoint")
    [name] = [n for n in os.listdir(folder) if n.endswith(".safetensors")]
    return safetensors.numpy.load_file(os.path.join(folder, name))
