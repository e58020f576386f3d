"""The cache's limit, and caches that nothing can be written to."""

import errno
import fcntl
import os
import time

import numpy as np
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
from tf_transfer.utils import files
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


def test_nothing_is_left_of_a_removed_entry(store):
    entry = fill(store, "one")
    assert entry.remove()
    assert os.listdir(store.folder) == []


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

    free(10_000)
    # The cache's own bytes count as free, or it would shrink by growing.
    assert store.limit(None) == 5000 + taken / 2
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
def test_a_folder_that_was_removed_while_it_was_opened_is_made_again(
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


def test_a_folder_that_goes_while_its_entry_is_written_is_made_again(
    store, monkeypatch
):
    original, calls = files.write_json, []

    def write(path, content):
        calls.append(path)
        if len(calls) == 1:
            os.rmdir(os.path.dirname(path))
        original(path, content)

    monkeypatch.setattr(files, "write_json", write)
    entry = store.open(KEY, "tiny")
    assert len(calls) == 2 and entry.key == KEY and not entry.was_replaced


def test_a_new_entry_in_the_folder_of_a_removed_one_stays(store, before_lock):
    entry = fill(store, "one")
    first, second = *store.entries(), *store.entries()
    before_lock(lambda: second.remove() and fill(store, "one"))
    assert first.remove()
    assert os.path.exists(entry.file("entry.json"))
    again = store.open(entry.key, "tiny")
    assert len(again.vectors.rows) == 1


def test_room_is_what_the_limit_leaves(store):
    """Bytes may be added up to the limit, and no entry goes that need not."""
    fill(store, "one")
    taken = store.num_bytes
    assert store.make_room(500, (taken + 500) / 1e9, set()) == 500
    assert list_weights(store) == ["one"]
    assert store.make_room(500, (taken + 300) / 1e9, set()) == 500
    assert list_weights(store) == []
    kept = fill(store, "kept").folder
    taken = store.num_bytes
    assert store.make_room(500, (taken + 300) / 1e9, {kept}) == 300
    assert store.make_room(500, (taken - 300) / 1e9, {kept}) == 0
    assert list_weights(store) == ["kept"]


def test_no_more_goes_than_is_wanted(store):
    now = time.time()
    for name, age in (("old", 30), ("new", 20)):
        fill(store, name, used_at=now - age)
    one = store.num_bytes / 2
    room = store.make_room(int(one), 2 * one / 1e9, set())
    assert room == int(one) and list_weights(store) == ["new"]


def test_making_room_sweeps_entries_that_a_killed_process_was_removing(store):
    litter = os.path.join(store.folder, "entry.tmp-0123abcd")
    os.makedirs(litter)
    assert store.entries() == store.find_unreadable() == []
    assert store.make_room(10, 1.0, set()) == 10
    assert not os.path.exists(litter)


def test_an_entry_says_what_it_is_of(store):
    entry = store.open({**KEY, "cut": 3}, "some encoder")
    assert (entry.model, entry.hidden, entry.key["cut"]) == (
        "some encoder",
        KEY["hidden"],
        3,
    )
    [listed] = store.entries()
    assert not entry.was_replaced and not listed.was_replaced
    assert entry.name == store_lib.name_of({**KEY, "cut": 3})
    assert len(entry.name) == 20
    reordered = dict(reversed(entry.key.items()))
    assert store_lib.name_of(reordered) == entry.name
    again = store.open(reordered, "another name of it")
    assert (again.folder, again.model) == (entry.folder, "some encoder")


@pytest.mark.parametrize(
    "dtype, size", [("float16", 2), ("bfloat16", 2), ("float32", 4)]
)
def test_a_vector_has_the_bytes_of_its_values(dtype, size, store):
    key = {**KEY, "dtype": dtype}
    entry = store.open(key, "tiny")
    assert entry.vectors.vector_bytes == size * KEY["hidden"]
    hashes, lengths, _ = rows(3)
    vectors = np.zeros((3, size * KEY["hidden"] // 2), np.float16)
    entry.vectors.append(hashes, lengths, [vectors], 1.0)
    assert os.path.getsize(entry.vectors.path) == 3 * size * KEY["hidden"]
    assert store.open(key, "tiny").vectors.num_vectors == 3


def test_an_entry_of_one_value_is_an_entry(store):
    entry = store.open({**KEY, "hidden": 1}, "tiny")
    assert (entry.hidden, entry.was_replaced) == (1, False)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_a_disk_that_fails_is_no_empty_cache(code, store, monkeypatch):
    fill(store, "one")

    def refuse(path):
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(files, "open_regular", refuse)
    for look in (store.entries, store.find_unreadable):
        with pytest.raises(OSError, match=os.strerror(code)):
            look()


def test_an_entry_whose_folder_has_just_gone_is_left_out(store, monkeypatch):
    fill(store, "one")

    def refuse(path):
        raise FileNotFoundError(errno.ENOENT, "No such file", path)

    monkeypatch.setattr(files, "open_regular", refuse)
    assert store.entries() == store.find_unreadable() == []


def test_the_limit_is_known_before_there_is_a_cache(tmp_path):
    store = store_lib.Store(str(tmp_path / "cache"))
    assert 0 < store.limit(None) <= 50e9


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


def test_another_error_of_a_disk_stays_what_it_is(store, monkeypatch):
    def refuse(path, *unused, **options):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as error:
        store.open(KEY, "tiny")
    assert not isinstance(error.value, UserError)


def test_who_builds_reads_what_others_built_and_removes_what_is_damaged(store):
    key = fill(store, "one", size=3).key
    ours, theirs = store.open(key, "tiny"), store.open(key, "tiny")
    hashes, lengths, vectors = rows(5, 2, seed=1)
    with theirs.build_lock():
        theirs.vectors.append(hashes, lengths, vectors, 1.0)
    damaged = ours.file("rows-00000.npz")
    os.truncate(damaged, 50)
    with ours.build_lock():
        assert ours.vectors.unreadable == [] and not os.path.exists(damaged)
        assert_rows(ours, hashes, vectors)
