"""A run directory: its owner, its files, and a finished run's extension."""

import json
import os
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.support import run_files
from tf_transfer.training import checkpoint, records
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

KEY = {"module": "glue", "lr": 1e-3, "dropout": 0.1, "seed": 0}


@pytest.fixture
def run(tmp_path):
    """A run directory that this process has locked."""
    found = records.RunDirectory(str(tmp_path / "run"), KEY)
    found.lock()
    yield found
    found.close()


def write_result(run, result):
    run.write_result(run_files.finished(**result))


def begin(run, settings, parts=None, split_sizes=None, device="CPU:0"):
    """Begins a run that may be open already."""
    run.close()
    devices = types.SimpleNamespace(names=[device], replicas=1, workers=1)
    run.begin(settings, devices, parts or {}, split_sizes or {})


# === One owner ===

OWNER = """
import sys
from tf_transfer.training import records
run = records.RunDirectory({path!r}, {{}})
run.lock()
print("locked", flush=True)
sys.stdin.read()
"""


def test_two_processes_cannot_have_a_run_and_a_dead_one_has_none(tmp_path):
    path = str(tmp_path / "run")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(path=path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout.readline() == "locked\n"
        run = records.RunDirectory(path, {})
        with pytest.raises(UserError) as error:
            run.lock()
        for words in (path, "another process", f"process {owner.pid} on "):
            assert words in str(error.value)
    finally:
        owner.kill()
        owner.communicate()
    run.lock()
    run.close()


def test_a_closed_run_is_free(run):
    other = records.RunDirectory(run.path, run.key)
    with pytest.raises(UserError, match="another process"):
        other.lock()
    run.close()
    other.lock()
    other.close()


@pytest.mark.parametrize(
    "key, differing",
    [
        ({**KEY, "lr": 0.5}, "lr"),
        ({**KEY, "dropout": 0.5, "seed": 7}, "dropout, seed"),
        (
            {**KEY, "schedule": "linear", "max_epochs": 9},
            "max_epochs, schedule",
        ),
    ],
)
def test_the_folder_of_another_config_is_refused(run, key, differing):
    begin(run, tiny_settings("runs"))
    run.close()
    with open(run.file("config.json"), "rb") as file:
        before = file.read()
    other = records.RunDirectory(run.path, key)
    with pytest.raises(UserError, match=f"with another {differing}\\."):
        other.lock()
    with open(run.file("config.json"), "rb") as file:
        assert file.read() == before
    run.lock()  # its own config opens it again


# === Files ===


def test_the_config_says_what_ran(run):
    begin(run, tiny_settings("runs", lr=0.5), {"pooler": 7}, {"train": 3})
    config = run.config()
    assert config["parts"] == {"pooler": 7}
    assert config["split_sizes"] == {"train": 3}
    assert config["settings"]["lr"] == 0.5
    assert config["key"] == json.loads(json.dumps(run.key))
    assert config["devices"] == ["CPU:0"]
    assert {"python", "tensorflow", "keras"} <= config["versions"].keys()
    assert {"approach", "git_commit", "command", "host"} <= config.keys()


def test_epochs_are_a_line_each(run):
    epochs = [{"epoch": 1, "validation": {"accuracy": 0.5}}, {"epoch": 2}]
    run.write_epochs(epochs)
    with open(run.file("epochs.jsonl")) as file:
        assert [json.loads(line) for line in file] == epochs


def test_predictions_come_back(run):
    run.write_predictions({"test_logits": np.eye(3, dtype=np.float32)})
    with np.load(run.file("predictions.npz")) as arrays:
        np.testing.assert_array_equal(arrays["test_logits"], np.eye(3))


def test_only_the_model_files_that_are_needed_are_kept(run):
    arrays = {"kernel": np.ones(2, np.float32)}
    entries = [run.write_model(f"epoch-{n}", arrays) for n in (1, 2, 3)]
    run.keep_models([entries[1], None])
    assert os.listdir(run.file("model")) == ["epoch-2.safetensors"]
    np.testing.assert_array_equal(run.read_model(entries[1])["kernel"], [1, 1])
    with pytest.raises(ValueError, match="No such file"):
        run.read_model(entries[0])


def test_a_damaged_result_is_named(run):
    with open(run.file("result.json"), "w") as file:
        file.write("{")
    with pytest.raises(UserError, match=r"result\.json: is damaged"):
        run.result()


# === Extending a finished run ===


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
    """Another process goes on with a run."""
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


@pytest.mark.parametrize("name, is_told", [("CPU:0", True), ("GPU:0", False)])
def test_a_config_tells_machines_apart_whose_processors_compute(
    run, name, is_told
):
    begin(run, tiny_settings("runs"), device=name)
    config = run.config()
    told = machine.start_of_machine() if is_told else None
    assert config["machine"] == config["starts"][0]["machine"] == told
