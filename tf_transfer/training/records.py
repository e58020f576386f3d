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
import hashlib
import io
import json
import math
import os
import pathlib
import shutil
import socket
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from tf_transfer.config.settings import Settings
from tf_transfer.training import checkpoint
from tf_transfer.utils import files, json_files, machine, screen
from tf_transfer.utils.errors import UserError

ADVICE = "Restore the file, or remove the folder and run its command again."

# === What the files hold ===

Scores = dict[str, float] | None  # by metric
PhaseResult = TypedDict(
    "PhaseResult",
    {
        "trainable_layers": str,
        "lr": float,
        "epochs": int,
        "seconds": float,
        "stop_reason": str,
    },
)
Result = TypedDict(
    "Result",
    {
        "task": str,
        "metric": str,
        "approach": str,
        "trainable_layers": NotRequired[str | None],
        "lr": float | None,
        "batch_size": int | None,
        "seed": int,
        "validation": Scores,
        "test": Scores,
        "test_last": NotRequired[Scores],
        "best_epoch": int | None,
        "epochs_run": int,
        "stop_reason": str,
        "phases": NotRequired[list[PhaseResult]],
        "train_seconds": float | None,
        "seconds_per_epoch": float | None,
        "trace_seconds": NotRequired[float | None],
        "prefix_seconds": float | None,
        "prefix_build_seconds": float | None,
        "prefix_engine": NotRequired[str | None],
        "seconds_per_text": NotRequired[float],
        "size_on_disk": NotRequired[int],
        "checkpoint_bytes": NotRequired[int | None],
        "trainable_parameters": int | None,
        "total_parameters": int | None,
        "warnings": NotRequired[list[str]],
        "cut_texts": NotRequired[float],  # share of the training texts
        "key_sha256": str,
        "sha256": dict[str, str],
        "result_sha256": str,
    },
)
# One start of a process on the run.
Start = TypedDict(
    "Start",
    {
        "started": str,
        "versions": dict[str, str | None],
        "devices": list[str] | None,
        "threads": int | None,
        "processor": str | None,
        "machine": str | None,
        "concurrent_runs": int | None,
    },
    total=False,
)
START = (  # fields of `Start`, and those for people
    *("started", "host", "command", "git_commit", "versions", "devices"),
    *("threads", "processor", "machine", "concurrent_runs"),
)
Setting = str | int | float | bool | None
Config = TypedDict(
    "Config",
    {
        "key": dict[str, Any],
        "settings": NotRequired[dict[str, Setting]],
        "tasks": NotRequired[dict[str, dict[str, Any]]],
        "parts": NotRequired[dict[str, int]],
        "split_sizes": NotRequired[dict[str, int]],
        "replicas": NotRequired[int | None],
        "git_commit": NotRequired[str | None],
        "starts": NotRequired[list[Start]],
    },
)
# What `predict` needs in addition.
TrainedKey = TypedDict(
    "TrainedKey", {"module": str, "model_identity": NotRequired[str]}
)
TrainedTask = TypedDict(
    "TrainedTask", {"texts": list[str], "labels": list[str] | None}
)
Trained = TypedDict(
    "Trained",
    {
        "key": TrainedKey,
        "settings": dict[str, Setting],
        "tasks": dict[str, TrainedTask],
    },
)
Epoch = TypedDict(
    "Epoch",
    {
        "epoch": int,
        "phase": int,
        "phase_epoch": int,
        "task": NotRequired[str | None],
        "validation": Scores,
        "test": Scores,
        "elapsed_seconds": float | None,
        "trace_seconds": NotRequired[float | None],
        "peak_memory_bytes": NotRequired[int | None],
    },
)
# The probe's score above each block, by cross-validation.
BlockScore = TypedDict(
    "BlockScore",
    {"block": int, "score": float, "standard_error": float, "strength": float},
)
Profile = TypedDict(
    "Profile",
    {
        "metric": str,
        "texts": int,
        "states": str,
        "fold_scores": list[float],
        "blocks_needed": int,
        "blocks": list[BlockScore],
    },
)
# Of a search: its lines, and the path of its run from the search's folder, or
# "" without one.
Answer = TypedDict("Answer", {"lines": list[str], "run": str})

ANSWER = ".search/answer.json"  # in the folder of a search
OUT_OF_TIME = "max_seconds"  # the stop reason of a run that had more to do

# Files whose hashes `result.json` has, in addition to those of `model/`.
HASHED = (
    "config.json",
    "epochs.jsonl",
    "predictions.npz",
    "depth_profile.json",
    "errors.json",
)
EXTENSION = "extension"  # folder of the files that will replace a result's


