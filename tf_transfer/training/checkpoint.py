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
import re
import sys
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
import safetensors.numpy

from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError

KEPT = 2
Content = TypedDict(
    "Content", {"sha256": str, "state_sha256": str, "state": dict[str, Any]}
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
        sha256: what `write_arrays` returned; `None` to skip the check.

    Raises:
        ValueError: the file is missing, or not as it was written.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path}: is damaged")
    return safetensors.numpy.load(content)


class Checkpoints:
    """The checkpoints of a run, newest last.

    Args:
        folder: with the checkpoints.
        owner: identifies the run.
    """

    def __init__(self, folder: str, owner: str = "") -> None:
        self.folder = folder
        self._owner = owner

    def _steps(self) -> list[int]:
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else ()
        matches = (re.fullmatch(r"step-(\d+)\.json", name) for name in names)
        return sorted(int(match[1]) for match in matches if match)

    def _path(self, step: int, kind: str) -> str:
        return os.path.join(self.folder, f"step-{step:09d}.{kind}")

    def save(
        self, step: int, arrays: Arrays, state: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Writes a checkpoint, then removes all but the last two.

        Args:
            step: int that rises from checkpoint to checkpoint.
            arrays: dict of NumPy arrays.
            state: dict that JSON can hold.

        Returns:
            The states that stay, so that the caller can remove files that
            none of them needs.
        """
        os.makedirs(self.folder, exist_ok=True)
        sha256 = write_arrays(self._path(step, "safetensors"), arrays)
        files.write_json(
            self._path(step, "json"),
            {
                "sha256": sha256,
                "state_sha256": self._hash(sha256, state),
                "state": state,
            },
        )
        self.keep(KEPT)
        states = []
        for kept in self._steps():
            with contextlib.suppress(UserError):  # damaged: nothing needs it
                states.append(self._read_json(kept)["state"])
        return states

    def count_bytes(self) -> int:
        """Size of the newest checkpoint's arrays; 0 without a checkpoint."""
        return sum(
            os.path.getsize(self._path(step, "safetensors"))
            for step in self._steps()[-1:]
        )

    def keep(self, count: int) -> None:
        """Removes all but the last `count` checkpoints and their files."""
        steps = self._steps()
        wanted = {
            os.path.basename(self._path(step, kind))
            for step in steps[-count:]
            for kind in ("json", "safetensors")
        }
        for name in os.listdir(self.folder):
            if name not in wanted:
                os.remove(os.path.join(self.folder, name))

    def _read_json(self, step: int) -> dict[str, Any]:
        return json_files.read(self._path(step, "json"), Content)

    def has_whole(self) -> bool:
        """Whether there is a checkpoint that can be used."""
        try:
            return self.newest(repair=False) is not None
        except UserError:
            return False

    def newest(
        self,
        repair: bool,
        also_needs: Callable[[dict[str, Any]], None] = lambda state: None,
    ) -> tuple[Arrays, dict[str, Any]] | None:
        """Arrays and state of the newest checkpoint that is whole.

        Args:
            repair: whether to report damaged ones, and to remove them, so
                that they do not pass for newer than what is saved next.
            also_needs: function of a state that raises ValueError where
                another file that it needs is damaged.

        Returns:
            (arrays, state), or `None` where there is no checkpoint.

        Raises:
            UserError: there are checkpoints, but none is whole.
        """
        steps = self._steps()
        for step in reversed(steps):
            try:
                content = self._read_json(step)
                expected = self._hash(content["sha256"], content["state"])
                if content["state_sha256"] != expected:
                    raise ValueError("its state is damaged or another run's")
                arrays = read_arrays(
                    self._path(step, "safetensors"), content["sha256"]
                )
                also_needs(content["state"])
                for damaged in (s for s in steps if repair and s > step):
                    os.remove(self._path(damaged, "json"))
                return arrays, content["state"]
            except (
                json_files.Damaged,
                ValueError,
                TypeError,
                KeyError,
                OSError,
            ) as error:
                reason = str(error).removesuffix(".")
                if repair:
                    print(
                        f"Checkpoint at step {step} cannot be used: {reason}. "
                        "Falling back to the one before.",
                        file=sys.stderr,
                    )
        if steps:
            raise UserError(
                f"{self.folder}: no checkpoint in it is whole. Remove the "
                "run's folder and run the same command to begin anew."
            )
        return None

    def _hash(self, sha256: str, state: dict[str, Any]) -> str:
        text = self._owner + sha256 + json.dumps(state, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
