"""Who does what: claims on runs, as files in a folder that all can see.

A claim is a file that is created exclusively. Its holder touches it; one that
was not touched for ten minutes, or whose process is known to be dead, is stale,
and whoever creates the file of the next number has the claim from then on. So
nobody ever has to remove another's file, which two could do at once.
"""

import contextlib
import json
import os
import re
import secrets
import socket
import time

STALE_SECONDS = 600
BEAT_SECONDS = 30


class Claims:
    """The claims in one folder.

    Args:
        folder: made if it is not there.
        stale_seconds: after so long without a sign of life, a claim is void.
    """

    def __init__(self, folder, stale_seconds=STALE_SECONDS):
        self.folder = folder
        self.stale_seconds = stale_seconds
        os.makedirs(folder, exist_ok=True)

    def take(self, name):
        """A `Claim` on `name`, or None if somebody else has it.

        Look after taking it whether the work is still to be done: another
        may have done it and let go a moment before.
        """
        number = self._newest(name)
        if number and self._is_held(name, number):
            return None
        path = self._path(name, number + 1)
        token = secrets.token_hex(8)
        try:
            with open(path, "x", encoding="utf-8") as file:
                json.dump(_signature(token), file)
        except FileExistsError:
            return None  # another was faster
        return Claim(self, name, number + 1, token)

    def held(self):
        """The names that somebody holds."""
        names = {}
        for name, number in self._files():
            names[name] = max(number, names.get(name, 0))
        return {n for n, number in names.items() if self._is_held(n, number)}

    def forget(self, name):
        """Removes the files of work that is done, and so not taken again."""
        self._remove(name, self._newest(name))

    def _remove(self, name, up_to):
        for known, number in list(self._files()):
            if known == name and number <= up_to:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(self._path(name, number))

    def _files(self):
        for entry in os.listdir(self.folder):
            found = re.fullmatch(r"(.+)\.(\d+)\.claim", entry)
            if found:
                yield found[1], int(found[2])

    def _newest(self, name):
        return max(
            (n for known, n in self._files() if known == name), default=0
        )

    def _path(self, name, number):
        return os.path.join(self.folder, f"{name}.{number:06d}.claim")

    def _is_held(self, name, number):
        path = self._path(name, number)
        try:
            silent = time.time() - os.stat(path).st_mtime
        except FileNotFoundError:
            return False
        if silent > self.stale_seconds:
            return False
        known = read_json(path)
        if not known or known.get("machine") != _machine():
            return True  # being written, or not to be asked from here
        return _began(known["process"]) == known["began"]


class Claim:
    """What `Claims.take` gave: yours until `release`, or until `beat` fails."""

    def __init__(self, claims, name, number, token):
        self._claims = claims
        self._name = name
        self._number = number
        self._token = token
        self._path = claims._path(name, number)

    def beat(self):
        """Says that the holder lives. False if the claim was lost."""
        known = read_json(self._path)
        if not known or known.get("token") != self._token:
            return False
        if self._claims._newest(self._name) != self._number:
            return False
        return self._touch()

    def _touch(self, times=None):
        """Sets the file's time. False if the work was done, and forgotten."""
        try:
            os.utime(self._path, times)
        except FileNotFoundError:
            return False
        return True

    def release(self):
        """Lets go.

        The file stays, marked stale: whoever takes the claim next takes the
        next number, and no two can take the same.
        """
        if self.beat():
            self._touch((0, 0))
        self._claims._remove(self._name, self._number - 1)


def _signature(token):
    return {
        "host": socket.gethostname(),
        "machine": _machine(),
        "process": os.getpid(),
        "began": _began(os.getpid()),
        "token": token,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def _machine():
    """Tells where a process number means something: names may be shared."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            found.append(file.read().strip())
        found.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(found)


def _began(process):
    """When a process of this machine began, so that its number is not
    mistaken for a later one's; None where it is dead, or cannot be known."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, UnicodeDecodeError):
        return None


def read_json(path):
    """What a small file says; None where it is not there or not whole."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None
