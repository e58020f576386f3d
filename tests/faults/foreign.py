"""Writers that Python does not see: TensorFlow's and HDF5's own, in C++.

Each of their calls is an operation of the disk, and fails with the error that
the library raises then.
"""

import errno
import functools
import sys

CREATE, WRITE = "create", "write"
# HDF5's message of a disk that fails has several lines.
HDF5 = "Can't synchronously write data (file write failed:\n, filename = {}"


def list_replacements(disk):
    """(owner, name, function): what to put in place of these writers.

    Without TensorFlow in the process there are none.

    Args:
        disk: the `disk.Disk` that counts, and fails.
    """
    if "tensorflow" not in sys.modules:
        return []
    import h5py
    from tensorflow.python.lib.io import _pywrap_file_io as file_io
    from tensorflow.python.ops import gen_io_ops, io_ops

    calls = (
        (file_io, "RecursivelyCreateDir", ["mkdir"], 0),
        (file_io, "CreateDir", ["mkdir"], 0),
        (file_io, "RenameFile", ["rename"], 1),
        (file_io, "DeleteFile", ["unlink"], 0),
        (file_io, "WritableFile", [CREATE, WRITE], 0),
        (io_ops, "save_v2", [CREATE, WRITE], 0),
        (gen_io_ops, "merge_v2_checkpoints", ["rename"], 1),
    )
    replacements = [
        (owner, name, _wrap(disk, getattr(owner, name), kinds, argument))
        for owner, name, kinds, argument in calls
    ]
    return [*replacements, (h5py, "File", _make_file(disk, h5py.File))]


def _wrap(disk, original, kinds, argument):
    """A function of TensorFlow, each call of which is some operations.

    Args:
        disk: see `list_replacements`.
        original: the function.
        kinds: the operations: the first comes before its call.
        argument: the number of the argument that is the path.
    """

    @functools.wraps(original)
    def call(*arguments, **options):
        path = arguments[argument]
        if not isinstance(path, (str, bytes)):  # a tensor; traced, it has none
            path = path.numpy() if hasattr(path, "numpy") else "traced"
        path = disk.find(path)
        if path:
            _operate(disk, kinds[0], path)
        result = original(*arguments, **options)
        for kind in kinds[1:] if path else ():
            _operate(disk, kind, path)
        return result

    return call


def _operate(disk, kind, path):
    import tensorflow as tf

    errors = {
        errno.ENOSPC: tf.errors.ResourceExhaustedError,
        errno.EINTR: tf.errors.UnavailableError,
    }
    try:
        disk.operate(kind, path)
    except OSError as error:
        kind_of_error = errors.get(error.errno, tf.errors.UnknownError)
        message = f"{path}; {error.strerror}"
        raise kind_of_error(None, None, message) from None


def _make_file(disk, original):
    class File(original):
        """HDF5 creates a file when it is opened, and writes at its end."""

        def __init__(self, name, mode="r", *arguments, **options):
            self._written = disk.find(name) if mode != "r" else None
            self._operate(CREATE)
            super().__init__(name, mode, *arguments, **options)

        def close(self):
            super().close()
            self._operate(WRITE)
            self._written = None

        def _operate(self, kind):
            if self._written:
                try:
                    disk.operate(kind, self._written)
                except OSError as error:
                    message = HDF5.format(self._written)
                    raise OSError(error.errno, message) from None

    return File
