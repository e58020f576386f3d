"""The directory of a run: its name, and how the same command finds it."""

import os

import pytest

from tests.conftest import tiny_settings
from tests.support import run_files
from tf_transfer.training import run_paths
from tf_transfer.utils.errors import UserError

IDENTITIES = {"model_identity": "tiny 1", "data_identity": "RTE sha256:0"}


def key_of(replicas=1, identities=IDENTITIES, **changes):
    settings = tiny_settings(**{"out": "runs", **changes})
    return run_paths.locate(settings, "glue", [], identities, replicas).key


def name_of(replicas=1, identities=IDENTITIES, **changes):
    settings = tiny_settings(**{"out": "runs", **changes})
    run = run_paths.locate(settings, "glue", [], identities, replicas)
    return os.path.relpath(run.path, os.path.join(settings.out, "glue"))


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
    return run_paths.locate(settings, "glue", [], IDENTITIES, 1)


def test_the_same_command_finds_its_run(tmp_path):
    first = locate(tmp_path)
    assert (first.result(), first.config()) == (None, None)
    os.makedirs(first.path)
    first.write_result(run_files.finished(task="rte"))
    again = locate(tmp_path)
    assert again.path == first.path
    assert again.result().items() >= run_files.finished().items()


def test_a_rerun_is_next_to_the_complete_runs(tmp_path):
    names = []
    for whole in (True, True, False, True):
        run = locate(tmp_path, rerun=True)
        names.append(run.path.removeprefix(locate(tmp_path).path))
        os.makedirs(run.path, exist_ok=True)
        if whole:
            run.write_result(run_files.finished())
    assert names == ["", ".2", ".3", ".3"]


def test_a_run_is_below_its_experiment_and_what_it_is_of(tmp_path):
    settings = tiny_settings(tmp_path)
    run = run_paths.locate(settings, "glue", ["rte", "all"], IDENTITIES, 2)
    name = run_paths.run_name(settings, run.key)
    assert run.path == str(tmp_path / "glue" / "rte" / "all" / name)
    assert (
        run.key.items()
        >= {
            "module": "glue",
            "replicas": 2,
            **IDENTITIES,
        }.items()
    )
    assert len(name.rpartition("-")[2]) == 10


# === The answer of a search ===


def write_answer(folder, content):
    (folder / ".search").mkdir(exist_ok=True)
    (folder / ".search" / "answer.json").write_text(content)


def test_the_answer_of_a_search_is_one_of_its_runs(tmp_path):
    assert run_paths.find_answer(str(tmp_path)) == str(tmp_path)
    write_answer(tmp_path, '{"lines": [], "table": [], "run": "train/a"}')
    found = run_paths.find_answer(str(tmp_path))
    assert found == str(tmp_path / "train" / "a")


@pytest.mark.parametrize(
    "content, message",
    [
        (
            '{"lines": [], "table": [], "run": ""}',
            "--run={0}: is a search without a fini",
        ),
        ('{"lines": []}', "answer.json: is damaged"),
    ],
)
def test_a_search_without_an_answer_is_an_error(content, message, tmp_path):
    write_answer(tmp_path, content)
    with pytest.raises(UserError, match=message.format(tmp_path)):
        run_paths.find_answer(str(tmp_path))
