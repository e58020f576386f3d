"""The run directory: the only place that writes one. Needs no TensorFlow.

    config.json   epochs.jsonl   result.json   predictions.npz
    errors.json   depth_profile.json   tensorboard.out.tfevents.*
    checkpoint/   model/

`result.json` is written last: a run that has one is complete. It holds the
hashes of all files that are read again, of the key, and of itself. A file that
was changed, or belongs to another run, is refused.

A finished run stays finished while it is extended: the extension writes its
files below `extension/`. They replace the old ones when its result is written.
"""

import contextlib
import dataclasses
import fcntl
import io
import json
import os
import pathlib
import shutil
import socket
import sys
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from tf_transfer.config.settings import Settings
from tf_transfer.training import checkpoint, results
from tf_transfer.training.checkpoint import Arrays
from tf_transfer.training.record_types import (
    ADVICE,
    Config,
    Epoch,
    ModelFile,
    Profile,
    read_declared,
    read_json,
    START,
)
from tf_transfer.training.results import Result
from tf_transfer.utils import files, json_files, machine, screen
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.json_files import Record

# Files whose hashes `result.json` has, in addition to those of `model/`.
HASHED = (
    "config.json",
    "epochs.jsonl",
    "predictions.npz",
    "depth_profile.json",
    "errors.json",
)
EXTENSION = "extension"  # folder of the files that will replace a result's


class DeviceNames(Protocol):
    """The devices of a run, as in `strategy.Devices`."""

    @property
    def names(self) -> list[str]:
        """The name of each device."""

    @property
    def replicas(self) -> int:
        """The number of replicas that share a batch."""


