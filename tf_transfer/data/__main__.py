"""Compares data files with the checksums of those that our runs read.

    python -m tf_transfer.data --check=glue
    python -m tf_transfer.data --check=/data

Compares every file below a folder whose name docs/guides/data.md lists with its
SHA-256 sum there, and names those that differ. Other files are not looked at.
"""

import dataclasses
import os
import pkgutil
from collections.abc import Iterator, Sequence

from tf_transfer.config import command_line
from tf_transfer.config.fields import Fields, setting
from tf_transfer.utils import files, formatting
from tf_transfer.utils.errors import RunError, UserError


@dataclasses.dataclass(frozen=True)
class Settings(Fields):
    """The settings of this command."""

    check: str = setting("", "The folder whose files are compared.")

    def check_settings(self) -> None:
        """Raises `UserError` unless a folder is given."""
        if not self.check:
            raise UserError("--check: give the folder of a data set.")
        if not os.path.isdir(self.check):
            raise UserError(f"--check={self.check}: is no folder.")


def read_sums() -> dict[str, str]:
    """The SHA-256 sums of the data sets' files, by folder and name."""
    content = pkgutil.get_data("tf_transfer.data", "checksums.txt") or b""
    lines = [line.split(maxsplit=1) for line in content.decode().splitlines()]
    return {path: sha256 for sha256, path in lines}


def compare(folder: str) -> Iterator[tuple[str, bool]]:
    """Yields (path, whether it is as expected) of the known files of a folder.

    Args:
        folder: Any folder at or above `CoLA`, `cs224n`, `tweets`, ...
    """
    sums = read_sums()
    for root, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.join(os.path.abspath(root), name)
            for known, sha256 in sums.items():
                if path.endswith(os.path.join(os.sep, known)):
                    yield path, files.sha256(path) == sha256


def check(folder: str) -> None:
    """Prints every known file of a folder, and whether it is as expected.

    Raises:
        UserError: There is none.
        RunError: One differs.
    """
    different, count = [], 0
    for path, is_same in compare(folder):
        count += 1
        print(f"{'as expected' if is_same else 'DIFFERS':11}  {path}")
        different += [] if is_same else [path]
    if not count:
        raise UserError(
            f"--check={folder}: holds no file that docs/guides/data.md lists, "
            "such as CoLA/train.tsv."
        )
    if different:
        raise RunError(
            f"--check={folder}: {formatting.count(len(different), 'file')} of "
            f"{count} not as in docs/guides/data.md: {', '.join(different)}. "
            "Runs on them are of other data."
        )
    print(f"{formatting.count(count, 'file')} as in docs/guides/data.md.")


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flag and compares."""
    command_line.refuse_words(argv)
    check(command_line.from_flags(Settings).resolve().check)


if __name__ == "__main__":
    command_line.command(main, Settings)
