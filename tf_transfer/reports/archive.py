"""An archive of the files of runs that a report reads: no weights."""

import io
import os
import pathlib
import zipfile

from tf_transfer.training import records, run_paths
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

NAMES = ("result.json", *records.HASHED)
DAY = (1980, 1, 1, 0, 0, 0)  # of all entries, so that equal runs are equal


def pack(root: str, summary: bytes, path: str) -> int:
    """Writes a ZIP file with the finished runs below a folder.

    Unpacked, it is a folder with the name of `root` that gives the same report.

    Args:
        root: The folder of the runs.
        summary: The content of `summary.json`.
        path: The file that is written.

    Returns:
        The number of runs.

    Raises:
        UserError: `path` does not end in `.zip`.
        FullDiskError: The disk is full.
    """
    if not path.endswith(".zip"):
        raise UserError(f"--archive={path}: give a file that ends in .zip.")
    top = pathlib.Path(root)
    results = sorted(top.rglob("result.json"))
    members = [
        file.parent / name
        for file in results
        for name in NAMES
        if (file.parent / name).is_file()
    ]
    members += sorted(top.rglob(run_paths.ANSWER))
    name = os.path.basename(os.path.abspath(root))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, f"{name}/summary.json", summary)
        for member in members:
            place = f"{name}/{member.relative_to(top).as_posix()}"
            _add(archive, place, member.read_bytes())
    files.write_atomically(path, buffer.getvalue())
    return len(results)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, DAY)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
