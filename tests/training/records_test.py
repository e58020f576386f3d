"""A run directory: its owner, its files, and a finished run's extension."""

import errno
import hashlib
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
from tests.utils.disks import fail
from tf_transfer.training import checkpoint, records
from tf_transfer.utils import files, json_files, machine
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


# === What is read is what was written ===


def change_json(run, name, **changes):
    with open(run.file(name)) as file:
        content = json.load(file)
    with open(run.file(name), "w") as file:
        json.dump({**content, **changes}, file)


def test_a_run_without_a_result_has_none(run):
    assert run.result() is run.config() is run.profile() is None
    assert run.errors() == {}


def test_a_result_that_was_changed_is_refused(run):
    write_result(run, {})
    assert run.result()["test"] == {"accuracy": 0.5}
    change_json(run, "result.json", test={"accuracy": 0.9})
    with pytest.raises(json_files.Damaged, match="is not as this run wrote it"):
        run.result()


@pytest.mark.parametrize("key", [{**KEY, "seed": 1}, None])
def test_the_result_of_another_run_is_refused(key, run):
    """A reader without a key has that of the config."""
    begin(run, tiny_settings("runs"))
    write_result(run, {})
    reader = records.RunDirectory(run.path, key)
    if key is None:
        assert reader.result()
        change_json(run, "config.json", key={**KEY, "seed": 1})
    with pytest.raises(json_files.Damaged, match="is another run's") as error:
        reader.result()
    assert str(error.value).startswith(run.file("result.json"))
    assert records.ADVICE in str(error.value)


def test_a_result_without_a_config_is_any_reader_s(run):
    write_result(run, {})
    assert records.RunDirectory(run.path, None).result()


def test_a_file_that_the_result_does_not_hash_is_refused(run):
    run.write_profile({"a": 1})
    write_result(run, {})
    path = run.check_file("depth_profile.json")
    assert path == run.file("depth_profile.json")
    with pytest.raises(json_files.Damaged, match="not known to this run's"):
        run.check_file("predictions.npz")
    with pytest.raises(json_files.Damaged, match="is another|is not known"):
        run.check_file("depth_profile.json", {"sha256": {}})
    run.write_profile({"a": 2})
    with pytest.raises(json_files.Damaged, match="is not as this run wrote"):
        run.check_file("depth_profile.json")
    os.remove(path)
    with pytest.raises(json_files.Damaged, match=f"{path}.*is missing"):
        run.check_file("depth_profile.json")


def test_a_file_of_a_run_without_a_result_is_not_known(run):
    run.write_errors({})
    with pytest.raises(json_files.Damaged, match="not known to this run's"):
        run.check_file("errors.json")


@pytest.mark.parametrize("name", records.HASHED)
def test_a_result_has_the_hash_of_each_file(name, run):
    with open(run.file(name), "wb") as file:
        file.write(b"content")
    sha256 = hashlib.sha256(b"content").hexdigest()
    result = run_files.finished()
    run.write_result(result)
    assert result["sha256"] == {name: sha256}


def test_predictions_are_the_same_bytes_in_any_order(run):
    arrays = {"b": np.eye(2), "a": np.arange(3)}
    contents = set()
    for named in (arrays, dict(reversed(arrays.items()))):
        run.write_predictions(named)
        with open(run.file("predictions.npz"), "rb") as file:
            contents.add(file.read())
    assert len(contents) == 1
    write_result(run, {})
    found = run.predictions()
    assert {*found} == {"a", "b"}
    np.testing.assert_array_equal(found["b"], np.eye(2))


