"""Files of the feature cache. Needs no TensorFlow.

    <cache>/prefix/<key>/entry.json        what shapes the content
                         vectors.bin       all vectors, segment after segment
                         rows-00000.npz    a segment's rows: hash, position, CRC
                         building.lock     held by the process that appends
                         using.lock        shared by the processes that read

A segment's vectors are synced before its rows are renamed to their final name,
so a build that was killed leaves a tail that no row points to, and the next one
writes over it. A row is known by a hash of its ids and checked by a CRC when a
run opens it: what is damaged or cut off is missing, and is built again. The CRC
covers the key of the entry and the row's hash, too: what was moved here from
another entry is as good as damaged.

Locks are the kernel's: they end with their process.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import sys
import time
import zlib
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import TextIO
from typing import TYPE_CHECKING
from typing import TypedDict

import numpy as np
import tqdm

from tf_transfer.utils import files
from tf_transfer.utils import json_files
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    from tf_transfer.data.tokens import Tokens

FOLDER = "prefix"
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}  # of a value
# The shape of entry.json; what else a key has is its maker's.
Key = TypedDict("Key", {"hidden": int, "dtype": str})
Content = TypedDict("Content", {"model": str, "key": Key})
GB = 1e9
FREE_SHARE = 0.5  # of the free disk that a cache may take
MOST_GB = 50.0
ROW_BYTES = 22  # what a row takes beside its vectors
CHECK_BAR_SECONDS = 2  # a check that takes longer shows a bar


def hash_rows(tokens: "Tokens") -> list[bytes]:
    """A hash of each text's ids, and of where its segment 1 begins."""
    flat = np.ascontiguousarray(tokens.flat, np.int32)
    hashes = []
    for start, length, first in zip(
        tokens.starts.tolist(),
        tokens.lengths.tolist(),
        tokens.first_lengths.tolist(),
    ):
        ids = flat[start : start + length].tobytes()
        digest = hashlib.blake2b(ids, digest_size=16)
        digest.update(first.to_bytes(4, "little"))
        hashes.append(digest.digest())
    return hashes


