"""The checkpoints of a run, which survive a kill.

A checkpoint is two files: `step-N.safetensors` holds the arrays, and
`step-N.json` the rest of the state and a hash of the arrays. The JSON is
renamed last: it means that the checkpoint is complete. Its own hash covers the
identity of the run: another run's checkpoint counts as damaged. The previous
checkpoint stays until the next is complete, and one save longer, in case the
disk damages one.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import TypedDict

import numpy as np
import safetensors.numpy

from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.json_files import Record

KEPT = 2
Content = TypedDict(
    "Content", {"sha256": str, "state_sha256": str, "state": Record}
)

Arrays = dict[str, np.ndarray]  # by name


def write_arrays(path: str, arrays: Arrays) -> str:
    """Writes named arrays atomically; returns the sha256 of the file."""
    content = safetensors.numpy.save(arrays)
    files.write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def read_arrays(path: str, sha256: str | None) -> Arrays:
    """The named arrays of a file.

    Args:
        path: The file.
        sha256: What `write_arrays` returned; `None` to skip the check.

    Raises:
        ValueError: The file is missing, or not as it was written.
        OSError: The disk fails.
    """
    try:
        with files.open_regular(path) as file:
            content = file.read()
    except OSError as error:
        if files.advise(error):
            error.filename = path
            raise
        raise ValueError(f"{path}: {error.strerror}") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path}: is damaged")
    return safetensors.numpy.load(content)


class Checkpoints:
    """The checkpoints of a run, newest last.

    Args:
        folder: With the checkpoints.
        owner: Identifies the run.
        earlier: Folder with older checkpoints, which are read and stay; ""
            for none.
    """

    def __init__(self, folder: str, owner: str = "", earlier: str = "") -> None:
        self.folder = folder
        self._owner = owner
        self._earlier = earlier

    def _paths(self) -> list[pathlib.Path]:
        """The JSON files of the checkpoints, oldest first."""
        paths = _list_paths(self.folder)
        if self._earlier:
            paths = _list_paths(self._earlier) + paths
        return paths

    def save(self, step: int, arrays: Arrays, state: Record) -> list[Record]:
        """Writes a checkpoint, then removes all but the last two.

        Args:
            step: Int that rises from checkpoint to checkpoint.
            arrays: Dict of NumPy arrays.
            state: Dict that JSON can hold.

        Returns:
            The states that stay, so that the caller can remove files that
            none of them needs.
        """
        os.makedirs(self.folder, exist_ok=True)
        path = pathlib.Path(self.folder, f"step-{step:09d}.json")
        sha256 = write_arrays(str(path.with_suffix(".safetensors")), arrays)
        files.write_json(
            str(path),
            {
                "sha256": sha256,
                "state_sha256": self._hash(sha256, state),
                "state": state,
            },
        )
        self.keep(KEPT)
        states = []
        for path in self._paths():
            with contextlib.suppress(UserError):  # damaged: nothing needs it
                states.append(json_files.read(str(path), Content)["state"])
        return states

    def count_bytes(self) -> int:
        """Size of the newest checkpoint's arrays; 0 without a checkpoint."""
        return sum(
            os.path.getsize(p.with_suffix(".safetensors"))
            for p in self._paths()[-1:]
        )

    def keep(self, count: int) -> None:
        """Removes all but the last `count` checkpoints and their files."""
        kept = {path.stem for path in self._paths()[-count:]}
        for path in pathlib.Path(self.folder).glob("*"):
            if path.stem not in kept:
                path.unlink()

    def clear(self) -> None:
        """Removes all checkpoints: nothing will continue the run."""
        for path in pathlib.Path(self.folder).glob("*"):
            path.unlink()

    def has_intact(self) -> bool:
        """Whether there is a checkpoint that can be used."""
        try:
            return self.newest(repair=False) is not None
        except UserError:
            return False

    def newest(
        self,
        repair: bool,
        also_needs: Callable[[Record], None] = lambda state: None,
    ) -> tuple[Arrays, Record] | None:
        """Arrays and state of the newest intact checkpoint.

        Args:
            repair: Whether to report damaged ones, and to remove them, so
                that they do not pass for newer than what is saved next.
            also_needs: Function of a state that raises ValueError where
                another file that it needs is damaged.

        Returns:
            (arrays, state), or `None` where there is no checkpoint.

        Raises:
            RunError: There are checkpoints, but none is intact.
            OSError: The disk fails, and nothing is known of the checkpoints.
        """
        paths = self._paths()
        for number, path in reversed([*enumerate(paths, 1)]):
            try:
                content = json_files.read(str(path), Content)
                if content["state_sha256"] != self._hash(
                    content["sha256"], content["state"]
                ):
                    raise ValueError("its state is damaged or another run's")
                arrays = read_arrays(
                    str(path.with_suffix(".safetensors")), content["sha256"]
                )
                also_needs(content["state"])
                for damaged in paths[number:] if repair else ():
                    damaged.unlink()
                return arrays, content["state"]
            except (
                json_files.Damaged,
                ValueError,
                TypeError,
                KeyError,
                OSError,
            ) as error:
                if isinstance(error, OSError) and files.advise(error):
                    raise  # the disk fails: the checkpoint may be intact
                reason = str(error).removesuffix(".")
                if repair:
                    print(
                        f"Checkpoint {path.stem} cannot be used: {reason}. "
                        "Falling back to the one before.",
                        file=sys.stderr,
                    )
        if paths:
            raise RunError(
                f"{self.folder}: no checkpoint in it is intact. Remove the "
                "run's folder and run the same command to start again."
            )
        return None

    def _hash(self, sha256: str, state: Record) -> str:
        text = self._owner + sha256 + json.dumps(state)
        return hashlib.sha256(text.encode()).hexdigest()


def _list_paths(folder: str) -> list[pathlib.Path]:
    return sorted(pathlib.Path(folder).glob("step-[0-9]*.json"))
