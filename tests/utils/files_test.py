"""A file is the old one or the whole new one."""

import errno
import os

import pytest

from tests.utils.disks import fail, FULL
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


# === Folders ===


def write_staged(folder, content):
    with files.staged(str(folder)) as stage:
        os.mkdir(os.path.join(stage, "tables"))
        for name in ("a.md", os.path.join("tables", f"{content}.csv")):
            with open(os.path.join(stage, name), "w") as file:
                file.write(content)
        if content == "torn":
            fail(errno.ENOSPC)()


def test_staged_files_replace_the_old_ones_and_others_stay(tmp_path):
    folder = tmp_path / "report"
    write_staged(folder, "old")
    (folder / "mine.txt").write_text("mine")
    write_staged(folder, "new")
    assert sorted(os.listdir(folder)) == ["a.md", "mine.txt", "tables"]
    assert (folder / "a.md").read_text() == "new"
    assert os.listdir(folder / "tables") == ["new.csv"]


def test_a_full_disk_leaves_all_staged_files_as_they_were(tmp_path):
    folder = tmp_path / "report"
    write_staged(folder, "old")
    with pytest.raises(UserError, match=f"{folder}: the disk is full"):
        write_staged(folder, "torn")
    assert sorted(os.listdir(folder)) == ["a.md", "tables"]
    assert (folder / "a.md").read_text() == "old"
    assert os.listdir(folder / "tables") == ["old.csv"]
