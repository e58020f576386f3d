"""A run directory has one owner, whose lock the others see."""

import errno
import os
import subprocess
import sys

import pytest

from tests.conftest import tiny_settings
from tests.training.run_directories import begin, KEY
from tests.utils.disks import fail
from tf_transfer.training import records
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

# === One owner ===

OWNER = """
import sys
from tf_transfer.training import records
run = records.RunDirectory({path!r}, {{}})
run.lock()
print("locked", flush=True)
sys.stdin.read()
"""


def test_two_processes_cannot_have_a_run_and_a_dead_one_has_none(tmp_path):
    path = str(tmp_path / "run")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(path=path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout.readline() == "locked\n"
        run = records.RunDirectory(path, {})
        with pytest.raises(UserError) as error:
            run.lock()
        for words in (path, "another process", f"process {owner.pid} on "):
            assert words in str(error.value)
    finally:
        owner.kill()
        owner.communicate()
    run.lock()
    run.close()


def test_a_closed_run_is_free(run):
    other = records.RunDirectory(run.path, run.key)
    with pytest.raises(UserError, match="another process"):
        other.lock()
    run.close()
    other.lock()
    other.close()


@pytest.mark.parametrize(
    "key, differing",
    [
        ({**KEY, "lr": 0.5}, "lr"),
        ({**KEY, "dropout": 0.5, "seed": 7}, "dropout, seed"),
        (
            {**KEY, "schedule": "linear", "max_epochs": 9},
            "max_epochs, schedule",
        ),
    ],
)
def test_the_folder_of_another_config_is_refused(run, key, differing):
    begin(run, tiny_settings("runs"))
    run.close()
    with open(run.file("config.json"), "rb") as file:
        before = file.read()
    other = records.RunDirectory(run.path, key)
    with pytest.raises(UserError, match=f"with another {differing}\\."):
        other.lock()
    with open(run.file("config.json"), "rb") as file:
        assert file.read() == before
    run.lock()  # its own config opens it again


# === The lock ===


def fail_with(code):
    def refuse(*arguments, **options):
        fail(code)()

    return refuse


def test_whether_a_run_is_locked_is_known_to_others(run, monkeypatch):
    other = records.RunDirectory(run.path, run.key)
    assert other.is_locked() is True
    run.close()
    assert other.is_locked() is False
    nowhere = records.RunDirectory(run.path + "x", run.key)
    assert nowhere.is_locked() is False and not os.path.exists(nowhere.path)
    monkeypatch.setattr(files, "open_lock", fail_with(errno.EACCES))
    assert other.is_locked() is True
    monkeypatch.setattr(files, "open_lock", fail_with(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        other.is_locked()


def test_asking_whether_a_run_is_locked_makes_no_lock(run):
    run.close()
    os.remove(run.file(".lock"))
    assert run.is_locked() is False
    assert not os.path.exists(run.file(".lock"))


def test_the_lock_names_its_process(run):
    with open(run.file(".lock")) as file:
        assert file.read().startswith(f"process {os.getpid()} on ")
    run.close()
    with open(run.file(".lock"), "w") as file:
        file.write("process 1234567890 on a machine of a very long name" * 9)
    run.lock()
    with open(run.file(".lock")) as file:
        assert "1234567890" not in file.read()


@pytest.mark.parametrize("content, owner", [("", "unknown"), ("x\udcff", "x")])
def test_an_owner_that_is_not_named_is_unknown(content, owner, run):
    with open(run.file(".lock"), "w", errors="surrogateescape") as file:
        file.write(content)
    other = records.RunDirectory(run.path, run.key)
    with pytest.raises(UserError, match=f"another process.*{owner}"):
        other.lock()


def test_a_file_that_is_no_lock_is_left_alone(run):
    run.close()
    with open(run.file(".lock"), "w") as file:
        file.write("notes of mine")
    with pytest.raises(json_files.Damaged, match="is not the lock of a run"):
        records.RunDirectory(run.path, run.key).lock()
    with open(run.file(".lock")) as file:
        assert file.read() == "notes of mine"


def test_who_locks_a_run_removes_what_a_killed_process_left(run):
    run.close()
    folders = ["", "checkpoint", "model"]
    folders += [os.path.join("extension", name) for name in folders]
    for folder in folders:
        os.makedirs(run.file(folder), exist_ok=True)
        for name in ("a.tmp-0123abcd", "a.json"):
            with open(run.file(folder, name), "w"):
                pass
    records.RunDirectory(run.path, run.key).lock()
    for folder in folders:
        names = os.listdir(run.file(folder))
        assert "a.json" in names and "a.tmp-0123abcd" not in names
