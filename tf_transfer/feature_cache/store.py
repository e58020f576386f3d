"""Files of the feature cache. Needs no TensorFlow.

    <cache>/prefix/<key>/entry.json        what shapes the content
                         vectors.bin       all vectors, segment after segment
                         rows-00000.npz    a segment's rows: hash, position, CRC
                         building.lock     held by the process that appends
                         using.lock        shared by the processes that read

A segment's vectors are synced before its rows are renamed to their final name.
A killed build thus leaves a tail without rows, and the next build overwrites
it. A row is identified by a hash of its ids and checked by a CRC when a run
opens it: a damaged or truncated row is missing, and is built again. The CRC
also covers the key of the entry and the row's hash, so a row copied from
another entry counts as damaged.

Locks are the kernel's: they end with their process.
"""

import contextlib
import fcntl
import glob
import hashlib
import io
import itertools
import json
import os
import shutil
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, IO, TypedDict

import numpy as np
import tqdm

from tf_transfer.data.tokens import Tokens
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import FullDiskError, UserError

FOLDER = "prefix"
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}  # per value
# The shape of entry.json; the key has more fields, which `FeatureCache` sets.
Key = TypedDict("Key", {"hidden": int, "dtype": str})
Content = TypedDict("Content", {"model": str, "key": Key})
ROW = np.dtype(
    [
        ("hash", "V16"),
        ("start", np.int64),
        ("length", np.int64),
        ("crc", np.uint32),
        ("seconds", np.float64),
    ]
)
GB = 1e9
FREE_SHARE = 0.5  # of the free disk that a cache may take
MOST_GB = 50.0
ROW_BYTES = 22  # size of a row in rows-*.npz
CHECK_BAR_SECONDS = 2  # a check that takes longer shows a bar


def hash_rows(tokens: Tokens) -> list[bytes]:
    """A hash of each text's ids, and of where its segment 1 begins."""
    flat = np.ascontiguousarray(tokens.flat, np.int32)
    return [
        hashlib.blake2b(
            flat[start : start + length].tobytes()
            + first_length.to_bytes(4, "little"),
            digest_size=16,
        ).digest()
        for start, length, first_length in zip(
            tokens.starts.tolist(),
            tokens.lengths.tolist(),
            tokens.first_lengths.tolist(),
        )
    ]


