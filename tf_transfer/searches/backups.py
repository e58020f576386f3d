"""Backups of finished runs that a search extends.

A finished run that is extended has no result until it is finished again. A
backup consists of links. They cost nothing, since a run writes new files and
renames them.
"""

import os
import pathlib
import shutil
import time

from tf_transfer.sweeps import work
from tf_transfer.training import records


class Backups:
    """The backups, below `OUT/.search`.

    Args:
        out: root of the run directories.
        folder: the search's own.
    """

    def __init__(self, out: str, folder: str) -> None:
        self._out = out
        self._root = os.path.join(folder, "kept")

    def _locate(self, run_path: str) -> str:
        return os.path.join(self._root, os.path.relpath(run_path, self._out))

    def make(self, run_path: str) -> None:
        """Backs up a finished run.

        Args:
            run_path: of its directory.
        """
        partial = f"{self._root}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(
            run_path,
            partial,
            copy_function=_link,
            ignore=shutil.ignore_patterns(".lock"),
        )
        self.discard(run_path)
        os.renames(partial, self._locate(run_path))

    def discard(self, run_path: str) -> None:
        """Removes the backup of a run: the run is finished again."""
        shutil.rmtree(self._locate(run_path), ignore_errors=True)

    def restore_all(self) -> None:
        """Restores finished runs that were stopped while being extended."""
        for result in list(pathlib.Path(self._root).rglob("result.json")):
            path = os.path.relpath(result.parent, self._root)
            self.restore(os.path.join(self._out, path))
        shutil.rmtree(self._root, ignore_errors=True)

    def restore(self, run_path: str) -> None:
        """Restores a run that has a backup and no result."""
        backup = self._locate(run_path)
        if not os.path.isdir(backup):
            return
        # A worker of a search that was killed may still save its run.
        deadline = time.monotonic() + work.SECONDS_TO_SAVE
        directory = records.RunDirectory(run_path, None)
        while directory.is_locked() and time.monotonic() < deadline:
            time.sleep(work.POLL_SECONDS)
        if not os.path.isfile(directory.file("result.json")):
            shutil.rmtree(run_path, ignore_errors=True)
            os.rename(backup, run_path)
        self.discard(run_path)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a disk without links
        shutil.copy2(source, target)
