"""A run of GLUE: what it writes, what it reports, what it finds again."""

import dataclasses
import os
import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tests.conftest import tiny_settings
from tests.support.run_files import epochs_of, model_of, read, scalars_of
from tf_transfer.data import glue as glue_data, metrics
from tf_transfer.glue import experiment as glue
from tf_transfer.models import tiny
from tf_transfer.runs import run_model, trained
from tf_transfer.training import steps, tensorboard

EPOCH_KEYS = {
    "epoch",
    "phase",
    "phase_epoch",
    "task",
    "train_loss",
    "validation",
    "test",
    "train_seconds",
    "eval_seconds",
    "trace_seconds",
    "elapsed_seconds",
    "examples_per_second",
    "peak_memory_bytes",
}

RESULT_KEYS = {
    "warnings",
    "key_sha256",
    "sha256",
    "result_sha256",
    "task",
    "approach",
    "trainable_layers",
    "lr",
    "batch_size",
    "seed",
    "metric",
    "validation",
    "test",
    "test_last",
    "best_epoch",
    "epochs_run",
    "stop_reason",
    "phases",
    "train_seconds",
    "seconds_per_epoch",
    "trace_seconds",
    "checkpoint_bytes",
    "prefix_seconds",
    "prefix_build_seconds",
    "prefix_engine",
    "cut_texts",
    "trainable_parameters",
    "total_parameters",
}

PHASE_KEYS = {"trainable_layers", "lr", "epochs", "seconds", "stop_reason"}

CONFIG_KEYS = {
    "settings",
    "key",
    "split_sizes",
    "versions",
    "devices",
    "threads",
    "concurrent_runs",
    "runs_before",
    "git_commit",
}

TAGS = {
    "train/loss",
    "train/lr",
    "validation/accuracy",
    "test/accuracy",
    "time/epoch_seconds",
    "time/elapsed_seconds",
    "time/trace_seconds",
    *tensorboard.RESULT_COLUMNS,
}

# What each task reports beside its headline metric.
METRICS = {
    "cola": {"accuracy", "matthews"},
    "sst2": {"accuracy"},
    "mrpc": {"f1", "accuracy"},
    "stsb": {"spearman", "pearson", "spearman_no_ties"},
    "qqp": {"f1", "accuracy"},
    "mnli": {"accuracy"},
    "qnli": {"accuracy"},
    "rte": {"accuracy"},
    "wnli": {"accuracy"},
}


