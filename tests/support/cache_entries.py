"""Entries of the feature cache with known rows."""

import os

import numpy as np

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


def rows(*lengths, seed=0):
    """Hashes, lengths and vectors of rows with these lengths."""
    rng = np.random.default_rng([seed, 1])
    vectors = [rng.normal(size=(n, HIDDEN)).astype(np.float16) for n in lengths]
    hashes = [bytes([seed, n]) + bytes(14) for n in range(len(lengths))]
    return hashes, list(lengths), vectors


def stored(entry, hashes):
    """The vectors of rows, read from the file."""
    flat = np.fromfile(entry.vectors.path, np.float16)
    flat = flat[: entry.vectors.num_vectors * HIDDEN].reshape(-1, HIDDEN)
    return [
        flat[row["start"] : row["start"] + row["length"]]
        for row in entry.vectors.table[entry.vectors.find(hashes)]
    ]


def assert_rows(entry, hashes, vectors):
    """Asserts that an entry has intact rows with these vectors."""
    assert entry.vectors.find_damaged(entry.vectors.find(hashes)) == []
    for one, other in zip(stored(entry, hashes), vectors, strict=True):
        np.testing.assert_array_equal(one, other)


def fill(store, name, size=100, used_at=None):
    """An entry with a row, closed, last used at some time."""
    entry = store.open({**KEY, "weights": name}, "tiny")
    entry.vectors.append(*rows(size), 1.0)
    entry.close()
    if used_at:
        os.utime(entry.file("using.lock"), (used_at, used_at))
    return entry


def list_weights(store):
    """The weights of a store's entries."""
    return [entry.key["weights"] for entry in store.entries()]
