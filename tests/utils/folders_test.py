"""The files of a folder are replaced together, and survive a loss of power."""

import errno
import os

import pytest

from tests.utils.disks import fail
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

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


def test_staged_content_makes_the_folder_and_replaces_what_has_its_name(
    tmp_path,
):
    folder = tmp_path / "new" / "report"
    write_staged(folder, "old")
    for gone in ("gone.csv", "gone"):
        (folder / "tables" / "deep" / gone).parent.mkdir(exist_ok=True)
        (folder / "tables" / "deep" / gone).write_text("")
    (folder / "mine").mkdir()
    (folder / "mine" / "a.txt").write_text("mine")
    write_staged(folder, "new")
    assert os.listdir(folder / "tables") == ["new.csv"]
    assert os.listdir(folder / "mine") == ["a.txt"]


def test_staging_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    (tmp_path / ".tmp-0123abcd").mkdir()
    (tmp_path / ".tmp-0123abcd" / "a").write_text("")
    (tmp_path / "other.tmp-0123abcd").write_text("")
    with files.staged(str(tmp_path)) as stage:
        assert os.path.dirname(stage) == str(tmp_path)
        assert sorted(os.listdir(tmp_path)) == sorted(
            [os.path.basename(stage), "other.tmp-0123abcd"]
        )
    assert os.listdir(tmp_path) == ["other.tmp-0123abcd"]


def test_a_folder_that_cannot_be_removed_stops_nothing(monkeypatch, tmp_path):
    def refuse(path, **options):
        fail(errno.EACCES)()

    (tmp_path / ".tmp-0123abcd").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", refuse)
        with files.staged(str(tmp_path)) as stage:
            with open(os.path.join(stage, "a"), "w") as file:
                file.write("new")
    assert (tmp_path / "a").read_text() == "new"


def test_an_error_of_the_caller_leaves_the_folder_as_it_was(tmp_path):
    with pytest.raises(KeyError), files.staged(str(tmp_path)) as stage:
        with open(os.path.join(stage, "a"), "w"):
            pass
        raise KeyError
    assert os.listdir(tmp_path) == []


def test_another_error_of_the_disk_while_staging_stays_what_it_is(tmp_path):
    with (
        pytest.raises(OSError, match=os.strerror(errno.EIO)) as error,
        files.staged(str(tmp_path)),
    ):
        fail(errno.EIO)()
    assert not isinstance(error.value, UserError)


def test_litter_is_removed_and_nothing_else(tmp_path):
    for name in ("a.tmp-0123abcd", "a", "a.tmp-0123abcd.txt", "tmp-0123abcd"):
        (tmp_path / name).write_text("")
    (tmp_path / "b.tmp-89abcdef").mkdir()
    (tmp_path / "b.tmp-89abcdef" / "c").write_text("")
    files.remove_litter(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [
        "a",
        "a.tmp-0123abcd.txt",
        "tmp-0123abcd",
    ]
    files.remove_litter(str(tmp_path / "nowhere"))


def test_litter_that_another_process_has_just_removed_is_no_error(
    monkeypatch, tmp_path
):
    (tmp_path / "a.tmp-0123abcd").write_text("")
    monkeypatch.setattr(os, "remove", fail(errno.ENOENT))
    files.remove_litter(str(tmp_path))


def test_temporary_names_are_known_and_differ(tmp_path):
    names = {files.temporary_name("a/b.json") for _ in range(20)}
    assert len(names) == 20
    for name in names:
        assert name.startswith("a/b.json.tmp-") and files.is_temporary(name)
    assert not files.is_temporary("a/b.json")


def test_the_names_in_a_folder_are_sorted(tmp_path):
    for name in "cab":
        (tmp_path / name).write_text("")
    assert files.list_names(str(tmp_path)) == ["a", "b", "c"]
    assert files.list_names(str(tmp_path / "nowhere")) == []
    with pytest.raises(NotADirectoryError):
        files.list_names(str(tmp_path / "a"))


# === A loss of power ===


@pytest.fixture
def operations(monkeypatch):
    """Names of the files that are synced, and `replace`, in their order."""
    done = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        assert os.stat(path).st_size  # all of it was handed to the system
        done.append(os.path.basename(path))
        fsync(descriptor)

    def note_replace(source, target):
        done.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    return done


def test_a_file_is_synced_before_it_is_renamed_and_its_name_after(
    operations, tmp_path
):
    files.write_atomically(str(tmp_path / "file"), b"content")
    written, *rest = operations
    assert files.is_temporary(written)
    assert rest == ["replace", tmp_path.name]


def test_a_folder_is_synced_after_all_that_is_in_it(operations, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("a", "b", "folder/c"):
        (tmp_path / name).write_text("content")
    files.sync_all(str(tmp_path))
    assert sorted(operations) == sorted(
        ["a", "b", "c", "folder", tmp_path.name]
    )
    assert operations.index("c") < operations.index("folder")
    with pytest.raises(FileNotFoundError):
        files.sync_all(str(tmp_path / "nowhere"))


def test_staged_files_are_synced_before_they_get_their_names(
    operations, tmp_path
):
    write_staged(tmp_path, "new")
    moved = operations.index("replace")
    assert {"a.md", "new.csv"} <= {*operations[:moved]}
    assert {tmp_path.name, "tables"} <= {*operations[moved:]}


@pytest.mark.parametrize("code", [None, errno.EIO])
def test_syncing_leaves_no_file_open(code, monkeypatch, tmp_path):
    before = os.listdir("/proc/self/fd")
    if code is None:
        files.sync(str(tmp_path))
    else:
        monkeypatch.setattr(os, "fsync", fail(code))
        with pytest.raises(OSError):
            files.sync(str(tmp_path))
    assert os.listdir("/proc/self/fd") == before