# === The name of a run ===


def locate(
    settings: Settings,
    experiment: str,
    folders: Sequence[str],
    identities: dict[str, str],
    replicas: int,
) -> "RunDirectory":
    """The directory of a run, known before anything is loaded.

    Its name has the main settings and a hash of its key, which is everything
    that can change a number of the run. With `--rerun` it is the first numbered
    directory next to it without a finished run.

    Args:
        settings: resolved.
        experiment: name of the experiment.
        folders: names between the experiment's folder and the run's.
        identities: of model and data.
        replicas: the number that the batch is spread over.
    """
    key = {
        "module": experiment,
        **settings.hashed(),
        **identities,
        "replicas": replicas,
    }
    name = run_name(settings, key)
    path = os.path.join(settings.out, experiment, *folders, name)
    run, number = RunDirectory(path, key), 2
    while settings.rerun and files.exists(run.file("result.json")):
        run, number = RunDirectory(f"{path}.{number}", key), number + 1
    return run


def describe_extension(settings: Settings, result: dict[str, Any]) -> str:
    """Describes in a line how these settings extend a finished run.

    They may add epochs or score the test; "" if they do neither.
    """
    if _adds_epochs(settings, result):
        return f"Extending a finished run to {settings.max_epochs} epochs."
    if settings.score_test and not result.get("scores_test", True):
        return "Scoring the test with the weights of a finished run."
    return ""


def _adds_epochs(settings: Settings, result: dict[str, Any]) -> bool:
    had_more_to_do = result["stop_reason"] in ("max_epochs", OUT_OF_TIME)
    phases = result.get("phases")
    if not (had_more_to_do and phases):
        return False
    return settings.max_epochs > phases[-1]["epochs"]


def run_name(settings: Settings, key: dict[str, Any]) -> str:
    """The folder name of a run: the main settings, and a hash."""
    return f"{settings.title}-{hash_key(key)[:10]}"


def hash_key(key: dict[str, Any] | None) -> str:
    """The SHA-256 of a run's key."""
    return hashlib.sha256(
        json.dumps(key, sort_keys=True, default=str).encode()
    ).hexdigest()


def summarize(result: dict[str, Any]) -> str:
    """A result in a line."""
    metric = result["metric"]
    kinds = [
        f"{kind} {metric} {result[kind].get(metric, math.nan):.4f}"
        for kind in ("validation", "test")
        if result[kind]
    ]
    if result["best_epoch"] is None:
        when = f"({result['stop_reason']})"
    else:
        when = (
            f"at epoch {result['best_epoch']} of {result['epochs_run']} "
            f"({result['stop_reason']})"
        )
    seconds = result["seconds_per_epoch"]
    return (
        f"{result['task']} {result['approach']}: {', '.join(kinds)} {when}; "
        f"{result['train_seconds']:.1f} s of training"
        + (f", {seconds:.1f} s per epoch" if seconds else "")
        + f"; {result['trainable_parameters']:,} of "
        f"{result['total_parameters']:,} parameters trained"
    )


# === Finding and opening ===


def find_answer(path: str) -> str:
    """The directory of the run that is the answer of a search.

    Args:
        path: of the search's folder. Any other path is returned as it is.

    Raises:
        UserError: no run of the search has ended, or its answer is damaged.
    """
    answer = _read_json(os.path.join(path, ANSWER), Answer)
    if answer is None:
        return path
    if not answer["run"]:
        raise UserError(
            f"--run={path}: is a search without a finished run. Give the "
            "search a larger --budget."
        )
    return os.path.join(path, answer["run"])


