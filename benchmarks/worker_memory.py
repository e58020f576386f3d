"""The memory of a worker over many runs: it should not grow.

    python -m benchmarks.worker_memory --document=docs/guides/sweeps.md

One worker does small runs that differ in task, trained blocks, rate and seed,
in the order of a sweep. It reports its memory after each.
"""

import contextlib
import os
import tempfile
from collections.abc import Sequence
from typing import Any

from absl import flags

from benchmarks import documents
from tf_transfer.config import command_line
from tf_transfer.sweeps import execute, grid as grid_lib, local, work
from tf_transfer.utils.errors import UserError

MARK = "memory"
SHOWN_COUNTS = (1, 10, 50, 100, 200, 500, 1000)  # after how many runs


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_integer("runs", 200, "Number of runs.", 1)
    flags.DEFINE_string("model", "tiny", "The encoder.")
    flags.DEFINE_string("data", "sample", "Data, as for tf_transfer.glue.")
    flags.DEFINE_string("document", "", "Document to write the table into.")


class RecordingWorker(local.LocalWorker):
    """A worker whose memory is recorded.

    Attributes:
        memory: Bytes after each run.
        peak: The most bytes so far, after each run.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.memory: list[int] = []
        self.peak: list[int] = []
        self._peak = 0

    def receive(self) -> tuple[list[dict[str, Any]], int | None]:
        """Its reports since the last time, and its exit code."""
        messages, exit_code = super().receive()
        for message in messages:
            self._peak = max(self._peak, message["memory"])
            if message["event"] == "ended":
                self.memory.append(message["memory"])
                self.peak.append(self._peak)
        return messages, exit_code


def measure(count: int, model: str, data: str, out: str) -> RecordingWorker:
    """Does runs in one worker.

    Args:
        count: Number of runs.
        model: The encoder of the runs.
        data: The data of the runs.
        out: Folder of the runs.

    Raises:
        UserError: One failed, or the worker had to be replaced.
    """
    cases = 8  # tasks, trained blocks and rates
    grid = grid_lib.Grid(
        experiment="glue",
        flags={
            "model": model,
            "data": data,
            "frozen_prefix": "cached",
            "max_length": 32,
            "batch_size": 8,
            "max_epochs": 1,
        },
        axes={
            "task": ["rte", "sst2"],
            "trainable_layers": [0, 1],
            "lr": ["1e-3", "1e-4"],
            "seed": list(range(-(-count // cases))),
        },
    )
    runs = grid_lib.expand("benchmark", grid, out, os.path.join(out, "cache"))
    workers: list[RecordingWorker] = []

    def start(slot: int, log: str) -> RecordingWorker:
        workers.append(RecordingWorker(slot, log))
        return workers[-1]

    with contextlib.closing(work.Pool(start)) as pool:
        execute.run_all(runs[:count], out, pool)
    [worker, *others] = workers
    if others or len(worker.memory) < count:
        raise UserError(f"{out}: a run or its worker failed.")
    return worker


def make_table(memory: Sequence[int], peak: Sequence[int]) -> str:
    """Writes some of a `RecordingWorker`'s records as Markdown."""
    rows: list[tuple[str, ...]] = [
        ("runs", "memory, MB", "the most so far, MB"),
        ("---",) * 3,
    ]
    rows += [
        (str(number), *(f"{of[number - 1] / 1e6:.0f}" for of in (memory, peak)))
        for number in SHOWN_COUNTS
        if number <= len(memory)
    ]
    return documents.as_markdown(rows)


def main(argv: list[str]) -> None:
    """Measures, prints a table, and writes it into a document."""
    del argv
    values = flags.FLAGS
    with tempfile.TemporaryDirectory() as out:
        worker = measure(values.runs, values.model, values.data, out)
    table = make_table(worker.memory, worker.peak)
    print(f"\n{table}")
    if values.document:
        documents.fill(values.document, MARK, table)


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
