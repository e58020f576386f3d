"""Run directories with known scores and times, as real runs would write."""

import dataclasses
import json
import os
import sys

import numpy as np

from tf_transfer.data import glue as glue_data
from tf_transfer.glue import experiment as glue
from tf_transfer.training import records, run_paths

ENVIRONMENT = {
    "devices": ["/device:CPU:0"],
    "processor": "a processor",
    "threads": 2,
    "concurrent_runs": 1,
    "replicas": 1,
}
PARAMETERS = {"all": 1000, "4": 400, "3": 300, "2": 200, "1": 100, "0": 3}


def write(
    root,
    scores,
    seconds=10.0,
    environment=None,
    sizes=None,
    predictions=None,
    prefix=None,
    model_identity="tiny 1",
    data_identity=None,
    cls=glue.Settings,
    blocks=2,
    stop_reason="patience",
    metrics=None,
    folds=None,
    tested=100,
    lines=None,
    arrays=None,
    facts=None,
    **changes,
):
    """Writes a finished run; returns its folder.

    Args:
        scores: test score after each epoch; validation is the same.
        seconds: of each epoch.
        environment: what differs from `ENVIRONMENT`.
        sizes: training examples, or a dict of all sizes.
        predictions: (labels, logits) of the test set.
        prefix: (paid, original) seconds of a cached run.
        cls: settings of the module whose run it is.
        blocks: of the encoder.
        metrics: beside the headline one.
        tested: test examples; of 0, the last line is the result.
        folds: metrics of each fold of a baseline, in place of `scores`.
        lines: all of `epochs.jsonl`, in place of `scores`.
        arrays: all of `predictions.npz`, in place of `predictions`.
        facts: of `result.json`, beside the others or in their place.
    """
    settings = cls(
        **{"model": "tiny", "data": "folder", "out": str(root), **changes}
    ).resolve()
    module = _module_of(cls)
    task = getattr(settings, "row", None) or glue_data.TASKS[settings.task]
    identities = {
        "model_identity": model_identity,
        "data_identity": data_identity or f"{task.folder} 1",
    }
    directory = run_paths.locate(
        settings,
        getattr(cls, "module", module.EXPERIMENT.name),
        [task.name, settings.approach],
        identities,
        1,
    )
    folder = directory.path
    number = 2
    while os.path.exists(folder):  # the same run again
        folder = f"{directory.path}.{number}"
        number += 1
    os.makedirs(folder)
    environment = {**ENVIRONMENT, **(environment or {})}
    environment.setdefault(
        "started", f"2026-11-01T00:00:{settings.seed:02}+00:00"
    )
    start = {k: v for k, v in environment.items() if k != "replicas"}
    _json(
        folder,
        "config.json",
        {
            "settings": dataclasses.asdict(settings),
            "key": directory.key,
            "parts": {
                "embeddings": 500,
                "pooler": 20,
                "head": 3,
                **{f"block {n}": 100 for n in range(1, blocks + 1)},
            },
            "split_sizes": sizes
            if isinstance(sizes, dict)
            else {"train": sizes or 1000, "test": tested},
            "git_commit": "0" * 40,
            "versions": {"tensorflow": "2", "keras": "3", "keras-hub": "0"},
            **environment,
            "starts": [start],
        },
    )
    paid, original = prefix or (0.0, 0.0)
    scores = scores or [0.0] * len(lines or [0])
    lines = lines or [
        {
            "epoch": number,
            "phase": 1,
            "phase_epoch": number,
            "validation": {task.metric: score},
            "test": {task.metric: score},
            "elapsed_seconds": paid + seconds * number,
            "peak_memory_bytes": 1000,
        }
        for number, score in enumerate(scores, 1)
    ]
    if folds:
        scores = [np.mean([fold[task.metric] for fold in folds])]
        metrics = {n: float(np.mean([f[n] for f in folds])) for n in folds[0]}
        lines = [
            {**lines[0], "validation": None, "test": fold} for fold in folds
        ]
    with open(os.path.join(folder, "epochs.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    best = int(np.argmax(scores))
    results = {
        "validation": {task.metric: scores[best]},
        "test": {task.metric: scores[best], **(metrics or {})},
        "best_epoch": None if folds else best + 1,
    }
    if not tested:
        results = {
            "validation": lines[-1]["validation"],
            "test": None,
            "best_epoch": lines[-1]["epoch"],
        }
    if predictions:
        labels, logits = predictions
        arrays = {
            "test_ids": np.arange(len(labels)),
            "test_labels": labels,
            "test_logits": logits,
        }
    if arrays:
        np.savez(os.path.join(folder, "predictions.npz"), **arrays)
    records.RunDirectory(folder, directory.key).write_result(
        {
            "task": task.name,
            "metric": task.metric,
            "approach": settings.approach,
            "lr": settings.lr,
            "seed": settings.seed,
            "batch_size": settings.batch_size,
            **results,
            "epochs_run": len(lines),
            "stop_reason": stop_reason,
            "train_seconds": paid + seconds * len(scores),
            "seconds_per_epoch": seconds,
            "trace_seconds": 0.0,
            "prefix_seconds": paid if prefix else None,
            "prefix_build_seconds": original if prefix else None,
            "trainable_parameters": PARAMETERS.get(
                settings.trainable_layers, 500
            ),
            "total_parameters": 1000,
            **(facts or {}),
        }
    )
    return folder


def _json(folder, name, value):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(value, file)


def _module_of(cls):
    """The module of the experiment that a settings class belongs to."""
    modules = (sys.modules[base.__module__] for base in cls.__mro__)
    return next(m for m in modules if hasattr(m, "EXPERIMENT"))
