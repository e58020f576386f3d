"""Reads what a run wrote into its directory."""

import glob
import json
import os

import safetensors.numpy
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util


def finished(**changes):
    """What `result.json` says of a small run, but for some of it."""
    return {
        "task": "rte",
        "metric": "accuracy",
        "approach": "last_1",
        "lr": 1e-3,
        "batch_size": 8,
        "seed": 0,
        "validation": None,
        "test": {"accuracy": 0.5},
        "best_epoch": 1,
        "epochs_run": 1,
        "stop_reason": "patience",
        "phases": [],
        "train_seconds": 1.0,
        "seconds_per_epoch": None,
        "trace_seconds": 0.0,
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        "trainable_parameters": 1,
        "total_parameters": 2,
        **changes,
    }


def phase(epochs):
    """What `result.json` says of a phase of so many epochs."""
    return {
        "trainable_layers": "all",
        "lr": 1e-3,
        "epochs": epochs,
        "seconds": 1.0,
        "stop_reason": "max_epochs",
    }


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def epochs_of(folder):
    with open(os.path.join(folder, "epochs.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def model_of(folder):
    [path] = glob.glob(os.path.join(folder, "model", "*.safetensors"))
    return safetensors.numpy.load_file(path)


def checkpoint_of(folder):
    [path] = glob.glob(os.path.join(folder, "checkpoint", "*.safetensors"))
    return safetensors.numpy.load_file(path)


def scalars_of(folder):
    """What TensorBoard reads of a run: tag to values."""
    events = event_accumulator.EventAccumulator(folder)
    events.Reload()
    return {
        tag: [
            tensor_util.make_ndarray(event.tensor_proto)
            for event in events.Tensors(tag)
        ]
        for tag in events.Tags()["tensors"]
    }
