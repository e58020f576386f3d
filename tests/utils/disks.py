"""Disks that are full: patches that raise what the system raises."""

import errno
import io
import os

import pytest

from tf_transfer.utils import files


def fail(code):
    def raise_error(*arguments):
        raise OSError(code, os.strerror(code))

    return raise_error


class TearingFile(io.FileIO):
    """Takes a few bytes; then the disk is full."""

    def write(self, content):
        super().write(content[:3])
        fail(errno.ENOSPC)()


def disk_fills_while_writing(monkeypatch):
    monkeypatch.setattr(files, "open", TearingFile, raising=False)


def disk_is_full_when_synced(monkeypatch):
    monkeypatch.setattr(os, "fsync", fail(errno.ENOSPC))


def quota_is_used_up_when_synced(monkeypatch):
    monkeypatch.setattr(os, "fsync", fail(errno.EDQUOT))


FULL = pytest.mark.parametrize(
    "fill",
    [
        disk_fills_while_writing,
        disk_is_full_when_synced,
        quota_is_used_up_when_synced,
    ],
)
