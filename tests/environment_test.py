"""Commands work, or say what is wrong, in environments of other programs."""

import gc
import os
import subprocess
import sys
import types

import keras
import pytest

from tests.support import forks as forks_lib
from tests.support.refusals import SMALL
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.utils.errors import UserError


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"KERAS_BACKEND": "torch"}, {"TF_USE_LEGACY_KERAS": "1"}]
)
def test_a_run_has_the_keras_that_it_needs(environment, light_forks, tmp_path):
    case = light_forks.start(
        forks_lib.run_command,
        "glue",
        *SMALL,
        f"--out={tmp_path}",
        folder=str(tmp_path),
        environment=environment,
    )
    code, out, err = case.finish()
    assert code == 0, err
    assert "test accuracy" in out


def test_a_program_that_has_loaded_another_keras_is_told(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(UserError, match="KERAS_BACKEND=torch: this program"):
        command_line.import_tensorflow()


@pytest.mark.parametrize("collects", [True, False])
def test_an_import_leaves_the_garbage_collector_as_it_was(collects):
    was_enabled = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        command_line.import_tensorflow()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_docstrings_are_needed(monkeypatch):
    flags = types.SimpleNamespace(optimize=2)
    monkeypatch.setattr(command_line.sys, "flags", flags)
    with pytest.raises(UserError, match="PYTHONOPTIMIZE=2 .*Unset it"):
        command_line.import_tensorflow()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [["tf_transfer"], ["tf_transfer.train", "--help"]]
)
def test_output_that_nobody_reads_is_no_error(words, unbuffered):
    with subprocess.Popen(
        [sys.executable, "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_another_broken_pipe_is_an_error():
    def fail():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        command_line.exit_on_error(fail)


def test_the_home_folder_is_found(light_forks, tmp_path, monkeypatch):
    words = ["--data=~/mine.csv", "--text_column=t"]
    case = light_forks.start(
        forks_lib.run_command,
        "train",
        *words,
        "--label_column=l",
        folder=str(tmp_path),
        environment={"HOME": str(tmp_path)},
    )
    _, _, err = case.finish()
    assert err.startswith(f"error: --data={tmp_path}/mine.csv: no such file")
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = command_line.parse(train.Settings, words)
    assert settings.data == f"{tmp_path}/mine.csv"
