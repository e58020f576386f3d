"""The files of a run directory, and what they say of the run."""

import errno
import hashlib
import json
import os
import types

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.support import run_files
from tests.training.run_directories import begin, change_json, KEY, write_result
from tests.utils.disks import fail
from tf_transfer.training import record_types, records
from tf_transfer.training.record_types import Trained
from tf_transfer.utils import files, json_files, machine
from tf_transfer.utils.errors import UserError

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


def test_damaged_weights_are_refused(run):
    entry = run.write_model("epoch-1", {"kernel": np.ones(2, np.float32)})
    path = run.file("model", "epoch-1.safetensors")
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\0")
    with pytest.raises(ValueError, match=f"{path}: is damaged"):
        run.read_model(entry)


def test_a_damaged_result_is_named(run):
    with open(run.file("result.json"), "w") as file:
        file.write("{")
    with pytest.raises(UserError, match=r"result\.json: is damaged"):
        run.result()


# === What is read is what was written ===


def test_a_run_without_a_result_has_none(run):
    assert run.result() is run.config() is run.profile() is None
    assert run.errors() == {}


def test_a_result_that_was_changed_is_refused(run):
    write_result(run, {})
    assert run.result()["test"] == {"accuracy": 0.5}
    change_json(run, "result.json", test={"accuracy": 0.9})
    with pytest.raises(json_files.Damaged, match="is not as this run wrote it"):
        run.result()


def test_a_result_of_another_shape_is_damaged_whatever_its_hashes(run):
    write_result(run, {"seed": "0"})
    with pytest.raises(json_files.Damaged, match="result.json.*seed: Expected"):
        run.result()


@pytest.mark.parametrize(
    "name, content, read",
    [
        ("config.json", {"key": 1}, lambda run: run.config()),
        ("config.json", {"key": {}}, lambda run: run.config(Trained)),
        ("epochs.jsonl", {"epoch": 1}, lambda run: run.epochs()),
        ("errors.json", [], lambda run: run.errors()),
    ],
)
def test_a_file_of_another_shape_is_damaged_whatever_its_hash(
    name, content, read, run
):
    with open(run.file(name), "w") as file:
        json.dump(content, file)
    write_result(run, {})
    run.check_file(name)
    with pytest.raises(json_files.Damaged, match=f"{name}.* is damaged"):
        read(run)


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
    assert record_types.ADVICE in str(error.value)


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
    assert record_types.ADVICE in str(error.value)


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


def test_a_resumed_run_keeps_its_first_config(run, capsys):
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


def test_another_commit_of_the_code_is_a_warning(run, capsys):
    begin(run, tiny_settings("runs"))
    change_json(run, "config.json", git_commit="another")
    begin(run, tiny_settings("runs"))
    assert "with another git_commit; its numbers" in capsys.readouterr().err
    assert run.config()["git_commit"] == "another"


def test_a_key_is_as_json_has_it(tmp_path):
    key = {"folder": tmp_path, "blocks": (1, 2)}
    run = records.RunDirectory(str(tmp_path), key)
    assert run.key == {"folder": str(tmp_path), "blocks": [1, 2]}
    write_result(run, {})
    assert records.RunDirectory(str(tmp_path), key).result()


@pytest.mark.parametrize("name, is_told", [("CPU:0", True), ("GPU:0", False)])
def test_a_config_distinguishes_machines_whose_processors_compute(
    run, name, is_told
):
    begin(run, tiny_settings("runs"), device=name)
    config = run.config()
    told = machine.start_of_machine() if is_told else None
    assert config["machine"] == config["starts"][0]["machine"] == told
    is_gpu = {"driver", "cuda", "cudnn"} <= config["versions"].keys()
    assert is_gpu is not is_told
