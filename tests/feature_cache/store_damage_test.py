"""The cache's files after a kill, a cut or an exchange: whole or missing."""

import errno
import os

import pytest

from tests.support.cache_entries import assert_rows, fill, HIDDEN, KEY, rows
from tf_transfer.feature_cache import store as store_lib, vectors as vectors_lib
from tf_transfer.utils import files

# === What was killed, cut or changed ===


def test_the_tail_of_a_killed_build_is_written_over(store, entry):
    first, second = rows(3, 5, seed=1), rows(2, 2, seed=2)
    entry.vectors.append(*first, 1.0)
    with open(entry.vectors.path, "ab") as file:
        file.write(b"left by a build that was killed")
    again = store.open(KEY, "tiny")
    assert_rows(again, first[0], first[2])
    again.vectors.append(*second, 1.0)
    assert os.path.getsize(again.vectors.path) == 12 * HIDDEN * 2
    assert_rows(again, second[0], second[2])


def test_a_flipped_byte_is_found_in_its_row_alone(store, entry):
    hashes, lengths, vectors = rows(3, 5, 1)
    entry.vectors.append(hashes, lengths, vectors, 1.0)
    with open(entry.vectors.path, "r+b") as file:
        file.seek(3 * HIDDEN * 2 + 7)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    again = store.open(KEY, "tiny")
    assert again.vectors.find_damaged(again.vectors.find(hashes)) == [
        again.vectors.find(hashes)[1]
    ]


def test_rows_that_are_cut_off_are_built_again_behind_the_rest(store, entry):
    hashes, lengths, vectors = rows(3, 5, 1)
    entry.vectors.append(hashes, lengths, vectors, 1.0)
    os.truncate(entry.vectors.path, 4 * HIDDEN * 2)
    again = store.open(KEY, "tiny")
    lost = again.vectors.find_damaged(again.vectors.find(hashes))
    assert lost == again.vectors.find(hashes)[1:].tolist()
    again.vectors.find_intact(hashes)
    assert again.vectors.find(hashes).tolist() == [0, -1, -1]
    again.vectors.append(hashes[1:], lengths[1:], vectors[1:], 1.0)
    assert_rows(again, hashes, vectors)
    assert_rows(store.open(KEY, "tiny"), hashes, vectors)


def test_damaged_rows_stay_missing_when_others_are_added(entry):
    first, second = rows(3, 5, seed=1), rows(2, seed=2)
    entry.vectors.append(*first, 1.0)
    with open(entry.vectors.path, "r+b") as file:
        file.write(b"damaged")
    assert entry.vectors.find_intact(first[0])[0].tolist() == [-1, 1]
    entry.vectors.append(*second, 1.0)
    assert entry.vectors.find(first[0])[0] == -1
    assert_rows(entry, second[0], second[2])


def test_a_damaged_list_of_rows_is_named_and_its_rows_missing(store, entry):
    first, second = rows(3, seed=1), rows(5, seed=2)
    entry.vectors.append(*first, 1.0)
    entry.vectors.append(*second, 1.0)
    with open(entry.file("rows-00000.npz"), "r+b") as file:
        file.truncate(50)
    again = store.open(KEY, "tiny")
    assert again.vectors.unreadable == ["rows-00000.npz"]
    assert again.vectors.find(first[0]).tolist() == [-1]
    again.vectors.append(*first, 1.0)
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
        entry.vectors.append(hashes, lengths, rows(3, 5, seed=seed)[2], 1.0)
        entry.close()
    return keys, [store.open(key, "tiny").folder for key in keys]


def test_exchanged_folders_are_empty_for_whoever_opens_them(store):
    keys, folders = two_entries(store)
    swap(*folders)
    for entry in store.entries():
        assert entry.name != store_lib.name_of(entry.key)
    for key, folder in zip(keys, folders):
        entry = store.open(key, "tiny")
        assert (entry.folder, entry.key, entry.vectors.rows) == (
            folder,
            key,
            {},
        )
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
        indices = entry.vectors.find(rows(3, 5)[0])
        assert entry.vectors.find_damaged(indices) == indices.tolist() == [0, 1]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"model": "tiny", "key": null}', "\x00", '{"model": 1}']
    + ['{"model": "x", "key": {"hidden": "a", "dtype": "float16"}}']
    + ['{"model": "x", "key": {"hidden": -1, "dtype": "float16"}}']
    + ['{"model": "x", "key": {"hidden": 0, "dtype": "float16"}}']
    + ['{"model": "x", "key": {"hidden": 8, "dtype": "int8"}}', "[" * 10**5],
)
def test_a_damaged_entry_is_listed_apart_and_replaced(content, store, entry):
    hashes, lengths, vectors = rows(3, 5)
    entry.vectors.append(hashes, lengths, vectors, 1.0)
    with open(entry.file("entry.json"), "w") as file:
        file.write(content)
    assert store.entries() == []
    assert store.find_unreadable() == [entry.folder]
    assert_rows(store.open(KEY, "tiny"), hashes, vectors)
    assert store.find_unreadable() == []


def test_what_a_killed_removal_left_hides_no_other_entry(store):
    first, second = sorted(fill(store, name).folder for name in ("a", "b"))
    os.rename(first, files.temporary_name(first))
    assert [entry.folder for entry in store.entries()] == [second]


@pytest.mark.parametrize("where", ["vectors", "rows"])
def test_a_full_disk_leaves_what_was_whole(where, store, entry, monkeypatch):
    first, second = rows(3, seed=1), rows(5, seed=2)
    entry.vectors.append(*first, 1.0)
    calls = []
    original = os.fsync

    def fsync(file):
        calls.append(file)
        if len(calls) == {"vectors": 1, "rows": 2}[where]:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(file)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(vectors_lib.DiskFull):
        entry.vectors.append(*second, 1.0)
    monkeypatch.undo()
    again = store.open(KEY, "tiny")
    assert_rows(again, first[0], first[2])
    assert again.vectors.find(second[0]).tolist() == [-1]
    assert os.path.getsize(again.vectors.path) == 3 * HIDDEN * 2
