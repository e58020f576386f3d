"""The rows of the cache's files."""

import numpy as np

from tests.support.cache_entries import assert_rows, HIDDEN, KEY, rows
from tf_transfer.data.tokens import Tokens
from tf_transfer.feature_cache import rows as rows_lib, vectors as vectors_lib


def test_a_row_hash_distinguishes_ids_and_segments():
    def hashes(flat, lengths, firsts):
        lengths = np.array(lengths)
        return rows_lib.hash_rows(
            Tokens(
                np.array(flat, np.int32),
                np.cumsum(lengths) - lengths,
                lengths,
                np.array(firsts),
                np.zeros_like(lengths),
            )
        )

    one, other, same = hashes([1, 2, 3, 1, 2, 4, 1, 2, 3], [3, 3, 3], [3, 3, 3])
    assert one == same != other
    assert hashes([1, 2, 3], [3], [2]) != [one]
    assert len(one) == 16


def test_rows_are_found_again_by_another_process(store, entry):
    hashes, lengths, vectors = rows(3, 5, 1)
    entry.vectors.append(hashes, lengths, vectors, seconds=18.0)
    again = store.open(KEY, "tiny")
    assert_rows(again, hashes, vectors)
    assert again.vectors.find([b"0" * 16]).tolist() == [-1]
    # A row's share of the build is by its length.
    np.testing.assert_allclose(again.vectors.table["seconds"], [6, 10, 2])


def test_segments_are_appended(store, entry):
    parts = [rows(3, 5, seed=1), rows(2, seed=2), rows(4, 4, seed=3)]
    for hashes, lengths, vectors in parts:
        entry.vectors.append(hashes, lengths, vectors, 1.0)
    again = store.open(KEY, "tiny")
    for hashes, _, vectors in parts:
        assert_rows(again, hashes, vectors)
    assert again.vectors.num_vectors == 18 and len(again.vectors.rows) == 5


def test_the_size_is_that_of_the_vectors_within_two_percent(entry):
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 100, 300).tolist()
    vectors = [np.zeros((n, HIDDEN), np.float16) for n in lengths]
    hashes = [n.to_bytes(16, "big") for n in range(300)]
    entry.vectors.append(hashes, lengths, vectors, 1.0)
    plain = sum(lengths) * HIDDEN * 2
    rest = entry.num_bytes - plain - 300 * vectors_lib.ROW_BYTES
    assert rest < 2500  # names and headers, whatever is stored
    # At a real encoder's width a row's own 22 bytes are nothing.
    wide = plain * 384 / HIDDEN
    assert (entry.num_bytes - plain + wide) / wide < 1.02
