"""An interruption loses nothing, and the same command resumes the run."""

import contextlib
import dataclasses
import errno
import glob
import io
import json
import os
import shutil
import signal

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.conftest import run_folder, running_eagerly, tiny_settings
from tests.support import commands
from tf_transfer.glue import experiment as glue
from tf_transfer.models import tiny
from tf_transfer.training import optimizer, records, steps, trainer
from tf_transfer.utils import files
from tf_transfer.utils.errors import NotFiniteError, UserError

# Three epochs of four steps.
OPTIONS = {
    "trainable_layers": "0",
    "max_length": 16,
    "max_train_examples": 16,
    "batch_size": 4,
    "max_epochs": 3,
    "patience": 0,
}


def settings_in(out, **changes):
    return tiny_settings(out, **{**OPTIONS, **changes})


def losses(folder):
    with open(os.path.join(folder, "epochs.jsonl")) as file:
        return [json.loads(line)["train_loss"] for line in file]


def checkpoints(folder, kind="json"):
    """Files of the checkpoints, oldest first."""
    return sorted(glob.glob(os.path.join(folder, "checkpoint", f"*.{kind}")))


def is_done(folder):
    return os.path.exists(os.path.join(folder, "result.json"))


def assert_continues(settings, folder, undisturbed):
    """The same command finishes, with the losses of the run left alone."""
    result = glue.run(settings).record
    assert result["epochs_run"] == settings.max_epochs
    assert run_folder(settings) == folder
    np.testing.assert_allclose(losses(folder), undisturbed, atol=1e-5)


@pytest.fixture(scope="module", autouse=True)
def small_and_eager():
    """One block, nothing traced."""
    with pytest.MonkeyPatch.context() as patch, running_eagerly(patch):
        patch.setattr(tiny, "BLOCKS", 1)
        yield


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory, small_and_eager):
    """The run that nothing stops: its folder, and how often it syncs."""
    settings = settings_in(tmp_path_factory.mktemp("left_alone"))
    synced = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.os, "fsync", synced.append)
        glue.run(settings)
    return run_folder(settings), len(synced)


@pytest.fixture
def undisturbed(left_alone):
    """The losses of the run that nothing stops."""
    return losses(left_alone[0])


def command_that_is_stopped(out, number, step):
    """Runs the command of `settings_in`, here, and sends a signal at a step.

    Returns:
        Its exit code, and what it says on stderr.
    """
    original = trainer.Trainer._after_chunk
    chunks = []

    def after_chunk(self, *arguments):
        chunks.append(1)
        if len(chunks) == step:
            os.kill(os.getpid(), number)
        return original(self, *arguments)

    said = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stderr(said),
    ):
        patch.setattr(steps, "LONGEST_CHUNK", 1)
        patch.setattr(trainer.Trainer, "_after_chunk", after_chunk)
        code = commands.call(
            commands.run_glue,
            commands.define_glue,
            "--task=rte",
            "--data=sample",
            "--model=tiny",
            "--lr=1e-3",
            *(f"--{name}={value}" for name, value in OPTIONS.items()),
            f"--out={out}",
        )
    return code, said.getvalue()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, small_and_eager):
    """A command that SIGTERM stopped in its second epoch.

    Returns:
        Where its run lies, its exit code, and what it said on stderr.
    """
    out = tmp_path_factory.mktemp("stopped")
    return out, *command_that_is_stopped(out, signal.SIGTERM, 6)


@pytest.fixture
def begun(stopped, tmp_path):
    """A copy of the run that was stopped: settings and folder."""
    settings = settings_in(tmp_path / "runs")
    shutil.copytree(stopped[0], settings.out)
    return settings, run_folder(settings)


# === Signals ===


def assert_says_that_it_saved(code, err, out):
    assert code == 130
    line = err.splitlines()[-1]
    assert line.startswith("Stopped and saved. The same command continues at")
    assert line.endswith(run_folder(settings_in(out)))


def test_sigterm_saves_and_ends_the_command_with_a_line(stopped):
    out, code, err = stopped
    assert_says_that_it_saved(code, err, out)