def name_of(key: dict[str, Any]) -> str:
    """The name of the folder that holds the entry of a key."""
    text = json.dumps(key, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class DiskFull(Exception):
    """Nothing can be added; all committed segments stay. Names the folder."""


class ReadOnly(DiskFull):
    """Nothing can be added to a read-only cache."""


class Entry:
    """The output of one prefix, for all texts that it has been run over.

    Open it with `Store.open`; it stays in use until `close`. The entries of
    `Store.entries` have no rows until `load`.

    Attributes:
        folder: folder of its files.
        vectors_file: path of the vectors.
        key: what shapes the content.
        model: `--model` of the run that made it, for people.
        hidden: width of a vector.
        vector_bytes: size of a vector.
        rows: dict from a row's hash to its index in `table`.
        table: `ROW` [rows]: hash, first vector, number of vectors, CRC, and
            share of the seconds of the build.
        unreadable: names of segments whose list of rows is damaged.
        was_replaced: whether `Store.open` replaced a damaged entry or another
            key's.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        content = json_files.read(self.file("entry.json"), Content)
        self.key = key = content["key"]
        self.model = content["model"]
        self.hidden = key["hidden"]
        if key["dtype"] not in BYTES or self.hidden < 1:
            raise json_files.Damaged(f"{self.file('entry.json')}: is damaged.")
        self.vector_bytes = self.hidden * BYTES[key["dtype"]]
        self.vectors_file = self.file("vectors.bin")
        self.was_replaced = False
        self._crc_of_key = zlib.crc32(name_of(key).encode())
        self._using: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        return os.path.basename(self.folder)

    def file(self, name: str) -> str:
        """Path of a file in it."""
        return os.path.join(self.folder, name)

    def load(self) -> None:
        """Reads the lists of rows."""
        self.rows: dict[bytes, int] = {}
        self.table = np.zeros(0, ROW)
        self.unreadable: list[str] = []
        self._next_segment = 0
        for name in self._segment_names():
            self._next_segment = int(name[5:10]) + 1
            try:
                self._add(_read_segment(self.file(name)))
            except Exception:  # a damaged file may raise anything
                self.unreadable.append(name)

    def _add(self, segment: np.ndarray) -> None:
        """Adds rows to `table`; a later row replaces an earlier of its hash."""
        indices = itertools.count(len(self.table))
        self.rows.update(zip(segment["hash"].tolist(), indices))
        self.table = np.concatenate([self.table, segment])

    def _segment_names(self) -> list[str]:
        pattern = f"rows-{5 * '[0-9]'}.npz"
        return sorted(glob.glob(pattern, root_dir=self.folder))

    @property
    def num_vectors(self) -> int:
        """Vectors that belong to a segment; a tail may follow them."""
        ends = self.table["start"] + self.table["length"]
        return int(ends.max(initial=0))

    @property
    def num_readable(self) -> int:
        """Whole vectors in the file, which may be truncated or missing."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.getsize(self.vectors_file) // self.vector_bytes
        return 0

    @property
    def num_bytes(self) -> int:
        """Size of its files; 0 if another process just removed it."""
        total = 0
        for name in glob.glob("*", root_dir=self.folder):
            with contextlib.suppress(FileNotFoundError):
                total += os.path.getsize(self.file(name))
        return total

    # === Reading ===

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
        """Those of the given rows that differ from what was written."""
        if not os.path.exists(self.vectors_file):
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
            files.open_regular(self.vectors_file) as file,
        ):
            for index in indices[np.argsort(self.table["start"][indices])]:
                row_hash, start, length, crc, _ = self.table[index].tolist()
                file.seek(start * self.vector_bytes)
                content = file.read(length * self.vector_bytes)
                if self._checksum(row_hash, content) != crc:
                    damaged.append(index)
                bar.update(length * self.vector_bytes)
        return damaged

    # === Writing ===

    @contextlib.contextmanager
    def build_lock(self) -> Iterator[None]:
        """The right to append; waits for another process that has it.

        Then reads the rows, which that process may have built, and removes
        damaged lists of rows.

        Raises:
            ReadOnly: the cache is read-only.
        """
        try:
            lock_file = files.open_lock(self.file("building.lock"))
        except OSError as error:
            if error.errno in files.READ_ONLY:
                raise ReadOnly(f"{self.folder}: is read-only") from error
            raise
        with lock_file as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                print(
                    "Another process is building this feature cache "
                    f"({self.folder}): waiting for it.",
                    flush=True,
                )
                fcntl.flock(lock, fcntl.LOCK_EX)
            files.remove_litter(self.folder)
            self.load()
            while self.unreadable:
                os.remove(self.file(self.unreadable.pop()))
            yield

    def append(
        self,
        hashes: Sequence[bytes],
        lengths: Sequence[int],
        vectors: Sequence[np.ndarray],
        seconds: float,
    ) -> None:
        """Adds a segment. Hold `build_lock`.

        Args:
            hashes: hash of each row.
            lengths: number of vectors of each row.
            vectors: [vectors of the row, hidden] for each row, with as many
                bytes per value as the entry's dtype.
            seconds: time that it took to compute them.

        Raises:
            DiskFull: nothing was added.
        """
        begin = self.num_vectors
        path = self.file(f"rows-{self._next_segment:05d}.npz")
        crcs = []
        try:
            with files.open_to_append(self.vectors_file) as file:
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
                files.open_to_append(self.vectors_file) as file,
            ):
                file.truncate(begin * self.vector_bytes)
            if isinstance(error, OSError) and (
                error.errno not in files.FULL_DISK
            ):
                raise
            raise DiskFull(f"{self.folder}: the disk is full") from error
        self._add(_read_segment(path))
        self._next_segment += 1

    # === In use ===

    def mark_used(self) -> None:
        """Marks it used now, and in use until `close` or the process ends."""
        path = self.file("using.lock")
        try:
            self._using = files.open_lock(path)
            os.utime(path)
        except OSError as error:
            if error.errno not in files.READ_ONLY:
                raise
            if not os.path.exists(path):
                return
            self._using = files.open_regular(path)
        fcntl.flock(self._using, fcntl.LOCK_SH)

    def is_protected(self) -> bool:
        """Whether nothing removes it before `close`; see `mark_used`.

        Another process may have removed it before this one had the lock. A
        read-only entry without a lock file needs none.
        """
        path = self.file("using.lock")
        return self._using is None or _is_at(self._using, path)

    def close(self) -> None:
        """Marks it no longer in use."""
        if self._using is not None:
            self._using.close()

    @property
    def last_used(self) -> float:
        """When a run last opened it, in seconds since the epoch."""
        with contextlib.suppress(OSError):
            return os.stat(self.file("using.lock")).st_mtime
        return 0.0

    def remove(self) -> bool:
        """Removes it, unless a run uses it. Returns whether it is gone."""
        try:
            lock = files.open_lock(self.file("using.lock"))
        except FileNotFoundError:
            return True
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            if not _is_at(lock, self.file("using.lock")):
                return True  # another process was faster
            # Renamed first: a process that looks now finds all files or none.
            removed = files.temporary_name(self.folder)
            os.rename(self.folder, removed)
            shutil.rmtree(removed, ignore_errors=True)
        return True


