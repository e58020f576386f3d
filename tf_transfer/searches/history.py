"""The runs of a search, and their times: `OUT/.search/search.json`.

The scores are in the run directories alone. This file has the key of the
search, its seconds over all starts, the times of each run, and the estimated
costs.
"""

import dataclasses
import os
import pathlib
import shutil
import threading
import time
from typing import Any, TypedDict

from tf_transfer.searches.costs import Prior
from tf_transfer.searches.space import Choice
from tf_transfer.sweeps import work
from tf_transfer.training import records
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

FOLDER = ".search"


@dataclasses.dataclass(frozen=True)
class Step:
    """A finished run of a search, or its continuation.

    Attributes:
        approach, rate, seed, linear_epochs: see `space.Choice`.
        epochs: that the run had afterwards.
        began, ended: seconds of the search, over all its starts.
        path: of the run directory, below `--out`.
        epoch_seconds, build_seconds: of its new epochs; see `Costs.tell`. The
            run directory may have other seconds later: scoring the test counts.
    """

    approach: str
    rate: int
    seed: int
    linear_epochs: int
    epochs: int
    began: float
    ended: float
    path: str
    epoch_seconds: list[float]
    build_seconds: float

    @property
    def choice(self) -> Choice:
        """The run."""
        return Choice(self.approach, self.rate, self.seed, self.linear_epochs)


Content = TypedDict(
    "Content",
    {
        "key": dict[str, Any],
        "spent": float,
        "blocks": int | None,
        "priors": dict[str, Prior],
        "steps": list[Step],
        "ended": list[Any],
    },
)


class History:
    """The file; nothing is written before `save`.

    Args:
        out: root of the run directories.
        key: the settings and identities that distinguish the search.

    Attributes:
        spent: seconds, over all starts.
        blocks: of the encoder, where they are known.
        priors: estimated costs of approaches, by name.
        steps: in the order of their ends.
        ended: the budget and space when nothing was left to do.

    Raises:
        UserError: `out` has another search, or its file is damaged.
    """

    def __init__(self, out: str, key: dict[str, Any]) -> None:
        self.out = out
        self.folder = os.path.join(out, FOLDER)
        self.path = os.path.join(self.folder, "search.json")
        self.key = key
        self.spent = 0.0
        self.blocks: int | None = None
        self.priors: dict[str, Prior] = {}
        self.steps: list[Step] = []
        self.ended: list[Any] = []
        self._lock = threading.Lock()
        try:
            known = json_files.read(self.path, Content)
        except FileNotFoundError:
            return
        except json_files.Damaged as error:
            raise UserError(
                f"{error}\nRemove the file: the search finds its runs again."
            ) from None
        differing = sorted(
            name
            for name in {*known["key"], *key}
            if known["key"].get(name) != key.get(name)
        )
        if differing:
            raise UserError(
                f"--out={out}: holds a search with another "
                f"{', '.join(differing[:3])}. Give another --out; nothing was "
                "changed."
            )
        self.spent, self.blocks = known["spent"], known["blocks"]
        self.priors = {n: Prior(**p) for n, p in known["priors"].items()}
        self.steps = [Step(**line) for line in known["steps"]]
        self.ended = known["ended"]

    def save(self) -> None:
        """Writes the file; any thread may."""
        with self._lock:
            os.makedirs(self.folder, exist_ok=True)
            files.write_json(
                self.path,
                {
                    "key": self.key,
                    "spent": self.spent,
                    "blocks": self.blocks,
                    "priors": {
                        name: dataclasses.asdict(prior)
                        for name, prior in self.priors.items()
                    },
                    "steps": [dataclasses.asdict(step) for step in self.steps],
                    "ended": self.ended,
                },
            )

    # === Backups of runs that are extended ===
    #
    # A finished run that is extended has no result until it is finished again.
    # Its backup are links: they cost nothing, since a run writes all its files
    # anew and renames them.

    def back_up(self, run_path: str) -> None:
        """Backs up a finished run.

        Args:
            run_path: of its directory.
        """
        backup = self._backup(run_path)
        partial = os.path.join(self.folder, "partial")
        for folder in (backup, partial):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(
            run_path,
            partial,
            copy_function=_link,
            ignore=shutil.ignore_patterns(".lock"),
        )
        os.makedirs(os.path.dirname(backup), exist_ok=True)
        os.rename(partial, backup)

    def _backup(self, run_path: str) -> str:
        path = os.path.relpath(run_path, self.out)
        return os.path.join(self.folder, "kept", path)

    def discard_backup(self, run_path: str) -> None:
        """Removes the backup of a run: the run is finished again."""
        shutil.rmtree(self._backup(run_path), ignore_errors=True)

    def restore_all(self) -> None:
        """Restores finished runs that were stopped while being extended."""
        root = os.path.join(self.folder, "kept")
        for result in list(pathlib.Path(root).rglob("result.json")):
            path = result.parent.relative_to(root)
            self.restore(os.path.join(self.out, path))
        shutil.rmtree(root, ignore_errors=True)

    def restore(self, run_path: str) -> None:
        """Restores a run that has a backup and no result."""
        backup = self._backup(run_path)
        if not os.path.isdir(backup):
            return
        _wait_for(run_path)
        if not os.path.isfile(os.path.join(run_path, "result.json")):
            old = os.path.join(self.folder, "old")
            shutil.rmtree(old, ignore_errors=True)
            if os.path.isdir(run_path):
                os.rename(run_path, old)
            os.rename(backup, run_path)
            shutil.rmtree(old, ignore_errors=True)
        self.discard_backup(run_path)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a disk without links
        shutil.copy2(source, target)


def _wait_for(path: str) -> None:
    """Waits until a worker of a search that was killed has saved its run."""
    deadline = time.monotonic() + work.SECONDS_TO_SAVE
    directory = records.RunDirectory(path, None)
    while directory.is_locked() and time.monotonic() < deadline:
        time.sleep(work.POLL_SECONDS)
