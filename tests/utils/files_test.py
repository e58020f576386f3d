"""A file is the old one or the whole new one."""

import contextlib
import errno
import hashlib
import os
import stat
import sys

import pytest

from tests.utils.disks import fail, FULL
from tf_transfer.utils import files
from tf_transfer.utils.errors import FullDiskError, UserError


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


def test_another_error_stays_what_it_is_and_names_the_file(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    path = str(tmp_path / "file")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as error:
        files.write_atomically(path, b"new")
    assert error.value.filename == path
    assert os.listdir(tmp_path) == []


def test_json_is_for_people_to_read(tmp_path):
    files.write_json(str(tmp_path / "file"), {"a": 1})
    assert (tmp_path / "file").read_text() == '{\n  "a": 1\n}\n'


def test_a_nan_is_no_json(tmp_path):
    with pytest.raises(ValueError):
        files.write_json(str(tmp_path / "file"), {"loss": float("nan")})
    assert os.listdir(tmp_path) == []


# === Errors of a disk ===


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_an_error_that_names_path_and_reason(code):
    error = OSError(code, os.strerror(code))
    with pytest.raises(FullDiskError, match=rf"^a/b: .*{error.strerror}"):
        files.raise_if_full("a/b", error)
    assert files.advise(error).startswith("Free some space")


@pytest.mark.parametrize(
    "code, advice",
    [
        (errno.EIO, "when the disk works again"),
        (errno.EROFS, "when the disk works again"),
        (errno.ESTALE, "when the disk works again"),
        (errno.ENODEV, "when the disk works again"),
        (errno.EINTR, "same command again"),
    ],
)
def test_a_disk_that_fails_asks_for_the_same_command(code, advice):
    error = OSError(code, "")
    files.raise_if_full("a", error)
    assert advice in files.advise(error)


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EACCES, None])
def test_an_error_of_a_file_needs_no_other_disk(code):
    assert files.advise(OSError(code, "")) == ""


# === Reading ===

SPECIAL = ["pipe", "folder"]


@pytest.fixture
def special(tmp_path):
    """Paths of what is no regular file."""
    os.mkfifo(tmp_path / "pipe")
    os.mkdir(tmp_path / "folder")
    return tmp_path


@pytest.mark.parametrize("name", SPECIAL)
def test_a_pipe_or_a_folder_is_not_read(name, special):
    before = os.listdir("/proc/self/fd")
    for read in (files.open_regular, files.read_bytes):
        with pytest.raises(files.NotAFile, match="Not a regular") as error:
            read(str(special / name))
        assert error.value.errno == errno.EINVAL
        assert error.value.filename == str(special / name)
    assert os.listdir("/proc/self/fd") == before
    assert files.exists(str(special / name))
    assert not files.is_file(str(special / name))


