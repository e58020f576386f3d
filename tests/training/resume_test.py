"""A killed run continues as if it had not been killed."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

from tests.conftest import run_folder
from tests.conftest import tiny_settings
from tf_transfer import glue

# Each step is its own chunk, so that a kill can fall inside an epoch, and a
# checkpoint follows each.
SETTINGS = {
    "deterministic": True,
    "max_epochs": 3,
    "patience": 0,
    "checkpoint_minutes": 1e-9,
    "trainable_layers": "2",
}

# Runs a tiny run and kills itself, as kill -9 does, at a chosen moment.
VICTIM = """
import os, signal, sys
from tf_transfer.training import checkpoint, loop, records
from tf_transfer import glue
from tests.conftest import tiny_settings

loop.LONGEST_CHUNK = 1
owner, name, count, after = {moment!r}
owner = {{"checkpoint": checkpoint, "records": records.RunDirectory}}[owner]
original = getattr(owner, name)
calls = []

def deadly(*arguments, **options):
    calls.append(arguments)
    if len(calls) == count and after:
        original(*arguments, **options)
    if len(calls) == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **options)

setattr(owner, name, deadly)
glue.run(tiny_settings({out!r}, **{settings!r}))
"""

MOMENTS = {
    "inside the first epoch": ("checkpoint", "write_json", 3, True),
    "inside the second epoch": ("checkpoint", "write_json", 9, True),
    "when the arrays of a checkpoint are written, but not its JSON": (
        "checkpoint",
        "write_json",
        8,
        False,
    ),
    "between the selected weights and the checkpoint": (
        "records",
        "write_model",
        1,
        True,
    ),
    "when all is trained, but no result written": (
        "records",
        "write_result",
        1,
        False,
    ),
}


def what_a_run_left(folder):
    """All that must not depend on a kill: numbers, weights, predictions."""
    with open(os.path.join(folder, "result.json")) as file:
        result = json.load(file)
    with open(os.path.join(folder, "epochs.jsonl")) as file:
        epochs = [json.loads(line) for line in file]
    for record in [result, *epochs, *result["phases"]]:
        for key in list(record):
            if "second" in key or "memory" in key:
                del record[key]
    [name] = os.listdir(os.path.join(folder, "model"))
    weights = safetensors.numpy.load_file(os.path.join(folder, "model", name))
    predictions = dict(np.load(os.path.join(folder, "predictions.npz")))
    return result, epochs, weights, predictions


def assert_same(one, other):
    assert one[0] == other[0]
    assert one[1] == other[1]
    for arrays, others in zip(one[2:], other[2:]):
        assert arrays.keys() == others.keys()
        for name in arrays:
            np.testing.assert_array_equal(arrays[name], others[name], name)


def start(code):
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the run leaves when nobody kills it."""
    settings = tiny_settings(tmp_path_factory.mktemp("left_alone"), **SETTINGS)
    glue.run(settings)
    return what_a_run_left(run_folder(settings))


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
def test_a_run_killed_at_any_moment_ends_bit_equal(
    moment, undisturbed, tmp_path
):
    settings = tiny_settings(tmp_path / "runs", **SETTINGS)
    process = start(
        VICTIM.format(moment=moment, out=settings.out, settings=SETTINGS)
    )
    output = process.communicate()[0]
    assert process.returncode == -signal.SIGKILL, output
    folder = run_folder(settings)
    assert not os.path.exists(os.path.join(folder, "result.json"))
    glue.run(settings)
    assert_same(what_a_run_left(folder), undisturbed)
