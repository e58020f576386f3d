"""Reads what a run wrote into its directory."""

import glob
import json
import os

import safetensors.numpy
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util


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