def test_a_file_is_there_or_it_is_not(monkeypatch, tmp_path):
    path = tmp_path / "file"
    assert files.exists(str(path)) is files.is_file(str(path)) is False
    path.write_text("")
    assert files.exists(str(path)) is files.is_file(str(path)) is True
    assert not files.exists(str(path / "below"))
    monkeypatch.setattr(os, "stat", fail(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        files.exists(str(path))


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert files.read_bytes(str(path), 5) == b"12345"
    with pytest.raises(files.NotAFile, match="Larger than 4 bytes") as error:
        files.read_bytes(str(path), 4)
    assert error.value.errno == errno.EINVAL
    assert error.value.filename == str(path)


# === Locks and logs ===


def test_a_log_is_made_and_grows_at_its_end(tmp_path):
    path = str(tmp_path / "log")
    for content in (b"one", b"two"):
        with files.open_to_append(path) as file:
            file.write(content)
    assert files.read_bytes(path) == b"onetwo"


def test_a_lock_is_made_only_where_that_is_asked_for(tmp_path):
    path = str(tmp_path / "lock")
    with pytest.raises(FileNotFoundError):
        files.open_lock(path, 0)
    with files.open_lock(path) as file:
        file.write(b"1")
    with files.open_lock(path, 0) as file:
        assert file.read() == b"1"


@pytest.mark.parametrize("open_it", [files.open_lock, files.open_to_append])
def test_what_is_made_may_be_read_and_written_as_the_umask_says(
    open_it, tmp_path
):
    for umask, expected in ((0o027, 0o640), (0, 0o666)):
        path = tmp_path / str(umask)
        before = os.umask(umask)
        try:
            open_it(str(path)).close()
        finally:
            os.umask(before)
        assert stat.S_IMODE(os.stat(path).st_mode) == expected


@pytest.mark.parametrize("open_it", [files.open_lock, files.open_to_append])
def test_a_lock_or_a_log_is_no_link_and_no_folder(open_it, special):
    (special / "file").write_text("")
    (special / "link").symlink_to(special / "file")
    for name in ("link", *SPECIAL):
        with pytest.raises(OSError):
            open_it(str(special / name))


# === Hashes ===


def test_a_hash_is_that_of_the_content_as_it_is_now(tmp_path):
    path = tmp_path / "file"
    for content in (b"one", b"another"):
        path.write_bytes(content)
        expected = hashlib.sha256(content).hexdigest()
        assert files.sha256(str(path)) == expected


@pytest.mark.parametrize(
    "change", ["its time", "another file of its size and time"]
)
def test_a_file_is_hashed_again_only_if_it_may_have_changed(
    change, monkeypatch, tmp_path
):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"one")
    files.sha256(str(path))
    time = os.stat(path).st_mtime_ns
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", fail(errno.EIO))
        files.sha256(str(path))
        files.sha256("file")
    if change == "its time":
        path.write_bytes(b"two")
        os.utime(path, ns=(time, time + 1))
    else:
        other.write_bytes(b"two")
        os.utime(other, ns=(time, time))
        os.replace(other, path)
    assert files.sha256(str(path)) == hashlib.sha256(b"two").hexdigest()


def test_one_hash_of_several_files_depends_on_their_order(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    for path in paths:
        with open(path, "w") as file:
            file.write(path)
    digests = [bytes.fromhex(files.sha256(path)) for path in paths]
    expected = hashlib.sha256(digests[0] + digests[1]).hexdigest()
    assert files.combined_sha256(paths) == expected
    assert files.combined_sha256(paths[::-1]) != expected


# === The output of the process ===


@contextlib.contextmanager
def output_in(folder):
    """Descriptors 1 and 2 write to files here, through Python's buffers.

    No fixture: between a fixture and its test, pytest sets them itself.
    """
    names = {1: "stdout", 2: "stderr"}
    kept = [os.dup(number) for number in names]
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        for number, name in names.items():
            with open(folder / name, "wb") as file:
                os.dup2(file.fileno(), number)
            buffer = open(number, "w", closefd=False)
            patch.setattr(sys, name, stack.enter_context(buffer))
        yield
    for number, descriptor in zip(names, kept):
        os.dup2(descriptor, number)
        os.close(descriptor)


def say_inside(log, fails):
    with files.redirect_output(log):
        sys.stdout.write("inside ")
        sys.stdout.flush()
        os.write(1, b"C ")
        os.write(2, b"errors ")
        sys.stderr.write("of Python")
        if fails:
            raise KeyError


@pytest.mark.parametrize("fails", [False, True])
def test_output_goes_to_a_file_and_then_where_it_went_before(fails, tmp_path):
    descriptors = os.listdir("/proc/self/fd")
    with open(tmp_path / "log", "wb") as log, output_in(tmp_path):
        for file in (sys.stdout, sys.stderr):
            file.write("before ")
        with contextlib.suppress(KeyError):
            say_inside(log, fails)
        for file in (sys.stdout, sys.stderr):
            file.write("after")
    assert (tmp_path / "log").read_text() == ("inside C errors of Python")
    for name in ("stdout", "stderr"):
        assert (tmp_path / name).read_text() == "before after"
    assert os.listdir("/proc/self/fd") == descriptors


def test_only_errors_go_to_a_file_where_that_is_asked_for(tmp_path):
    with open(tmp_path / "log", "wb") as log, output_in(tmp_path):
        with files.redirect_output(log, [2]):
            os.write(1, b"out")
            os.write(2, b"err")
    assert (tmp_path / "log").read_text() == "err"
    assert (tmp_path / "stdout").read_text() == "out"
