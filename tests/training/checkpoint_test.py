"""A checkpoint is whole, or the one before it is used."""

import contextlib
import dataclasses
import errno
import io
import json
import os
import shutil

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.utils.disks import FULL
from tf_transfer.glue import experiment as glue
from tf_transfer.training import checkpoint
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

# === Arrays ===

ARRAYS = {
    "m/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
    "optimizer/step": np.array(7, np.int64),
    "empty": np.zeros((0, 4), np.float32),
}


def assert_same_arrays(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, name)


def test_arrays_come_back_as_they_were(tmp_path):
    path = str(tmp_path / "arrays")
    sha256 = checkpoint.write_arrays(path, ARRAYS)
    for expected in (sha256, None):
        assert_same_arrays(checkpoint.read_arrays(path, expected), ARRAYS)


def test_arrays_with_another_hash_are_damaged(tmp_path):
    path = str(tmp_path / "arrays")
    checkpoint.write_arrays(path, ARRAYS)
    with pytest.raises(ValueError, match="is damaged"):
        checkpoint.read_arrays(path, "0" * 64)
    with pytest.raises(ValueError, match="No such file"):
        checkpoint.read_arrays(path + "x", None)


# === Checkpoints ===


def arrays_of(step):
    return {"weight": np.full(3, step, np.float32)}


@pytest.fixture
def checkpoints(tmp_path):
    """Three checkpoints were saved; the last two are kept."""
    found = checkpoint.Checkpoints(str(tmp_path / "checkpoint"))
    for step in (5, 20, 100):
        kept = found.save(step, arrays_of(step), {"step": step})
    assert kept == [{"step": 20}, {"step": 100}]
    return found


def newest(checkpoints, **options):
    """The newest checkpoint that is whole, and the warnings."""
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        newest = checkpoints.newest(repair=True, **options)
    return newest, errors.getvalue().splitlines()


def damage(checkpoints, name, change):
    path = os.path.join(checkpoints.folder, name)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(change(content))


def flip_last_byte(content):
    return content[:-1] + bytes([content[-1] ^ 1])


