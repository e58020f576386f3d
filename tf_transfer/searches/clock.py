"""The seconds of a search, over all its starts.

`OUT/.search/search.json` has them, with the key of the search; the scores are
in the run directories alone.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TypedDict

from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

FOLDER = ".search"
SAVE_SECONDS = 1.0  # between writings of the time that was spent
# Keys that may differ between two searches, as messages name them.
NAMES = {
    "data_identity": "the texts, or how they are read",
    "model_identity": "the encoder",
}

# The content of `search.json`: the key of the search, its seconds over all
# starts, and the budget within which nothing is left, by --approaches and
# --max_epochs.
State = TypedDict(
    "State", {"key": Record, "spent": float, "ended": dict[str, float]}
)


class Clock:
    """The seconds of a search, over all its starts.

    A start counts from its beginning once it works, but not if it only repeats
    the answer. A thread writes the seconds meanwhile, so they are spent however
    the process ends. Nothing is written before `start`.

    Args:
        out: Root of the run directories.
        key: The settings and identities that distinguish the search.
        began: When this start began, by `now`.
        now: The time in seconds.

    Raises:
        UserError: `out` has another search, or its file is damaged.
    """

    def __init__(
        self,
        out: str,
        key: Record,
        began: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = os.path.join(out, FOLDER)
        self._path = os.path.join(self.folder, "search.json")
        self._state: State = {"key": key, "spent": 0.0, "ended": {}}
        self._now = now
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._lock = threading.Lock()
        with contextlib.suppress(FileNotFoundError):
            try:
                self._state = json_files.read(self._path, State)
            except json_files.Damaged as error:
                raise UserError(
                    f"{error}\nRemove the file: the search finds its runs "
                    "again."
                ) from None
        self._began = began - self._state["spent"]
        stored = self._state["key"]
        differing = sorted(
            name
            for name in {*stored, *key}
            if stored.get(name) != key.get(name)
        )
        if differing:
            names = ", ".join(NAMES.get(name, name) for name in differing[:3])
            raise UserError(
                f"--out={out}: holds another search, which differs in: {names}."
                " Give another --out; nothing was changed."
            )

    def __call__(self) -> float:
        """Seconds so far."""
        if not self._thread.is_alive():
            return self._state["spent"]
        return self._now() - self._began

    def ended(self, tried: str) -> float:
        """The budget, in seconds, within which nothing is left to try."""
        return self._state["ended"].get(tried, 0.0)

    def end(self, tried: str, budget: float) -> None:
        """Notes that nothing is left to try within a budget, in seconds."""
        if self._thread.ident is not None:
            self._state["ended"][tried] = budget
            self.save()

    def start(self) -> None:
        """Counts this start, and writes that at once."""
        if self._thread.ident is None:
            files.remove_litter(self.folder)
            self._thread.start()
            self.save()

    def _write(self) -> None:
        while not self._is_over.wait(SAVE_SECONDS):
            # The search itself reports a full disk when it saves a run.
            with contextlib.suppress(OSError, UserError):
                self.save()

    def save(self) -> None:
        """Writes the file, with the seconds so far; any thread may."""
        with self._lock:
            self._state["spent"] = self()
            os.makedirs(self.folder, exist_ok=True)
            files.write_json(self._path, self._state)

    def stop(self) -> None:
        """Counts no longer; the answer takes no time of the budget."""
        if self._thread.is_alive():
            self.save()
            self._is_over.set()
            self._thread.join()
