"""The cache's files: whole or missing; one builder at a time."""

import errno
import fcntl
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from tf_transfer.data.tokens import Tokens
from tf_transfer.feature_cache import store as store_lib
from tf_transfer.utils.errors import UserError

HIDDEN = 8
KEY = {
    "code": "1",
    "weights": "w",
    "cut": 2,
    "output": "tokens",
    "dtype": "float16",
    "precision": "float32",
    "hidden": HIDDEN,
}


@pytest.fixture
def store(tmp_path):
    return store_lib.Store(str(tmp_path))


@pytest.fixture
def entry(store):
    return store.open(KEY, "tiny")


def rows(*lengths, seed=0):
    """Hashes, lengths and vectors of so many rows."""
    rng = np.random.default_rng([seed, 1])
    vectors = [rng.normal(size=(n, HIDDEN)).astype(np.float16) for n in lengths]
    hashes = [bytes([seed, n]) + bytes(14) for n in range(len(lengths))]
    return hashes, list(lengths), vectors


def stored(entry, hashes):
    """The vectors of rows, read from the file."""
    flat = np.fromfile(entry.vectors_file, np.float16)
    flat = flat[: entry.num_vectors * HIDDEN].reshape(-1, HIDDEN)
    return [
        flat[row["start"] : row["start"] + row["length"]]
        for row in entry.table[entry.find(hashes)]
    ]


def assert_rows(entry, hashes, vectors):
    assert entry.find_damaged(entry.find(hashes)) == []
    for one, other in zip(stored(entry, hashes), vectors, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_row_hash_tells_ids_and_segments_apart():
    def hashes(flat, lengths, firsts):
        lengths = np.array(lengths)
        return store_lib.hash_rows(
            Tokens(
                np.array(flat, np.int32),
                np.cumsum(lengths) - lengths,
                lengths,
                np.array(firsts),
            )
        )

    one, other, same = hashes([1, 2, 3, 1, 2, 4, 1, 2, 3], [3, 3, 3], [3, 3, 3])
    assert one == same != other
    assert hashes([1, 2, 3], [3], [2]) != [one]
    assert len(one) == 16


# === Rows ===


def test_rows_are_found_again_by_another_process(store, entry):
    hashes, lengths, vectors = rows(3, 5, 1)
    entry.append(hashes, lengths, vectors, seconds=18.0)
    again = store.open(KEY, "tiny")
    assert_rows(again, hashes, vectors)
    assert again.find([b"0" * 16]).tolist() == [-1]
    # A row's share of the build is by its length.
    np.testing.assert_allclose(again.table["seconds"], [6, 10, 2])


def test_segments_are_appended(store, entry):
    parts = [rows(3, 5, seed=1), rows(2, seed=2), rows(4, 4, seed=3)]
    for hashes, lengths, vectors in parts:
        entry.append(hashes, lengths, vectors, 1.0)
    again = store.open(KEY, "tiny")
    for hashes, _, vectors in parts:
        assert_rows(again, hashes, vectors)
    assert again.num_vectors == 18 and len(again.rows) == 5


def test_the_size_is_that_of_the_vectors_within_two_percent(entry):
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 100, 300).tolist()
    vectors = [np.zeros((n, HIDDEN), np.float16) for n in lengths]
    hashes = [n.to_bytes(16, "big") for n in range(300)]
    entry.append(hashes, lengths, vectors, 1.0)
    plain = sum(lengths) * HIDDEN * 2
    rest = entry.num_bytes - plain - 300 * store_lib.ROW_BYTES
    assert rest < 2500  # names and headers, whatever is stored
    # At a real encoder's width a row's own 22 bytes are nothing.
    wide = plain * 384 / HIDDEN
    assert (entry.num_bytes - plain + wide) / wide < 1.02


# === What was killed, cut or changed ===


def test_the_tail_of_a_killed_build_is_written_over(store, entry):
    first, second = rows(3, 5, seed=1), rows(2, 2, seed=2)
    entry.append(*first, 1.0)
    with open(entry.vectors_file, "ab") as file:
        file.write(b"left by a build that was killed")
    again = store.open(KEY, "tiny")
    assert_rows(again, first[0], first[2])
    again.append(*second, 1.0)
    assert os.path.getsize(again.vectors_file) == 12 * HIDDEN * 2
    assert_rows(again, second[0], second[2])


def test_a_flipped_byte_is_found_in_its_row_alone(store, entry):
    hashes, lengths, vectors = rows(3, 5, 1)
    entry.append(hashes, lengths, vectors, 1.0)
    with open(entry.vectors_file, "r+b") as file:
        file.seek(3 * HIDDEN * 2 + 7)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    again = store.open(KEY, "tiny")
    assert again.find_damaged(again.find(hashes)) == [again.find(hashes)[1]]


