"""Signals that ask a run to stop."""

import signal


class StopSignals:
    """While it is entered, SIGTERM and Ctrl-C only take note.

    A second Ctrl-C leaves at once; the last checkpoint is whole.

    Attributes:
        came: whether one came.
    """

    def __init__(self):
        self.came = False
        self._before = {}

    def __enter__(self):
        def note(number, frame):
            if self.came:
                raise KeyboardInterrupt
            self.came = True

        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, note)
        except ValueError:  # not the main thread: a notebook's worker
            pass
        return self

    def __exit__(self, *unused):
        for number, handler in self._before.items():
            signal.signal(number, handler)
