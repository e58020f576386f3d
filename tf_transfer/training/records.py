"""The run directory: the only place that writes one. Needs no TensorFlow.

    config.json   epochs.jsonl   result.json   predictions.npz
    tensorboard.out.tfevents.*        checkpoint/   model/

`result.json` is written last: a run that has one is whole.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import io
import json
import os
import socket
import sys
import time

import numpy as np

from tf_transfer.training import checkpoint
from tf_transfer.training import tensorboard
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

# === The name of a run ===


def run_key(settings, identities, replicas):
    """Everything that can change a number of the run, as a dict.

    Args:
        settings: `settings.Settings`, resolved.
        identities: dict with the identity of `model` and `data`.
        replicas: over how many the batch is spread.
    """
    return {**settings.hashed(), **identities, "replicas": replicas}


def locate(settings, module, folders, identities, replicas):
    """The directory of a run, known before anything is loaded.

    Args:
        settings: `settings.Settings`, resolved.
        module: name of the paper's module.
        folders: names between the module's folder and the run's.
        identities, replicas: see `run_key`.

    Returns:
        `RunDirectory`.
    """
    key = {"module": module, **run_key(settings, identities, replicas)}
    return RunDirectory.find(
        os.path.join(settings.out, module, *folders),
        run_name(settings, key),
        key,
        settings.rerun,
    )


def extends(settings, result):
    """Whether a finished run would go on, for more epochs, with these."""
    return (
        result["stop_reason"] == "max_epochs"
        and settings.max_epochs > result["phases"][-1]["epochs"]
    )


def run_name(settings, key):
    """The folder name of a run: what a person looks for, and a hash."""
    digest = hashlib.sha256(
        json.dumps(key, sort_keys=True, default=str).encode()
    ).hexdigest()
    return f"{settings.title}-{digest[:10]}"


# === Finding and opening ===


class RunDirectory:
    """One run's files.

    Open it with `find`: it says whether the run is done, goes on or begins.

    Attributes:
        path: str.
        key: dict. What makes the run this run.
    """

    def __init__(self, path, key):
        self.path = path
        self.key = key
        self.checkpoints = checkpoint.Checkpoints(self.file("checkpoint"))
        self._lock = None
        self._events = None

    @classmethod
    def find(cls, parent, name, key, rerun):
        """The directory that this command means.

        Without `rerun` that is the one of this name. With it, the newest one
        beside it that is not finished, or the next free one.
        """
        run = cls(os.path.join(parent, name), key)
        number = 2
        while rerun and run.result() is not None:
            run = cls(os.path.join(parent, f"{name}.{number}"), key)
            number += 1
        return run

    def file(self, *names):
        """Path of a file in it."""
        return os.path.join(self.path, *names)

    def result(self):
        """The finished run's result, or None."""
        return _read_json(self.file("result.json"))

    def config(self):
        """What `config.json` says, or None."""
        return _read_json(self.file("config.json"))

    def lock(self):
        """Makes this process the only one that writes here.

        The lock is the kernel's: it dies with the process.

        Raises:
            UserError: another process has it, or it is another config's.
        """
        os.makedirs(self.path, exist_ok=True)
        self._lock = open(self.file(".lock"), "a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            raise UserError(
                f"{self.path}: another process is using this run ({owner}). "
                "Wait for it, or stop it, or give another --seed or --out."
            ) from None
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._lock.flush()
        self.check_key()

    def is_locked(self):
        """Whether a process of this machine is writing here now."""
        try:
            with open(self.file(".lock")) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def note_company(self, runs):
        """Records that more runs share the machine than when it began."""
        config = self.config()
        if runs and config and runs > (config["concurrent_runs"] or 0):
            checkpoint.write_json(
                self.file("config.json"), {**config, "concurrent_runs": runs}
            )

    def check_key(self):
        """Raises `UserError` if what is here belongs to another config."""
        known = self.config()
        if known is not None and known.get("key") != _plain(self.key):
            differing = sorted(
                name
                for name in {*known.get("key", {}), *self.key}
                if known.get("key", {}).get(name) != _plain(self.key).get(name)
            )
            self.close()
            raise UserError(
                f"{self.path}: belongs to a run with another "
                f"{', '.join(differing)}. Nothing was written; move it away "
                "or give another --out."
            )

    def close(self):
        """Lets go of the files."""
        if self._events is not None:
            with contextlib.suppress(OSError):  # a full disk was reported
                self._events.close()
            self._events = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # === Writing ===

    def what_changed(self, details):
        """Names of versions and devices that are not as the run began with."""
        known = self.config() or {}
        then, now = known.get("versions", {}), machine.versions()
        names = [name for name in now if then and then.get(name) != now[name]]
        details = {**details, "git_commit": machine.git_commit()}
        for name in ("devices", "threads", "replicas", "git_commit"):
            if name in known and known[name] != _plain(details[name]):
                names.append(name)
        return names

    def write_config(self, settings, details):
        """Writes `config.json` when a process starts on the run.

        What it says of versions, devices and command is what the run began
        with; `starts` has a line for every process that went on with it.
        """
        known = self.config() or {}
        now = {
            **details,
            "versions": machine.versions(),
            "git_commit": machine.git_commit(),
            "command": sys.argv,
            "host": socket.gethostname(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        start = {
            name: now[name]
            for name in (
                "started",
                "host",
                "command",
                "git_commit",
                "versions",
                "devices",
                "threads",
                "processor",
                "concurrent_runs",
            )
            if name in now
        }
        checkpoint.write_json(
            self.file("config.json"),
            {
                **now,
                **known,
                "settings": dataclasses.asdict(settings),
                "approach": settings.approach,
                "key": _plain(self.key),
                "starts": [*known.get("starts", []), start],
            },
        )

    def write_epochs(self, epochs):
        """Writes `epochs.jsonl`, a line an evaluation."""
        lines = "".join(json.dumps(epoch) + "\n" for epoch in epochs)
        checkpoint.write_atomically(self.file("epochs.jsonl"), lines.encode())

    def write_predictions(self, arrays):
        """Writes `predictions.npz`."""
        checkpoint.write_atomically(
            self.file("predictions.npz"), compressed(arrays)
        )

    def write_result(self, result):
        """Writes `result.json`, last of all."""
        checkpoint.write_json(self.file("result.json"), result)

    def reopen(self):
        """Takes the result away: a finished run is extended."""
        os.remove(self.file("result.json"))

    # === The selected weights ===

    def write_model(self, name, arrays):
        """Writes weights under `model/`; returns what finds them again."""
        os.makedirs(self.file("model"), exist_ok=True)
        path = self.file("model", f"{name}.safetensors")
        return {"file": name, "sha256": checkpoint.write_arrays(path, arrays)}

    def read_model(self, entry):
        """Weights that `write_model` wrote.

        Raises:
            ValueError: missing or damaged.
        """
        path = self.file("model", f"{entry['file']}.safetensors")
        return checkpoint.read_arrays(path, entry["sha256"])

    def keep_models(self, entries):
        """Drops every model file but these."""
        wanted = {f"{entry['file']}.safetensors" for entry in entries if entry}
        if os.path.isdir(self.file("model")):
            for name in os.listdir(self.file("model")):
                if name not in wanted:
                    os.remove(self.file("model", name))

    # === TensorBoard ===

    def start_events(self, step, hyperparameters):
        """Opens an event file; what another one says from `step` on is void.

        Args:
            step: the first step that this process will log; its
                predecessor's points from there on were never saved.
            hyperparameters: dict for TensorBoard's HParams table.
        """
        trial = os.path.basename(self.path)  # else equal ones are merged
        self._events = tensorboard.EventFile(self.path)
        self._events.start(step, hyperparameters, trial)

    def scalar(self, tag, value, step):
        """Logs a number."""
        self._events.scalar(tag, value, step)

    def log_result(self, result, step):
        """Logs HParams' columns; see `tensorboard.RESULT_COLUMNS`."""
        scores = result["test"] or result["validation"]
        values = (
            scores[result["metric"]],
            result["train_seconds"],
            result["seconds_per_epoch"],
            result["trainable_parameters"],
        )
        for tag, value in zip(tensorboard.RESULT_COLUMNS, values):
            if value is not None:
                self.scalar(tag, value, step)
        self.flush()

    def flush(self):
        """Lets TensorBoard see what was logged."""
        try:
            self._events.flush()
        except OSError as error:
            checkpoint.raise_if_full(self.path, error)
            raise


def compressed(arrays):
    """The bytes of a NumPy archive."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _plain(value):
    """As JSON would give it back."""
    return json.loads(json.dumps(value, default=str))


def _read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path}: is damaged ({error}).") from None
