"""What stays from one run to the next changes no number."""

import dataclasses
import json
import os
import random

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.conftest import tiny_settings
from tf_transfer.glue import experiment as glue
from tf_transfer.multitask import experiment as multitask
from tf_transfer.runs import warm as warm_lib
from tf_transfer.runs.warm import WarmState
from tf_transfer.training import steps
from tf_transfer.utils.errors import UserError

GLUE = (
    {"lr": 1e-3},
    {"lr": 3e-3, "seed": 1, "weight_decay": 0.1},
    {"task": "sst2", "seed": 2, "dropout": 0.3},
    {"trainable_layers": "1", "lr": 1e-2, "frozen_prefix": "cached"},
    {"trainable_layers": "0", "seed": 3, "frozen_prefix": "cached"},
    {
        "schedule": "linear",
        "warmup_fraction": 0.3,
        "layer_decay": 0.9,
        "seed": 1,
    },
    {"precision": "mixed_bfloat16"},
    {"trainable_layers": "1", "method": "lora"},
    {"trainable_layers": "1", "method": "lora", "seed": 1, "lr": 1e-2},
    {"trainable_layers": "1", "method": "lora", "frozen_prefix": "cached"},
    {"jit_compile": "true", "trainable_layers": "1", "seed": 1},
)
MULTITASK = (
    {"combine": "pcgrad"},
    {"combine": "sampled"},
    {"combine": "sampled", "seed": 1},
)


def experiments(out, warm=None):
    """One for each run; the runs differ in what a process shares."""
    shared = {"cache_dir": os.path.join(out, "cache")}
    found = [
        glue.Glue(tiny_settings(out, **shared, **changes), warm=warm)
        for changes in GLUE
    ]
    settings = multitask.Settings(
        data="sample",
        model="tiny",
        batch_size=8,
        max_epochs=1,
        max_length=32,
        frozen_prefix="cached",
        out=str(out),
        **shared,
    )
    return found + [
        multitask.Multitask(dataclasses.replace(settings, **changes), warm=warm)
        for changes in MULTITASK
    ]


