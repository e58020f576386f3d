"""What of a folder was synced, and what a loss of power leaves of it.

A loss of power keeps what was synced: the content of a file from `fsync` of the
file, the names in a folder from `fsync` of the folder. A sync also keeps the
names of the folders above, as ext4, XFS and Btrfs do. Of what was not synced,
it keeps nothing, or all names but no content: a real loss is between the two.
"""

import io
import os


class Synced:
    """What was synced; all that is in the folder at first counts as that.

    Args:
        root: the folder.
    """

    def __init__(self, root):
        self.root = root
        # As they are now: what `os` has later counts as an operation.
        self._stat, self._scandir = os.stat, os.scandir
        self._contents, self._names = {}, {}  # by number of the inode
        self._remember(root)

    def _remember(self, folder):
        """Counts all that is in a folder as synced."""
        names = self._names[os.stat(folder).st_ino] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                names[entry.name] = entry.inode(), entry.is_dir()
                if entry.is_dir():
                    self._remember(entry.path)
                else:
                    self._contents[entry.inode()] = read(entry.path)

    def sync(self, path, descriptor):
        """Keeps what `fsync` keeps.

        Args:
            path: of a file or a folder below the root.
            descriptor: of the same, open.
        """
        number = os.fstat(descriptor).st_ino
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            with self._scandir(path) as entries:
                self._names[number] = {
                    entry.name: (entry.inode(), entry.is_dir())
                    for entry in entries
                }
            folder = path
        else:
            self._contents[number] = read(f"/proc/self/fd/{descriptor}")
            folder = os.path.dirname(path)
        while folder != self.root:
            parent, name = os.path.split(folder)
            names = self._names.setdefault(self._stat(parent).st_ino, {})
            names[name] = self._stat(folder).st_ino, True
            folder = parent

    def list_left(self, keeps_names):
        """What a loss of power leaves; see `disk.read_tree`.

        Args:
            keeps_names: whether names that were not synced are kept.
        """
        left = {}
        if not keeps_names:
            self._collect(os.stat(self.root).st_ino, "", left)
        else:
            for folder, folders, names in os.walk(self.root):
                subfolder = os.path.relpath(folder, self.root)
                for name in folders:
                    left[os.path.join(subfolder, name)] = None
                for name in names:
                    number = os.lstat(os.path.join(folder, name)).st_ino
                    content = self._contents.get(number, b"")
                    left[os.path.join(subfolder, name)] = content
        return left

    def _collect(self, number, subfolder, left):
        for name, (child, is_folder) in self._names.get(number, {}).items():
            path = os.path.join(subfolder, name)
            if is_folder:
                left[path] = None
                self._collect(child, path, left)
            else:
                left[path] = self._contents.get(child, b"")


def read(path):
    """The content of a file; no operation of a disk."""
    with io.FileIO(path) as file:
        return file.readall()