def test_rows_that_are_cut_off_are_built_again_behind_the_rest(store, entry):
    hashes, lengths, vectors = rows(3, 5, 1)
    entry.append(hashes, lengths, vectors, 1.0)
    os.truncate(entry.vectors_file, 4 * HIDDEN * 2)
    again = store.open(KEY, "tiny")
    lost = again.find_damaged(again.find(hashes))
    assert lost == again.find(hashes)[1:].tolist()
    again.find_intact(hashes)
    assert again.find(hashes).tolist() == [0, -1, -1]
    again.append(hashes[1:], lengths[1:], vectors[1:], 1.0)
    assert_rows(again, hashes, vectors)
    assert_rows(store.open(KEY, "tiny"), hashes, vectors)


def test_damaged_rows_stay_missing_when_others_are_added(entry):
    first, second = rows(3, 5, seed=1), rows(2, seed=2)
    entry.append(*first, 1.0)
    with open(entry.vectors_file, "r+b") as file:
        file.write(b"damaged")
    assert entry.find_intact(first[0])[0].tolist() == [-1, 1]
    entry.append(*second, 1.0)
    assert entry.find(first[0])[0] == -1
    assert_rows(entry, second[0], second[2])


def test_a_damaged_list_of_rows_is_named_and_its_rows_missing(store, entry):
    first, second = rows(3, seed=1), rows(5, seed=2)
    entry.append(*first, 1.0)
    entry.append(*second, 1.0)
    with open(entry.file("rows-00000.npz"), "r+b") as file:
        file.truncate(50)
    again = store.open(KEY, "tiny")
    assert again.unreadable == ["rows-00000.npz"]
    assert again.find(first[0]).tolist() == [-1]
    again.append(*first, 1.0)
    assert_rows(again, first[0] + second[0], first[2] + second[2])


# === What belongs to another entry ===


def swap(one, other):
    os.rename(one, f"{one}.away")
    os.rename(other, one)
    os.rename(f"{one}.away", other)


def two_entries(store):
    """Of two cuts: they have the same rows, and other vectors."""
    keys = KEY, {**KEY, "weights": "other"}
    for seed, key in enumerate(keys):
        entry = store.open(key, "tiny")
        hashes, lengths, _ = rows(3, 5)
        entry.append(hashes, lengths, rows(3, 5, seed=seed)[2], 1.0)
        entry.close()
    return keys, [store.open(key, "tiny").folder for key in keys]


def test_exchanged_folders_are_empty_for_whoever_opens_them(store):
    keys, folders = two_entries(store)
    swap(*folders)
    for entry in store.entries():
        assert entry.name != store_lib.name_of(entry.key)
    for key, folder in zip(keys, folders):
        entry = store.open(key, "tiny")
        assert (entry.folder, entry.key, entry.rows) == (folder, key, {})
        assert entry.was_replaced and entry.name == store_lib.name_of(key)


@pytest.mark.parametrize(
    "names", [("vectors.bin", "rows-00000.npz"), ("vectors.bin",)]
)
def test_exchanged_files_are_damaged_rows(names, store):
    keys, folders = two_entries(store)
    for name in names:
        swap(*(os.path.join(folder, name) for folder in folders))
    for key in keys:
        entry = store.open(key, "tiny")
        indices = entry.find(rows(3, 5)[0])
        assert entry.find_damaged(indices) == indices.tolist() == [0, 1]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"model": "tiny", "key": null}', "\x00", '{"model": 1}']
    + ['{"model": "x", "key": {"hidden": "a", "dtype": "float16"}}']
    + ['{"model": "x", "key": {"hidden": -1, "dtype": "float16"}}']
    + ['{"model": "x", "key": {"hidden": 8, "dtype": "int8"}}', "[" * 10**5],
)
def test_a_damaged_entry_is_listed_apart_and_replaced(content, store, entry):
    hashes, lengths, vectors = rows(3, 5)
    entry.append(hashes, lengths, vectors, 1.0)
    with open(entry.file("entry.json"), "w") as file:
        file.write(content)
    assert store.entries() == []
    assert store.find_unreadable() == [entry.folder]
    assert_rows(store.open(KEY, "tiny"), hashes, vectors)
    assert store.find_unreadable() == []


@pytest.mark.parametrize("where", ["vectors", "rows"])
def test_a_full_disk_leaves_what_was_whole(where, store, entry, monkeypatch):
    first, second = rows(3, seed=1), rows(5, seed=2)
    entry.append(*first, 1.0)
    calls = []
    original = os.fsync

    def fsync(file):
        calls.append(file)
        if len(calls) == {"vectors": 1, "rows": 2}[where]:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(store_lib.DiskFull):
        entry.append(*second, 1.0)
    monkeypatch.undo()
    again = store.open(KEY, "tiny")
    assert_rows(again, first[0], first[2])
    assert again.find(second[0]).tolist() == [-1]
    assert os.path.getsize(again.vectors_file) == 3 * HIDDEN * 2


