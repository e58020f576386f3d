"""The run directory: its name, its owner, and what TensorBoard reads in it."""

import json
import os
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

from tests.conftest import tiny_settings
from tests.support import run_files
from tf_transfer.training import checkpoint, records, tensorboard
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

IDENTITIES = {"model_identity": "tiny 1", "data_identity": "RTE sha256:0"}


def key_of(replicas=1, identities=IDENTITIES, **changes):
    settings = tiny_settings(**{"out": "runs", **changes})
    return records.locate(settings, "glue", [], identities, replicas).key


def name_of(replicas=1, identities=IDENTITIES, **changes):
    settings = tiny_settings(**{"out": "runs", **changes})
    run = records.locate(settings, "glue", [], identities, replicas)
    return os.path.relpath(run.path, os.path.join(settings.out, "glue"))


@pytest.fixture
def run(tmp_path):
    """A run directory that this process has locked."""
    found = records.RunDirectory(str(tmp_path / "run"), key_of())
    found.lock()
    yield found
    found.close()


# === The name of a run ===


@pytest.mark.parametrize(
    "changes",
    [
        {"lr": 2e-5},
        {"seed": 1},
        {"split_seed": 1},
        {"batching": "grouped"},
        {"dropout": 0.2},
        {"precision": "mixed_bfloat16"},
        {"strategy": "one_device"},
        {"jit_compile": "true"},
        {"deterministic": True},
        {"trainable_layers": "2"},
        {"blocks": "1-2"},
        {"schedule": "linear"},
        {"min_delta": 0.5},
    ],
    ids=str,
)
def test_a_setting_that_can_change_a_number_changes_the_name(changes):
    assert name_of(**changes) != name_of()


@pytest.mark.parametrize(
    "changes",
    [
        {"out": "elsewhere"},
        {"cache_dir": "cache"},
        {"max_epochs": 9},
        {"checkpoint_minutes": 1.0},
        {"rerun": True},
    ],
    ids=str,
)
def test_a_setting_that_changes_no_number_leaves_the_name(changes):
    assert name_of(**changes) == name_of()


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 2},
        {"identities": {**IDENTITIES, "model_identity": "tiny 2"}},
        {"identities": {**IDENTITIES, "data_identity": "RTE sha256:1"}},
    ],
    ids=["replicas", "model", "data"],
)
def test_replicas_and_identities_change_the_name(changes):
    assert name_of(**changes) != name_of()


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, False),
        ({"schedule": "linear"}, True),
        ({"warmup_fraction": 0.1}, True),
    ],
)
def test_the_key_has_max_epochs_only_where_the_rate_looks_at_it(
    changes, expected
):
    assert ("max_epochs" in key_of(**changes)) == expected
    longer = key_of(max_epochs=99, **changes)
    assert (longer != key_of(**changes)) == expected


@pytest.mark.parametrize(
    "model", ["/some/where/bert", "models/bert/", "../bert:v2", "a b"]
)
def test_a_name_is_one_folder_whatever_the_model(model):
    name = name_of(model=model)
    assert os.path.basename(name) == name
    assert not set(name) & set('/\\: *?"<>|')


def test_a_name_says_what_a_person_looks_for():
    name = name_of(lr=2e-5, batch_size=16, seed=3)
    assert name.startswith("lr=2e-05,batch=16,model=tiny,seed=3-")


# === Finding ===


def locate(tmp_path, **changes):
    settings = tiny_settings(tmp_path, **changes)
    return records.locate(settings, "glue", [], IDENTITIES, 1)


def write_result(run, result):
    run.write_result(run_files.finished(**result))


def test_the_same_command_finds_its_run(tmp_path):
    first = locate(tmp_path)
    assert (first.result(), first.config()) == (None, None)
    os.makedirs(first.path)
    write_result(first, {"task": "rte"})
    again = locate(tmp_path)
    assert again.path == first.path
    assert again.result().items() >= run_files.finished().items()


def test_a_rerun_stands_beside_the_runs_that_are_whole(tmp_path):
    names = []
    for whole in (True, True, False, True):
        run = locate(tmp_path, rerun=True)
        names.append(run.path.removeprefix(locate(tmp_path).path))
        os.makedirs(run.path, exist_ok=True)
        if whole:
            write_result(run, {})
    assert names == ["", ".2", ".3", ".3"]


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
        (key_of(lr=0.5), "lr"),
        (key_of(dropout=0.5, seed=7), "dropout, seed"),
        (key_of(schedule="linear"), "max_epochs, schedule"),
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


# === TensorBoard ===


def log(run, first_step, points):
    """Logs as one process does, from its start to its end."""
    events = tensorboard.RunEvents(run.path)
    events.start(first_step, {"task": "rte", "lr": 1e-3, "seed": 0})
    for tag, step, value in points:
        events.scalar(tag, value, step)
    events.close()


def read_events(folder):
    """TensorBoard's reader of a folder."""
    reader = plugin_event_accumulator.EventAccumulator(folder)
    reader.Reload()
    return reader


def points(folder):
    """The points that TensorBoard shows, by tag."""
    reader = read_events(folder)
    return {
        tag: [
            (event.step, float(tensor_util.make_ndarray(event.tensor_proto)))
            for event in reader.Tensors(tag)
        ]
        for tag in reader.PluginTagToContent("scalars")
    }


def test_tensorboard_reads_what_was_logged(run):
    log(
        run,
        0,
        [("train/loss", 1, 0.5), ("train/loss", 2, 0.25), ("time/x", 2, 7.0)],
    )
    assert points(run.path) == {
        "train/loss": [(1, 0.5), (2, 0.25)],
        "time/x": [(2, 7.0)],
    }


def test_tensorboard_has_the_hyperparameters_for_its_table(run):
    log(run, 0, [])
    reader = read_events(run.path)
    [content] = reader.PluginTagToContent("hparams").values()
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    found = data.session_start_info.hparams
    assert found["task"].string_value == "rte"
    assert found["lr"].number_value == pytest.approx(1e-3)


def test_points_that_a_killed_process_logged_too_early_are_void(run):
    """It was killed at step 5, and its last checkpoint stands at step 2."""
    log(run, 0, [("train/loss", step, 1.0) for step in (1, 2, 3, 4, 5)])
    log(run, 3, [("train/loss", step, 2.0) for step in (3, 4)])
    assert points(run.path)["train/loss"] == [
        (1, 1.0),
        (2, 1.0),
        (3, 2.0),
        (4, 2.0),
    ]


# === Without TensorFlow ===

LIGHT = """
import sys
from tf_transfer.training import records
from tf_transfer.training import tensorboard
run = records.RunDirectory({path!r}, {{}})
run.lock()
events = tensorboard.RunEvents(run.path)
events.start(0, {{"lr": 1e-3}})
events.scalar("train/loss", 1.0, 1)
events.close()
run.write_model("epoch-1", {{}})
run.close()
print([name for name in ("tensorflow", "keras") if name in sys.modules])
"""


def test_records_are_written_without_tensorflow(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIGHT.format(path=str(tmp_path / "run"))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
    assert points(str(tmp_path / "run"))["train/loss"] == [(1, 1.0)]
