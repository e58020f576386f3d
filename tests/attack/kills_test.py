"""Runs that are killed, damaged and starved of disk: the same numbers, or a
refusal in two lines."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.attack import damage, small_runs
from tests.support import commands, own_data

KILLS_OF_A_RUN = 5


def test_killed_at_any_moment_it_ends_with_the_same_numbers(
    start, undisturbed, few_attempts, rng, tmp_path
):
    kills = number = 0
    while kills < few_attempts(200):
        cached = bool(number % 2)
        expected, _, seconds = undisturbed[cached]
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        number += 1
        for _ in range(KILLS_OF_A_RUN):
            case = start(folder, cached)
            time.sleep(rng.uniform(0, seconds))
            ends = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            try:
                os.kill(case.pid, ends)
            except ProcessLookupError:
                break
            code, out, err = case.finish()
            # SIGTERM may come before anything listens to it.
            assert code in (0, 130, -9, -15), out + err
            kills += code != 0
            if code == 0:
                break
        code, out, err = start(folder, cached).finish()
        assert code == 0, out + err
        small_runs.assert_same_numbers(folder, expected)
        shutil.rmtree(folder)


def test_damaged_after_a_kill_it_ends_with_the_same_numbers_or_is_refused(
    start, undisturbed, few_attempts, rng, tmp_path
):
    """Any of its files, and any of the feature cache."""
    for number in range(few_attempts(60)):
        cached = bool(number % 2)
        expected, whole, seconds = undisturbed[cached]
        folder = tmp_path / f"run-{number}"
        if number % 3:
            folder.mkdir()
            case = start(folder, cached)
            time.sleep(rng.uniform(0.5, 1) * seconds)
            os.kill(case.pid, signal.SIGKILL)
            case.finish()
        else:
            shutil.copytree(whole, folder)
            if cached:  # only the cache is there, and is damaged
                shutil.rmtree(folder / "runs")
        files = [
            path
            for path in folder.rglob("*")
            if path.is_file()
            and path.stat().st_size
            and "tfevents" not in path.name
            and not path.name.endswith(".lock")
        ]
        damaged = rng.sample(files, min(len(files), rng.choice((1, 2))))
        for path in damaged:
            damage.damage_file(rng, path)
        code, out, err = start(folder, cached).finish()
        if code == 0:
            done = "Already done" in out
            files_of_run = [p for p in damaged if "runs" in p.parts]
            if not (done and files_of_run):  # predict and report look again
                small_runs.assert_same_numbers(folder, expected)
        else:
            small_runs.assert_two_lines(code, out, err)
        shutil.rmtree(folder)


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


def test_on_a_full_disk_it_stops_and_ends_with_the_same_numbers_later(
    start, undisturbed, small_disk, few_attempts, rng
):
    full = 0
    for number in range(few_attempts(30)):
        cached = bool(number % 2)
        expected, whole, _ = undisturbed[cached]
        total = sum(p.stat().st_size for p in whole.rglob("*") if p.is_file())
        folder = small_disk(rng.randrange(8, total // 1000))
        code, out, err = start(folder, cached).finish()
        if code:
            small_runs.assert_two_lines(code, out, err)
            assert "full" in err or "No space" in err, err
            full += 1
        small_disk(10 * total // 1000, "remount")
        code, out, err = start(folder, cached).finish()
        assert code == 0, out + err
        small_runs.assert_same_numbers(folder, expected)
        subprocess.run(["umount", str(folder)], check=True)
    assert full


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
    small_runs.assert_two_lines(done.returncode, done.stdout, done.stderr)
    assert "disk is full" in done.stderr


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
