"""The cost of checking files that are read back: in a run, and at a start.

    python -m benchmarks.checks --model=minilm --cache_dir=CACHE --epochs=5

Trains one run with cached frozen blocks on the sample that ships, and sums the
seconds inside the functions that check (the outermost of nested ones). Then it
asks for the same run again, five times: nothing has changed, and the median
time of the checks is printed.
"""

import argparse
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tf_transfer.feature_cache import store
from tf_transfer.glue import experiment as glue
from tf_transfer.training import checkpoint, records
from tf_transfer.utils import json_files

# Owner and name of what checks.
CHECKS: tuple[tuple[Any, str], ...] = (
    (store.Entry, "find_damaged"),
    (records.RunDirectory, "result"),
    (records.RunDirectory, "config"),
    (records.RunDirectory, "check_file"),
    (records.RunDirectory, "write_result"),
    (checkpoint.Checkpoints, "_hash"),
    (json_files, "read"),
)
STARTS = 5


class Clock:
    """Sums the seconds inside functions."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def watch(self, owner: Any, name: str) -> None:
        """Counts the seconds of a function from now on."""
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def timed(*arguments: Any, **options: Any) -> Any:
            self._depth += 1
            began = time.perf_counter()
            try:
                return original(*arguments, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - began

        setattr(owner, name, timed)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--cache_dir", default="")
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    clock = Clock()
    for owner, name in CHECKS:
        clock.watch(owner, name)
    with tempfile.TemporaryDirectory() as folder:
        settings = glue.Settings(
            task="rte",
            data="sample",
            model=given.model,
            trainable_layers="2",
            frozen_prefix="cached",
            patience=0,
            max_epochs=given.epochs,
            out=os.path.join(folder, "runs"),
            cache_dir=given.cache_dir or folder,
        )
        began = time.perf_counter()
        glue.run(settings)
        seconds = time.perf_counter() - began
        print(
            f"A run of {seconds:.0f} s: {clock.seconds:.3f} s of checks, "
            f"{clock.seconds / seconds:.2%}"
        )
        starts = []
        for _ in range(STARTS):
            clock.seconds = 0.0
            glue.run(settings)
            starts.append(clock.seconds)
        print(f"A start of it: {statistics.median(starts):.4f} s of checks")


if __name__ == "__main__":
    main()
