"""Which process does which run: claims, as files in a folder that all can see.

A claim is a file that is created exclusively. Its holder touches it from time
to time, its heartbeat. A claim is stale after ten minutes without one, or when
its process is known to be dead; then whoever creates the file of the next
number holds the claim. So nobody ever has to remove another's file, which two
processes could do at once.
"""

import contextlib
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from typing import Any

from tf_transfer.utils import json_files

STALE_SECONDS = 600
HEARTBEAT_SECONDS = 30
HOLDER = {
    "machine": str,
    "process": int,
    "process_started": (str, None),
    "token": str,
}


class Claims:
    """The claims in one folder.

    Args:
        folder: created if it does not exist.
        stale_seconds: a claim is stale after so long without a heartbeat.
    """

    def __init__(
        self, folder: str, stale_seconds: float = STALE_SECONDS
    ) -> None:
        self.folder = folder
        self.stale_seconds = stale_seconds
        os.makedirs(folder, exist_ok=True)

    def take(self, name: str) -> "Claim | None":
        """Returns a claim on `name`, or None if another process holds it.

        Check after taking it that the work is still to be done: another
        process may have finished it and released its claim a moment ago.
        """
        number = self._newest(name)
        if number and self._is_held(name, number):
            return None
        path = self._path(name, number + 1)
        token = secrets.token_hex(8)
        try:
            with open(path, "x", encoding="utf-8") as file:
                json.dump(_describe_holder(token), file)
        except FileExistsError:
            return None  # another process was faster
        return Claim(self, name, number + 1, token)

    def held(self) -> set[str]:
        """Returns the names that are claimed now."""
        newest: dict[str, int] = {}
        for name, number in self._files():
            newest[name] = max(number, newest.get(name, 0))
        return {
            name
            for name, number in newest.items()
            if self._is_held(name, number)
        }

    def forget(self, name: str) -> None:
        """Removes the files of finished work, which nobody takes again."""
        self._remove(name, self._newest(name))

    def _remove(self, name: str, up_to: int) -> None:
        for file_name, number in list(self._files()):
            if file_name == name and number <= up_to:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self._path(name, number))

    def _files(self) -> Iterator[tuple[str, int]]:
        for entry in os.listdir(self.folder):
            match = re.fullmatch(r"(.+)\.(\d+)\.claim", entry)
            if match:
                yield match[1], int(match[2])

    def _newest(self, name: str) -> int:
        return max(
            (number for known, number in self._files() if known == name),
            default=0,
        )

    def _path(self, name: str, number: int) -> str:
        return os.path.join(self.folder, f"{name}.{number:06d}.claim")

    def _is_held(self, name: str, number: int) -> bool:
        path = self._path(name, number)
        try:
            silent_seconds = time.time() - os.stat(path).st_mtime
        except FileNotFoundError:
            return False
        if silent_seconds > self.stale_seconds:
            return False
        holder = _read_holder(path)
        if not holder or holder["machine"] != _machine():
            return True  # still being written, or on another machine
        return _start_time(holder["process"]) == holder["process_started"]


class Claim:
    """Held until `release`, or until `heartbeat` returns False."""

    def __init__(
        self, claims: Claims, name: str, number: int, token: str
    ) -> None:
        self._claims = claims
        self._name = name
        self._number = number
        self._token = token
        self._path = claims._path(name, number)

    def heartbeat(self) -> bool:
        """Shows that the holder is alive. False if the claim was lost."""
        holder = _read_holder(self._path)
        if not holder or holder["token"] != self._token:
            return False
        if self._claims._newest(self._name) != self._number:
            return False
        return self._touch()

    def _touch(self, times: tuple[float, float] | None = None) -> bool:
        """Sets the file's time. False if the file was removed meanwhile."""
        try:
            os.utime(self._path, times)
        except FileNotFoundError:
            return False
        return True

    def release(self) -> None:
        """Gives the claim up.

        The file stays, marked stale: whoever takes the claim next takes the
        next number, which only one process can do.
        """
        if self.heartbeat():
            self._touch((0, 0))
        self._claims._remove(self._name, self._number - 1)


def _describe_holder(token: str) -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "machine": _machine(),
        "process": os.getpid(),
        "process_started": _start_time(os.getpid()),
        "token": token,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _machine() -> str:
    """Names the space of process numbers: host names may not be unique."""
    names = [socket.gethostname()]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            names.append(file.read().strip())
        names.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(names)


def _start_time(process: int) -> str | None:
    """When a process of this machine started; None if it is not running.

    It tells a process from a later one of the same number.
    """
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, UnicodeDecodeError):
        return None


def _read_holder(path: str) -> dict[str, Any] | None:
    """The content of a claim; None if it is missing, incomplete or damaged.

    A damaged one is as good as one that is being written: held, until it is
    stale.
    """
    with contextlib.suppress(OSError, json_files.Damaged):
        return json_files.read(path, HOLDER)
    return None
