"""Signals that ask a run to stop."""

import contextlib
import signal
import types
from typing import Self


class StopSignals(contextlib.ExitStack):
    """A context in which SIGTERM and Ctrl-C only set a flag.

    A second Ctrl-C ends the run at once; the last checkpoint is complete.

    Attributes:
        came: Whether a signal came.
    """

    came = False

    def __enter__(self) -> Self:
        with contextlib.suppress(ValueError):  # in a thread of a notebook
            for number in (signal.SIGTERM, signal.SIGINT):
                handler = signal.signal(number, self._note)
                self.callback(signal.signal, number, handler)
        return self

    def _note(self, number: int, frame: types.FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
