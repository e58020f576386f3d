"""Files of the prefix cache. Needs no TensorFlow.

    <cache>/prefix/<key>/entry.json        what shapes the content
                         vectors.bin       all vectors, segment after segment
                         rows-00000.npz    rows of a segment: which, where, crc
                         building.lock     held by whoever appends
                         using.lock        shared by whoever reads

A segment's vectors are synced before its rows are renamed into place, so a
build that was killed leaves a tail that nobody points to, and the next one
writes over it. A row is known by a hash of its ids and checked by a CRC when a
run opens it: what is damaged or cut off is missing, and is built again.

Locks are the kernel's: they die with their process.
"""

import contextlib
import errno
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

import numpy as np
import tqdm

from tf_transfer.training import checkpoint
from tf_transfer.utils.errors import UserError

FOLDER = "prefix"
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}
GB = 1e9
FREE_SHARE = 0.5  # of the free disk that a cache may take
MOST_GB = 50.0
ROW_BYTES = 22  # what a row takes beside its vectors
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CHECK_BAR_SECONDS = 2  # a check that takes longer shows a bar


def row_hashes(tokens):
    """What rows are known by: a hash of the ids and of where segment 1 begins.

    Args:
        tokens: `data.tokens.Tokens`.

    Returns:
        List of bytes.
    """
    flat = np.ascontiguousarray(tokens.flat, np.int32)
    found = []
    for start, length, first in zip(
        tokens.starts.tolist(), tokens.lengths.tolist(), tokens.firsts.tolist()
    ):
        digest = hashlib.blake2b(flat[start : start + length], digest_size=16)
        digest.update(first.to_bytes(4, "little"))
        found.append(digest.digest())
    return found


class DiskFull(Exception):
    """The disk is full: what was committed before stays good."""


class Entry:
    """One prefix's output, of however many texts have been run through it.

    Open it with `Store.open`; it stays in use until `close`. One that
    `Store.entries` lists has no rows until `load`.

    Attributes:
        key: dict. What shapes the content.
        model: str. What `--model` said when it was made, for people.
        rows: dict from a row's hash to its index in the arrays `starts`,
            `lengths`, `crcs`, and `seconds`, its share of the build.
        unreadable: names of segments whose list of rows is damaged.
    """

    def __init__(self, folder):
        self.folder = folder
        with open(self.file("entry.json"), encoding="utf-8") as file:
            about = json.load(file)
        self.key = key = about["key"]
        self.model = about["model"]
        self.hidden = key["hidden"]
        self.vector_bytes = key["hidden"] * BYTES[key["dtype"]]
        self._using = None

    @property
    def name(self):
        """The name of its folder."""
        return os.path.basename(self.folder)

    def file(self, name):
        """Path of a file in it."""
        return os.path.join(self.folder, name)

    def load(self):
        """Reads which rows there are."""
        self.rows = {}
        self.segments, self.unreadable = 0, []
        arrays = {name: [] for name in ("starts", "lengths", "crcs", "seconds")}
        count = 0
        for name in self._segment_names():
            self.segments = int(name[5:10]) + 1
            try:
                with np.load(self.file(name)) as file:
                    segment = dict(file)
                lengths = segment["lengths"].astype(np.int64)
                starts = segment["begin"] + np.cumsum(lengths) - lengths
                cost = float(segment["seconds"]) / max(lengths.sum(), 1)
                found = (starts, lengths, segment["crcs"], cost * lengths)
                hashes = segment["hashes"]
            except Exception:  # whatever is in a damaged file
                self.unreadable.append(name)
                continue
            for number, row in enumerate(hashes):
                self.rows[row.tobytes()] = count + number
            count += len(hashes)
            for part, values in zip(arrays, found):
                arrays[part].append(values)
        kinds = (np.int64, np.int64, np.uint32, np.float64)
        for (name, parts), kind in zip(arrays.items(), kinds):
            none = [np.zeros(0, kind)]
            setattr(self, name, np.concatenate(parts or none).astype(kind))

    def _segment_names(self):
        return sorted(
            name
            for name in self._files()
            if re.fullmatch(r"rows-\d{5}\.npz", name)
        )

    def _files(self):
        """Names of its files; none if another process has just dropped it."""
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self.folder)
        return []

    @property
    def end(self):
        """Vectors that belong to a segment: what is behind them is a tail."""
        return int((self.starts + self.lengths).max(initial=0))

    @property
    def bytes(self):
        """What its files take."""
        total = 0
        for name in self._files():
            with contextlib.suppress(FileNotFoundError):
                total += os.path.getsize(self.file(name))
        return total

    @property
    def vectors_file(self):
        """Where the vectors are."""
        return self.file("vectors.bin")

    # === Reading ===

    def discard_unreadable(self):
        """Removes damaged lists of rows. Call it inside of `building`."""
        for name in self.unreadable:
            os.remove(self.file(name))
        self.unreadable = []

    def find(self, hashes):
        """Indices of rows, -1 where there is none."""
        return np.array([self.rows.get(row, -1) for row in hashes], np.int64)

    def find_sound(self, hashes):
        """As `find`, without rows that are damaged; and how many were.

        They are forgotten.
        """
        found = self.find(hashes)
        damaged = self.damaged(np.unique(found[found >= 0]))
        self.forget(damaged)
        return self.find(hashes), len(damaged)

    def damaged(self, indices):
        """Those of the given rows that are not as they were written."""
        wrong = []
        total = int(self.lengths[indices].sum()) * self.vector_bytes
        with (
            contextlib.ExitStack() as stack,
            tqdm.tqdm(
                total=total,
                desc="checking the cache",
                unit="B",
                unit_scale=True,
                leave=False,
                disable=None,
                delay=CHECK_BAR_SECONDS,
                file=sys.stderr,
            ) as bar,
        ):
            if not os.path.exists(self.vectors_file):
                return list(indices)
            file = stack.enter_context(open(self.vectors_file, "rb"))
            for index in sorted(indices, key=lambda i: self.starts[i]):
                size = int(self.lengths[index]) * self.vector_bytes
                file.seek(int(self.starts[index]) * self.vector_bytes)
                content = file.read(size)
                if (
                    len(content) != size
                    or zlib.crc32(content) != self.crcs[index]
                ):
                    wrong.append(index)
                bar.update(size)
        return wrong

    def forget(self, indices):
        """Leaves rows out, as if they had never been built."""
        gone = {int(index) for index in indices}
        self.rows = {
            row: index for row, index in self.rows.items() if index not in gone
        }

    # === Writing ===

    @contextlib.contextmanager
    def building(self, say):
        """The right to append; waits for another process that has it.

        Args:
            say: function of a line of text, told of a wait.
        """
        with open(self.file("building.lock"), "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say(
                    "Another process is building this prefix cache "
                    f"({self.folder}): waiting for it."
                )
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def append(self, hashes, lengths, vectors, seconds):
        """Adds a segment. Call it inside of `building`.

        Args:
            hashes: list of bytes, one a row.
            lengths: vectors of each row.
            vectors: list of arrays [vectors of the row, hidden], of as many
                bytes a value as the entry's dtype.
            seconds: what it took to compute them.

        Raises:
            DiskFull: nothing was added.
        """
        begin = self.end
        crcs = []
        try:
            with open(self.vectors_file, "ab") as file:
                # A tail that a killed build left, or a hole where the file
                # was cut: the rows there are known to be damaged.
                file.truncate(begin * self.vector_bytes)
                file.seek(0, os.SEEK_END)
                for array in vectors:
                    content = np.ascontiguousarray(array).tobytes()
                    crcs.append(zlib.crc32(content))
                    file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self._undo(begin)
            if error.errno not in FULL:
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
            checkpoint.write_atomically(
                self.file(f"rows-{self.segments:05d}.npz"), buffer.getvalue()
            )
        except UserError as error:
            self._undo(begin)
            raise DiskFull from error
        forgotten = set(range(len(self.starts))) - set(self.rows.values())
        self.load()
        self.forget(forgotten)

    def _undo(self, begin):
        with contextlib.suppress(OSError):
            os.truncate(self.vectors_file, begin * self.vector_bytes)

    # === In use ===

    def use(self):
        """Marks it used now, and in use until this process ends or closes."""
        if self._using is None:
            self._using = open(self.file("using.lock"), "a")
            fcntl.flock(self._using, fcntl.LOCK_SH)
        os.utime(self.file("using.lock"))

    def close(self):
        """No longer in use."""
        if self._using is not None:
            self._using.close()
            self._using = None

    @property
    def used_at(self):
        """When it was last opened by a run, in seconds of the epoch."""
        with contextlib.suppress(OSError):
            return os.stat(self.file("using.lock")).st_mtime
        return 0.0

    def drop(self):
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
            # Out of sight first: a process that looks now finds all or none.
            away = f"{self.folder}.dropped-{os.getpid()}"
            os.rename(self.folder, away)
            shutil.rmtree(away, ignore_errors=True)
        return True


