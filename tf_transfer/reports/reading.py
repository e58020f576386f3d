"""Run directories to run records: what a report knows of each run.

A record is plain data, so that a report can be made again from its stored
summary. A directory that is not whole is left out, with the reason.
"""

import json
import os
import zipfile
import zlib

import numpy as np

from tf_transfer.data import metrics
from tf_transfer.training import records
from tf_transfer.training.progress import SAMPLE
from tf_transfer.utils.errors import UserError

# What may differ between runs that are set side by side; everything else of
# the key says that they belong to different studies.
APPROACH = ("trainable_layers", "blocks", "lr", "frozen_prefix", "cache_dtype")
DATASET = ("task", "data_identity")
TURN = ("turn", "validation")  # what is kept of a turn
COMPANY = ("processor", "devices", "threads", "concurrent_runs", "replicas")


class LeftOut(Exception):
    """Why a directory is not in the report."""


def read(root):
    """The records below a folder, and what is left out.

    Returns:
        (list of dicts, list of (path, reason)), by path.

    Raises:
        UserError: no such folder.
    """
    if not os.path.isdir(root):
        raise UserError(f"{root}: no such folder. Give the --out of your runs.")
    found, left_out, owners = [], [], {}
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(n for n in folders if not n.startswith("."))
        if "config.json" not in files and "result.json" not in files:
            continue
        folders.clear()
        path = os.path.relpath(folder, root)
        try:
            record = read_run(folder, path)
            # The most epochs may stand in no key, yet make another run.
            key = json.dumps(
                [record["key"], record["max_epochs"]], sort_keys=True
            )
            if key in owners:
                raise LeftOut(f"is the same run as {owners[key]}")
            owners[key] = path
            found.append(record)
        except LeftOut as reason:
            left_out.append((path, str(reason)))
    return found, left_out


def read_run(folder, path):
    """The record of one run directory.

    Raises:
        LeftOut: it is broken, not finished, or of another version.
    """
    directory = records.RunDirectory(folder, None)
    try:
        config, result = directory.config(), directory.result()
    except UserError as error:
        raise LeftOut(f"is damaged: {os.path.basename(_file(error))}") from None
    except OSError as error:
        raise LeftOut(f"cannot be read: {error.strerror}") from None
    if config is None:
        raise LeftOut("has no config.json")
    if result is None:
        raise LeftOut("is not finished")
    try:
        with open(directory.file("epochs.jsonl"), encoding="utf-8") as file:
            epochs = [json.loads(line) for line in file]
    except FileNotFoundError:
        raise LeftOut("has no epochs.jsonl") from None
    except (OSError, ValueError):
        raise LeftOut("is damaged: epochs.jsonl") from None
    try:
        return _record(config, result, epochs, path)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise LeftOut(
            f"is of another version: {type(error).__name__} {error}"
        ) from None


def _file(error):
    return str(error).split(":")[0]


def _record(config, result, epochs, path):
    key, metric = config["key"], result["metric"]
    cached = result["prefix_seconds"] is not None

    def score(scores):
        return scores[metric] if scores else None

    if not epochs:
        raise KeyError("no epoch")
    starts = config["starts"]
    company = {name: config.get(name) for name in COMPANY}
    mixed = any(
        start[name] != company[name]
        for start in starts
        for name in COMPANY
        if name in start
    )
    return {
        "path": path,
        "module": key["module"],
        "task": result["task"],
        "metric": metric,
        "approach": result["approach"],
        "cached": cached,
        "lr": float(result["lr"] or 0),  # none without an encoder
        "seed": result["seed"],
        "key": key,
        "max_epochs": config["settings"]["max_epochs"],
        "model": config["settings"]["model"],
        "data": config["settings"]["data"],
        "parts": config["parts"],
        "blocks": sum(part.startswith("block ") for part in config["parts"]),
        "company": {**company, "mixed": mixed},
        "commit": config["git_commit"],
        "versions": config["versions"],
        "sizes": config["split_sizes"],
        "epochs": [
            {
                "validation": score(line["validation"]),
                "test": score(line["test"]),
                "seconds": float(line["elapsed_seconds"]),
            }
            for line in _ends_of_epochs(epochs)
        ],
        "turns": [
            {name: line[name] for name in TURN}
            for line in epochs
            if line.get("turn")
            and result["phases"][line["phase"] - 1]["trainable_layers"]
            != "head"  # of heads there may be hundreds, and nobody asks
        ],
        "phases": result.get("phases", []),
        "curve": [
            _point(line, {"accuracy", metric})
            for line in epochs
            if f"{SAMPLE}{metric}" in (line["validation"] or {})
        ],
        "folds": None
        if result["best_epoch"]
        else [line["test"] for line in epochs],
        "validation": score(result["validation"]),
        "test": score(result["test"]),
        "metrics": result["test"] or result["validation"],
        "epochs_run": result["epochs_run"],
        "best_epoch": result["best_epoch"],
        "stop_reason": result["stop_reason"],
        "seconds": float(result["train_seconds"]),
        "seconds_per_epoch": result["seconds_per_epoch"],
        "prefix_seconds": result["prefix_seconds"],
        "prefix_build_seconds": result["prefix_build_seconds"],
        "trainable_parameters": int(result["trainable_parameters"]),
        "total_parameters": int(result["total_parameters"]),
        "memory": max(
            (line["peak_memory_bytes"] or 0 for line in epochs), default=0
        ),
    }


