"""Short runs that differ by a flag, and which flags have such a test."""

import json
import os

import numpy as np

from tests.conftest import run_folder, tiny_settings
from tf_transfer.glue import experiment as glue

# The run that every other is compared with: 16 examples in four steps an epoch.
BASE = {
    "task": "sst2",
    "trainable_layers": "0",
    "max_train_examples": 16,
    "batch_size": 4,
}

SAME = 1e-5  # what two runs of one command may differ by

# Only dropout tells a live prefix from a cached one, where none is rounded.
CACHED = {"frozen_prefix": "cached", "cache_dtype": "float32"}


SHOWN = set()  # flags that a test is about


def shows(*names):
    """Records which flags a test is about."""

    def note(test):
        SHOWN.update(names)
        return test

    return note


def run(out, **changes):
    """A run's folder."""
    settings = tiny_settings(out, **{**BASE, **changes})
    glue.run(settings)
    return run_folder(settings)


def numbers(folder):
    """What a run computed: the loss of each epoch, every logit."""
    with open(os.path.join(folder, "epochs.jsonl")) as file:
        losses = [json.loads(line)["train_loss"] for line in file]
    arrays = np.load(os.path.join(folder, "predictions.npz"))
    return {
        "losses": np.asarray(losses),
        **{name: arrays[name] for name in arrays if name.endswith("logits")},
    }


def differ(one, other):
    return any(
        one[name].shape != other[name].shape
        or np.abs(one[name] - other[name]).max() > SAME
        for name in one
    )