class RunDirectory:
    """The files of one run; see `locate`.

    Attributes:
        path: str.
        key: dict. What makes the run this run.
    """

    def __init__(self, path: str, key: dict[str, Any] | None) -> None:
        self.path = path
        self.key = json.loads(json.dumps(key, default=str))
        self.checkpoints = checkpoint.Checkpoints(
            self.file("checkpoint"), hash_key(key)
        )
        self._lock = contextlib.ExitStack()
        self._models: dict[str, str] = {}  # hashes, by file
        # The result that this process extends.
        self._finished: dict[str, Any] | None = None

    def file(self, *names: str) -> str:
        """Path of a file in the directory."""
        return os.path.join(self.path, *names)

    def _find(self, name: str) -> str:
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

    def result(self) -> dict[str, Any] | None:
        """The finished run's result, or None.

        Raises:
            Damaged: the file was changed, or is another run's.
        """
        result = _read_json(self._find("result.json"), Result)
        if result is None:
            return None
        sealed = {n: v for n, v in result.items() if n != "result_sha256"}
        if result["result_sha256"] != hash_key(sealed):
            raise self._damaged("result.json", "is not as this run wrote it")
        key = self.key or (self.config() or {}).get("key")
        if key and result["key_sha256"] != hash_key(key):
            raise self._damaged("result.json", "is another run's")
        return result

    def config(self, *types: Any) -> dict[str, Any] | None:
        """The content of `config.json`, or None.

        Args:
            types: what it has to be in addition to a `Config`.

        Raises:
            Damaged: it is not of these types.
        """
        return _read_json(self._find("config.json"), Config, *types)

    def epochs(self) -> list[dict[str, Any]]:
        """The lines of `epochs.jsonl`; see `config`."""
        return json_files.read_lines(self._find("epochs.jsonl"), Epoch)

    def check_file(
        self, name: str, result: dict[str, Any] | None = None
    ) -> str:
        """Path of a file whose hash is in `result.json`.

        Args:
            name: such as `predictions.npz`, below the directory.
            result: the finished run's, where it has been read already.

        Raises:
            Damaged: the file is not as this run wrote it.
        """
        if result is None:
            result = self.result() or {"sha256": {}}
        expected = result["sha256"].get(name)
        path = self._find(name)
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
            UserError: another process has the lock, or the directory belongs
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
            raise UserError(
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
            OSError: the disk fails.
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
                self._target("config.json"),
                {**config, "concurrent_runs": runs},
            )

    def check_key(self) -> None:
        """Raises `UserError` if the directory belongs to another config."""
        known, own = (self.config() or {}).get("key"), self.key
        if known not in (None, own):
            differing = sorted(
                name
                for name in {*known, *own}
                if known.get(name) != own.get(name)
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
        devices: Any,
        parts: dict[str, int],
        split_sizes: dict[str, int],
        details: dict[str, Any] | None = None,
    ) -> None:
        """Locks the directory, and writes `config.json`: what runs, and where.

        Versions, devices and command are those that the run began with;
        `starts` has an entry for every process that has continued it. Prints a
        warning where they differ.

        Args:
            settings: resolved.
            devices: has `names` and `replicas`.
            parts: parameters of each component of the model.
            split_sizes: examples of each split.
            details: further fields of `config.json`.

        Raises:
            UserError: the run is finished, and has no checkpoint to extend.
        """
        self.lock()
        result = self.result()
        if result is not None:
            self._begin_extension(settings, result)
        screen.say(f"Run directory: {self.path}")
        runs_on_cpu = all("CPU" in name for name in devices.names)
        known = self.config() or {}
        now = {
            **(details or {}),
            "parts": parts,
            "split_sizes": split_sizes,
            "devices": devices.names,
            "replicas": devices.replicas,
            "threads": len(os.sched_getaffinity(0)),
            "processor": machine.processor(),
            # A GPU's name determines its speed, on whichever machine.
            "machine": machine.start_of_machine() if runs_on_cpu else None,
            "concurrent_runs": machine.concurrent_runs(),
            "versions": machine.versions(),
            "git_commit": machine.git_commit(),
            "command": sys.argv,
            "host": socket.gethostname(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        versions = known.get("versions") or now["versions"]
        changed = [
            name
            for name, version in now["versions"].items()
            if versions.get(name) != version
        ] + [
            name
            for name in ("devices", "threads", "replicas", "git_commit")
            if name in known and known[name] != now[name]
        ]
        if changed:
            print(
                "Warning: this run was started with another "
                f"{', '.join(changed)}; its numbers may differ from those of "
                "an uninterrupted run.",
                file=sys.stderr,
            )
        files.write_json(
            self._target("config.json"),
            {
                **now,
                **known,
                "split_sizes": {  # the test may be scored by another process
                    **known.get("split_sizes", {}),
                    **split_sizes,
                },
                "settings": dataclasses.asdict(settings),
                "approach": settings.approach,
                "key": self.key,
                "starts": [
                    *known.get("starts", []),
                    {name: now[name] for name in START},
                ],
            },
        )

    def _begin_extension(
        self, settings: Settings, result: dict[str, Any]
    ) -> None:
        """Writes below `extension/` from now on, and continues what is there.

        Args:
            settings: as in `begin`.
            result: the finished run's, which stays valid.

        Raises:
            UserError: there is no checkpoint to continue at.
        """
        if not _adds_epochs(settings, result):
            # The test is scored after the epochs of the result alone.
            shutil.rmtree(self.file(EXTENSION), ignore_errors=True)
        self.checkpoints = checkpoint.Checkpoints(
            self.file(EXTENSION, "checkpoint"),
            hash_key(self.key),
            self.file("checkpoint"),
        )
        if not self.checkpoints.has_intact():
            raise UserError(
                f"{self.path}: is finished, and has no intact checkpoint "
                "to continue from. --rerun runs it again in a new folder."
            )
        os.makedirs(self.file(EXTENSION), exist_ok=True)
        self._finished = result

    def _target(self, name: str) -> str:
        """The path to write a file to."""
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

    def end(self, result: dict[str, Any]) -> None:
        """Writes `result.json`, last of all, and prints it."""
        for warning in result.get("warnings", []):
            print(f"Warning: {warning}", file=sys.stderr)
        self.write_result(result)
        screen.say(f"{summarize(result)}\nWritten to {self.path}")

    def write_result(self, result: dict[str, Any]) -> None:
        """Writes `result.json` with hashes that show that nothing changed."""
        hashes = {
            name: files.sha256(self._find(name))
            for name in HASHED
            if files.exists(self._find(name))
        }
        result["key_sha256"] = hash_key(self.key)
        result["sha256"] = {**hashes, **self._models}
        result["result_sha256"] = hash_key(result)
        files.write_json(self._target("result.json"), result)
        if self._finished is not None:
            self._replace_result()
            self._finished = None
            self._remove_models(self._models)

    def write_epochs(self, epochs: list[dict[str, Any]]) -> None:
        """Writes `epochs.jsonl`, one line per evaluation."""
        lines = "".join(json.dumps(epoch) + "\n" for epoch in epochs)
        files.write_atomically(self._target("epochs.jsonl"), lines.encode())

    def write_predictions(self, arrays: dict[str, np.ndarray]) -> None:
        """Writes `predictions.npz`: the same bytes for the same arrays."""
        files.write_atomically(
            self._target("predictions.npz"),
            compressed(dict(sorted(arrays.items()))),
        )

    def write_profile(self, profile: dict[str, Any]) -> None:
        """Writes `depth_profile.json`; see `probe.Probe.profile`."""
        files.write_json(self._target("depth_profile.json"), profile)

    def profile(self) -> dict[str, Any] | None:
        """The content of `depth_profile.json`, or None; see `config`."""
        return _read_json(self._find("depth_profile.json"), Profile)

    def write_errors(self, errors: dict[str, Any]) -> None:
        """Writes `errors.json`: by split, what `data.errors` describes."""
        files.write_json(self._target("errors.json"), errors)

    def errors(self) -> dict[str, Any]:
        """The content of `errors.json`; {} without it."""
        return _read_json(self._find("errors.json"), dict[str, Any]) or {}

    # === The selected weights ===

    def write_model(
        self, name: str, arrays: dict[str, np.ndarray]
    ) -> dict[str, Any]:
        """Writes weights below `model/`; returns an entry for `read_model`."""
        os.makedirs(self.file("model"), exist_ok=True)
        sha256 = checkpoint.write_arrays(
            self.file("model", f"{name}.safetensors"), arrays
        )
        return {"file": name, "sha256": sha256}

    def read_model(self, entry: dict[str, Any]) -> dict[str, np.ndarray]:
        """Weights that `write_model` wrote.

        Raises:
            ValueError: missing or damaged.
        """
        return checkpoint.read_arrays(
            self.file("model", f"{entry['file']}.safetensors"), entry["sha256"]
        )

    def keep_models(self, entries: list[dict[str, Any]]) -> None:
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


def load_arrays(path: str) -> dict[str, np.ndarray]:
    """The arrays of a NumPy archive.

    Raises:
        OSError: the disk fails. NumPy itself would take the file for damaged.
        ValueError: it is damaged.
    """
    with files.open_regular(path) as file:
        content = file.read()
    with np.load(io.BytesIO(content)) as arrays:
        return dict(arrays)


def compressed(arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a NumPy archive."""
    buffer = io.BytesIO()
    named: Any = arrays
    np.savez_compressed(buffer, **named)
    return buffer.getvalue()


def _read_json(path: str, *types: Any) -> Any:
    try:
        return json_files.read(path, *types)
    except FileNotFoundError:
        return None
    except json_files.Damaged as error:
        raise json_files.Damaged(f"{error}\n{ADVICE}") from None
