"""A killed run continues as if it had not been killed."""

import json
import os
import signal
import types

import numpy as np
import pytest
import safetensors.numpy

from tests.conftest import run_folder, tiny_settings
from tf_transfer import experiment
from tf_transfer.reports import reading

# A checkpoint follows each step.
SETTINGS = {
    "deterministic": True,
    "max_epochs": 3,
    "patience": 0,
    "checkpoint_minutes": 1e-9,
    "trainable_layers": "1",
    "max_length": 16,
    "max_train_examples": 24,
}

# Name of a function, which of its calls is deadly, and whether it still
# happens. Each epoch ends with `config.json`'s concurrent runs, maybe, so
# JSON files of checkpoints are counted.
MOMENTS = {
    "inside the second epoch": ("save", 6, True),
    "inside the first epoch": ("save", 2, True),
    "when the arrays of a checkpoint are written, but not its JSON": (
        "write_json",
        5,
        False,
    ),
    "between the selected weights and the checkpoint": ("write_model", 1, True),
    "when all is trained, but no result is written": (
        "write_result",
        1,
        False,
    ),
}


def train(out, moment=None, changes=types.MappingProxyType({})):
    """Runs in a process of its own, which may kill itself as kill -9 does.

    Args:
        out: folder of the runs.
        moment: one of `MOMENTS`.
        changes: of the settings.
    """
    from tf_transfer.glue import experiment as glue
    from tf_transfer.models import tiny
    from tf_transfer.training import checkpoint, records, steps

    tiny.BLOCKS = 1
    steps.LONGEST_CHUNK = 1  # so that a kill can fall inside an epoch
    if moment:
        name, count, happens = MOMENTS[moment]
        owner = {
            "save": checkpoint.Checkpoints,
            "write_json": checkpoint.files,
        }.get(name, records.RunDirectory)
        kill_at(owner, name, count, happens)
    glue.run(tiny_settings(out, **SETTINGS | changes))


def kill_at(owner, name, count, happens):
    """Makes a call of a function the last thing that this process does."""
    original = getattr(owner, name)
    calls = []

    def deadly(*arguments, **options):
        calls.append(arguments)
        if len(calls) < count or happens:
            result = original(*arguments, **options)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


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
    del result["result_sha256"]
    for timed in ("config.json", "epochs.jsonl"):
        del result["sha256"][timed]
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


def assert_killed_and_resumed_as_undisturbed(moment, forks, folder):
    def run(name, moment=None):
        out = os.path.join(folder, name)
        case = forks.start(train, out, moment, folder=folder)
        return case.finish(), out

    (code, *output), out = run("killed", moment)
    assert code == -signal.SIGKILL, output
    killed = run_folder(tiny_settings(out, **SETTINGS))
    assert not os.path.exists(os.path.join(killed, "result.json"))
    (code, *output), out = run("killed")
    assert code == 0, output
    assert "Continuing at epoch" in output[0]
    undisturbed = os.path.join(folder, "..", "undisturbed")
    if not os.path.exists(undisturbed):
        (code, *output), _ = run(os.path.join("..", "undisturbed"))
        assert code == 0, output
    expected = run_folder(tiny_settings(undisturbed, **SETTINGS))
    assert_same(what_a_run_left(killed), what_a_run_left(expected))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("resume")


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_at_any_moment_ends_bit_equal(moment, forks, folder):
    path = folder / moment.replace(" ", "_")
    path.mkdir()
    assert_killed_and_resumed_as_undisturbed(moment, forks, str(path))


@pytest.mark.slow
def test_a_run_killed_while_it_is_extended_is_the_finished_one(forks, folder):
    def run(moment, max_epochs):
        changes = {"max_epochs": max_epochs, "select": "last"}
        case = forks.start(train, out, moment, changes, folder=path)
        return case.finish()

    path = str(folder / "extended")
    os.mkdir(path)
    out = os.path.join(path, "runs")
    code, *output = run(None, 1)
    assert code == 0, output
    killed = run_folder(tiny_settings(out, **SETTINGS))
    finished = what_a_run_left(killed)
    code, *output = run("when all is trained, but no result is written", 3)
    assert code == -signal.SIGKILL, output
    assert len(os.listdir(os.path.join(killed, "model"))) == 2
    [record], left_out = reading.read_runs(out)
    assert (record.epochs_run, left_out) == (1, [])
    predictor = experiment.open_run(killed).predictor()
    weight = predictor.network.weights[-1]
    np.testing.assert_array_equal(weight, finished[2][weight.path])
    code, *output = run(None, 1)
    assert output[0].startswith("Already done: ")
    code, *output = run(None, 3)
    assert code == 0, output
    assert "Extending a finished run to 3 epochs." in output[0]
    assert "Continuing at epoch 4" in output[0]
    result, epochs, _, _ = what_a_run_left(killed)
    assert result["epochs_run"] == len(epochs) == 3
    assert epochs[:1] == finished[1]
