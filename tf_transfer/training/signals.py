"""Signals that ask a run to stop."""

import signal
from typing import Any
from typing import Self


class StopSignals:
    """While it is entered, SIGTERM and Ctrl-C only take note.

    A second Ctrl-C leaves at once; the last checkpoint is whole.

    Attributes:
        came: whether one came.
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