class Store:
    """All entries of a cache folder.

    Args:
        cache_folder: `Settings.cache_folder`.
    """

    def __init__(self, cache_folder):
        self.folder = os.path.join(cache_folder, FOLDER)

    def entries(self):
        """Every entry that can be read, the least lately used first."""
        if not os.path.isdir(self.folder):
            return []
        found = []
        for name in sorted(os.listdir(self.folder)):
            folder = os.path.join(self.folder, name)
            try:
                found.append(Entry(folder))
            except (OSError, ValueError, KeyError):
                continue  # dropped meanwhile, or its first moment
        return sorted(found, key=lambda entry: entry.used_at)

    def open(self, key, model):
        """The entry of a key, in use from now on; made if there is none."""
        text = json.dumps(key, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:20]
        folder = os.path.join(self.folder, name)
        while True:
            os.makedirs(folder, exist_ok=True)
            try:
                if not os.path.exists(os.path.join(folder, "entry.json")):
                    checkpoint.write_json(
                        os.path.join(folder, "entry.json"),
                        {"model": model, "key": key},
                    )
                entry = Entry(folder)
                entry.use()
                entry.load()
            except FileNotFoundError:
                continue  # another process has just dropped it
            # The lock may be on a folder that was dropped before it was had.
            if os.path.exists(os.path.join(folder, "entry.json")):
                return entry
            entry.close()
            time.sleep(0.01)

    def limit(self, limit_gb):
        """Bytes that all entries may take together.

        Args:
            limit_gb: what `--cache_limit_gb` says, or None: half of what
                would be free without the cache, 50 GB at most.
        """
        if limit_gb is not None:
            return limit_gb * GB
        os.makedirs(self.folder, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        taken = sum(entry.bytes for entry in self.entries())
        return min(FREE_SHARE * (free + taken), MOST_GB * GB)

    def make_room(self, wanted, limit_gb, keep):
        """Drops entries, the longest unused first, until there is room.

        Args:
            wanted: bytes that are to be added.
            limit_gb: see `limit`.
            keep: folders of entries that stay.

        Returns:
            Bytes that may be added, at most `wanted`.
        """
        limit = self.limit(limit_gb)
        entries = self.entries()
        taken = sum(entry.bytes for entry in entries)
        for entry in entries:
            if taken + wanted <= limit:
                break
            size = entry.bytes
            if entry.folder not in keep and entry.drop():
                taken -= size
        return int(max(0, min(wanted, limit - taken)))
