"""Hashes of files, each read once in a process while it does not change."""

import functools
import hashlib
import os


def sha256(path):
    """The SHA-256 of a file's content, in hexadecimal."""
    status = os.stat(path)
    return _sha256(os.path.abspath(path), status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4096)
def _sha256(path, size, changed):
    del size, changed  # a file with others is another one
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
