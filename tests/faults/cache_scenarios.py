"""The feature cache: a run fills an entry, and reads its vectors."""

import contextlib
import os

import numpy as np

from tests.faults.points import Scenario
from tests.support.cache_entries import HIDDEN, KEY, rows
from tf_transfer import cache as command
from tf_transfer.feature_cache import store as store_lib, vectors as vectors_lib
from tf_transfer.utils import files

OWN = rows(3, 2, 1, seed=1)
MORE = rows(2, 4, seed=2)
OTHERS = rows(4, 1, seed=3)  # of another run, in the same entry
NUMBERS = "run/numbers"
ALL_VECTORS = {
    row_hash: vectors.tobytes()
    for hashes, _, every in (OWN, MORE, OTHERS)
    for row_hash, vectors in zip(hashes, every)
}


def open_store(root):
    return store_lib.Store(os.path.join(root, "cache"))


def find_entry(root, key=KEY):
    return os.path.join(open_store(root).folder, store_lib.name_of(key))


def fill(root, parts=(OWN, MORE), limit_gb=1.0):
    """Does what `FeatureCache` does, and writes what training reads.

    Vectors that cannot be stored are computed at every step.
    """
    store, numbers = open_store(root), []
    with contextlib.closing(store.open(KEY, "tiny")) as entry:
        with contextlib.suppress(vectors_lib.DiskFull):
            with entry.build_lock():
                store.make_room(1000, limit_gb, {entry.folder})
                for part in parts:
                    append_missing(entry, part)
        for hashes, _, vectors in parts:
            numbers += read_vectors(entry, hashes, vectors)
        os.makedirs(os.path.join(root, "run"), exist_ok=True)
        path = os.path.join(root, NUMBERS)
        files.remove_litter(os.path.dirname(path))  # as a run does
        files.write_atomically(path, b"".join(numbers))


def append_missing(entry, part):
    indices, _ = entry.vectors.find_intact(part[0])
    missing = [number for number, index in enumerate(indices) if index < 0]
    if missing:
        columns = [[column[n] for n in missing] for column in part]
        entry.vectors.append(*columns, 1.0)


def read_vectors(entry, hashes, computed):
    """The stored vectors of rows, through a map of the file, or computed."""
    indices, _ = entry.vectors.find_intact(hashes)
    count = min(entry.vectors.num_vectors, entry.vectors.num_readable)
    if count:
        stored = np.memmap(
            entry.vectors.path, np.float16, "r", shape=(count, HIDDEN)
        )
    for index, vectors in zip(indices, computed):
        if index < 0:
            yield vectors.tobytes()
        else:
            row = entry.vectors.table[index]
            end = row["start"] + row["length"]
            yield stored[row["start"] : end].tobytes()


def fill_beside_reader(root):
    """Another run reads the entry meanwhile."""
    with contextlib.closing(open_store(root).open(KEY, "tiny")) as entry:
        fill(root)
        assert b"".join(read_vectors(entry, OTHERS[0], OTHERS[2])) == b"".join(
            ALL_VECTORS[row_hash] for row_hash in OTHERS[0]
        )


def fill_in_little_room(root):
    """The entries that no run uses are removed."""
    other = open_store(root).open({**KEY, "cut": 1}, "tiny")
    with contextlib.closing(other):
        fill(root, limit_gb=1e-9)


def read_numbers(root):
    path = os.path.join(root, NUMBERS)
    if not os.path.exists(path):
        return None
    return files.read_bytes(path)


def list_intact(folder):
    """The rows that a run would read from an entry, by hash."""
    entry = store_lib.Entry(folder)
    entry.vectors.load()
    stored = [h for h in ALL_VECTORS if h in entry.vectors.rows]
    indices, _ = entry.vectors.find_intact(stored)
    intact = [h for h, index in zip(stored, indices) if index >= 0]
    return dict(zip(intact, read_vectors(entry, intact, [None] * len(intact))))


def check_rows(root):
    """Every row that counts as intact is."""
    for entry in open_store(root).entries():
        for row_hash, content in list_intact(entry.folder).items():
            if content != ALL_VECTORS[row_hash]:
                return f"{entry.name}: the row {row_hash!r} is wrong"
    return ""


def check_others(root):
    """The rows of another run are there, too."""
    lost = set(OTHERS[0]) - set(list_intact(find_entry(root)))
    return f"loses the rows {lost}" if lost else check_rows(root)


def prepare_others(root):
    fill(root, [OTHERS])
    os.remove(os.path.join(root, NUMBERS))


def prepare_damaged(root):
    prepare_others(root)
    with open(os.path.join(find_entry(root), "entry.json"), "w") as file:
        file.write('{"model": 1}')


def prepare_entries(root):
    """Entries of which one is damaged, and one of two more is used."""
    for cut in (0, 1, 2):
        store = open_store(root)
        with contextlib.closing(store.open({**KEY, "cut": cut}, "m")) as entry:
            entry.vectors.append(*OTHERS, 1.0)


def clear(root):
    files.remove_litter(open_store(root).folder)
    for entry in open_store(root).entries():
        command.clear_entry(entry)


def read_entries(root):
    return sorted(entry.key["cut"] for entry in open_store(root).entries())


def check_used(root):
    """The entry in use was not removed."""
    lost = set(OTHERS[0]) - set(
        list_intact(find_entry(root, {**KEY, "cut": 1}))
    )
    return f"loses the rows {lost}" if lost else check_rows(root)


OWN_FILES = ("cache/prefix/*", "run/*")
SCENARIOS = {
    "cache, new entry": Scenario(
        lambda root: None, fill, read_numbers, OWN_FILES, check=check_rows
    ),
    "cache, two runs": Scenario(
        prepare_others,
        fill_beside_reader,
        read_numbers,
        OWN_FILES,
        check=check_others,
    ),
    "cache, damaged entry": Scenario(
        prepare_damaged, fill, read_numbers, OWN_FILES, check=check_rows
    ),
    "cache, little room": Scenario(
        prepare_entries,
        fill_in_little_room,
        read_numbers,
        OWN_FILES,
        check=check_used,
    ),
    "cache, cleared": Scenario(
        prepare_entries,
        clear,
        read_entries,
        OWN_FILES,
        leaves=lambda result, before, expected: set(result) <= set(before),
        check=check_rows,
    ),
}
