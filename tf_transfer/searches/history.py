"""The runs of a search, and their times: `OUT/.search/search.json`.

The scores are in the run directories alone. This file has the key of the
search, its seconds over all starts, and the times of each run.
"""

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tf_transfer.searches.space import Choice
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

FOLDER = ".search"
SAVE_SECONDS = 1.0  # between writings of the time that was spent


@dataclasses.dataclass(frozen=True)
class Step:
    """A finished run of a search, or its continuation.

    Attributes:
        choice: the run.
        epochs: that the run had afterwards.
        began, ended: seconds of the search, over all its starts.
        epoch_seconds, build_seconds: of its new epochs; see `Costs.tell`. The
            run directory may have other seconds later: scoring the test counts.
    """

    choice: Choice
    epochs: int
    began: float
    ended: float
    epoch_seconds: list[float]
    build_seconds: float


@dataclasses.dataclass
class Record:
    """The content of the file.

    Attributes:
        key: the settings and identities that distinguish the search.
        spent: seconds, over all starts.
        steps: in the order of their ends.
        ended: the budget and space when nothing was left to do.
    """

    key: dict[str, Any]
    spent: float
    steps: list[Step]
    ended: list[Any]


class History:
    """The file; nothing is written before `save`.

    Args:
        out: root of the run directories.
        key: see `Record`.

    Attributes:
        record: the content.

    Raises:
        UserError: `out` has another search, or its file is damaged.
    """

    def __init__(self, out: str, key: dict[str, Any]) -> None:
        self.out = out
        self.folder = os.path.join(out, FOLDER)
        self.path = os.path.join(self.folder, "search.json")
        self.record = Record(key, 0.0, [], [])
        self._lock = threading.Lock()
        try:
            content = json_files.read(self.path, Record)
        except FileNotFoundError:
            return
        except json_files.Damaged as error:
            raise UserError(
                f"{error}\nRemove the file: the search finds its runs again."
            ) from None
        self.record = msgspec.convert(content, Record)
        known = self.record.key
        differing = sorted(
            name for name in {*known, *key} if known.get(name) != key.get(name)
        )
        if differing:
            raise UserError(
                f"--out={out}: holds a search with another "
                f"{', '.join(differing[:3])}. Give another --out; nothing was "
                "changed."
            )

    def save(self) -> None:
        """Writes the file; any thread may."""
        with self._lock:
            os.makedirs(self.folder, exist_ok=True)
            files.write_json(self.path, dataclasses.asdict(self.record))


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
