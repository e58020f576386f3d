"""Signals that ask a run to stop."""

import signal
from typing import Any, Self


class StopSignals:
    """A context in which SIGTERM and Ctrl-C only set a flag.

    A second Ctrl-C ends the run at once; the last checkpoint is complete.

    Attributes:
        came: whether a signal came.
    """

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        def note(number: int, frame: Any) -> None:
            if self.came:
                raise KeyboardInterrupt
            self.came = True

        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, note)
        except ValueError:  # not the main thread: a notebook's worker
            pass
        return self

    def __exit__(self, *unused: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
