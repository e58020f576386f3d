"""Runs that are stopped inside an epoch."""

from tf_transfer.training import steps, trainer


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