# === What a run writes ===


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two epochs of the last block: the settings, the result, the folder."""
    settings = tiny_settings(
        tmp_path_factory.mktemp("finished"), trainable_layers="1", patience=0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", 1)
        result = glue.run(settings)
    return settings, result.record, result.directory


def test_a_run_writes_the_files_of_the_contract_and_no_others(finished):
    _, _, folder = finished
    names = {
        "events" if name.startswith("events.out.tfevents.") else name
        for name in os.listdir(folder)
    }
    assert names == {
        ".lock",
        "config.json",
        "epochs.jsonl",
        "result.json",
        "predictions.npz",
        "errors.json",
        "events",
        "checkpoint",
        "model",
    }


def test_a_run_is_found_under_its_task_approach_and_name(finished):
    settings, _, folder = finished
    parent, name = os.path.split(folder)
    assert os.path.relpath(parent, settings.out) == "glue/rte/last_1"
    assert name.startswith("lr=0.001,batch=8,model=tiny,seed=0-")


def test_config_holds_all_settings_and_what_they_ran_on(finished):
    settings, _, folder = finished
    config = read(folder, "config.json")
    assert config.keys() >= CONFIG_KEYS
    assert glue.Settings(**config["settings"]) == settings
    assert config["key"]["model_identity"].startswith("tiny")
    assert config["key"]["data_identity"].startswith("RTE sha256:")
    assert config["split_sizes"] == {"train": 32, "validation": 4, "test": 16}
    assert config["versions"]["tensorflow"]


def test_every_epoch_has_a_line_with_the_keys_of_the_contract(finished):
    lines = epochs_of(finished[2])
    assert [line["epoch"] for line in lines] == [1, 2]
    for line in lines:
        assert line.keys() == EPOCH_KEYS
        assert line["phase"] == 1
        assert line["phase_epoch"] == line["epoch"]
        assert line["train_loss"] == pytest.approx(np.log(2), abs=0.1)
        assert line["train_seconds"] > 0
        assert line["examples_per_second"] == pytest.approx(
            32 / line["train_seconds"]
        )
    assert lines[1]["elapsed_seconds"] == pytest.approx(
        lines[0]["train_seconds"] + lines[1]["train_seconds"]
    )


def test_the_result_has_the_keys_of_the_contract(finished):
    settings, returned, folder = finished
    result = read(folder, "result.json")
    assert result == returned
    assert result.keys() == RESULT_KEYS
    assert [phase.keys() for phase in result["phases"]] == [PHASE_KEYS]
    lines = epochs_of(folder)
    best = lines[result["best_epoch"] - 1]
    assert result["validation"] == best["validation"]
    assert result["test"] == best["test"]
    assert result["test_last"] == lines[-1]["test"]
    assert result["stop_reason"] == "max_epochs"
    assert result["epochs_run"] == settings.max_epochs


def test_tracing_is_timed_apart_from_training(finished):
    """The first epoch traced, and takes no longer than the other."""
    result, [first, second] = finished[1], epochs_of(finished[2])
    assert result["trace_seconds"] == first["trace_seconds"] > 0
    assert second["trace_seconds"] == 0
    assert first["train_seconds"] < first["trace_seconds"]
    assert result["seconds_per_epoch"] == pytest.approx(
        (first["train_seconds"] + second["train_seconds"]) / 2
    )


def test_tensorboard_has_the_hyperparameters_of_its_columns(finished):
    events = event_accumulator.EventAccumulator(finished[2])
    events.Reload()
    [content] = events.PluginTagToContent("hparams").values()
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    values = data.session_start_info.hparams
    assert values.keys() == {*tensorboard.HYPERPARAMETERS}
    assert values["pooling"].string_value == "cls"
    assert values["max_length"].number_value == finished[0].max_length
    assert values["frozen_prefix"].string_value == "live"


def test_tensorboard_shows_the_scalars_of_the_contract(finished):
    folder = finished[2]
    scalars = scalars_of(folder)
    assert scalars.keys() == TAGS | {"_hparams_/session_start_info"}
    lines = epochs_of(folder)
    assert scalars["test/accuracy"] == pytest.approx(
        [line["test"]["accuracy"] for line in lines]
    )
    assert scalars["time/epoch_seconds"] == pytest.approx(
        [line["train_seconds"] for line in lines]
    )
    assert {float(rate) for rate in scalars["train/lr"]} == {np.float32(1e-3)}


def test_the_history_of_a_result_is_its_epochs_as_a_table(finished):
    settings, result, folder = finished
    history = trained.Result(glue.Glue(settings), folder, result).history
    lines = epochs_of(folder)
    assert history["epoch"].tolist() == [1, 2]
    for name in ("train_loss", "elapsed_seconds"):
        assert history[name].tolist() == [line[name] for line in lines]
    for kind in ("validation", "test"):
        assert history[f"{kind}.accuracy"].tolist() == [
            line[kind]["accuracy"] for line in lines
        ]


# === What a run reports ===


@pytest.mark.usefixtures("one_block", "eager")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=() if name in ("mnli", "stsb") else pytest.mark.slow
        )
        for name in glue_data.TASKS
    ],
)
def test_a_task_runs_on_the_sample_and_its_logits_give_its_scores(
    name, tiny_run
):
    result, folder = tiny_run(
        task=name,
        trainable_layers="0",
        max_length=16,
        max_epochs=1,
        batch_size=16,
    )
    assert result["task"] == name
    # Wang scores CoLA by accuracy.
    metric = "accuracy" if name == "cola" else glue_data.TASKS[name].metric
    assert result["metric"] == metric
    assert result["validation"].keys() == METRICS[name]
    arrays = np.load(os.path.join(folder, "predictions.npz"))

    def score(part):
        return metrics.measure(
            METRICS[name], arrays[f"{part}labels"], arrays[f"{part}logits"]
        )

    assert result["validation"] == pytest.approx(score("validation_"))
    test = score("test_")
    if name == "mnli":
        [mismatched] = score("test_mismatched_").values()
        test["mismatched_accuracy"] = mismatched
    assert result["test"] == pytest.approx(test)
    for array in arrays.values():
        assert len(array) in (4, 16)


@pytest.mark.usefixtures("one_block", "eager")
def test_without_validation_the_last_epoch_is_the_result(tiny_run):
    result, folder = tiny_run(
        validation_fraction=0.0, select="last", trainable_layers="0"
    )
    assert result["validation"] is None
    assert [line["validation"] for line in epochs_of(folder)] == [None, None]
    assert result["best_epoch"] == result["epochs_run"] == 2
    assert result["test"] == result["test_last"]
    assert read(folder, "config.json")["split_sizes"] == {
        "train": 36,
        "test": 16,
    }


@pytest.mark.usefixtures("one_block", "eager")
def test_the_rate_rises_and_falls_over_all_epochs(monkeypatch, tiny_run):
    """Two epochs of four steps, each logged alone; the warmup is two."""
    monkeypatch.setattr(steps, "LONGEST_CHUNK", 1)
    _, folder = tiny_run(
        schedule="linear",
        warmup_fraction=0.25,
        lr=0.08,
        max_length=16,
        trainable_layers="0",
    )
    assert scalars_of(folder)["train/lr"] == pytest.approx(
        [0.0, 0.04, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01]
    )


# === The same command again ===


def test_the_same_command_again_finds_the_finished_run(
    finished, monkeypatch, capsys
):
    settings, result, folder = finished
    monkeypatch.delattr(run_model.RunModel, "build_network")
    assert glue.run(settings).record == result
    assert capsys.readouterr().out.startswith(f"Already done: {folder}\n")


def test_the_same_files_elsewhere_are_the_same_run(
    finished, monkeypatch, tmp_path
):
    settings, result, _ = finished
    shutil.copytree(glue_data.SAMPLE, tmp_path / "data")
    monkeypatch.delattr(run_model.RunModel, "build_network")
    moved = dataclasses.replace(settings, data=str(tmp_path / "data"))
    assert glue.run(moved).record == result


@pytest.mark.slow  # trains whole runs
@pytest.mark.usefixtures("one_block", "eager")
@pytest.mark.parametrize(
    "select", ["best", pytest.param("last", marks=pytest.mark.slow)]
)
def test_a_finished_run_is_extended_and_keeps_its_first_epochs(
    select, finished, capsys, tiny_run
):
    options = {"trainable_layers": "1", "patience": 0, "select": select}
    _, folder = tiny_run(**options, max_epochs=1)
    before = epochs_of(folder)
    result, same_folder = tiny_run(**options, max_epochs=2)
    assert "Extending a finished run to 2 epochs." in capsys.readouterr().out
    assert same_folder == folder
    after = epochs_of(folder)
    assert after[:1] == before
    assert [line["train_loss"] for line in after] == pytest.approx(
        [line["train_loss"] for line in epochs_of(finished[2])], abs=1e-5
    )
    assert result["epochs_run"] == 2
    scores = [line["validation"]["accuracy"] for line in after]
    best = 2 if select == "last" else 1 + scores.index(max(scores))
    assert result["best_epoch"] == best
    assert model_of(folder)
    scalars = scalars_of(folder)  # of both processes
    assert len(scalars["validation/accuracy"]) == 2
    assert len(scalars["time/epoch_seconds"]) == 2
