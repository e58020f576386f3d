"""What stops a run loses nothing, and the same command goes on."""

import dataclasses
import errno
import glob
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from tensorboard.backend.event_processing import plugin_event_accumulator

from tests import commands
from tests.conftest import run_folder
from tests.conftest import tiny_settings
from tf_transfer import glue
from tf_transfer.models import tiny
from tf_transfer.training import checkpoint
from tf_transfer.training import loop
from tf_transfer.training import optimizer
from tf_transfer.training import run as run_lib
from tf_transfer.utils.errors import Interrupted
from tf_transfer.utils.errors import UserError

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
    result = glue.run(settings)
    assert result["epochs_run"] == settings.max_epochs
    assert run_folder(settings) == folder
    np.testing.assert_allclose(losses(folder), undisturbed, atol=1e-5)


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory):
    """The run that nothing stops: its losses, and how often it syncs."""
    settings = settings_in(tmp_path_factory.mktemp("left_alone"))
    synced = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", 1)
        patch.setattr(checkpoint.os, "fsync", synced.append)
        glue.run(settings)
    return losses(run_folder(settings)), len(synced)


@pytest.fixture
def undisturbed(left_alone):
    """The losses of the run that nothing stops."""
    return left_alone[0]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Where a run lies that SIGTERM stopped in its second epoch."""
    settings = settings_in(tmp_path_factory.mktemp("stopped"))
    original = run_lib.Run._after_chunk
    steps = []

    def after_chunk(self, *arguments):
        steps.append(1)
        if len(steps) == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", 1)
        patch.setattr(loop, "LONGEST_CHUNK", 1)
        patch.setattr(run_lib.Run, "_after_chunk", after_chunk)
        with pytest.raises(Interrupted):
            glue.run(settings)
    return settings.out


@pytest.fixture
def begun(stopped, tmp_path, one_block):
    """A copy of the run that was stopped: settings and folder."""
    settings = settings_in(tmp_path / "runs")
    shutil.copytree(stopped, settings.out)
    return settings, run_folder(settings)


# === Signals ===


SIGNALS = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(scope="module")
def signalled(tmp_path_factory):
    """By signal: where a command ran that got it, and how that ended."""
    places = {number: tmp_path_factory.mktemp("runs") for number in SIGNALS}
    processes = {
        number: commands.start(
            "glue",
            "--task=rte",
            "--data=sample",
            "--model=tiny",
            "--lr=1e-3",
            "--trainable_layers=0",
            "--max_length=16",
            "--max_train_examples=16",
            "--batch_size=1",
            "--max_epochs=1000",
            "--patience=0",
            f"--out={places[number]}",
        )
        for number in SIGNALS
    }
    for number, process in processes.items():
        for line in process.stdout:
            if line.startswith("epoch "):
                break
        process.send_signal(number)
    return {
        number: (places[number], *commands.finish(process))
        for number, process in processes.items()
    }


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_saves_and_leaves_and_the_command_goes_on(
    number, signalled, capsys
):
    out, code, _, err = signalled[number]
    folder = run_folder(settings_in(out))
    assert code == 130
    [line] = err.splitlines()
    assert line.startswith("Stopped and saved. The same command continues at")
    assert line.endswith(folder)
    assert checkpoints(folder)
    assert not is_done(folder)
    done = len(losses(folder))
    assert 1 <= done < 1000
    capsys.readouterr()
    # A thousand epochs would never end; the limit is no part of the key.
    result = glue.run(settings_in(out, batch_size=1, max_epochs=done + 1))
    assert "Continuing at epoch" in capsys.readouterr().out
    assert run_folder(settings_in(out)) == folder
    assert result["epochs_run"] == len(losses(folder)) == done + 1


def test_an_interrupted_run_goes_on_inside_the_epoch(
    begun, undisturbed, capsys
):
    settings, folder = begun
    capsys.readouterr()
    assert_continues(settings, folder, undisturbed)
    assert "Continuing at epoch 2, step 2 (6 steps done)." in (
        capsys.readouterr().out
    )


# === Whose run directory it is ===

HOLDER = """
import sys
from tf_transfer.training import records

directory = records.RunDirectory(sys.argv[1], None)
directory.key = directory.config()["key"]
directory.lock()
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_run_that_another_process_is_using_is_refused(begun, undisturbed):
    settings, folder = begun
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=commands.ROOT,
    ) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(UserError) as error:
            glue.run(settings)
        holder.stdin.close()
    assert f"{folder}: another process is using this run" in str(error.value)
    assert f"process {holder.pid} on" in str(error.value)
    assert_continues(settings, folder, undisturbed)


@pytest.mark.parametrize("finished", [False, True])
def test_a_run_directory_of_another_config_is_refused(finished, begun):
    settings, folder = begun
    if finished:
        glue.run(settings)
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