def name_of(key: dict[str, Any]) -> str:
    """The name of the folder that holds the entry of a key."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class DiskFull(Exception):
    """Nothing can be added: what was committed before is still whole."""


class Entry:
    """The output of one prefix, for all texts that it has been run over.

    Open it with `Store.open`; it stays in use until `close`. One that
    `Store.entries` lists has no rows until `load`.

    Attributes:
        folder: its files.
        key: what shapes the content.
        model: what `--model` said when it was made, for people.
        hidden: width of a vector.
        vector_bytes: size of a vector.
        rows: dict from a row's hash to its index in the four arrays below.
        starts: int64 [rows]. Each row's first vector.
        lengths: int64 [rows]. Vectors of each row.
        crcs: uint32 [rows]. Of each row's bytes.
        seconds: float64 [rows]. Each row's share of the time of the build.
        unreadable: names of segments whose list of rows is damaged.
        was_replaced: whether `Store.open` found something else in its folder.
    """

    folder: str
    key: dict[str, Any]
    model: str
    hidden: int
    vector_bytes: int
    rows: dict[bytes, int]
    starts: np.ndarray
    lengths: np.ndarray
    crcs: np.ndarray
    seconds: np.ndarray
    unreadable: list[str]
    was_replaced: bool

    def __init__(self, folder: str) -> None:
        self.folder = folder
        content = json_files.read(self.file("entry.json"), Content)
        self.key = key = content["key"]
        self.model = content["model"]
        self.hidden = key["hidden"]
        if key["dtype"] not in BYTES or self.hidden < 1:
            raise json_files.Damaged(f"{self.file('entry.json')}: is damaged.")
        self.vector_bytes = key["hidden"] * BYTES[key["dtype"]]
        self.was_replaced = False
        self._crc_of_key = zlib.crc32(name_of(key).encode())
        self._using: TextIO | None = None
        self._next_segment = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        return os.path.basename(self.folder)

    @property
    def is_misplaced(self) -> bool:
        """Whether its folder is called as that of another key."""
        return self.name != name_of(self.key)

    def file(self, name: str) -> str:
        """Path of a file in it."""
        return os.path.join(self.folder, name)

    def load(self) -> None:
        """Reads which rows there are."""
        self.rows, self.unreadable, self._next_segment = {}, [], 0
        segments: list[tuple[np.ndarray, ...]] = []
        count = 0
        for name in self._segment_names():
            self._next_segment = int(name[5:10]) + 1
            try:
                hashes, *arrays = _read_segment(self.file(name))
            except Exception:  # a damaged file may raise anything
                self.unreadable.append(name)
                continue
            for number, row_hash in enumerate(hashes):
                self.rows[row_hash.tobytes()] = count + number
            count += len(hashes)
            segments.append(tuple(arrays))
        dtypes = (np.int64, np.int64, np.uint32, np.float64)
        columns = list(zip(*segments)) or [()] * len(dtypes)
        self.starts, self.lengths, self.crcs, self.seconds = (
            np.concatenate([np.zeros(0, dtype), *column]).astype(dtype)
            for column, dtype in zip(columns, dtypes)
        )

    def _segment_names(self) -> list[str]:
        return sorted(
            name
            for name in self._files()
            if re.fullmatch(r"rows-\d{5}\.npz", name)
        )

    def _files(self) -> list[str]:
        """Names of its files; empty if another process just removed it."""
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self.folder)
        return []

    @property
    def num_vectors(self) -> int:
        """Vectors that belong to a segment: what is behind them is a tail."""
        return int((self.starts + self.lengths).max(initial=0))

    @property
    def num_bytes(self) -> int:
        """Size of its files."""
        total = 0
        for name in self._files():
            with contextlib.suppress(FileNotFoundError):
                total += os.path.getsize(self.file(name))
        return total

    @property
    def vectors_file(self) -> str:
        """Path of the vectors."""
        return self.file("vectors.bin")

    # === Reading ===

    def find(self, hashes: Iterable[bytes]) -> np.ndarray:
        """int64 [hashes]. Indices of rows, -1 where a row is missing."""
        return np.array([self.rows.get(h, -1) for h in hashes], np.int64)

    def find_intact(self, hashes: Sequence[bytes]) -> tuple[np.ndarray, int]:
        """As `find`, but damaged rows are missing; and how many were damaged.

        They stay missing until they are added again.
        """
        indices = self.find(hashes)
        damaged = self.find_damaged(np.unique(indices[indices >= 0]))
        self.exclude(damaged)
        return self.find(hashes), len(damaged)

    def _checksum(self, row_hash: bytes, content: bytes) -> int:
        """The CRC of a row's vectors, of this entry alone."""
        return zlib.crc32(content, zlib.crc32(row_hash, self._crc_of_key))

    def find_damaged(self, indices: np.ndarray) -> list[int]:
        """Those of the given rows that differ from what was written."""
        if not os.path.exists(self.vectors_file):
            return list(indices)
        hashes = {index: row_hash for row_hash, index in self.rows.items()}
        damaged = []
        with (
            tqdm.tqdm(
                total=int(self.lengths[indices].sum()) * self.vector_bytes,
                desc="checking the cache",
                unit="B",
                unit_scale=True,
                leave=False,
                disable=None,
                delay=CHECK_BAR_SECONDS,
                file=sys.stderr,
            ) as bar,
            open(self.vectors_file, "rb") as file,
        ):
            for index in sorted(indices, key=lambda i: self.starts[i]):
                size = int(self.lengths[index]) * self.vector_bytes
                file.seek(int(self.starts[index]) * self.vector_bytes)
                content = file.read(size)
                if (
                    len(content) != size
                    or self._checksum(hashes[index], content)
                    != self.crcs[index]
                ):
                    damaged.append(index)
                bar.update(size)
        return damaged

    def exclude(self, indices: Iterable[int]) -> None:
        """Leaves rows out, as if they had never been built."""
        excluded = {int(index) for index in indices}
        self.rows = {
            row_hash: index
            for row_hash, index in self.rows.items()
            if index not in excluded
        }

    # === Writing ===

    @contextlib.contextmanager
    def build_lock(self, report: Callable[[str], None]) -> Iterator[None]:
        """The right to append; waits for another process that has it.

        Args:
            report: called with a line of text if it has to wait.

        Raises:
            DiskFull: the cache is read-only.
        """
        try:
            lock_file = open(self.file("building.lock"), "a")
        except OSError as error:
            if error.errno in files.READ_ONLY:
                raise DiskFull from error
            raise
        with lock_file as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                report(
                    "Another process is building this feature cache "
                    f"({self.folder}): waiting for it."
                )
                fcntl.flock(lock, fcntl.LOCK_EX)
            files.remove_litter(self.folder)
            yield

    def remove_unreadable(self) -> None:
        """Removes damaged lists of rows. Hold `build_lock`."""
        for name in self.unreadable:
            os.remove(self.file(name))
        self.unreadable = []

    def append(
        self,
        hashes: Sequence[bytes],
        lengths: Sequence[int],
        vectors: Sequence[np.ndarray],
        seconds: float,
    ) -> None:
        """Adds a segment. Hold `build_lock`.

        Args:
            hashes: of each row.
            lengths: vectors of each row.
            vectors: [vectors of the row, hidden] for each row, of as many
                bytes a value as the entry's dtype.
            seconds: that it took to compute them.

        Raises:
            DiskFull: nothing was added.
        """
        begin = self.num_vectors
        crcs = []
        try:
            with open(self.vectors_file, "ab") as file:
                # A tail that a killed build left, or a hole where the file
                # was cut: the rows there are known to be damaged.
                file.truncate(begin * self.vector_bytes)
                file.seek(0, os.SEEK_END)
                for row_hash, array in zip(hashes, vectors, strict=True):
                    content = np.ascontiguousarray(array).tobytes()
                    crcs.append(self._checksum(row_hash, content))
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._truncate(begin)
            if error.errno not in files.FULL_DISK:
                raise
            raise DiskFull from error
        buffer = io.BytesIO()
        np.savez(
            buffer,
            hashes=np.frombuffer(b"".join(hashes), "V16"),
            lengths=np.asarray(lengths, np.uint16),
            crcs=np.asarray(crcs, np.uint32),
            begin=np.int64(begin),
            seconds=np.float64(seconds),
        )
        try:
            files.write_atomically(
                self.file(f"rows-{self._next_segment:05d}.npz"),
                buffer.getvalue(),
            )
        except UserError as error:
            self._truncate(begin)
            raise DiskFull from error
        excluded = set(range(len(self.starts))) - set(self.rows.values())
        self.load()
        self.exclude(excluded)

    def _truncate(self, count: int) -> None:
        """Leaves the first `count` vectors."""
        with contextlib.suppress(OSError):
            os.truncate(self.vectors_file, count * self.vector_bytes)

    # === In use ===

    def mark_used(self) -> None:
        """Marks it used now, and in use until `close` or the process ends."""
        path = self.file("using.lock")
        try:
            if self._using is None:
                self._using = open(path, "a")
            os.utime(path)
        except OSError as error:
            if error.errno not in files.READ_ONLY:
                raise
            if self._using is None and os.path.exists(path):
                self._using = open(path)
        if self._using is not None:
            fcntl.flock(self._using, fcntl.LOCK_SH)

    def close(self) -> None:
        """Marks it no longer in use."""
        if self._using is not None:
            self._using.close()
            self._using = None

    @property
    def last_used(self) -> float:
        """When a run last opened it, in seconds since the epoch."""
        with contextlib.suppress(OSError):
            return os.stat(self.file("using.lock")).st_mtime
        return 0.0

    def remove(self) -> bool:
        """Removes it, unless a run uses it. Returns whether it is gone."""
        try:
            lock = open(self.file("using.lock"), "a")
        except FileNotFoundError:
            return True  # another process was faster
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            if not os.path.exists(self.file("entry.json")):
                return True
            # Renamed first: a process that looks now finds all files or none.
            removed = f"{self.folder}.dropped-{os.getpid()}"
            os.rename(self.folder, removed)
            shutil.rmtree(removed, ignore_errors=True)
        return True


