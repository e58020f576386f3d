"""The installed package, away from the checkout: all its files are in it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.support import commands

SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
GLUE = (
    "glue --data=sample --model=tiny --task=rte --max_epochs=1 --batch_size=8 "
    "--max_length=32 --out=runs"
).split()


def pip(*words):
    command = [sys.executable, "-m", "pip", *words, "--no-deps", "--quiet"]
    subprocess.run(command, check=True)


def build(tmp_path):
    """The path of a wheel of this checkout."""
    root = pathlib.Path(commands.ROOT)
    source = tmp_path / "source"  # pip would leave a build in the checkout
    for name in ("tf_transfer", "experiments"):
        shutil.copytree(root / name, source / name)
    for name in SOURCES:
        shutil.copy(root / name, source)
    pip("wheel", str(source), "--no-build-isolation", f"--wheel-dir={tmp_path}")
    [wheel] = tmp_path.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_trains_from_any_folder(tmp_path):
    wheel = os.environ.get("WHEEL") or build(tmp_path)  # see .ci/release
    installed, work = tmp_path / "installed", tmp_path / "work"
    pip("install", str(wheel), f"--target={installed}")
    assert (installed / "tf_transfer" / "py.typed").is_file()
    work.mkdir()
    environment = os.environ | {"PYTHONPATH": str(installed)}
    script = installed / "bin" / "tf-transfer"
    subprocess.run([script, *GLUE], check=True, cwd=work, env=environment)
    [config] = work.glob("runs/glue/rte/fine_tuning/*/config.json")
    program, *words = json.loads(config.read_text())["command"]
    assert program == str(installed / "tf_transfer" / "glue" / "__main__.py")
    assert words == GLUE[1:]
    assert config.with_name("result.json").is_file()
