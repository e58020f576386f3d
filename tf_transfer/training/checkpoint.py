"""Files that survive a kill: written aside, synced, renamed.

A checkpoint is two files: `step-N.safetensors` holds the arrays, and
`step-N.json` the rest of the state and a hash of the arrays. The JSON is
renamed last: it means that the checkpoint is whole. The one before is kept
until the next is whole, and a little longer, in case the disk damages one.
"""

import errno
import hashlib
import json
import os
import re

import safetensors.numpy

from tf_transfer.utils.errors import UserError

KEPT = 2


def write_atomically(path, content):
    """Writes bytes so that `path` is the old file or the whole new one.

    Raises:
        UserError: the disk is full. Nothing is left behind.
    """
    aside = f"{path}.tmp-{os.getpid()}"
    try:
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        _sync_folder(os.path.dirname(path))
    except OSError as error:
        if os.path.exists(aside):
            os.remove(aside)
        raise_if_full(path, error)
        raise


def raise_if_full(path, error):
    """Raises `UserError` if an OSError says that the disk is full."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise UserError(
            f"{path}: the disk is full ({os.strerror(error.errno)}). Free some "
            "space and run the same command again: it continues at the last "
            "good checkpoint."
        ) from error


def write_json(path, value):
    """Writes a JSON file atomically."""
    text = json.dumps(value, indent=2, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def write_arrays(path, arrays):
    """Writes named arrays atomically; returns the sha256 of the file."""
    content = safetensors.numpy.save(arrays)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def read_arrays(path, sha256):
    """The named arrays of a file.

    Args:
        sha256: what `write_arrays` returned; `None` to take what is there.

    Raises:
        ValueError: the file is not there, or not the one that was written.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path}: is damaged")
    return safetensors.numpy.load(content)


class Checkpoints:
    """The checkpoints of a run, newest last.

    Args:
        folder: where they are kept.
    """

    def __init__(self, folder):
        self.folder = folder

    def _steps(self):
        if not os.path.isdir(self.folder):
            return []
        names = (
            re.fullmatch(r"step-(\d+)\.json", name)
            for name in os.listdir(self.folder)
        )
        return sorted(int(match[1]) for match in names if match)

    def _path(self, step, kind):
        return os.path.join(self.folder, f"step-{step:09d}.{kind}")

    def save(self, step, arrays, state):
        """Writes a checkpoint, then drops all but the last two.

        Args:
            step: int that rises from checkpoint to checkpoint.
            arrays: dict of NumPy arrays.
            state: dict that JSON can hold.

        Returns:
            The states that are kept, so that the caller can drop what none
            of them needs.
        """
        os.makedirs(self.folder, exist_ok=True)
        sha256 = write_arrays(self._path(step, "safetensors"), arrays)
        write_json(
            self._path(step, "json"),
            {"sha256": sha256, "state_sha256": _hash(state), "state": state},
        )
        self.keep(KEPT)
        return [self._read_json(step)["state"] for step in self._steps()]

    def keep(self, count):
        """Drops all checkpoints but the last `count`, and what is torn."""
        steps = self._steps()
        wanted = {
            os.path.basename(self._path(step, kind))
            for step in steps[-count:]
            for kind in ("json", "safetensors")
        }
        for name in os.listdir(self.folder):
            if name not in wanted:
                os.remove(os.path.join(self.folder, name))

    def _read_json(self, step):
        with open(self._path(step, "json"), encoding="utf-8") as file:
            return json.load(file)

    def newest(self, warn, remove, also_needs=lambda state: None):
        """Arrays and state of the newest checkpoint that is whole.

        Args:
            warn: function of a line of text, told of damaged ones.
            remove: whether to remove damaged ones, so that they do not pass
                for newer than what is saved next.
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
                if _hash(content["state"]) != content["state_sha256"]:
                    raise ValueError("its state is damaged")
                arrays = read_arrays(
                    self._path(step, "safetensors"), content["sha256"]
                )
                also_needs(content["state"])
                if remove:
                    for damaged in (s for s in steps if s > step):
                        os.remove(self._path(damaged, "json"))
                return arrays, content["state"]
            except (ValueError, TypeError, KeyError, OSError) as error:
                warn(f"Checkpoint at step {step} cannot be used: {error}.")
        if steps:
            raise UserError(
                f"{self.folder}: no checkpoint in it is whole. Remove the "
                "run's folder and run the same command to begin anew."
            )
        return None


def _hash(state):
    text = json.dumps(state, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _sync_folder(folder):
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
