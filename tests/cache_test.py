"""The cache tool lists, checks and clears, and leaves alone what is used."""

import os
import time

import numpy as np
import pytest

from tests.support import commands
from tf_transfer import cache
from tf_transfer.feature_cache import store as store_lib


@pytest.fixture
def store(tmp_path):
    return store_lib.Store(str(tmp_path))


def entry(store, weights, rows=3):
    key = {
        "weights": weights,
        "cut": 5,
        "output": "tokens",
        "dtype": "float16",
        "hidden": 8,
    }
    made = store.open(key, "minilm")
    hashes = [n.to_bytes(16, "big") for n in range(rows)]
    vectors = [np.full((5, 8), n, np.float16) for n in range(rows)]
    made.vectors.append(hashes, [5] * rows, vectors, 1.0)
    made.close()
    return made


def call(tmp_path, *arguments):
    return commands.call(
        cache.main, cache.Settings, f"--cache_dir={tmp_path}", *arguments
    )


def test_it_lists_what_is_stored_the_least_recently_used_first(
    store, tmp_path, capsys
):
    new, old = entry(store, "new"), entry(store, "old", rows=4)
    os.utime(old.file("using.lock"), (0, 0))
    assert call(tmp_path) == 0
    _, header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == " ".join(cache.COLUMNS).split()
    assert [line.split()[:6] for line in lines] == [
        [e.name, "minilm", "5", "tokens", "float16", rows]
        for e, rows in ((old, "4"), (new, "3"))
    ]


def test_an_empty_cache_says_so(tmp_path, capsys):
    assert call(tmp_path) == 0
    assert "nothing stored" in capsys.readouterr().out


def test_check_names_what_is_damaged(store, tmp_path, capsys):
    whole, cut = entry(store, "whole"), entry(store, "cut")
    os.truncate(cut.vectors.path, 11 * 8 * 2)
    assert call(tmp_path, "--check") == 0
    said = capsys.readouterr().out
    assert f"{whole.name}: intact, 3 texts." in said
    assert f"{cut.name}: 1 of 3 texts and 0 lists" in said


def test_check_sees_exchanged_and_damaged_entries(store, tmp_path, capsys):
    one, other, bad = (entry(store, name) for name in ("a", "b", "c"))
    os.rename(one.folder, f"{one.folder}.away")
    os.rename(other.folder, one.folder)
    os.rename(f"{one.folder}.away", other.folder)
    with open(bad.file("entry.json"), "w") as file:
        file.write("[]")
    assert call(tmp_path, "--check") == 0
    said = capsys.readouterr().out
    assert f"{one.name}: is damaged, holds the entry {other.name}." in said
    assert f"{other.name}: is damaged, holds the entry {one.name}." in said
    assert f"{bad.folder}: entry.json is damaged." in said


def test_clear_removes_all_but_what_a_run_uses(store, tmp_path, capsys):
    free, used = entry(store, "free"), entry(store, "used")
    used.lock.take()
    assert call(tmp_path, "--clear") == 0
    assert [e.name for e in store.entries()] == [used.name]
    said = capsys.readouterr().out
    assert f"{free.name}: removed" in said
    assert f"{used.name}: in use by a run" in said


def test_entries_that_are_in_use_are_not_nothing(store, tmp_path, capsys):
    entry(store, "w")
    call(tmp_path, "--unused_days=30")
    assert "nothing stored that was unused for 30 days" in (
        capsys.readouterr().out
    )


def test_clear_removes_what_is_unused_for_days(store, tmp_path):
    old, new = entry(store, "old"), entry(store, "new")
    days = time.time() - 10 * 86400
    os.utime(old.file("using.lock"), (days, days))
    assert call(tmp_path, "--clear", "--unused_days=5") == 0
    assert [e.name for e in store.entries()] == [new.name]


def test_checking_and_clearing_exclude_each_other(store, tmp_path, capsys):
    entry(store, "one")
    assert call(tmp_path, "--check", "--clear") == 2
    assert "Give one of" in capsys.readouterr().err