def test_so_does_ctrl_c(tmp_path):
    code, err = command_that_is_stopped(tmp_path, signal.SIGINT, 1)
    assert_says_that_it_saved(code, err, tmp_path)
    assert checkpoints(run_folder(settings_in(tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_or_killed_process_resumes(number, tmp_path):
    """As a user starts it: no fork, nothing eager, nothing made smaller."""
    words = (
        "--task=rte",
        "--data=sample",
        "--model=tiny",
        "--lr=1e-3",
        "--batch_size=8",
        "--max_length=16",
        "--patience=0",
        f"--out={tmp_path}",
    )
    process = commands.start("glue", *words, "--max_epochs=100000")
    lines = (line for line in process.stdout if line.startswith("epoch "))
    for _ in range(2):  # with the second one, the first epoch has been saved
        next(lines)
    process.send_signal(number)
    code, _, err = commands.finish(process)
    if number == signal.SIGKILL:
        assert code == -number
    else:
        assert code == 130
        [line] = err.splitlines()
        assert line.startswith("Stopped and saved. The same command continues")
    [path] = tmp_path.glob("glue/rte/*/*/epochs.jsonl")
    epochs = len(path.read_text().splitlines()) + 1
    process = commands.start("glue", *words, f"--max_epochs={epochs}")
    code, out, err = commands.finish(process)
    assert code == 0, err
    assert "Continuing at epoch" in out
    assert len(path.read_text().splitlines()) == epochs
    assert is_done(path.parent)


@pytest.mark.slow  # trains whole runs
def test_an_interrupted_run_resumes_inside_the_epoch(
    begun, undisturbed, capsys
):
    """Another process is using it first; `config.json` knows both starts."""
    settings, folder = begun
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        first = json.load(file)
    holder = records.RunDirectory(folder, first["key"])
    holder.lock()
    with pytest.raises(UserError) as error:
        glue.run(settings)
    holder.close()
    assert f"{folder}: another process is using this run" in str(error.value)
    assert f"process {os.getpid()} on" in str(error.value)
    assert_continues(settings, folder, undisturbed)
    assert "Continuing at epoch 2, step 2 (6 steps done)." in (
        capsys.readouterr().out
    )
    with open(path) as file:
        config = json.load(file)
    assert config["started"] == first["started"]
    assert [first["starts"][0]] == config["starts"][:1]
    assert len(config["starts"]) == 2


# === Whose run directory it is ===


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_directory_of_another_config_is_refused(
    finished, begun, left_alone
):
    settings, folder = begun
    if finished:
        shutil.rmtree(folder)
        shutil.copytree(left_alone[0], folder)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config["key"]["lr"] = 0.5
    with open(path, "w") as file:
        json.dump(config, file)
    before = {
        name: os.stat(name).st_mtime_ns
        for name in glob.glob(f"{folder}/**", recursive=True)
    }
    with pytest.raises(UserError, match="belongs to a run with another lr"):
        glue.run(settings)
    assert before == {name: os.stat(name).st_mtime_ns for name in before}


# === Damage ===


@pytest.mark.parametrize(
    "kind", ["json", pytest.param("safetensors", marks=pytest.mark.slow)]
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    kind, begun, undisturbed, capsys
):
    settings, folder = begun
    assert len(checkpoints(folder)) == 2
    with open(checkpoints(folder, kind)[-1], "r+b") as file:
        file.truncate(os.path.getsize(file.name) // 2)
    assert_continues(settings, folder, undisturbed)
    out, err = capsys.readouterr()
    assert "cannot be used" in err
    assert "Falling back to the one before." in err
    assert "Continuing at epoch 2, step 0 (4 steps done)." in out


def test_a_run_without_a_complete_checkpoint_says_what_to_do(begun):
    settings, folder = begun
    for path in checkpoints(folder, "safetensors"):
        os.truncate(path, 100)
    with pytest.raises(UserError, match="no checkpoint in it is intact"):
        glue.run(settings)


# === Numbers that are none ===


def explode(monkeypatch, step):
    """From a step on, counted from 0, the rate is beyond all measure."""
    monkeypatch.setattr(
        optimizer.LearningRate,
        "__call__",
        lambda self, now: tf.where(now < step, 1e-3, 1e38),
    )


@pytest.mark.parametrize(
    "task, explodes, what, noticed",
    [
        ("rte", 5, "loss", 7),
        *(
            pytest.param(
                task, 7, "validation output", 8, marks=pytest.mark.slow
            )
            for task in ("rte", "stsb")
        ),
    ],
)
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    task, explodes, what, noticed, monkeypatch, tmp_path
):
    settings = settings_in(tmp_path, task=task)
    with monkeypatch.context() as patch:
        explode(patch, explodes)
        with pytest.raises(NotFiniteError) as error:
            glue.run(settings)
    assert str(error.value).startswith(
        f"The {what} is not finite at step {noticed}."
    )
    assert "--lr" in str(error.value)
    folder = run_folder(settings)
    assert not is_done(folder)
    first_epoch = losses(folder)
    assert len(first_epoch) == 1
    for path in checkpoints(folder, "safetensors"):
        for array in safetensors.numpy.load_file(path).values():
            assert np.abs(array).max() < 100
    result = glue.run(settings).record
    assert result["epochs_run"] == 3
    assert losses(folder)[:1] == first_epoch


# === A full disk ===


@pytest.mark.parametrize(
    "share",
    [
        0.6,
        *(
            pytest.param(share, marks=pytest.mark.slow)
            for share in (0.0, 0.3, 0.9)
        ),
    ],
)
def test_a_full_disk_ends_the_run_with_the_last_good_checkpoint(
    share, left_alone, monkeypatch, tmp_path, capsys
):
    """From some part of the run's writes on, all of them fail."""
    settings = settings_in(tmp_path)
    undisturbed, writes = losses(left_alone[0]), left_alone[1]
    synced = []

    def fsync(descriptor):
        synced.append(descriptor)
        if len(synced) > share * writes:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fsync)
        with pytest.raises(UserError, match="the disk is full"):
            glue.run(settings)
    folder = run_folder(settings)
    assert not is_done(folder)
    assert not glob.glob(f"{folder}/**/*.tmp-*", recursive=True)

    config = records.RunDirectory(folder, None).config() or {}
    directory = records.RunDirectory(folder, config.get("key"))
    capsys.readouterr()
    directory.checkpoints.newest(repair=True)
    assert not capsys.readouterr().err
    assert bool(checkpoints(folder)) == (share > 0.3)
    assert_continues(settings, folder, undisturbed)


def test_a_smaller_max_epochs_still_ends_the_epoch_that_was_begun(begun):
    settings, folder = begun
    result = glue.run(dataclasses.replace(settings, max_epochs=1)).record
    assert result["epochs_run"] == 2
    assert len(losses(folder)) == 2
