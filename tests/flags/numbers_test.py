"""Each of these flags changes a number of a run."""

import importlib.metadata
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from tests.support.flag_runs import (
    CACHED,
    differ,
    numbers,
    run,
    SAME,
    SHOWN,
    shows,
)
from tf_transfer import experiment
from tf_transfer.data import glue as glue_data, metrics
from tf_transfer.data.task import Examples
from tf_transfer.models import exports, tiny
from tf_transfer.utils import machine

# === What is read of the encoder ===


@pytest.mark.slow  # trains whole runs
@shows("features", "keep_blocks")
def test_a_probe_and_an_encoder_cut_short_are_other_runs(
    tmp_path, base, monkeypatch
):
    probe = run(tmp_path, features="frozen")
    assert os.path.exists(os.path.join(probe, "depth_profile.json"))
    ours, theirs = (np.load(f"{f}/predictions.npz") for f in (probe, base))
    assert np.abs(ours["test_logits"] - theirs["test_logits"]).max() > SAME
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    whole = run(tmp_path / "whole")
    assert differ(numbers(run(tmp_path, keep_blocks=1)), numbers(whole))


# === Flags that change a number ===


def other_weights(folder):
    """A Keras preset: `tiny`, its weights doubled."""
    backbone, tokenizer = tiny.build(dropout=0.1)
    for weight in backbone.weights:
        weight.assign(2 * weight)
    backbone.save_to_preset(str(folder / "preset"))
    exports.keras_tokenizer(tokenizer).save_to_preset(str(folder / "preset"))
    return str(folder / "preset")


def other_texts(folder):
    """The sample, with one word changed."""
    shutil.copytree(glue_data.SAMPLE, folder / "data")
    for path in (folder / "data" / "SST-2").iterdir():
        path.write_text(path.read_text().replace(" the ", " some "))
    return str(folder / "data")


NUMBERS = {
    "model": other_weights,
    "data": other_texts,
    "task": "cola",
    "trainable_layers": "1",
    "blocks": "1-1",
    "pooling": "mean",
    "head": "mlp",
    "max_length": 16,
    "max_train_examples": 8,
    "lr": 2e-3,
    "batch_size": 8,
    "batching": "grouped",
    "max_epochs": 1,
    "dropout": 0.0,
    "head_dropout": 0.0,
    "weight_decay": 10.0,
    "adam_beta1": 0.5,
    "adam_beta2": 0.9,
    "adam_epsilon": 0.1,
    "bias_correction": True,
    "clip_norm": 1e-5,
    "schedule": "linear",
    "warmup_fraction": 0.5,
    "validation_fraction": 0.25,
    "seed": 1,
    "split_seed": 1,
    "precision": "mixed_bfloat16",
}
SHOWN.update(NUMBERS)
FAST = ("adam_epsilon", "dropout")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        for name in NUMBERS
    ],
)
def test_a_flag_changes_a_number(name, base, tmp_path):
    value = NUMBERS[name]
    changes = {name: value(tmp_path) if callable(value) else value}
    if name == "blocks":
        changes["trainable_layers"] = "all"
    changed = run(tmp_path / "runs", **changes)
    assert differ(numbers(changed), numbers(base))


@pytest.mark.slow
@shows("frozen_prefix", "cache_dtype", "prefix_precision", "also_cache")
def test_a_cached_prefix_and_its_precision_change_a_number(base, tmp_path):
    """Further cuts do not: they are stored for other runs."""
    cached = run(tmp_path, **CACHED)
    coarse = run(tmp_path, **{**CACHED, "cache_dtype": "bfloat16"})
    half = run(tmp_path, **CACHED, prefix_precision="bfloat16")
    assert differ(numbers(cached), numbers(base))
    assert differ(numbers(cached), numbers(coarse))
    assert differ(numbers(cached), numbers(half))
    more = run(tmp_path / "more", **CACHED, also_cache="1")
    assert not differ(numbers(cached), numbers(more))


@pytest.mark.slow
@shows("prefix_engine")
def test_the_engine_of_a_pass_is_recorded(tmp_path, monkeypatch):
    pytest.importorskip("openvino")
    version = importlib.metadata.version("openvino")
    monkeypatch.setitem(machine.versions(), "openvino", version)
    for engine in ("openvino", "tensorflow"):
        folder = run(
            tmp_path, **CACHED, prefix_engine=engine, prefix_precision="float32"
        )
        with open(os.path.join(folder, "result.json")) as file:
            assert json.load(file)["prefix_engine"] == f"{engine} float32"


@pytest.mark.slow
@shows("layer_decay")
def test_layer_decay_changes_a_number_where_there_are_layers(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    plain, decayed = (
        run(tmp_path / str(decay), trainable_layers="2", layer_decay=decay)
        for decay in (1.0, 1e-3)
    )
    assert differ(numbers(plain), numbers(decayed))


METHODS = {
    "method": {"method": "bias"},
    "lora_rank": {"method": "lora", "lora_rank": 2},
    "lora_alpha": {"method": "lora", "lora_alpha": 100.0},
    "lora_targets": {"method": "lora", "lora_targets": "all"},
}


@pytest.mark.slow
@shows(*METHODS)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_and_its_options_change_a_number(name, tmp_path):
    changes = {"trainable_layers": "1", "lr": 0.01, **METHODS[name]}
    usual = {n: v for n, v in changes.items() if n != name}
    one, other = run(tmp_path / "one", **usual), run(tmp_path, **changes)
    assert differ(numbers(one), numbers(other))


@pytest.mark.slow
@shows("pairs")
def test_pairs_read_text_by_text_change_a_number(tmp_path):
    cross, sbert = (
        run(tmp_path / pairs, task="rte", pairs=pairs)
        for pairs in ("cross", "sbert")
    )
    assert differ(numbers(cross), numbers(sbert))


@shows("loss_head")
def test_a_softmax_of_two_units_separates_two_classes(base, tmp_path):
    folder = run(tmp_path, loss_head="softmax")
    outputs = numbers(folder)
    assert outputs["test_logits"].shape[1] == 2
    assert differ(outputs, numbers(base))
    predictor = experiment.open_run(folder).predictor()
    assert predictor.task.units == 2
    [(label, score)] = predictor.answer(["good film"])
    logits = predictor.logits(Examples(np.arange(1), [["good film"]], None))
    two = metrics.probabilities(logits)[0]
    assert np.isclose(score, two.max())
    assert label == predictor.task.labels[two.argmax()]


@shows("rerun", "out")
def test_rerun_runs_again_next_to_the_old_run_and_finds_its_numbers(base):
    parent = os.path.dirname(base)
    out = pathlib.Path(base).parents[3]
    again = run(out, rerun=True)
    assert sorted(os.listdir(parent)) == sorted(
        [os.path.basename(base), os.path.basename(base) + ".2"]
    )
    assert again == base + ".2"
    assert not differ(numbers(again), numbers(base))
