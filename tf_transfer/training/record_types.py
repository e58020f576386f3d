"""The types of a run's files, apart from its result, and a search's answer.

A file may have other keys in addition; see `json_files`.
"""

from typing import NotRequired, TypedDict, TypeVar

from tf_transfer.config.fields import Setting
from tf_transfer.training.results import Scores
from tf_transfer.utils import json_files
from tf_transfer.utils.json_files import Record

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
Config = TypedDict(
    "Config",
    {
        "key": Record,
        "settings": NotRequired[dict[str, Setting]],
        "tasks": NotRequired[dict[str, Record]],
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
        "fold_scores": NotRequired[list[float]],
        # In the same folds, of half of their training texts.
        "half_scores": NotRequired[list[float]],
        "blocks_needed": int,
        "blocks": list[BlockScore],
    },
)
# A file below `model/`, without its folder and extension.
ModelFile = TypedDict("ModelFile", {"file": str, "sha256": str})
# Of a search: its lines, its table, and the path of its run from the search's
# folder, or "" without one.
Answer = TypedDict(
    "Answer", {"lines": list[str], "table": list[dict[str, str]], "run": str}
)

T = TypeVar("T")
ADVICE = "Restore the file, or remove the folder and run its command again."


def read_declared(path: str, declared: type[T]) -> T | None:
    """The content of a JSON file, of a declared type, or None."""
    try:
        return json_files.read(path, declared)
    except FileNotFoundError:
        return None
    except json_files.Damaged as error:
        raise json_files.Damaged(f"{error}\n{ADVICE}") from None


def read_json(path: str, *declared: type) -> Record | None:
    """The object in a JSON file or None; see `json_files.read_record`."""
    try:
        return json_files.read_record(path, *declared)
    except FileNotFoundError:
        return None
    except json_files.Damaged as error:
        raise json_files.Damaged(f"{error}\n{ADVICE}") from None