def _read_segment(path: str) -> tuple[np.ndarray, ...]:
    """Hashes, starts, lengths, CRCs and seconds of a segment's rows."""
    with np.load(path) as file:
        segment = dict(file)
    lengths = segment["lengths"].astype(np.int64)
    starts = segment["begin"] + np.cumsum(lengths) - lengths
    seconds = float(segment["seconds"]) / max(lengths.sum(), 1) * lengths
    return segment["hashes"], starts, lengths, segment["crcs"], seconds


def _open_if_readable(folder: str) -> Entry | None:
    with contextlib.suppress(json_files.Damaged):
        return Entry(folder)
    return None


class Store:
    """All entries of a cache folder.

    Args:
        cache_folder: the folder that all runs share.
    """

    def __init__(self, cache_folder: str) -> None:
        self.folder = os.path.join(cache_folder, FOLDER)

    def entries(self) -> list[Entry]:
        """Every entry that can be read, the least recently used first."""
        if not os.path.isdir(self.folder):
            return []
        entries = []
        for name in sorted(os.listdir(self.folder)):
            with contextlib.suppress(OSError):  # removed, or being made
                entry = _open_if_readable(os.path.join(self.folder, name))
                if entry is not None:
                    entries.append(entry)
        return sorted(entries, key=lambda entry: entry.last_used)

    def find_unreadable(self) -> list[str]:
        """Folders whose entry.json is damaged: whoever opens one mends it."""
        unreadable = []
        for name in sorted(os.listdir(self.folder)):
            with contextlib.suppress(OSError):  # removed, or being made
                folder = os.path.join(self.folder, name)
                if _open_if_readable(folder) is None:
                    unreadable.append(folder)
        return unreadable

    def open(self, key: dict[str, Any], model: str) -> Entry:
        """The entry of a key, marked as used; made if there is none.

        What says that it is another key's, or nothing that can be read, is
        replaced by an empty one.

        Raises:
            UserError: it is to be made, or replaced, and the cache is
                read-only.
        """
        folder = os.path.join(self.folder, name_of(key))
        path = os.path.join(folder, "entry.json")
        was_replaced = False
        while True:
            try:
                os.makedirs(folder, exist_ok=True)
                if not os.path.exists(path):
                    files.write_json(path, {"model": model, "key": key})
                entry = _open_if_readable(folder)
                if entry is None or entry.key != key:
                    was_replaced = True
                    for name in entry._segment_names() if entry else ():
                        os.remove(os.path.join(folder, name))
                    os.remove(path)
                    continue
                entry.was_replaced = was_replaced
                entry.mark_used()
                entry.load()
            except FileNotFoundError:
                continue  # another process has just removed it
            except OSError as error:
                if error.errno not in files.READ_ONLY:
                    raise
                raise UserError(
                    f"{folder}: cannot be written, and has no whole entry for "
                    "these frozen blocks.\nGive a --cache_dir that can be "
                    "written, or --frozen_prefix=live."
                ) from None
            # It may have been removed before the lock was had.
            if os.path.exists(os.path.join(folder, "entry.json")):
                return entry
            entry.close()
            time.sleep(0.01)

    def limit(self, limit_gb: float | None) -> float:
        """Bytes that all entries may take together.

        Args:
            limit_gb: what `--cache_limit_gb` says, or None: half of what
                would be free without the cache, 50 GB at most.
        """
        if limit_gb is not None:
            return limit_gb * GB
        os.makedirs(self.folder, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        taken = sum(entry.num_bytes for entry in self.entries())
        return min(FREE_SHARE * (free + taken), MOST_GB * GB)

    def make_room(
        self, wanted: int, limit_gb: float | None, keep: Collection[str]
    ) -> int:
        """Removes entries, the least recently used first, until there is room.

        Args:
            wanted: bytes that are to be added.
            limit_gb: see `limit`.
            keep: folders of entries that stay.

        Returns:
            Bytes that may be added, at most `wanted`.
        """
        limit = self.limit(limit_gb)
        entries = self.entries()
        taken = sum(entry.num_bytes for entry in entries)
        for entry in entries:
            if taken + wanted <= limit:
                break
            size = entry.num_bytes
            if entry.folder not in keep and entry.remove():
                taken -= size
        return int(max(0, min(wanted, limit - taken)))