# === Two processes ===


def _build_slowly(folder, ready):
    entry = store_lib.Store(folder).open(KEY, "tiny")
    with entry.build_lock(lambda line: None):
        ready.set()
        time.sleep(1.0)
        entry.append(*rows(3, 5), 1.0)


def test_one_builds_and_the_other_waits_for_it(tmp_path, store, entry):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    other = context.Process(target=_build_slowly, args=(str(tmp_path), ready))
    other.start()
    assert ready.wait(30)
    reported = []
    with entry.build_lock(reported.append):
        entry.load()
        assert_rows(entry, rows(3, 5)[0], rows(3, 5)[2])
    other.join()
    [line] = reported
    assert "waiting" in line


def _hold(folder, ready):
    entry = store_lib.Store(folder).open(KEY, "tiny")
    with entry.build_lock(lambda line: None):
        ready.set()
        time.sleep(600)


def test_a_killed_builder_holds_nothing(tmp_path, store, entry):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path), ready))
    other.start()
    assert ready.wait(30)
    other.kill()
    other.join()
    with entry.build_lock(lambda line: pytest.fail(line)):
        pass


def _die_in_the_second_segment(folder):
    entry = store_lib.Store(folder).open(KEY, "tiny")
    with entry.build_lock(lambda line: None):
        entry.append(*rows(3, 5, seed=1), 1.0)
        store_lib.files.write_atomically = lambda *arguments: os.kill(
            os.getpid(), signal.SIGKILL
        )
        entry.append(*rows(2, seed=2), 1.0)


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
    assert entry.find(second[0]).tolist() == [-1]
    with entry.build_lock(lambda line: pytest.fail(line)):
        entry.append(*second, 1.0)
    assert_rows(entry, first[0] + second[0], first[2] + second[2])


# === Room ===


def fill(store, name, size=100, used_at=None):
    entry = store.open({**KEY, "weights": name}, "tiny")
    entry.append(*rows(size), 1.0)
    entry.close()
    if used_at:
        os.utime(entry.file("using.lock"), (used_at, used_at))
    return entry


def names(store):
    return [entry.key["weights"] for entry in store.entries()]


def test_the_least_recently_used_goes_first(store):
    now = time.time()
    for name, age in (("middle", 20), ("oldest", 30), ("newest", 10)):
        fill(store, name, used_at=now - age)
    taken = sum(entry.num_bytes for entry in store.entries())
    room = store.make_room(1000, (taken - 500) / 1e9, set())
    assert room == 1000
    assert names(store) == ["middle", "newest"]


def test_what_is_used_or_kept_stays(store):
    now = time.time()
    kept = fill(store, "kept", used_at=now - 30)
    used = fill(store, "used", used_at=now - 20)
    fill(store, "free", used_at=now - 10)
    used.mark_used()
    os.utime(used.file("using.lock"), (now - 20, now - 20))
    assert store.make_room(1000, 0.0, {kept.folder}) == 0
    assert sorted(names(store)) == ["kept", "used"]
    used.close()
    assert used.remove() and names(store) == ["kept"]


def test_an_entry_that_is_opened_counts_as_used_now(store):
    old = fill(store, "old", used_at=time.time() - 10_000)
    store.open(old.key, "tiny")
    assert time.time() - old.last_used < 100


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
    ours.load()
    assert (ours.rows, ours.num_bytes, ours.last_used) == ({}, 0, 0.0)
    assert ours.remove()


def test_a_folder_that_was_removed_while_it_was_opened_is_made_anew(
    store, monkeypatch
):
    """The lock was had only after another process removed the entry."""
    entry = fill(store, "one")
    original, raced = fcntl.flock, []

    def flock(file, how):
        if not raced:
            raced.append(how)
            assert entry.remove()
        original(file, how)

    monkeypatch.setattr(store_lib.fcntl, "flock", flock)
    again = store.open(entry.key, "tiny")
    assert os.path.exists(again.file("entry.json")) and not again.rows


# === A read-only cache, and litter ===


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
    with pytest.raises(store_lib.DiskFull), entry.build_lock(pytest.fail):
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


def test_who_builds_sweeps_what_killed_processes_left(entry):
    litter = entry.file("rows-00000.npz.tmp-1")
    with open(litter, "w"):
        pass
    with entry.build_lock(pytest.fail):
        assert not os.path.exists(litter)
