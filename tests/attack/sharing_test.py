"""Processes of several machines that share folders, and disks that go away."""

import multiprocessing
import random
import shutil
import subprocess
import time

import pytest

from tests.attack.small_runs import assert_same_numbers, assert_two_lines
from tests.support.cache_entries import assert_rows, KEY, rows
from tf_transfer.feature_cache import store as store_lib

ENTRIES, READERS, REMOVERS, ROUNDS = 2, 3, 2, 300


def build_and_read(folder, seed, rounds):
    """Opens entries, adds what is missing, and reads it while it is in use."""
    rng = random.Random(seed)
    store = store_lib.Store(folder)
    for _ in range(rounds):
        number = rng.randrange(ENTRIES)
        entry = store.open({**KEY, "cut": number}, "tiny")
        hashes, lengths, vectors = rows(3, 5, 1, seed=number)
        with entry.build_lock():
            indices, damaged = entry.vectors.find_intact(hashes)
            assert not damaged
            if indices.min() < 0:
                entry.vectors.append(hashes, lengths, vectors, 1.0)
        time.sleep(rng.choice((0, 0, 0.001)))
        assert_rows(entry, hashes, vectors)
        entry.close()


def remove_all(folder, done):
    """Removes every entry that nobody uses, again and again."""
    while not done.is_set():
        store_lib.Store(folder).make_room(1, 0.0, ())


def test_no_entry_is_removed_from_a_run_that_reads_it(tmp_path, attempts):
    context = multiprocessing.get_context("fork")
    done = context.Event()
    removers = [
        context.Process(target=remove_all, args=(str(tmp_path), done))
        for _ in range(REMOVERS)
    ]
    readers = [
        context.Process(
            target=build_and_read, args=(str(tmp_path), n, attempts(ROUNDS))
        )
        for n in range(READERS)
    ]
    for process in removers + readers:
        process.start()
    for process in readers:
        process.join()
    done.set()
    for process in removers:
        process.join()
    assert [p.exitcode for p in removers + readers] == [0] * 5


@pytest.fixture
def share(tmp_path):
    """A folder that a disk is mounted on: it comes and goes."""
    disk, path = tmp_path / "disk", tmp_path / "share"
    disk.mkdir()
    path.mkdir()

    def mount():
        words = ["mount", "--bind", str(disk), str(path)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("nothing may be mounted here")
        return path

    yield mount
    while not take_away(path):
        pass


def take_away(path):
    """The exit code of an unmount, also of a disk in use."""
    words = ["umount", "--lazy", str(path)]
    return subprocess.run(words, capture_output=True, check=False).returncode


def test_a_share_that_goes_away_and_returns_leaves_the_same_numbers(
    start, undisturbed, share, few_attempts, rng
):
    stopped = 0
    for number in range(few_attempts(40)):
        cached = bool(number % 2)
        expected, _, seconds = undisturbed[cached]
        folder = share()
        case = start(folder, cached)
        time.sleep(rng.uniform(0, seconds))
        assert not take_away(folder)
        code, out, err = case.finish()
        if code:
            assert_two_lines(code, out, err)
            stopped += 1
        for left in folder.iterdir():  # written where the share was
            shutil.rmtree(left)
        share()
        code, out, err = start(folder, cached).finish()
        assert code == 0, out + err
        assert_same_numbers(folder, expected)
        for left in folder.iterdir():
            shutil.rmtree(left)
        assert not take_away(folder)
    assert stopped or few_attempts(40) < 10
