"""The locks of an entry. Needs no TensorFlow.

    building.lock    held by the process that appends
    using.lock       shared by the processes that read

Locks are the kernel's: they end with their process.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import IO

from tf_transfer.feature_cache.vectors import ReadOnly
from tf_transfer.utils import files, screen


@contextlib.contextmanager
def build_lock(folder: str) -> Iterator[None]:
    """The right to append; waits for another process that has it.

    Args:
        folder: Folder of the entry.

    Raises:
        ReadOnly: The cache is read-only.
    """
    try:
        lock_file = files.open_lock(os.path.join(folder, "building.lock"))
    except OSError as error:
        if error.errno in files.READ_ONLY:
            raise ReadOnly(f"{folder}: is read-only") from error
        raise
    with lock_file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            screen.say(
                "Another process is building this feature cache "
                f"({folder}): waiting for it."
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class UseLock:
    """Protects an entry from removal while a run uses it.

    Args:
        folder: Folder of the entry.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "using.lock")
        self._file: IO[bytes] | None = None

    def take(self) -> None:
        """Marks the entry used now, and in use until `release`."""
        try:
            self._file = files.open_lock(self._path)
            os.utime(self._path)
        except OSError as error:
            if error.errno not in files.READ_ONLY:
                raise
            if not os.path.exists(self._path):
                return
            self._file = files.open_regular(self._path)
        fcntl.flock(self._file, fcntl.LOCK_SH)

    def protects(self) -> bool:
        """Whether nothing removes the entry before `release`.

        Another process may have removed it before this one had the lock. A
        read-only entry without a lock file needs none.
        """
        return self._file is None or _is_at(self._file, self._path)

    def release(self) -> None:
        """Marks the entry no longer in use."""
        if self._file is not None:
            self._file.close()

    @property
    def last_used(self) -> float:
        """When a run last opened the entry, in seconds since the epoch."""
        with contextlib.suppress(OSError):
            return os.stat(self._path).st_mtime
        return 0.0

    @contextlib.contextmanager
    def exclude(self) -> Iterator[bool]:
        """The right to remove the entry: whether no process uses it.

        Raises:
            FileNotFoundError: The entry is gone.
        """
        with files.open_lock(self._path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if not _is_at(lock, self._path):
                raise FileNotFoundError(self._path)
            yield True


def _is_at(file: IO[bytes], path: str) -> bool:
    """Whether an open file is still at its path, not removed or replaced."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False