def _is_at(file: IO[bytes], path: str) -> bool:
    """Whether an open file is still at its path, not removed or replaced."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def _read_segment(path: str) -> np.ndarray:
    """`ROW` [rows] of a segment's rows."""
    with files.open_regular(path) as file, np.load(file) as arrays:
        segment = dict(arrays)
    rows = np.zeros(len(segment["hashes"]), ROW)
    rows["hash"] = segment["hashes"]
    rows["length"] = lengths = segment["lengths"].astype(np.int64)
    rows["start"] = segment["begin"] + np.cumsum(lengths) - lengths
    rows["crc"] = segment["crcs"]
    rows["seconds"] = segment["seconds"] / max(lengths.sum(), 1) * lengths
    return rows


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

    def _folders(self) -> Iterator[tuple[str, Entry | None]]:
        """Each folder and its entry, or None if entry.json is damaged."""
        for name in sorted(glob.glob("*", root_dir=self.folder)):
            folder = os.path.join(self.folder, name)
            with contextlib.suppress(OSError):  # removed, or being made
                yield folder, _open_if_readable(folder)

    def entries(self) -> list[Entry]:
        """Every readable entry, the least recently used first."""
        entries = [entry for _, entry in self._folders() if entry]
        return sorted(entries, key=lambda entry: entry.last_used)

    def find_unreadable(self) -> list[str]:
        """Folders whose entry.json is damaged: `open` replaces it."""
        return [folder for folder, entry in self._folders() if not entry]

    def open(self, key: dict[str, Any], model: str) -> Entry:
        """The entry of a key, marked as used; made if there is none.

        An entry of another key, or with a damaged entry.json, is replaced.

        Raises:
            UserError: the cache is read-only and has no such entry, or its
                folder cannot be made.
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
            except (FileNotFoundError, FileExistsError):
                is_other = os.path.lexists(folder) and not os.path.isdir(folder)
                if is_other or not os.path.isdir(self.folder):
                    raise UserError(
                        f"{folder}: cannot be made. Give another --cache_dir."
                    ) from None
                continue  # another process has just removed it
            except OSError as error:
                if error.errno not in files.READ_ONLY:
                    raise
                raise UserError(
                    f"{folder}: cannot be written, and has no whole entry for "
                    "these frozen blocks.\nGive a --cache_dir that can be "
                    "written, or --frozen_prefix=live."
                ) from None
            if entry.is_protected():
                return entry
            entry.close()
            time.sleep(0.01)

    def limit(self, limit_gb: float | None) -> float:
        """Bytes that all entries may take together.

        Args:
            limit_gb: `--cache_limit_gb`; None for half of the disk that would
                be free without the cache, 50 GB at most.
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
            wanted: bytes to be added.
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
