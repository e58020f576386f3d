"""The cache's limit, and caches that nothing can be written to."""

import errno
import fcntl
import os
import time

import pytest

from tests.support.cache_entries import (
    assert_rows,
    fill,
    KEY,
    list_weights,
    rows,
)
from tf_transfer.feature_cache import (
    locks,
    store as store_lib,
    vectors as vectors_lib,
)
from tf_transfer.utils.errors import UserError


def test_the_least_recently_used_goes_first(store):
    now = time.time()
    for name, age in (("middle", 20), ("oldest", 30), ("newest", 10)):
        fill(store, name, used_at=now - age)
    taken = sum(entry.num_bytes for entry in store.entries())
    room = store.make_room(1000, (taken - 500) / 1e9, set())
    assert room == 1000
    assert list_weights(store) == ["middle", "newest"]


def test_what_is_used_or_kept_stays(store):
    now = time.time()
    kept = fill(store, "kept", used_at=now - 30)
    used = fill(store, "used", used_at=now - 20)
    fill(store, "free", used_at=now - 10)
    used.lock.take()
    os.utime(used.file("using.lock"), (now - 20, now - 20))
    assert store.make_room(1000, 0.0, {kept.folder}) == 0
    assert sorted(list_weights(store)) == ["kept", "used"]
    used.close()
    assert used.remove() and list_weights(store) == ["kept"]


def test_an_entry_that_is_opened_counts_as_used_now(store):
    old = fill(store, "old", used_at=time.time() - 10_000)
    store.open(old.key, "tiny")
    assert time.time() - old.lock.last_used < 100


def test_the_limit_without_a_flag_is_half_of_the_disk_at_most_50_gb(
    store, monkeypatch
):
    fill(store, "one")
    taken = sum(entry.num_bytes for entry in store.entries())

    def free(amount):
        usage = type("Usage", (), {"free": amount})
        monkeypatch.setattr(
            store_lib.shutil, "disk_usage", lambda folder: usage
        )

    free(10e9)
    # The cache's own bytes count as free, or it would shrink by growing.
    assert store.limit(None) == pytest.approx(5e9 + taken / 2)
    free(1e13)
    assert store.limit(None) == 50e9
    assert store.limit(1.5) == 1.5e9


def test_an_entry_that_another_process_removes_meanwhile_is_just_gone(store):
    fill(store, "one")
    [ours], [theirs] = store.entries(), store.entries()
    assert theirs.remove()
    ours.vectors.load()
    assert (ours.vectors.rows, ours.num_bytes, ours.lock.last_used) == (
        {},
        0,
        0.0,
    )
    assert ours.remove()


@pytest.fixture
def before_lock(monkeypatch):
    """Does something just before the next lock of a file."""

    def once(action):
        original, actions = fcntl.flock, [action]

        def flock(file, how):
            if actions:
                actions.pop()()
            original(file, how)

        monkeypatch.setattr(locks.fcntl, "flock", flock)

    return once


@pytest.mark.parametrize("is_refilled", [False, True])
def test_a_folder_that_was_removed_while_it_was_opened_is_made_anew(
    is_refilled, store, before_lock
):
    """The lock was had only after another process removed the entry."""
    entry = fill(store, "one")

    def remove():
        assert entry.remove()
        if is_refilled:
            fill(store, "one")

    before_lock(remove)
    again = store.open(entry.key, "tiny")
    assert os.path.exists(again.file("entry.json"))
    assert len(again.vectors.rows) == is_refilled
    [other] = store.entries()
    assert not other.remove()  # it is in use


def test_a_new_entry_in_the_folder_of_a_removed_one_stays(store, before_lock):
    entry = fill(store, "one")
    first, second = *store.entries(), *store.entries()
    before_lock(lambda: second.remove() and fill(store, "one"))
    assert first.remove()
    assert os.path.exists(entry.file("entry.json"))
    again = store.open(entry.key, "tiny")
    assert len(again.vectors.rows) == 1


# === Read-only caches, and litter ===


def test_a_read_only_cache_is_read_and_adds_nothing(store, monkeypatch):
    key = fill(store, "one", size=3).key
    opened = open

    def refuse(path, mode="r", **options):
        if set(mode) & set("aw+x"):
            raise PermissionError(errno.EROFS, "Read-only file system", path)
        return opened(path, mode, **options)

    monkeypatch.setattr("builtins.open", refuse)
    entry = store.open(key, "tiny")
    hashes, _, vectors = rows(3)
    assert_rows(entry, hashes, vectors)
    with pytest.raises(vectors_lib.DiskFull), entry.build_lock():
        pass


@pytest.mark.parametrize("damaged", [False, True])
def test_a_read_only_cache_without_the_entry_says_what_to_do(
    damaged, store, monkeypatch
):
    if damaged:
        with open(fill(store, "one", size=3).file("entry.json"), "w") as file:
            file.write("{}")
    key = {**KEY, "weights": "one"}

    def refuse(path, *unused, **options):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    monkeypatch.setattr(os, "remove", refuse)
    with pytest.raises(UserError, match="cannot be written") as error:
        store.open(key, "tiny")
    assert len(str(error.value).splitlines()) == 2


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="--cache_dir"):
        store_lib.Store(str(link)).open(KEY, "tiny")
    store = store_lib.Store(str(tmp_path / "cache"))
    os.makedirs(store.folder)
    entry = os.path.join(store.folder, store_lib.name_of(KEY))
    os.symlink(tmp_path / "nowhere", entry)
    with pytest.raises(UserError, match=f"{entry}: cannot be made"):
        store.open(KEY, "tiny")


def test_who_builds_sweeps_what_killed_processes_left(entry):
    litter = entry.file("rows-00000.npz.tmp-0123abcd")
    with open(litter, "w"):
        pass
    with entry.build_lock():
        assert not os.path.exists(litter)