def cut_in_half(content):
    return content[: len(content) // 2]


def lose_the_hash(content):
    return json.dumps({"state": json.loads(content)["state"]}).encode()


def remove_file(checkpoints, name):
    os.remove(os.path.join(checkpoints.folder, name))


DAMAGE = {
    "a flipped byte in the arrays": ("safetensors", flip_last_byte),
    "half of the arrays": ("safetensors", cut_in_half),
    "no bytes in the arrays": ("safetensors", lambda content: b""),
    "half of the JSON": ("json", cut_in_half),
    "no bytes in the JSON": ("json", lambda content: b""),
    "bytes that are no text in the JSON": ("json", lambda content: b"\xff\xfe"),
    "a JSON of something else": ("json", lose_the_hash),
}


def test_the_newest_checkpoint_comes_back(checkpoints):
    (arrays, state), warnings = newest(checkpoints)
    assert_same_arrays(arrays, arrays_of(100))
    assert (state, warnings) == ({"step": 100}, [])


def test_where_nothing_was_saved_there_is_no_checkpoint(tmp_path):
    nothing = checkpoint.Checkpoints(str(tmp_path / "checkpoint"))
    assert newest(nothing) == (None, [])


def test_only_two_checkpoints_are_kept(checkpoints):
    assert sorted(os.listdir(checkpoints.folder)) == [
        "step-000000020.json",
        "step-000000020.safetensors",
        "step-000000100.json",
        "step-000000100.safetensors",
    ]


def test_after_clearing_there_is_no_checkpoint(checkpoints):
    checkpoints.clear()
    assert newest(checkpoints) == (None, []) and not os.listdir(
        checkpoints.folder
    )


def test_what_a_kill_left_is_swept_up_by_the_next_checkpoint(checkpoints):
    for name in (
        "step-000000150.safetensors",
        "step-000000100.json.tmp-0123abcd",
    ):
        with open(os.path.join(checkpoints.folder, name), "wb"):
            pass
    assert newest(checkpoints)[0][1] == {"step": 100}
    checkpoints.save(200, arrays_of(200), {"step": 200})
    assert len(os.listdir(checkpoints.folder)) == 4


@pytest.mark.parametrize("kind, change", DAMAGE.values(), ids=DAMAGE.keys())
def test_the_one_before_takes_the_place_of_a_damaged_one(
    checkpoints, kind, change
):
    damage(checkpoints, f"step-000000100.{kind}", change)
    (arrays, state), warnings = newest(checkpoints)
    assert_same_arrays(arrays, arrays_of(20))
    assert state == {"step": 20}
    [warning] = warnings
    assert "step-000000100 cannot be used" in warning
    assert warning.endswith(". Falling back to the one before.")
    assert ".." not in warning


def test_missing_arrays_are_damage_too(checkpoints):
    remove_file(checkpoints, "step-000000100.safetensors")
    (_, state), [warning] = newest(checkpoints)
    assert state == {"step": 20}
    assert "No such file" in warning


def test_a_checkpoint_may_need_another_file(checkpoints):
    def needs(state):
        if state["step"] == 100:
            raise ValueError("the selected weights are damaged")

    (_, state), [warning] = newest(checkpoints, also_needs=needs)
    assert state == {"step": 20}
    assert "the selected weights are damaged" in warning


def test_a_damaged_checkpoint_does_not_pass_for_the_newest(checkpoints):
    """The run resumes at 20 and saves 40: that is newer than the torn 100."""
    damage(checkpoints, "step-000000100.json", cut_in_half)

    def jsons():
        return [n for n in os.listdir(checkpoints.folder) if "json" in n]

    _, state = checkpoints.newest(repair=False)
    assert (state, len(jsons())) == ({"step": 20}, 2)
    newest(checkpoints)
    assert len(jsons()) == 1
    checkpoints.save(40, arrays_of(40), {"step": 40})
    (_, state), warnings = newest(checkpoints)
    assert (state, warnings) == ({"step": 40}, [])


@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_where_all_are_damaged_the_user_is_told(checkpoints, kind, capsys):
    for step in (20, 100):
        damage(checkpoints, f"step-{step:09d}.{kind}", cut_in_half)
    with pytest.raises(UserError, match=f"{checkpoints.folder}: no checkpoint"):
        checkpoints.newest(repair=True)
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert len(os.listdir(checkpoints.folder)) == 4  # left to look at


def fails_with(code):
    """Refuses to open anything for reading."""

    def refuse(path):
        raise OSError(code, os.strerror(code))

    return refuse


def test_a_disk_that_fails_does_not_pass_for_a_damaged_checkpoint(
    checkpoints, monkeypatch
):
    """The newest may be intact: no older one takes its place."""
    path = os.path.join(checkpoints.folder, "step-000000100.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(files, "open_regular", fails_with(errno.EIO))
        with pytest.raises(OSError) as error:
            checkpoint.read_arrays(path, None)
        assert error.value.filename == path
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            checkpoints.newest(repair=True)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            checkpoints.has_intact()
    assert len(os.listdir(checkpoints.folder)) == 4


def test_a_checkpoint_that_may_not_be_read_is_damaged(checkpoints, monkeypatch):
    monkeypatch.setattr(files, "open_regular", fails_with(errno.EACCES))
    assert not checkpoints.has_intact()


def test_whether_a_checkpoint_is_intact_is_known_without_repair(
    checkpoints, tmp_path, capsys
):
    assert checkpoints.has_intact()
    damage(checkpoints, "step-000000100.json", cut_in_half)
    assert checkpoints.has_intact()
    remove_file(checkpoints, "step-000000020.safetensors")
    assert checkpoints.has_intact() is False
    assert capsys.readouterr().err == ""
    assert len(os.listdir(checkpoints.folder)) == 3
    none = checkpoint.Checkpoints(str(tmp_path / "none"))
    assert none.has_intact() is False


def test_a_checkpoint_of_another_run_is_damaged(checkpoints):
    checkpoints.save(200, arrays_of(200), {"b": 1, "a": [2]})
    (_, state), warnings = newest(checkpoints)
    assert (state, warnings) == ({"a": [2], "b": 1}, [])
    other = checkpoint.Checkpoints(checkpoints.folder, "another run")
    with pytest.raises(UserError, match="no checkpoint in it is intact"):
        other.newest(repair=False)


def test_arrays_and_state_of_two_checkpoints_are_no_checkpoint(checkpoints):
    """The JSON of one, with the hash of its arrays from the other."""
    name = "step-000000100.json"
    path = os.path.join(checkpoints.folder, name)
    with open(os.path.join(checkpoints.folder, "step-000000020.json")) as file:
        older = json.load(file)
    with open(path) as file:
        content = json.load(file)
    files.write_json(path, {**content, "sha256": older["sha256"]})
    (_, state), [warning] = newest(checkpoints)
    assert state == {"step": 20}
    assert "its state is damaged or another run's" in warning
    assert ".." not in warning


def test_checkpoints_of_an_earlier_folder_are_read_and_stay(
    checkpoints, tmp_path
):
    folder = str(tmp_path / "more")
    more = checkpoint.Checkpoints(folder, earlier=checkpoints.folder)
    arrays, _ = newest(more)[0]
    assert_same_arrays(arrays, arrays_of(100))
    assert more.save(200, arrays_of(200), {"step": 200}) == [
        {"step": step} for step in (20, 100, 200)
    ]
    assert newest(more)[0][1] == {"step": 200}
    more.save(300, arrays_of(300), {"step": 300})
    more.save(400, arrays_of(400), {"step": 400})
    assert len(os.listdir(folder)) == len(os.listdir(checkpoints.folder)) == 4
    for step in (300, 400):
        remove_file(more, f"step-{step:09d}.safetensors")
    assert newest(more)[0][1] == {"step": 100}


def test_a_damaged_checkpoint_needs_no_file_of_the_run(checkpoints):
    damage(checkpoints, "step-000000100.json", cut_in_half)
    kept = checkpoints.save(200, arrays_of(200), {"step": 200})
    assert kept == [{"step": 200}]


def test_the_size_is_that_of_the_newest_arrays(checkpoints, tmp_path):
    for step, size in ((200, 2000), (250, 1000)):
        large = {"weight": np.zeros(size, np.float32)}
        checkpoints.save(step, large, {"step": step})
        assert 4 * size < checkpoints.count_bytes() < 4 * size + 200
    checkpoints.save(300, arrays_of(300), {"step": 300})
    assert 12 < checkpoints.count_bytes() < 200
    checkpoints.keep(1)
    assert sorted(os.listdir(checkpoints.folder)) == [
        "step-000000300.json",
        "step-000000300.safetensors",
    ]
    assert checkpoint.Checkpoints(str(tmp_path / "none")).count_bytes() == 0


def test_files_of_another_name_are_no_checkpoints(checkpoints):
    with open(os.path.join(checkpoints.folder, "step-x.json"), "w"):
        pass
    assert newest(checkpoints)[1] == []


@FULL
def test_a_full_disk_leaves_the_last_good_checkpoint(
    fill, checkpoints, monkeypatch
):
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(UserError, match="the disk is full"):
            checkpoints.save(200, arrays_of(200), {"step": 200})
    (_, state), warnings = newest(checkpoints)
    assert (state, warnings) == ({"step": 100}, [])


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("eager")
def test_a_finished_run_without_a_complete_checkpoint_stays_finished(tmp_path):
    settings = tiny_settings(
        tmp_path, trainable_layers="0", max_length=16, max_epochs=1
    )
    result = glue.run(settings)
    folder = os.path.join(result.directory, "checkpoint")
    for name in os.listdir(folder):
        os.truncate(os.path.join(folder, name), 5)
    more = dataclasses.replace(settings, max_epochs=2)
    with pytest.raises(UserError, match="finished, and has no intact checkpoi"):
        glue.run(more)
    shutil.rmtree(folder)
    with pytest.raises(UserError, match="finished, and has no intact checkpoi"):
        glue.run(more)
    assert glue.run(settings).record == result.record
