"""A finished run is extended: it is the old one or the new one."""

import os
import shutil

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.support import run_files
from tests.training.run_directories import begin, write_result
from tf_transfer.training import checkpoint, records
from tf_transfer.utils.errors import UserError


def finish(run, epochs, checkpoints=True):
    """Writes what a run, or its extension, writes at its end."""
    arrays = {"kernel": np.full(2, epochs, np.float32)}
    entry = run.write_model(f"epoch-{epochs}", arrays)
    if checkpoints:
        run.checkpoints.save(epochs, arrays, {"epochs": epochs})
    run.keep_models([entry])
    run.write_epochs([line_of(n) for n in range(1, epochs + 1)])
    run.write_predictions({"test_logits": np.full(3, epochs)})
    run.write_errors({"test": epochs})
    write_result(
        run,
        {
            "epochs_run": epochs,
            "phases": [run_files.phase(epochs)],
            "stop_reason": "max_epochs",
        },
    )


def line_of(epoch):
    return {
        "epoch": epoch,
        "phase": 1,
        "phase_epoch": epoch,
        "validation": None,
        "test": {"accuracy": 0.5},
        "elapsed_seconds": 1.0,
    }


def epochs_of_all_files(path):
    """The numbers of epochs that the files of a run are of."""
    reader = records.RunDirectory(path, None)
    result = reader.result()
    for name in result["sha256"]:
        reader.check_file(name, result)
    [model] = [n for n in result["sha256"] if n.startswith("model/")]
    weights = checkpoint.read_arrays(reader.check_file(model), None)
    with np.load(reader.check_file("predictions.npz")) as arrays:
        return {
            result["epochs_run"],
            reader.config()["settings"]["max_epochs"],
            len(reader.epochs()),
            reader.errors()["test"],
            int(arrays["test_logits"][0]),
            int(weights["kernel"][0]),
        }


@pytest.fixture
def finished(run):
    """A run that has finished 2 epochs."""
    begin(run, tiny_settings("runs", max_epochs=2))
    finish(run, 2)
    return run


def reopen(run, **changes):
    """Another process extends a run."""
    run.close()
    other = records.RunDirectory(run.path, run.key)
    begin(other, tiny_settings("runs", **changes))
    return other


def test_a_run_that_is_extended_is_the_finished_one_until_it_ends(finished):
    run = reopen(finished, max_epochs=3)
    run.write_epochs([line_of(n) for n in (1, 2, 3)])
    entry = run.write_model("epoch-3", {"kernel": np.ones(2, np.float32)})
    run.checkpoints.save(3, {}, {"epochs": 3})
    run.keep_models([entry])
    run.note_concurrent_runs()
    assert epochs_of_all_files(run.path) == {2}
    run = reopen(run, max_epochs=3)
    assert run.checkpoints.newest(repair=True)[1] == {"epochs": 3}
    assert len(run.config()["starts"]) == 3
    finish(run, 3)
    assert epochs_of_all_files(run.path) == {3}
    assert sorted(os.listdir(run.file("checkpoint"))) == [
        "step-000000003.json",
        "step-000000003.safetensors",
    ]
    assert os.listdir(run.file("model")) == ["epoch-3.safetensors"]
    assert not os.path.exists(run.file(records.EXTENSION))
    run.write_errors({"test": 9})  # of the run, which is extended no more
    assert not os.path.exists(run.file(records.EXTENSION))


def test_the_test_is_scored_after_the_epochs_of_the_result(finished):
    run = reopen(finished, max_epochs=3)
    run.checkpoints.save(3, {}, {"epochs": 3})
    run = reopen(run, max_epochs=2)
    assert run.checkpoints.newest(repair=True)[1] == {"epochs": 2}
    finish(run, 2, checkpoints=False)
    assert epochs_of_all_files(run.path) == {2}
    assert run.checkpoints.newest(repair=True)[1] == {"epochs": 2}


@pytest.mark.parametrize(
    "owner, name, count",
    [
        (os, "rename", 1),
        *((os, "replace", count) for count in range(6, 13)),
        (records.shutil, "rmtree", 1),
        (records.shutil, "rmtree", 2),
    ],
)
def test_no_kill_leaves_the_files_of_two_results(
    finished, owner, name, count, monkeypatch
):
    calls = []
    original = getattr(owner, name)

    def die(*arguments, **options):
        calls.append(arguments)
        if len(calls) == count:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    run = reopen(finished, max_epochs=3)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, die)
        with pytest.raises(KeyboardInterrupt):
            finish(run, 3)
    assert epochs_of_all_files(run.path) in ({2}, {3})
    run = reopen(run, max_epochs=4)
    assert epochs_of_all_files(run.path) in ({2}, {3})
    finish(run, 4)
    assert epochs_of_all_files(run.path) == {4}
    assert len(os.listdir(run.file("checkpoint"))) <= 4


def test_without_a_checkpoint_a_finished_run_stays_as_it_is(finished):
    shutil.rmtree(finished.file("checkpoint"))
    with pytest.raises(UserError, match="has no intact checkpoint"):
        reopen(finished, max_epochs=3)
    assert epochs_of_all_files(finished.path) == {2}