class RunDirectory:
    """The files of one run; see `run_paths.locate`.

    Attributes:
        path: str.
        key: dict. What makes the run this run.
    """

    def __init__(self, path: str, key: Record | None) -> None:
        self.path = path
        self.key = json.loads(json.dumps(key, default=str))
        self.checkpoints = checkpoint.Checkpoints(
            self.file("checkpoint"), json_files.hash_json(key)
        )
        self._lock = contextlib.ExitStack()
        self._models: dict[str, str] = {}  # hashes, by file
        # The result that this process extends.
        self._finished: Record | None = None

    def file(self, *names: str) -> str:
        """Path of a file in the directory."""
        return os.path.join(self.path, *names)

    def _path_to_read(self, name: str) -> str:
        """Path of a file of the run, or of the extension if that is valid.

        An extension is valid to the process that writes it, and to all once
        it has a result: then a kill has left some files to be moved.
        """
        extended = self.file(EXTENSION, name)
        is_valid = self._finished is not None or files.exists(
            self.file(EXTENSION, "result.json")
        )
        if is_valid and files.exists(extended):
            return extended
        return self.file(name)

    def result(self) -> Record | None:
        """The finished run's result, or None.

        Raises:
            Damaged: The file was changed, or is another run's.
        """
        result = read_json(self._path_to_read("result.json"), Result)
        if result is None:
            return None
        sealed = {n: v for n, v in result.items() if n != "result_sha256"}
        if result["result_sha256"] != json_files.hash_json(sealed):
            raise self._damaged("result.json", "is not as this run wrote it")
        key = self.key or (self.config() or {}).get("key")
        if key and result["key_sha256"] != json_files.hash_json(key):
            raise self._damaged("result.json", "is another run's")
        return result

    def config(self, *declared: type) -> Record | None:
        """The content of `config.json`, or None.

        Args:
            declared: What it has to be in addition to a `Config`.

        Raises:
            Damaged: It is not of these types.
        """
        return read_json(self._path_to_read("config.json"), Config, *declared)

    def epochs(self) -> list[Record]:
        """The lines of `epochs.jsonl`; see `config`."""
        return json_files.read_records(
            self._path_to_read("epochs.jsonl"), Epoch
        )

    def check_file(self, name: str, result: Record | None = None) -> str:
        """Path of a file whose hash is in `result.json`.

        Args:
            name: Such as `predictions.npz`, below the directory.
            result: The finished run's, where it has been read already.

        Raises:
            Damaged: The file is not as this run wrote it.
        """
        if result is None:
            result = self.result() or {"sha256": {}}
        expected = result["sha256"].get(name)
        path = self._path_to_read(name)
        if expected is None:
            raise self._damaged(name, "is not known to this run's result")
        if not files.is_file(path):
            raise self._damaged(name, "is missing")
        if files.sha256(path) != expected:
            raise self._damaged(name, "is not as this run wrote it")
        return path

    def _damaged(self, name: str, problem: str) -> json_files.Damaged:
        path = self.file(*name.split("/"))
        return json_files.Damaged(f"{path}: is damaged ({problem}).\n{ADVICE}")

    def lock(self) -> None:
        """Makes this process the only one that writes here.

        The lock is the kernel's: it ends with the process.

        Raises:
            UserError: Another process has the lock, or the directory belongs
                to another config.
        """
        os.makedirs(self.path, exist_ok=True)
        lock = self._lock.enter_context(files.open_lock(self.file(".lock")))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().decode(errors="replace") or "unknown"
            self.close()
            raise RunError(
                f"{self.path}: another process is using this run ({owner}). "
                "Wait for it, or stop it, or give another --seed or --out."
            ) from None
        self.check_key()
        if lock.read(8) not in (b"", b"process "):
            raise self._damaged(".lock", "is not the lock of a run")
        lock.seek(0)
        lock.truncate()
        lock.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        lock.flush()
        for folder in ("", EXTENSION):
            for name in ("", "checkpoint", "model"):
                files.remove_litter(self.file(folder, name))
        if files.exists(self.file(EXTENSION, "result.json")):
            self._replace_result()

    def is_locked(self) -> bool:
        """Whether a process is writing here now.

        Raises:
            OSError: The disk fails.
        """
        try:
            # Some shared folders lock only files that are opened for writing.
            with files.open_lock(self.file(".lock"), flags=0) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError as error:
            if files.advise(error):
                raise  # the disk fails: waiting would not end
            return True
        return False

    def note_concurrent_runs(self) -> None:
        """Records that more runs share the machine than at the start."""
        config, runs = self.config(), machine.concurrent_runs()
        if runs and config and runs > (config["concurrent_runs"] or 0):
            files.write_json(
                self._path_to_write("config.json"),
                {**config, "concurrent_runs": runs},
            )

    def check_key(self) -> None:
        """Raises `UserError` if the directory belongs to another config."""
        recorded = (self.config() or {}).get("key", self.key)
        if recorded != self.key:
            differing = sorted(
                name
                for name in {*recorded, *self.key}
                if recorded.get(name) != self.key.get(name)
            )
            self.close()
            raise UserError(
                f"{self.path}: belongs to a run with another "
                f"{', '.join(differing)}. Nothing was written; move it away "
                "or give another --out."
            )

    def close(self) -> None:
        """Releases the lock."""
        self._lock.close()

    # === Writing ===

    def begin(
        self,
        settings: Settings,
        devices: DeviceNames,
        parts: dict[str, int],
        split_sizes: dict[str, int],
        details: Record | None = None,
    ) -> None:
        """Locks the directory, and writes `config.json`: what runs, and where.

        Versions, devices and command are those that the run began with;
        `starts` has an entry for every process that has continued it. Prints a
        warning where they differ.

        Args:
            settings: Resolved.
            devices: What runs it.
            parts: Parameters of each component of the model.
            split_sizes: Examples of each split.
            details: Further fields of `config.json`.

        Raises:
            UserError: The run is finished, and has no checkpoint to extend.
        """
        self.lock()
        result = self.result()
        if result is not None:
            self._begin_extension(settings, result)
        screen.say(f"Run directory: {self.path}")
        recorded = self.config() or {}
        now = {
            **(details or {}),
            "parts": parts,
            "devices": devices.names,
            "replicas": devices.replicas,
            **machine.describe_process(),
        }
        if any("CPU" not in name for name in devices.names):
            # A GPU's name determines its speed, on whichever machine.
            now["machine"] = None
            now["versions"] = now["versions"] | machine.gpu_versions()
        versions = recorded.get("versions") or now["versions"]
        changed = [
            name
            for name, version in now["versions"].items()
            if versions.get(name) != version
        ] + [
            name
            for name in ("devices", "threads", "replicas", "git_commit")
            if name in recorded and recorded[name] != now[name]
        ]
        if changed:
            print(
                "Warning: this run was started with another "
                f"{', '.join(changed)}; its numbers may differ from those of "
                "an uninterrupted run.",
                file=sys.stderr,
            )
        files.write_json(
            self._path_to_write("config.json"),
            {
                **now,
                **recorded,
                "split_sizes": {  # the test may be scored by another process
                    **recorded.get("split_sizes", {}),
                    **split_sizes,
                },
                "settings": dataclasses.asdict(settings),
                "approach": settings.approach,
                "key": self.key,
                "starts": [
                    *recorded.get("starts", []),
                    {name: now[name] for name in START},
                ],
            },
        )

    def _begin_extension(self, settings: Settings, result: Record) -> None:
        """Writes below `extension/` from now on, and continues what is there.

        Args:
            settings: As in `begin`.
            result: The finished run's, which stays valid.

        Raises:
            RunError: There is no checkpoint to continue at.
        """
        screen.say(results.describe_extension(settings, result))
        if not results.adds_epochs(settings, result):
            # The test is scored after the epochs of the result alone.
            shutil.rmtree(self.file(EXTENSION), ignore_errors=True)
        self.checkpoints = checkpoint.Checkpoints(
            self.file(EXTENSION, "checkpoint"),
            json_files.hash_json(self.key),
            self.file("checkpoint"),
        )
        if settings.trains and not self.checkpoints.has_intact():
            raise RunError(
                f"{self.path}: is finished, and has no intact checkpoint "
                "to continue from. --rerun runs it again in a new folder."
            )
        os.makedirs(self.file(EXTENSION), exist_ok=True)
        self._finished = result

    def _path_to_write(self, name: str) -> str:
        """Path to write a file of the run, or of the extension, to."""
        if self._finished is None:
            return self.file(name)
        return self.file(EXTENSION, name)

    def _replace_result(self) -> None:
        """Moves the files of a complete extension, `result.json` last.

        After a kill it moves the rest.
        """
        if os.path.isdir(self.file(EXTENSION, "checkpoint")):
            shutil.rmtree(self.file("checkpoint"), ignore_errors=True)
            os.rename(
                self.file(EXTENSION, "checkpoint"), self.file("checkpoint")
            )
        for name in (*HASHED, "result.json"):
            if files.exists(self.file(EXTENSION, name)):
                os.replace(self.file(EXTENSION, name), self.file(name))
        shutil.rmtree(self.file(EXTENSION))

    def write_result(self, result: Record) -> None:
        """Writes `result.json`, last of all.

        Args:
            result: Its content. It gets the hashes of the key, of all files
                and of itself, which show that nothing changed.
        """
        hashes = {
            name: files.sha256(self._path_to_read(name))
            for name in HASHED
            if files.exists(self._path_to_read(name))
        }
        result["key_sha256"] = json_files.hash_json(self.key)
        result["sha256"] = {**hashes, **self._models}
        result["result_sha256"] = json_files.hash_json(result)
        files.write_json(self._path_to_write("result.json"), result)
        if self._finished is not None:
            self._replace_result()
            self._finished = None
            self._remove_models(self._models)

    def write_epochs(self, epochs: list[Record]) -> None:
        """Writes `epochs.jsonl`, one line per evaluation."""
        lines = "".join(json.dumps(epoch) + "\n" for epoch in epochs)
        files.write_atomically(
            self._path_to_write("epochs.jsonl"), lines.encode()
        )

    def predictions(self, result: Record | None = None) -> Arrays:
        """The arrays of `predictions.npz`.

        Args:
            result: See `check_file`.

        Raises:
            Damaged: The file is not as this run wrote it.
            OSError: The disk fails. NumPy itself would take the file for
                damaged.
            ValueError: It is damaged.
        """
        path = self.check_file("predictions.npz", result)
        with files.open_regular(path) as file:
            content = file.read()
        with np.load(io.BytesIO(content)) as arrays:
            return dict(arrays)

    def write_predictions(self, arrays: Arrays) -> None:
        """Writes `predictions.npz`: the same bytes for the same arrays."""
        files.write_atomically(
            self._path_to_write("predictions.npz"),
            compress_arrays(dict(sorted(arrays.items()))),
        )

    def write_profile(self, profile: Profile) -> None:
        """Writes `depth_profile.json`, a `record_types.Profile`."""
        files.write_json(self._path_to_write("depth_profile.json"), profile)

    def profile(self) -> Profile | None:
        """The content of `depth_profile.json`, or None; see `config`."""
        return read_declared(self._path_to_read("depth_profile.json"), Profile)

    def write_errors(self, errors: Record) -> None:
        """Writes `errors.json`: by split, what `error_analysis` describes."""
        files.write_json(self._path_to_write("errors.json"), errors)

    def errors(self) -> Record:
        """The content of `errors.json`; {} without it."""
        return read_json(self._path_to_read("errors.json")) or {}

    # === The selected weights ===

    def write_model(self, name: str, arrays: Arrays) -> ModelFile:
        """Writes weights below `model/`; returns an entry for `read_model`."""
        os.makedirs(self.file("model"), exist_ok=True)
        sha256 = checkpoint.write_arrays(
            self.file("model", f"{name}.safetensors"), arrays
        )
        return {"file": name, "sha256": sha256}

    def read_model(self, entry: ModelFile) -> Arrays:
        """Weights that `write_model` wrote.

        Raises:
            ValueError: Missing or damaged.
        """
        return checkpoint.read_arrays(
            self.file("model", f"{entry['file']}.safetensors"), entry["sha256"]
        )

    def keep_models(self, entries: Sequence[ModelFile]) -> None:
        """Removes every model file but these, and those of a valid result."""
        self._models = {
            f"model/{entry['file']}.safetensors": entry["sha256"]
            for entry in entries
            if entry
        }
        finished = self._finished or {"sha256": {}}
        self._remove_models([*self._models, *finished["sha256"]])

    def _remove_models(self, kept: Collection[str]) -> None:
        """Removes the model files that are not among some files of the run."""
        for path in pathlib.Path(self.file("model")).glob("*"):
            if f"model/{path.name}" not in kept:
                path.unlink()


def compress_arrays(arrays: Arrays) -> bytes:
    """The bytes of a NumPy archive."""
    buffer = io.BytesIO()
    named: Any = arrays
    np.savez_compressed(buffer, **named)
    return buffer.getvalue()
