"""Pipes, devices, folders and links at paths that are read or written."""

import os
import pathlib
import shutil

import numpy as np
import pytest

from tests.attack import files_test
from tests.support import own_data
from tf_transfer.config import command_line, settings
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.own import table_source, task_file
from tf_transfer.reports import summary as summary_lib
from tf_transfer.sweeps import execute, grid
from tf_transfer.sweeps.states import RunStates
from tf_transfer.training import checkpoint, records
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

KINDS = ("pipe", "device", "folder", "gone")


def make_special(path, kind):
    """Replaces a file."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_a_special_file_is_left_out_at_once(kind, tmp_path):
    run = files_test.write_run(tmp_path / "a", 0)
    expected = files_test.read(run)
    for path in sorted(run.iterdir()):
        content = path.read_bytes()
        make_special(path, kind)
        assert files_test.read(run) in (None, expected), path.name
        remove(path)
        path.write_bytes(content)
    assert files_test.read(run) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_no_checkpoint_or_cached_state_is_read_from_a_special_file(
    kind, tmp_path
):
    saved = checkpoint.Checkpoints(str(tmp_path / "checkpoint"), "")
    saved.save(1, {"w": np.zeros(3, np.float32)}, {"step": 1})
    for path in sorted((tmp_path / "checkpoint").iterdir()):
        content = path.read_bytes()
        make_special(path, kind)
        try:
            assert saved.newest(repair=False) is None
        except UserError as error:
            assert "no checkpoint in it is intact" in str(error)
        remove(path)
        path.write_bytes(content)
    store = store_lib.Store(str(tmp_path / "cache"))
    key = {"weights": "a", "cut": 1, "hidden": 2, "dtype": "float16"}
    entry = store.open(key, "tiny")
    entry.vectors.append([bytes(16)], [1], [np.zeros((1, 2), np.float16)], 1.0)
    entry.close()
    for path in sorted(pathlib.Path(entry.folder).iterdir()):
        copy = tmp_path / f"copy of {path.name}"
        shutil.copytree(store.folder, copy / "prefix")
        make_special(
            copy / "prefix" / pathlib.Path(path).parent.name / path.name, kind
        )
        try:
            damaged = store_lib.Store(str(copy)).open(key, "tiny")
            indices, _ = damaged.vectors.find_intact([bytes(16)])
            holds_rows = path.suffix not in (".json", ".lock")
            assert (indices[0] < 0) == holds_rows, path.name
            damaged.close()
        except (OSError, UserError) as error:
            assert str(copy) in str(error)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize(
    "read",
    [
        json_files.read_record,
        json_files.read_records,
        summary_lib.read_summary,
        grid.read_grid,
    ]
    + [files.sha256],
)
def test_a_special_file_is_an_error_that_names_it(kind, read, tmp_path):
    path = tmp_path / "file.json"
    make_special(path, kind)
    with pytest.raises((OSError, UserError), match=str(path)):
        read(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_file_in_a_flag_file_is_checked_too(kind, tmp_path):
    inner, outer = tmp_path / "inner.flags", tmp_path / "outer.flags"
    outer.write_text(f"--lr=1\n--flagfile={inner}\n")
    make_special(inner, kind)
    words = [f"--flagfile={outer}"]
    with pytest.raises(UserError, match="--flagfile=.*Give a text"):
        command_line.parse(settings.Settings, words)
    remove(inner)
    inner.write_bytes(b"--task=\xff")
    with pytest.raises(UserError, match="--flagfile=.*: Not text in UTF-8"):
        command_line.read_flag_files(words)
    inner.write_text(f"--flagfile={outer}\n--flagfile=\n--max_epochs=3")
    read = command_line.read_flag_files(words)  # a circle
    assert read == ["--lr=1", "--max_epochs=3"]


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "result.json"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(json_files.Damaged, match="Larger than 67,108,864"):
        json_files.read_record(str(path))


def test_no_lock_empties_another_file(tmp_path):
    """Neither through a link, nor as another name of it."""
    precious = tmp_path / "precious"
    run = records.RunDirectory(str(tmp_path / "run"), None)
    states = RunStates(str(tmp_path), [])
    os.makedirs(run.path)
    store = store_lib.Store(str(tmp_path / "cache"))
    key = {"weights": "a", "cut": 1, "hidden": 2, "dtype": "float16"}
    entry = store.open(key, "tiny")
    with execute.lock(states.folder):
        [sweep_lock] = pathlib.Path(states.folder).glob("*.lock")

    def build(entry=entry):
        with entry.build_lock():
            pass

    def sweep():
        with execute.lock(states.folder):
            pass

    for link in (os.symlink, os.link):
        for path, lock in [
            (run.file(".lock"), run.lock),
            (str(sweep_lock), sweep),
            (entry.file("building.lock"), build),
            (entry.file("using.lock"), entry.lock.take),
        ]:
            precious.write_text("precious")
            pathlib.Path(path).unlink(missing_ok=True)
            link(precious, path)
            if link is os.symlink or lock == run.lock:
                with pytest.raises((OSError, UserError), match="lock"):
                    lock()
            else:
                lock()
            assert precious.read_text() == "precious"
            run.close()


def test_nothing_is_appended_through_a_link(tmp_path):
    precious, log = tmp_path / "precious", tmp_path / "log"
    precious.write_text("precious")
    store = store_lib.Store(str(tmp_path / "cache"))
    key = {"weights": "a", "cut": 1, "hidden": 2, "dtype": "float16"}
    entry = store.open(key, "tiny")
    os.symlink(precious, entry.vectors.path)
    with pytest.raises(OSError):
        entry.vectors.append(
            [bytes(16)], [1], [np.zeros((1, 2), np.float16)], 1.0
        )
    for kind in ("pipe", "folder", "device"):
        make_special(log, kind)
        with pytest.raises(OSError):
            files.open_to_append(str(log))
        remove(log)
    assert precious.read_text() == "precious"


def test_a_lock_that_is_a_pipe_is_an_error(tmp_path):
    run = records.RunDirectory(str(tmp_path / "run"), None)
    os.makedirs(run.path)
    os.mkfifo(run.file(".lock"))
    with pytest.raises(files.NotAFile):
        run.lock()
    assert run.is_locked()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("pattern", ["a.csv", "*.csv", "a.txt"])
def test_texts_are_not_read_from_a_special_file(kind, pattern, tmp_path):
    name = pattern.replace("*", "a")
    make_special(tmp_path / name, kind)
    keys = {"train": pattern}
    if name == "a.txt":  # a word per line
        keys |= {"kind": "entities", "texts": "0", "label": "1"}
    path = own_data.write_toml(
        tmp_path / "mine.toml",
        {"name": "mine", "texts": "text", "label": "label", **keys},
    )
    with pytest.raises(
        (OSError, UserError), match=r"a\.(csv|txt)|\*\.csv: no such file"
    ):
        source = table_source.TableSource(task_file.read_task_file(path))
        source.read("train")
    make_special(tmp_path / "other.toml", kind)
    with pytest.raises((OSError, UserError), match=r"other\.toml"):
        task_file.read_task_file(str(tmp_path / "other.toml"))


def test_a_key_of_many_dots_takes_no_memory(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"a{'.a' * 200_000} = 1")
    with pytest.raises(files.NotAFile, match="Larger than 65,536 bytes"):
        task_file.read_task_file(str(path))
    path.write_text(f"a{'.a' * 30_000} = 1")
    with pytest.raises(UserError, match="has a key of too many parts"):
        task_file.read_task_file(str(path))
