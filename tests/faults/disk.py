"""A disk whose n-th operation fails; below all that opens files in Python.

It stands below `open`, `os`, `fcntl.flock` and `mmap`, and the writers of
`foreign`, for the paths of one folder. No test needs a file system of its own,
and a point takes milliseconds.

Of what was not synced, `power loss` keeps nothing, and `power loss, names kept`
all names but no content: see `power`.
"""

import builtins
import contextlib
import errno
import fcntl
import io
import mmap
import os
import shutil

import pytest

from tests.faults import foreign, power

CHANGES = {
    *("create", "write", "truncate", "fsync", "rename", "link", "unlink"),
    *("mkdir", "rmdir", "utime", "allocate"),
}
READS = {"open", "read", "list", "stat", "map", "lock"}
# CPython repeats all other calls itself where a signal interrupts them.
INTERRUPTED = {
    *("rename", "link", "unlink", "mkdir", "rmdir", "utime", "list", "stat"),
    "map",
}
GROWS = CHANGES - {"unlink", "rmdir", "utime"}
# How an operation fails, and which can.
KINDS = {
    "ENOSPC": GROWS,
    "ENOSPC from then on": GROWS,
    "EIO": CHANGES | READS,
    "EIO from then on": CHANGES | READS,
    "EINTR": INTERRUPTED,
    "short": {"write", "read"},
    "Ctrl-C": CHANGES | READS,
    "kill": CHANGES,
    "power loss": CHANGES,
    "power loss, names kept": CHANGES,
}
ENDS = ("kill", "power loss", "power loss, names kept")


class Ended(BaseException):
    """The process is gone: nothing catches it, and nothing is written after."""