def _point(line, metrics):
    """What of a curve over epochs, on training sample and validation."""
    scores = {
        name: value
        for name, value in line["validation"].items()
        if name.removeprefix(SAMPLE) in metrics
    }
    return {"phase": line["phase"], "epoch": line["phase_epoch"], **scores}


def _ends_of_epochs(lines):
    """The line of each epoch, or its last where objectives took turns.

    Only after the last turn may an epoch be selected.
    """
    following = [*lines[1:], None]
    return [
        line
        for line, after in zip(lines, following)
        if not line.get("turn")
        or after is None
        or after["epoch"] != line["epoch"]
    ]


def study_of(record):
    """What a run shares with the runs that it may be compared with.

    The most epochs belong to it, though a run's key may not have them: a run
    that was cut off is not one that stopped by itself.
    """
    shared = {
        name: value
        for name, value in record["key"].items()
        if name not in (*APPROACH, *DATASET, "seed")
    }
    return {**shared, "max_epochs": record["max_epochs"]}


# === Predictions ===


class Predictions:
    """Reads labels and outputs of runs.

    Args:
        root: the folder that the records' paths start from.

    Attributes:
        damaged: paths of runs whose predictions could not be read.
    """

    def __init__(self, root):
        self.root = root
        self.damaged = set()

    def test(self, record, half=""):
        """(ids, labels, outputs) of a run's test set, or None.

        Outputs are the chosen label ids, or scores where there are no labels.

        Args:
            half: `mismatched_` for MNLI's other test set.
        """
        found = self.logits(record, half)
        if found is None:
            return None
        ids, labels, logits = found
        is_score = np.issubdtype(labels.dtype, np.floating)
        return ids, labels, logits[:, 0] if is_score else metrics.decide(logits)

    def logits(self, record, half=""):
        """(ids, labels, logits) of a run's test set, or None; see `test`."""

        def read(arrays):
            if f"test_{half}ids" not in arrays:
                return None  # nothing was tested
            return [
                arrays[f"test_{half}{name}"]
                for name in ("ids", "labels", "logits")
            ]

        return self._read(record, read)

    def validation_labels(self, record, tasks):
        """Dict from each task of a run of several to its labels, or None."""
        return self._read(
            record,
            lambda arrays: {
                task: arrays[f"validation_{task}_labels"] for task in tasks
            },
        )

    def _read(self, record, read):
        """What a function makes of a run's arrays; None of none."""
        path = os.path.join(self.root, record["path"], "predictions.npz")
        try:
            with np.load(path) as arrays:
                return read(arrays)
        except FileNotFoundError:
            return None
        except (
            OSError,
            ValueError,
            KeyError,
            EOFError,
            zipfile.BadZipFile,
            zlib.error,
        ):
            self.damaged.add(record["path"])
            return None


def majority(metric, labels):
    """What the commonest answer scores; 0 where an order is asked for."""
    if np.issubdtype(labels.dtype, np.floating):
        return 0.0
    values, counts = np.unique(labels, return_counts=True)
    commonest = values[counts.argmax()]
    logits = np.eye(int(max(values.max(), 1)) + 1)[
        np.full(len(labels), commonest)
    ]
    return metrics.METRICS[metric](labels, logits)
