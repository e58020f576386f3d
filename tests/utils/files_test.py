"""A file is the old one or the whole new one."""

import errno
import os

import pytest

from tests.utils.disks import fail
from tests.utils.disks import FULL
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError


def test_writing_replaces_a_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "file"
    for content in (b"old", b"the new one"):
        files.write_atomically(str(path), content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_without_a_folder_is_written_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    files.write_atomically("file", b"here")
    assert (tmp_path / "file").read_bytes() == b"here"


@FULL
def test_a_full_disk_leaves_the_old_file_and_is_said(
    fill, monkeypatch, tmp_path
):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    fill(monkeypatch)
    with pytest.raises(UserError, match=f"{path}: the disk is full"):
        files.write_atomically(str(path), b"the new one")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_another_error_stays_what_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        files.write_atomically(str(tmp_path / "file"), b"new")
    assert os.listdir(tmp_path) == []


def test_a_nan_is_no_json(tmp_path):
    with pytest.raises(ValueError):
        files.write_json(str(tmp_path / "file"), {"loss": float("nan")})
    assert os.listdir(tmp_path) == []
