"""The cache between processes: one builder at a time."""

import multiprocessing
import os
import signal
import time

from tests.support.cache_entries import assert_rows, KEY, rows
from tf_transfer.feature_cache import store as store_lib, vectors as vectors_lib


def _build_slowly(folder, ready):
    entry = store_lib.Store(folder).open(KEY, "tiny")
    with entry.build_lock():
        ready.set()
        time.sleep(1.0)
        entry.vectors.append(*rows(3, 5), 1.0)


def _start(folder, build):
    """A process that builds; it has begun."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=build, args=(str(folder), ready))
    process.start()
    assert ready.wait(30)
    return process


def test_one_builds_and_the_other_waits_for_it(tmp_path, store, entry, capsys):
    other = _start(tmp_path, _build_slowly)
    with entry.build_lock():
        assert_rows(entry, rows(3, 5)[0], rows(3, 5)[2])
    other.join()
    assert "waiting for it" in capsys.readouterr().out


def _hold(folder, ready):
    entry = store_lib.Store(folder).open(KEY, "tiny")
    with entry.build_lock():
        ready.set()
        time.sleep(600)


def test_a_killed_builder_holds_nothing(tmp_path, store, entry):
    other = _start(tmp_path, _hold)
    other.kill()
    other.join()
    with entry.build_lock():
        pass


def _die_in_the_second_segment(folder):
    entry = store_lib.Store(folder).open(KEY, "tiny")
    with entry.build_lock():
        entry.vectors.append(*rows(3, 5, seed=1), 1.0)
        vectors_lib.files.write_atomically = lambda *arguments: os.kill(
            os.getpid(), signal.SIGKILL
        )
        entry.vectors.append(*rows(2, seed=2), 1.0)


def test_a_killed_builder_leaves_its_segments(tmp_path, store):
    context = multiprocessing.get_context("fork")
    other = context.Process(
        target=_die_in_the_second_segment, args=(str(tmp_path),)
    )
    other.start()
    other.join()
    assert other.exitcode == -signal.SIGKILL
    entry = store.open(KEY, "tiny")
    first, second = rows(3, 5, seed=1), rows(2, seed=2)
    assert_rows(entry, first[0], first[2])
    assert entry.vectors.find(second[0]).tolist() == [-1]
    with entry.build_lock():
        entry.vectors.append(*second, 1.0)
    assert_rows(entry, first[0] + second[0], first[2] + second[2])
