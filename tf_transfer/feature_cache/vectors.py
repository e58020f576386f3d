"""The vectors of an entry: two kinds of files. Needs no TensorFlow.

    vectors.bin       all vectors, segment after segment
    rows-00000.npz    the rows of a segment: hash, position, CRC

The vectors of a segment are synced before its rows are renamed to their final
name. A killed build thus leaves a tail without rows, and the next build
overwrites it. A row is identified by a hash of its ids and checked by a CRC: a
damaged or truncated row is missing, and is built again. The CRC also covers the
key of the entry and the row's hash, so a row copied from another entry counts
as damaged.
"""

import contextlib
import io
import itertools
import os
import re
import sys
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import tqdm

from tf_transfer.utils import files
from tf_transfer.utils.errors import FullDiskError

ROW = np.dtype(
    [
        ("hash", "V16"),
        ("start", np.int64),
        ("length", np.int64),
        ("crc", np.uint32),
        ("seconds", np.float64),
    ]
)
SEGMENT = re.compile(r"rows-\d{5}\.npz")
ROW_BYTES = 22  # size of a row in rows-*.npz
CHECK_BAR_SECONDS = 2  # a check that takes longer shows a bar


class DiskFull(Exception):
    """Nothing can be added; all committed segments stay. Names the folder."""


class ReadOnly(DiskFull):
    """Nothing can be added to a read-only cache."""