def test_a_disk_that_fails_does_not_damage_predictions(run, monkeypatch):
    run.write_predictions({"a": np.arange(3)})
    write_result(run, {})
    result = run.result()
    monkeypatch.setattr(run, "check_file", lambda name, result: name)
    monkeypatch.setattr(files, "open_regular", fail(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        run.predictions(result)


def test_a_depth_profile_is_as_declared(run):
    block = {"block": 1, "score": 0.5, "standard_error": 0.1, "strength": 1.0}
    profile = {
        "metric": "accuracy",
        "texts": 9,
        "states": "mean",
        "fold_scores": [0.5],
        "blocks_needed": 1,
        "blocks": [block],
    }
    run.write_profile(profile)
    assert run.profile() == profile
    run.write_profile({**profile, "texts": "9"})
    with pytest.raises(json_files.Damaged, match="depth_profile.json") as error:
        run.profile()
    assert records.ADVICE in str(error.value)


# === The lock ===


def fail_with(code):
    def refuse(*arguments, **options):
        fail(code)()

    return refuse


def test_whether_a_run_is_locked_is_known_to_others(run, monkeypatch):
    other = records.RunDirectory(run.path, run.key)
    assert other.is_locked() is True
    run.close()
    assert other.is_locked() is False
    nowhere = records.RunDirectory(run.path + "x", run.key)
    assert nowhere.is_locked() is False and not os.path.exists(nowhere.path)
    monkeypatch.setattr(files, "open_lock", fail_with(errno.EACCES))
    assert other.is_locked() is True
    monkeypatch.setattr(files, "open_lock", fail_with(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        other.is_locked()


def test_the_lock_names_its_process(run):
    with open(run.file(".lock")) as file:
        assert file.read().startswith(f"process {os.getpid()} on ")
    run.close()
    with open(run.file(".lock"), "w") as file:
        file.write("process 1234567890 on a machine of a very long name" * 9)
    run.lock()
    with open(run.file(".lock")) as file:
        assert "1234567890" not in file.read()


@pytest.mark.parametrize("content, owner", [("", "unknown"), ("x\udcff", "x")])
def test_an_owner_that_is_not_named_is_unknown(content, owner, run):
    with open(run.file(".lock"), "w", errors="surrogateescape") as file:
        file.write(content)
    other = records.RunDirectory(run.path, run.key)
    with pytest.raises(UserError, match=f"another process.*{owner}"):
        other.lock()


def test_a_file_that_is_no_lock_is_left_alone(run):
    run.close()
    with open(run.file(".lock"), "w") as file:
        file.write("notes of mine")
    with pytest.raises(json_files.Damaged, match="is not the lock of a run"):
        records.RunDirectory(run.path, run.key).lock()
    with open(run.file(".lock")) as file:
        assert file.read() == "notes of mine"


def test_who_locks_a_run_removes_what_a_killed_process_left(run):
    run.close()
    folders = ["", "checkpoint", "model"]
    folders += [os.path.join("extension", name) for name in folders]
    for folder in folders:
        os.makedirs(run.file(folder), exist_ok=True)
        for name in ("a.tmp-0123abcd", "a.json"):
            with open(run.file(folder, name), "w"):
                pass
    records.RunDirectory(run.path, run.key).lock()
    for folder in folders:
        names = os.listdir(run.file(folder))
        assert "a.json" in names and "a.tmp-0123abcd" not in names


# === What a run says of itself ===


@pytest.mark.parametrize(
    "before, now, expected",
    [(1, 2, 2), (2, 1, 2), (None, 1, 1), (2, None, 2), (1, 1, 1)],
)
def test_the_most_runs_at_a_time_are_recorded(
    before, now, expected, run, monkeypatch
):
    begin(run, tiny_settings("runs"))
    change_json(run, "config.json", concurrent_runs=before)
    monkeypatch.setattr(machine, "concurrent_runs", lambda: now)
    run.note_concurrent_runs()
    assert run.config()["concurrent_runs"] == expected
    assert run.config()["parts"] == {}


def test_a_run_without_a_config_records_no_other_runs(run, monkeypatch):
    monkeypatch.setattr(machine, "concurrent_runs", lambda: 2)
    run.note_concurrent_runs()
    assert run.config() is None


def test_a_run_that_goes_on_keeps_what_it_began_with(run, capsys):
    devices = types.SimpleNamespace(names=["CPU:0"], replicas=1)
    run.close()
    run.begin(
        tiny_settings("runs"),
        devices,
        {"pooler": 7},
        {"train": 3, "test": 2},
        {"tasks": {"rte": {}}},
    )
    assert f"Run directory: {run.path}" in capsys.readouterr().out
    first = run.config()
    assert first["tasks"] == {"rte": {}} and first["approach"] == "fine_tuning"
    run.close()
    devices = types.SimpleNamespace(names=["CPU:0", "CPU:1"], replicas=2)
    run.begin(tiny_settings("runs", lr=0.5), devices, {}, {"test": 4})
    error = capsys.readouterr().err
    assert "was started with another devices, replicas; its num" in error
    config = run.config()
    assert config["parts"] == {"pooler": 7}
    assert config["split_sizes"] == {"train": 3, "test": 4}
    assert (config["devices"], config["replicas"]) == (["CPU:0"], 1)
    assert config["settings"]["lr"] == 0.5
    assert config["key"] == first["key"]
    one, other = config["starts"]
    assert [one] == first["starts"]
    assert other["devices"] == ["CPU:0", "CPU:1"]
    assert {*other} == {*records.START}


def test_another_version_of_a_library_is_a_warning(run, capsys):
    begin(run, tiny_settings("runs"))
    assert capsys.readouterr().err == ""
    versions = {**run.config()["versions"], "numpy": "0.1"}
    change_json(run, "config.json", versions=versions, threads=99)
    begin(run, tiny_settings("runs"))
    error = capsys.readouterr().err
    assert "was started with another numpy, threads; its numbers" in error
    assert run.config()["versions"]["numpy"] == "0.1"


def test_the_end_prints_the_result_and_its_warnings(run, capsys):
    result = run_files.finished(warnings=["the training set has one class"])
    run.end(result)
    printed = capsys.readouterr()
    assert printed.err == "Warning: the training set has one class\n"
    assert "test accuracy 0.5000" in printed.out
    assert f"Written to {run.path}" in printed.out
    assert run.result()["warnings"] == result["warnings"]
    run.end(run_files.finished())
    assert capsys.readouterr().err == ""


def test_a_key_is_as_json_has_it(tmp_path):
    key = {"folder": tmp_path, "blocks": (1, 2)}
    run = records.RunDirectory(str(tmp_path), key)
    assert run.key == {"folder": str(tmp_path), "blocks": [1, 2]}
    write_result(run, {})
    assert records.RunDirectory(str(tmp_path), key).result()


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


@pytest.mark.parametrize("name, is_told", [("CPU:0", True), ("GPU:0", False)])
def test_a_config_tells_machines_apart_whose_processors_compute(
    run, name, is_told
):
    begin(run, tiny_settings("runs"), device=name)
    config = run.config()
    told = machine.start_of_machine() if is_told else None
    assert config["machine"] == config["starts"][0]["machine"] == told
