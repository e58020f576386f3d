"""The seconds that a search has taken."""

import contextlib
import threading
import time
from collections.abc import Callable

from tf_transfer.searches.history import History
from tf_transfer.utils.errors import UserError

SAVE_SECONDS = 1.0  # between writings of the time that was spent


class Clock:
    """The seconds of a search, over all its starts.

    A start counts from its beginning once it works, but not if it only repeats
    the answer. A thread writes the seconds meanwhile, so they are spent however
    the process ends.

    Args:
        began: when this start began, by `now`.
        history: has the seconds of the starts before, and is given all.
        now: the time in seconds.
    """

    def __init__(
        self,
        began: float,
        history: History,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._began = began - history.record.spent
        self._history = history
        self._now = now
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __call__(self) -> float:
        """Seconds so far."""
        if not self._thread.is_alive():
            return self._history.record.spent
        return self._now() - self._began

    def start(self) -> None:
        """Counts this start, and writes that at once."""
        if self._thread.ident is None:
            self._thread.start()
            self.save()

    def _write(self) -> None:
        while not self._is_over.wait(SAVE_SECONDS):
            # The search itself reports a full disk when it saves a run.
            with contextlib.suppress(OSError, UserError):
                self.save()

    def save(self) -> None:
        """Writes the history, with the seconds so far."""
        self._history.record.spent = self()
        self._history.save()

    def stop(self) -> None:
        """Counts no longer; the answer takes no time of the budget."""
        if self._thread.is_alive():
            self.save()
            self._is_over.set()
            self._thread.join()