class VectorFile:
    """The vectors of the texts that a prefix has been run over.

    Args:
        folder: Folder of its files.
        vector_bytes: Size of a vector.
        key: Name of the entry's key, which the checksums cover.

    Attributes:
        path: Path of the vectors.
        vector_bytes: As given.
        rows: Dict from a row's hash to its index in `table`; empty before
            `load`.
        table: `ROW` [rows]: hash, first vector, number of vectors, CRC, and
            share of the seconds of the build.
        unreadable: Names of segments whose list of rows is damaged.
    """

    def __init__(self, folder: str, vector_bytes: int, key: str) -> None:
        self.path = os.path.join(folder, "vectors.bin")
        self.vector_bytes = vector_bytes
        self._folder = folder
        self._crc_of_key = zlib.crc32(key.encode())
        self.rows: dict[bytes, int] = {}
        self.table = np.zeros(0, ROW)
        self.unreadable: list[str] = []
        self._next_segment = 0

    def load(self) -> None:
        """Reads the lists of rows.

        Raises:
            OSError: The disk fails.
        """
        self.rows = {}
        self.table = np.zeros(0, ROW)
        self.unreadable = []
        self._next_segment = 0
        for name in self._segment_names():
            self._next_segment = int(name[5:10]) + 1
            try:
                self._add(_read_segment(os.path.join(self._folder, name)))
            except Exception as error:  # a damaged file may raise anything
                if isinstance(error, OSError) and files.advise(error):
                    raise  # the disk fails: its rows may be intact
                self.unreadable.append(name)

    def _add(self, segment: np.ndarray) -> None:
        """Adds rows to `table`; a later row replaces an earlier of its hash."""
        indices = itertools.count(len(self.table))
        self.rows.update(zip(segment["hash"].tolist(), indices))
        self.table = np.concatenate([self.table, segment])

    def _segment_names(self) -> list[str]:
        return [*filter(SEGMENT.fullmatch, files.list_names(self._folder))]

    @property
    def num_vectors(self) -> int:
        """Vectors that belong to a segment; a tail may follow them."""
        ends = self.table["start"] + self.table["length"]
        return int(ends.max(initial=0))

    @property
    def num_readable(self) -> int:
        """Whole vectors in the file, which may be truncated or missing."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.getsize(self.path) // self.vector_bytes
        return 0

    def remove_rows(self, names: Iterable[str] | None = None) -> None:
        """Removes segments: those of the given names, or all."""
        for name in self._segment_names() if names is None else names:
            os.remove(os.path.join(self._folder, name))

    def find(self, hashes: Iterable[bytes]) -> np.ndarray:
        """int64 [hashes]. Indices in `table`, -1 where a row is missing."""
        return np.array([self.rows.get(h, -1) for h in hashes], np.int64)

    def find_intact(self, hashes: Sequence[bytes]) -> tuple[np.ndarray, int]:
        """As `find`, but damaged rows are missing from now on.

        Returns:
            int64 [hashes], and how many rows were damaged.
        """
        indices = self.find(hashes)
        damaged = set(self.find_damaged(np.unique(indices[indices >= 0])))
        self.rows = {h: n for h, n in self.rows.items() if n not in damaged}
        return self.find(hashes), len(damaged)

    def _checksum(self, row_hash: bytes, content: bytes) -> int:
        """The CRC of a row's vectors, which covers key and hash."""
        return zlib.crc32(content, zlib.crc32(row_hash, self._crc_of_key))

    def find_damaged(self, indices: np.ndarray) -> list[int]:
        """The given rows that differ from the written ones."""
        if not os.path.exists(self.path):
            return list(indices)
        damaged = []
        with (
            tqdm.tqdm(
                total=int(self.table["length"][indices].sum())
                * self.vector_bytes,
                desc="checking the cache",
                unit="B",
                unit_scale=True,
                leave=False,
                disable=None,
                delay=CHECK_BAR_SECONDS,
                file=sys.stderr,
            ) as bar,
            files.open_regular(self.path) as file,
        ):
            for index in indices[np.argsort(self.table["start"][indices])]:
                row_hash, start, length, crc, _ = self.table[index].tolist()
                file.seek(start * self.vector_bytes)
                content = file.read(length * self.vector_bytes)
                if self._checksum(row_hash, content) != crc:
                    damaged.append(index)
                bar.update(length * self.vector_bytes)
        return damaged

    def append(
        self,
        hashes: Sequence[bytes],
        lengths: Sequence[int],
        vectors: Sequence[np.ndarray],
        seconds: float,
    ) -> None:
        """Adds a segment. Hold the entry's `build_lock`.

        Args:
            hashes: Hash of each row.
            lengths: Number of vectors of each row.
            vectors: [vectors of the row, hidden] for each row, with as many
                bytes per value as the entry's dtype.
            seconds: Time that it took to compute them.

        Raises:
            DiskFull: Nothing was added.
        """
        begin = self.num_vectors
        path = os.path.join(self._folder, f"rows-{self._next_segment:05d}.npz")
        crcs = []
        try:
            with files.open_to_append(self.path) as file:
                # Cuts off the tail of a killed build; fills a hole where the
                # file was truncated, whose rows are known to be damaged.
                file.truncate(begin * self.vector_bytes)
                for row_hash, array in zip(hashes, vectors, strict=True):
                    content = np.ascontiguousarray(array).tobytes()
                    crcs.append(self._checksum(row_hash, content))
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
            segment = io.BytesIO()
            np.savez(
                segment,
                hashes=np.frombuffer(b"".join(hashes), "V16"),
                lengths=np.asarray(lengths, np.uint16),
                crcs=np.asarray(crcs, np.uint32),
                begin=np.int64(begin),
                seconds=np.float64(seconds),
            )
            files.write_atomically(path, segment.getvalue())
        except (OSError, FullDiskError) as error:
            with (
                contextlib.suppress(OSError),
                files.open_to_append(self.path) as file,
            ):
                file.truncate(begin * self.vector_bytes)
            if isinstance(error, OSError) and (
                error.errno not in files.FULL_DISK
            ):
                raise
            raise DiskFull(f"{self._folder}: the disk is full") from error
        self._add(_parse_segment(segment.getvalue()))
        self._next_segment += 1


def _read_segment(path: str) -> np.ndarray:
    """`ROW` [rows] of a segment's rows."""
    with files.open_regular(path) as file:
        return _parse_segment(file.read())


def _parse_segment(content: bytes) -> np.ndarray:
    """`ROW` [rows] of the content of a segment's file."""
    with np.load(io.BytesIO(content)) as arrays:
        segment = dict(arrays)
    rows = np.zeros(len(segment["hashes"]), ROW)
    rows["hash"] = segment["hashes"]
    rows["length"] = lengths = segment["lengths"].astype(np.int64)
    rows["start"] = segment["begin"] + np.cumsum(lengths) - lengths
    rows["crc"] = segment["crcs"]
    rows["seconds"] = segment["seconds"] / max(lengths.sum(), 1) * lengths
    return rows
