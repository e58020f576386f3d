"""Real disks that are full or read-only; tests/faults has every operation."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.attack import small_runs
from tests.support import commands, own_data


@pytest.fixture
def small_disk(tmp_path):
    """A disk whose size is set: function of kilobytes; skips without one."""
    path = tmp_path / "disk"
    path.mkdir()

    def resize(kilobytes, *options):
        size = ",".join([f"size={kilobytes}k", *options])
        words = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(path)]
        done = subprocess.run(words, capture_output=True, check=False)
        if done.returncode:
            pytest.skip("no small disk may be mounted here")
        return path

    yield resize
    while not subprocess.run(
        ["umount", str(path)], capture_output=True, check=False
    ).returncode:
        pass


@pytest.mark.parametrize(
    "module, kilobytes", [("sweep", 60), ("search", 8), ("search", 40)]
)
def test_a_study_on_a_full_disk_ends_in_two_lines(
    module, kilobytes, small_disk, tmp_path
):
    flags = {
        "task": own_data.write_task(tmp_path),
        "model": "tiny",
        "validation_fraction": 0.6,
    }
    grid = tmp_path / "grid.json"
    grid.write_text(json.dumps({"experiment": "train", "flags": flags}))
    words = [str(grid)]
    if module == "search":
        words = [f"--{name}={value}" for name, value in flags.items()]
        words += ["--budget=30s", f"--cache_dir={tmp_path / 'cache'}"]
    words.append(f"--out={small_disk(kilobytes) / 'out'}")
    done = subprocess.run(
        [sys.executable, "-m", f"tf_transfer.{module}", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=commands.ROOT,
    )
    assert done.returncode == 1
    small_runs.assert_two_lines(done.returncode, done.stdout, done.stderr)
    assert "full" in done.stderr


def test_a_read_only_cache_is_read(start, undisturbed, small_disk):
    expected, whole, _ = undisturbed[True]
    disk = small_disk(10_000)
    shutil.copytree(whole / "cache", disk / "cache")
    folder = disk.parent / "run"
    folder.mkdir()
    small_disk(10_000, "remount", "ro")
    (folder / "cache").symlink_to(disk / "cache")
    code, out, err = start(folder, True).finish()
    assert code == 0, out + err
    small_runs.assert_same_numbers(folder, expected)