class Disk:
    """A folder, in whose files one operation fails inside of `with`.

    Args:
        root: the folder.
        number: of the operation that fails, from 1; None for none.
        kind: one of `KINDS`.

    Attributes:
        operations: name and path of each operation so far.
    """

    def __init__(self, root, number=None, kind=""):
        self.root = os.path.realpath(root)
        self.operations = []
        self._number, self._kind = number, kind
        self._is_over = self._is_torn = False
        self._patch = pytest.MonkeyPatch()
        self._files, self._descriptors = [], set()
        self._removed = []  # keeps the numbers of removed files in use

    # === Which operation fails ===

    def operate(self, name, path):
        """Counts an operation; fails, or returns whether it is short."""
        if self._is_over:
            raise Ended
        self.operations.append((name, path.removeprefix(self.root + "/")))
        count = len(self.operations)
        is_at = count == self._number
        if self._kind.endswith("from then on") and self._number:
            is_at = count >= self._number
        if not is_at or name not in KINDS[self._kind]:
            return False
        if self._kind in ENDS:
            self._is_over = True
            raise Ended
        if self._kind == "Ctrl-C":
            raise KeyboardInterrupt
        if self._kind == "short":
            return True
        code = getattr(errno, self._kind.split()[0])
        raise OSError(code, os.strerror(code), path)

    def tear(self):
        """Fails at the next operation instead, once; whether that is new."""
        if self._is_torn:
            return False
        self._is_torn, self._number = True, self._number + 1
        return True

    def find(self, path, dir_fd=None):
        """The absolute path of what an operation is on; None outside."""
        if isinstance(path, int):
            path = self._readlink(f"/proc/self/fd/{path}")
        path = os.fsdecode(path)
        if dir_fd is not None:
            path = os.path.join(self._readlink(f"/proc/self/fd/{dir_fd}"), path)
        if not path.startswith(self.root):
            return None
        return os.path.normpath(path)

    # === The operations ===

    def __enter__(self):
        for name in ("open", "lstat", "readlink", "close"):
            setattr(self, f"_{name}", getattr(os, name))
        self._synced = power.Synced(self.root)
        for name, kind in (
            *(("mkdir", "mkdir"), ("rmdir", "rmdir"), ("unlink", "unlink")),
            *(("remove", "unlink"), ("utime", "utime"), ("stat", "stat")),
            *(("lstat", "stat"), ("listdir", "list"), ("scandir", "list")),
        ):
            self._replace(os, name, self._on_one(kind, getattr(os, name)))
        for name, kind in (
            *(("rename", "rename"), ("replace", "rename"), ("link", "link")),
            ("symlink", "link"),
        ):
            self._replace(os, name, self._on_two(kind, getattr(os, name)))
        self._replace(os, "open", self._open_descriptor)
        self._replace(os, "close", self._close_descriptor)
        self._replace(os, "fsync", self._fsync)
        self._replace(
            os,
            "posix_fallocate",
            self._on_one("allocate", os.posix_fallocate),
        )
        self._replace(fcntl, "flock", self._flock(fcntl.flock))
        self._replace(mmap, "mmap", self._on_one("map", mmap.mmap))
        self._builtin_open = builtins.open
        self._replace(builtins, "open", self._open_file)
        self._replace(io, "open", self._open_file)
        for owner, name, function in foreign.list_replacements(self):
            self._replace(owner, name, function)
        return self

    def _replace(self, owner, name, function):
        self._patch.setattr(owner, name, function)

    def __exit__(self, *unused):
        self._patch.undo()
        for file in self._files:  # ends the locks of a process that is gone
            io.FileIO.close(file)
        for descriptor in [*self._descriptors, *self._removed]:
            with contextlib.suppress(OSError):  # a file object had it
                os.close(descriptor)

    def _on_one(self, kind, original):
        """In place of a function whose first argument is a path."""

        def operate(path=".", *arguments, **options):
            full_path = self.find(path, options.get("dir_fd"))
            if full_path:
                self.operate(kind, full_path)
                if kind in ("unlink", "rmdir"):
                    self._bury(full_path)
            return original(path, *arguments, **options)

        return operate

    def _on_two(self, kind, original):
        """In place of a function from one path to another."""

        def operate(source, target, **options):
            full_path = self.find(target, options.get("dst_dir_fd"))
            if full_path:
                self.operate(kind, full_path)
                self._bury(full_path)
            return original(source, target, **options)

        return operate

    def _bury(self, path):
        if os.path.lexists(path):
            flags = os.O_PATH | os.O_NOFOLLOW
            self._removed.append(self._open(path, flags))

    def _flock(self, original):
        def flock(file, operation):
            number = file if isinstance(file, int) else file.fileno()
            path = self.find(number)
            if path:
                self.operate("lock", path)
            return original(number, operation)

        return flock

    def _open_descriptor(self, path, flags, mode=0o777, *, dir_fd=None):
        full_path = self.find(path, dir_fd)
        if full_path:
            self.operate(
                self._kind_of_open(full_path, flags & os.O_CREAT), full_path
            )
        descriptor = self._open(path, flags, mode, dir_fd=dir_fd)
        if full_path:
            self._descriptors.add(descriptor)
        return descriptor

    def _close_descriptor(self, descriptor):
        self._descriptors.discard(descriptor)
        return self._close(descriptor)

    def _kind_of_open(self, path, creates):
        try:
            self._lstat(path)
        except FileNotFoundError:
            return "create" if creates else "open"
        return "open"

    def _open_file(
        self,
        file,
        mode="r",
        buffering=-1,
        encoding=None,
        errors=None,
        newline=None,
        closefd=True,
        opener=None,
    ):
        """In place of `open`; the raw file of what it returns may fail."""
        full_path = self.find(file)
        if not full_path:
            return self._builtin_open(
                file,
                mode,
                buffering,
                encoding,
                errors,
                newline,
                closefd,
                opener,
            )
        raw_mode = mode.replace("b", "").replace("t", "")
        if not isinstance(file, int):
            creates = set(mode) & set("wax")
            self.operate(self._kind_of_open(full_path, creates), full_path)
            if "w" in mode and os.path.exists(full_path):
                self.operate("truncate", full_path)
        raw = _File(file, raw_mode, closefd, opener)
        raw.disk, raw.path = self, full_path
        self._files.append(raw)
        if isinstance(file, int):
            self._descriptors.discard(file)
        if not buffering:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        if "+" in mode:
            buffered = io.BufferedRandom(raw, size)
        elif set(mode) & set("wax"):
            buffered = io.BufferedWriter(raw, size)
        else:
            buffered = io.BufferedReader(raw, size)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline)

    def _fsync(self, file):
        descriptor = file if isinstance(file, int) else file.fileno()
        path = self.find(descriptor)
        if path:
            self.operate("fsync", path)
            self._synced.sync(path, descriptor)

    def cut_power(self):
        """Leaves in the folder what a loss of power leaves of it."""
        keeps_names = self._kind == "power loss, names kept"
        write_tree(self.root, self._synced.list_left(keeps_names))


class _File(io.FileIO):
    """The raw file below Python's buffers, which call its methods."""

    def write(self, content):
        half = memoryview(content).cast("B")[: (len(content) + 1) // 2]
        try:
            is_short = self._operate("write")
        except OSError as error:
            # A disk that fills up takes a part, and refuses the next write.
            if error.errno != errno.ENOSPC or not self.disk.tear():
                raise
            is_short = True
        return super().write(half if is_short else content)

    def truncate(self, size=None):
        self._operate("truncate")
        return super().truncate(size)

    def readinto(self, buffer):
        if self._operate("read"):
            buffer = memoryview(buffer)[: max(1, len(buffer) // 2)]
        return super().readinto(buffer)

    def readall(self):
        self._operate("read")
        return super().readall()

    def read(self, size=-1):
        is_short = self._operate("read")
        return super().read(max(1, size // 2) if is_short else size)

    def _operate(self, name):
        try:
            return self.disk.operate(name, self.path)
        except OSError as error:  # of an open file: names none
            raise OSError(error.errno, error.strerror) from None


def read_tree(root):
    """Content of each file below a folder, None of folders, by path."""
    tree = {}
    for folder, folders, names in os.walk(root):
        for name in folders:
            tree[os.path.relpath(os.path.join(folder, name), root)] = None
        for name in names:
            path = os.path.join(folder, name)
            tree[os.path.relpath(path, root)] = power.read(path)
    return tree


def write_tree(root, tree):
    """Makes a folder hold this alone."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for path, content in sorted(tree.items()):
        target = os.path.join(root, path)
        if content is None:
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(content)
