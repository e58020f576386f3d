"""The runs of a search, and their times: `OUT/.search/search.json`.

The scores are in the run directories alone. This file has the key of the
search, its seconds over all starts, the times of each run, and the estimated
costs.
"""

import dataclasses
import os
import threading
from typing import Any

import msgspec

from tf_transfer.searches.costs import Prior
from tf_transfer.searches.space import Choice
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

FOLDER = ".search"


@dataclasses.dataclass(frozen=True)
class Step:
    """A finished run of a search, or its continuation.

    Attributes:
        choice: the run.
        epochs: that the run had afterwards.
        began, ended: seconds of the search, over all its starts.
        path: of the run directory, below `--out`.
        epoch_seconds, build_seconds: of its new epochs; see `Costs.tell`. The
            run directory may have other seconds later: scoring the test counts.
    """

    choice: Choice
    epochs: int
    began: float
    ended: float
    path: str
    epoch_seconds: list[float]
    build_seconds: float


@dataclasses.dataclass
class Record:
    """The content of the file.

    Attributes:
        key: the settings and identities that distinguish the search.
        spent: seconds, over all starts.
        blocks: of the encoder, where they are known.
        priors: estimated costs of approaches, by name.
        steps: in the order of their ends.
        ended: the budget and space when nothing was left to do.
    """

    key: dict[str, Any]
    spent: float
    blocks: int | None
    priors: dict[str, Prior]
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
        self.record = Record(key, 0.0, None, {}, [], [])
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