@pytest.mark.parametrize("kind", ["json", "safetensors"])
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


def test_a_run_with_no_checkpoint_that_is_whole_says_what_to_do(begun):
    settings, folder = begun
    for path in checkpoints(folder, "safetensors"):
        os.truncate(path, 100)
    with pytest.raises(UserError, match="no checkpoint in it is whole"):
        glue.run(settings)


# === Numbers that are none ===


def explode(monkeypatch, step):
    """From a step on, counted from 0, the rate is beyond all measure."""
    monkeypatch.setattr(
        run_lib,
        "learning_rate",
        lambda now, *unused: tf.where(now < step, 1e-3, 1e38),
    )


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize(
    "task, explodes, what, found",
    [
        ("rte", 5, "loss", 7),
        ("rte", 7, "validation output", 8),
        ("stsb", 7, "validation output", 8),
    ],
)
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    task, explodes, what, found, monkeypatch, tmp_path
):
    settings = settings_in(tmp_path, task=task)
    with monkeypatch.context() as patch:
        explode(patch, explodes)
        with pytest.raises(loop.NotFinite) as error:
            glue.run(settings)
    assert str(error.value).startswith(
        f"The {what} is not finite at step {found}."
    )
    assert "--lr" in str(error.value)
    folder = run_folder(settings)
    assert not is_done(folder)
    first_epoch = losses(folder)
    assert len(first_epoch) == 1
    for path in checkpoints(folder, "safetensors"):
        for array in safetensors.numpy.load_file(path).values():
            assert np.abs(array).max() < 100
    result = glue.run(settings)
    assert result["epochs_run"] == 3
    assert losses(folder)[:1] == first_epoch


@pytest.mark.usefixtures("one_block")
def test_a_step_that_overflows_in_float16_is_skipped(monkeypatch, tmp_path):
    monkeypatch.setattr(optimizer, "FIRST_LOSS_SCALE", 2.0**30)
    settings = settings_in(
        tmp_path, precision="mixed_float16", batch_size=1, max_epochs=2
    )
    result = glue.run(settings)
    assert result["epochs_run"] == 2
    [path] = checkpoints(run_folder(settings), "safetensors")
    state = safetensors.numpy.load_file(path)
    skipped = state["optimizer/step"] - state["optimizer/updates"]
    assert 0 < skipped < state["optimizer/step"] == 32
    assert state["optimizer/loss_scale"] == 2.0 ** (30 - skipped)
    assert all(np.isfinite(array).all() for array in state.values())


# === A full disk ===


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_a_full_disk_ends_the_run_with_the_last_good_checkpoint(
    share, left_alone, monkeypatch, tmp_path
):
    """From some part of the run's writes on, all of them fail."""
    settings = settings_in(tmp_path)
    undisturbed, writes = left_alone
    synced = []

    def fsync(descriptor):
        synced.append(descriptor)
        if len(synced) > share * writes:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.os, "fsync", fsync)
        with pytest.raises(UserError, match="the disk is full"):
            glue.run(settings)
    folder = run_folder(settings)
    assert not is_done(folder)
    assert not glob.glob(f"{folder}/**/*.tmp-*", recursive=True)

    def fail(line):
        raise AssertionError(line)

    checkpoint.Checkpoints(os.path.join(folder, "checkpoint")).newest(
        fail, False
    )
    assert bool(checkpoints(folder)) == (share > 0.3)
    assert_continues(settings, folder, undisturbed)


# === What a resume leaves in the records ===


def test_tensorboard_keeps_every_epoch_of_a_run_that_was_extended(
    one_block, tmp_path
):
    settings = dataclasses.replace(settings_in(tmp_path / "runs"), max_epochs=2)
    glue.run(settings)
    glue.run(dataclasses.replace(settings, max_epochs=3))
    events = plugin_event_accumulator.EventAccumulator(run_folder(settings))
    events.Reload()
    assert len(events.Tensors("validation/accuracy")) == 3
    assert len(events.Tensors("time/epoch_seconds")) == 3


def test_a_smaller_max_epochs_still_ends_the_epoch_that_was_begun(
    begun, tmp_path
):
    settings, folder = begun
    result = glue.run(dataclasses.replace(settings, max_epochs=1))
    assert result["epochs_run"] == 2
    assert len(losses(folder)) == 2


def test_the_config_keeps_how_a_run_began_and_every_start(begun):
    settings, folder = begun
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        first = json.load(file)
    glue.run(settings)
    with open(path) as file:
        config = json.load(file)
    assert config["started"] == first["started"]
    assert [first["starts"][0]] == config["starts"][:1]
    assert len(config["starts"]) == 2
