"""Entries of the feature cache. Needs no TensorFlow.

<cache>/prefix/<key>/entry.json              what shapes the content
                     vectors.bin, rows-*.npz see `vectors`
                     *.lock                  see `locks`
"""

import contextlib
import glob
import os
import shutil
import time
from collections.abc import Collection, Iterator
from typing import TypedDict

from tf_transfer.feature_cache import locks
from tf_transfer.feature_cache.vectors import VectorFile
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

FOLDER = "prefix"
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4}  # per value
# The shape of entry.json; the key has more fields, which `FeatureCache` sets.
Key = TypedDict("Key", {"hidden": int, "dtype": str})
Content = TypedDict("Content", {"model": str, "key": Key})
GB = 1e9
FREE_SHARE = 0.5  # of the free disk that a cache may take
MOST_GB = 50.0


def name_of(key: Record) -> str:
    """The name of the folder that holds the entry of a key."""
    return json_files.hash_json(key)[:20]


class Entry:
    """The output of one prefix, for all texts that it has been run over.

    Open it with `Store.open`; it stays in use until `close`. The vectors of
    `Store.entries` have no rows until they are loaded.

    Attributes:
        folder: Folder of its files.
        key: What shapes the content.
        model: `--model` of the run that made it, for people.
        hidden: Width of a vector.
        vectors: Its vectors.
        lock: Protects it while a run uses it.
        was_replaced: Whether `Store.open` replaced a damaged entry or another
            key's.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        content = json_files.read_record(self.file("entry.json"), Content)
        self.key = key = content["key"]
        self.model = content["model"]
        self.hidden = key["hidden"]
        if key["dtype"] not in BYTES or self.hidden < 1:
            raise json_files.Damaged(f"{self.file('entry.json')}: is damaged.")
        vector_bytes = self.hidden * BYTES[key["dtype"]]
        self.vectors = VectorFile(folder, vector_bytes, name_of(key))
        self.lock = locks.UseLock(folder)
        self.was_replaced = False

    @property
    def name(self) -> str:
        """The name of its folder."""
        return os.path.basename(self.folder)

    def file(self, name: str) -> str:
        """Path of a file in it."""
        return os.path.join(self.folder, name)

    @property
    def num_bytes(self) -> int:
        """Size of its files; 0 if another process just removed it."""
        total = 0
        for name in glob.glob("*", root_dir=self.folder):
            with contextlib.suppress(FileNotFoundError):
                total += os.path.getsize(self.file(name))
        return total

    @contextlib.contextmanager
    def build_lock(self) -> Iterator[None]:
        """The right to append; see `locks.build_lock`.

        Then reads the rows, which another process may have built, and removes
        damaged lists of rows.
        """
        with locks.build_lock(self.folder):
            files.remove_litter(self.folder)
            self.vectors.load()
            self.vectors.remove_rows(self.vectors.unreadable)
            self.vectors.unreadable = []
            yield

    def close(self) -> None:
        """Marks it no longer in use."""
        self.lock.release()

    def remove(self) -> bool:
        """Removes it, unless a run uses it. Returns whether it is gone."""
        try:
            with self.lock.exclude() as is_unused:
                if is_unused:
                    # Renamed first: a process that looks now finds all files
                    # or none.
                    removed = files.temporary_name(self.folder)
                    os.rename(self.folder, removed)
                    shutil.rmtree(removed, ignore_errors=True)
                return is_unused
        except FileNotFoundError:
            return True  # another process was faster


def _open_if_readable(folder: str) -> Entry | None:
    with contextlib.suppress(json_files.Damaged):
        return Entry(folder)
    return None


class Store:
    """All entries of a cache folder.

    Args:
        cache_folder: The folder that all runs share.
    """

    def __init__(self, cache_folder: str) -> None:
        self.folder = os.path.join(cache_folder, FOLDER)

    def _folders(self) -> Iterator[tuple[str, Entry | None]]:
        """Each folder and its entry, or None if entry.json is damaged."""
        for name in files.list_names(self.folder):
            if files.is_temporary(name):
                continue
            folder = os.path.join(self.folder, name)
            try:
                yield folder, _open_if_readable(folder)
            except OSError as error:
                if files.advise(error):
                    raise  # the disk fails
                # Else another process removes it, or makes it.

    def entries(self) -> list[Entry]:
        """Every readable entry, the least recently used first."""
        entries = [entry for _, entry in self._folders() if entry]
        return sorted(entries, key=lambda entry: entry.lock.last_used)

    @property
    def num_bytes(self) -> int:
        """Size of all readable entries."""
        return sum(entry.num_bytes for entry in self.entries())

    def find_unreadable(self) -> list[str]:
        """Folders whose entry.json is damaged: `open` replaces it."""
        return [folder for folder, entry in self._folders() if not entry]

    def open(self, key: Record, model: str) -> Entry:
        """The entry of a key, marked as used; made if there is none.

        An entry of another key, or with a damaged entry.json, is replaced.

        Raises:
            UserError: The cache is read-only and has no such entry, or its
                folder cannot be made.
        """
        folder = os.path.join(self.folder, name_of(key))
        path = os.path.join(folder, "entry.json")
        was_replaced = False
        while True:
            try:
                os.makedirs(folder, exist_ok=True)
                if not files.exists(path):
                    files.write_json(path, {"model": model, "key": key})
                entry = _open_if_readable(folder)
                if entry is None or entry.key != key:
                    was_replaced = True
                    if entry:
                        entry.vectors.remove_rows()
                    os.remove(path)
                    continue
                entry.was_replaced = was_replaced
                entry.lock.take()
                entry.vectors.load()
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
            if entry.lock.protects():
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
        return min(FREE_SHARE * (free + self.num_bytes), MOST_GB * GB)

    def make_room(
        self, wanted: int, limit_gb: float | None, keep: Collection[str]
    ) -> int:
        """Removes entries, the least recently used first, until there is room.

        Args:
            wanted: Bytes to be added.
            limit_gb: See `limit`.
            keep: Folders of entries that stay.

        Returns:
            Bytes that may be added, at most `wanted`.
        """
        files.remove_litter(self.folder)
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