def numbers(result):
    """Every number of a run that is not a time."""
    path = result.directory
    with open(os.path.join(path, "epochs.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    with np.load(os.path.join(path, "predictions.npz")) as file:
        arrays = {name: file[name].tobytes() for name in file}
    [model] = os.listdir(os.path.join(path, "model"))
    weights = load_file(os.path.join(path, "model", model))
    return (
        [(x["train_loss"], x["validation"], x["test"]) for x in lines],
        arrays,
        {name: weight.tobytes() for name, weight in weights.items()},
    )


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_runs_in_any_order_in_one_process_are_those_of_their_own(
    half, tmp_path, one_block
):
    """Two tests, each of every other run, so that they may run side by side."""
    alone = experiments(str(tmp_path / "alone"))
    shared = experiments(str(tmp_path / "shared"), WarmState())
    order = list(range(len(alone)))
    random.Random(0).shuffle(order)
    for index in order[half::2]:
        expected = numbers(alone[index].train())
        assert numbers(shared[index].train()) == expected


def record_traces(monkeypatch):
    """A list to which each trace of a step adds its program."""
    traced = []
    trace = steps.ObjectiveProgram._compute_gradients

    def recorded(self, *arguments):
        traced.append(self)
        return trace(self, *arguments)

    monkeypatch.setattr(steps.ObjectiveProgram, "_compute_gradients", recorded)
    return traced


@pytest.mark.slow
def test_another_rate_and_seed_and_decay_need_no_new_program(
    tmp_path, one_block, monkeypatch
):
    traced = record_traces(monkeypatch)
    warm = WarmState()
    results = [
        glue.Glue(tiny_settings(tmp_path, **changes), warm=warm).train()
        for changes in (
            {"lr": 1e-3},
            {"lr": 1e-2, "seed": 1},
            {"weight_decay": 0.2, "max_epochs": 3},
            {"lr": 1e-3, "split_seed": 1, "patience": 1},
        )
    ]
    assert len(traced) == 1
    traced = [r.record["trace_seconds"] > 0 for r in results]
    assert traced == [True, False, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(("room", "traces"), [(10**6, 2), (0, 4)])
def test_small_encoders_keep_their_programs_while_others_run(
    room, traces, tmp_path, one_block, monkeypatch
):
    traced = record_traces(monkeypatch)
    monkeypatch.setattr(warm_lib, "MOST_PARAMETERS", room)
    warm = warm_lib.WarmState()
    for seed in (0, 1):
        for precision in ("float32", "mixed_bfloat16"):
            settings = tiny_settings(tmp_path, seed=seed, precision=precision)
            glue.Glue(settings, warm=warm).train()
    assert len(traced) == traces


@pytest.mark.slow
def test_a_head_on_stored_vectors_needs_no_new_program_for_other_data(
    tmp_path, one_block, monkeypatch
):
    traced = record_traces(monkeypatch)
    warm = WarmState()
    for examples in (16, 24, 17):
        settings = tiny_settings(
            tmp_path,
            trainable_layers="0",
            frozen_prefix="cached",
            cache_dir=str(tmp_path / "cache"),
            max_train_examples=examples,
        )
        glue.Glue(settings, warm=warm).train()
    assert len(traced) == 1


@pytest.mark.slow
def test_what_failed_leaves_the_encoder_as_it_was_loaded(
    tmp_path, one_block, eager
):
    expected = numbers(glue.Glue(tiny_settings(tmp_path / "a")).train())
    warm = WarmState()
    settings = tiny_settings(tmp_path / "b", lr=1e30, max_epochs=9)
    with pytest.raises(UserError, match="not finite"):
        glue.Glue(settings, warm=warm).train()
    again = glue.Glue(tiny_settings(tmp_path / "b"), warm=warm)
    assert numbers(again.train()) == expected


@pytest.mark.slow
def test_texts_are_tokenised_once_for_an_encoder(
    tmp_path, one_block, eager, monkeypatch
):
    from tf_transfer.data import tokens

    names, encode = [], tokens.encode

    def counted(*arguments):
        names.append(arguments[4])
        return encode(*arguments)

    monkeypatch.setattr(tokens, "encode", counted)
    warm = WarmState()
    for changes in ({}, {"seed": 1}, {"max_length": 16}, {"split_seed": 1}):
        settings = tiny_settings(tmp_path, max_epochs=1, **changes)
        glue.Glue(settings, warm=warm).train()
    # Another length is another encoding; another split has other texts.
    assert names == ["train", "validation", "test"] * 2 + [
        "train",
        "validation",
    ]


@pytest.mark.slow  # trains whole runs
def test_a_probe_reads_no_weights_that_a_method_added(
    tmp_path, eager, one_block
):
    def settings_of(name, **changes):
        return tiny_settings(
            tmp_path / name,
            cache_dir=str(tmp_path / name / "cache"),
            max_train_examples=16,
            max_epochs=1,
            **changes,
        )

    warm = WarmState()
    lora = {"trainable_layers": "1", "method": "lora", "lr": 1e-1}
    probe = {"features": "frozen", "max_length": 32}
    glue.Glue(settings_of("warm", **lora), warm=warm).train()
    after = glue.Glue(settings_of("warm", **probe), warm=warm).train()
    alone = glue.Glue(settings_of("alone", **probe)).train()
    assert numbers(after)[1] == numbers(alone)[1]
    # The next run is that of a new process, too.
    again = {**lora, "seed": 1}
    third = glue.Glue(settings_of("warm", **again), warm=warm).train()
    first = glue.Glue(settings_of("alone", **again)).train()
    assert numbers(third) == numbers(first)
    with open(os.path.join(third.directory, "config.json")) as file:
        assert json.load(file)["runs_before"] >= 2
    # A process's memory is known of its first run alone, whatever that was.
    with open(os.path.join(third.directory, "epochs.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    assert {line["peak_memory_bytes"] for line in lines} == {None}
