"""Files: written whole or not at all, and hashed once while unchanged."""

import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO

from tf_transfer.utils.errors import FullDiskError

# What a JSON file can hold.
Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]

FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
# Of a read or write to an open file, whose error names no file.
DISK_GONE = (errno.EIO, errno.EROFS, errno.ESTALE, errno.ENODEV)
TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{8}$")
MOST_BYTES = 1 << 26  # of a file that is read at once; runs have far less


# === Reading ===


class NotAFile(OSError):
    """A pipe, a device, a folder, or larger than any file of its kind."""


def open_regular(path: str) -> io.BufferedReader:
    """Opens a file for reading, unless it is a pipe, a device or a folder.

    Reading a pipe would wait for a writer, and a device may have no end.

    Raises:
        NotAFile: It is one of these.
        OSError: It cannot be opened.
    """
    return open(_open(path, os.O_RDONLY), "rb")


def open_lock(path: str, flags: int = os.O_CREAT) -> io.BufferedRandom:
    """Opens a lock file for reading and writing; a link is not followed.

    Args:
        path: The file.
        flags: Of `os.open`, in addition; `O_CREAT` makes the file.

    Raises:
        NotAFile: It is not a regular file.
        OSError: It cannot be opened, or is a link.
    """
    return open(_open(path, flags | os.O_RDWR | os.O_NOFOLLOW), "r+b")


def open_to_append(path: str) -> io.BufferedWriter:
    """Opens a file to append to it, or makes it; a link is not followed.

    Raises:
        NotAFile: It is not a regular file.
        OSError: It cannot be opened, or is a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return open(_open(path, flags), "ab")


def _open(path: str, flags: int) -> int:
    """The descriptor of a regular file; no pipe is waited for."""
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFile(errno.EINVAL, "Not a regular file", path)
    return descriptor


def exists(path: str) -> bool:
    """Whether there is a file or folder.

    Raises:
        OSError: The disk fails. `os.path.exists` would return False.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_file(path: str) -> bool:
    """Whether there is a regular file; a disk that fails is an error."""
    return exists(path) and stat.S_ISREG(os.stat(path).st_mode)


def read_bytes(path: str, most: int = MOST_BYTES) -> bytes:
    """The content of a regular file.

    Raises:
        NotAFile: It is not a regular file, or larger than `most`.
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise NotAFile(
                errno.EINVAL,
                f"Larger than {most:,} bytes, the most that is read",
                path,
            )
        return file.read()


# === Writing ===


def combined_sha256(paths: Iterable[str]) -> str:
    """One SHA-256 of the contents of several files, in their order."""
    digests = b"".join(bytes.fromhex(sha256(path)) for path in paths)
    return hashlib.sha256(digests).hexdigest()


def write_atomically(path: str, content: bytes) -> None:
    """Writes bytes so that `path` is the old file or the whole new one.

    They go to a temporary file in the same folder, are synced, and renamed.

    Raises:
        FullDiskError: The disk is full. Nothing is left behind.
        OSError: It cannot be written; names `path`.
    """
    temporary = temporary_name(path)
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync(os.path.dirname(path) or ".")
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise_if_full(path, error)
        error.filename = path  # not the temporary file, or none
        raise


def sync(path: str) -> None:
    """Makes a file, or the names in a folder, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: str) -> None:
    """Syncs a folder and all files and folders below it."""
    for parent, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            sync(os.path.join(parent, name))
        sync(parent)


def _raise(error: OSError) -> None:
    raise error


def temporary_name(path: str) -> str:
    """A new name for what will be at `path`, also for several machines."""
    return f"{path}.tmp-{secrets.token_hex(4)}"


def is_temporary(name: str) -> bool:
    """Whether a name is one of `temporary_name`."""
    return bool(TEMPORARY.search(name))


@contextlib.contextmanager
def staged(folder: str) -> Iterator[str]:
    """A folder whose content goes into another one when all is written.

    Files of the same name are replaced, folders with all that is in them. What
    a killed process left of this goes: only one process may write there.

    Args:
        folder: Where the content goes; it may exist, and have other files.

    Raises:
        FullDiskError: The disk is full. What was in the folder is as before.
    """
    stage = temporary_name(os.path.join(folder, ""))
    try:
        os.makedirs(stage)
        for name in {*os.listdir(folder)} - {os.path.basename(stage)}:
            if TEMPORARY.fullmatch(name):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        yield stage
        sync_all(stage)
        for parent, folders, names in os.walk(stage, onerror=_raise):
            target = os.path.join(folder, os.path.relpath(parent, stage))
            os.makedirs(target, exist_ok=True)
            for name in names:
                os.replace(
                    os.path.join(parent, name), os.path.join(target, name)
                )
            if parent != stage:
                for name in {*os.listdir(target)} - {*names, *folders}:
                    _remove(os.path.join(target, name))
            sync(target)
    except OSError as error:
        raise_if_full(folder, error)
        raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.remove(path)


def write_json(path: str, value: Json | Mapping[str, object]) -> None:
    """Writes a JSON file atomically; a `TypedDict` is the second type.

    Raises:
        FullDiskError: The disk is full.
        ValueError: The value holds NaN or infinity, which JSON cannot.
    """
    text = json.dumps(value, indent=2, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def list_names(folder: str) -> list[str]:
    """The names in a folder, sorted; none where there is no folder.

    Raises:
        OSError: The disk fails. `glob` would return no names.
    """
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def remove_litter(folder: str) -> None:
    """Removes the temporary files and folders of a process that was killed.

    Call it as the only process of any machine that writes there.
    """
    for name in filter(is_temporary, list_names(folder)):
        with contextlib.suppress(OSError):
            _remove(os.path.join(folder, name))


def raise_if_full(path: str, error: OSError) -> None:
    """Raises `FullDiskError` if an error says that the disk is full."""
    if error.errno in FULL_DISK:
        raise FullDiskError(
            f"{path}: the disk is full ({os.strerror(error.errno)}). Free some "
            "space and run the same command again; a run continues at its last "
            "good checkpoint."
        ) from error


def advise(error: OSError) -> str:
    """Advice after an error of a disk; "" for any other error."""
    if error.errno in FULL_DISK:
        return "Free some space and give the same command again."
    if error.errno in DISK_GONE:
        return "Give the same command when the disk works again."
    if error.errno == errno.EINTR:  # a shared folder may interrupt a call
        return "Give the same command again."
    return ""


# === The process's output ===


def open_standard_files() -> None:
    """Opens the null device as what is closed of standard input and output.

    Without this, the next file that is opened would get the number of the
    standard error, and with it the messages of C++.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one.
            os.open(os.devnull, os.O_WRONLY if number else os.O_RDONLY)
            os.set_inheritable(number, True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed at Python's start
            mode = "w" if number else "r"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


@contextlib.contextmanager
def redirect_output(
    file: IO[bytes], descriptors: Sequence[int] = (1, 2)
) -> Iterator[None]:
    """Writes the output of the process, C++ included, to a file.

    Args:
        file: Open for writing.
        descriptors: 1 is the standard output, 2 the standard error.
    """
    kept = [os.dup(number) for number in descriptors]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        for number in descriptors:
            os.dup2(file.fileno(), number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in zip(descriptors, kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


# === Hashing ===


def sha256(path: str) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    status = os.stat(path)
    state = status.st_size, status.st_mtime_ns, status.st_ino
    return _sha256(os.path.abspath(path), state)


@functools.lru_cache(maxsize=4096)
def _sha256(path: str, _state: tuple[int, ...]) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
