"""A big head on the frozen encoder first, then everything."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.stacking_data import settings_of
from tf_transfer import stacking
from tf_transfer.models import heads
from tf_transfer.models import tiny
from tf_transfer.models.heads import names
from tf_transfer.training import run as run_lib
from tf_transfer.utils.errors import UserError


@pytest.fixture(autouse=True)
def two_blocks(monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 2)


def run_folder(settings):
    return stacking.locate(settings, 1).path


def lines_of(settings):
    with open(os.path.join(run_folder(settings), "epochs.jsonl")) as file:
        return [json.loads(line) for line in file]


# === Settings ===


def test_defaults_are_the_paper_s_where_it_has_them():
    settings = stacking.StackingSettings().resolve()
    assert (settings.adaptation, settings.head) == (
        "stack_and_finetune",
        "bilstm",
    )
    assert (settings.head_lr, settings.dropout, settings.head_dropout) == (
        1e-3,
        0.1,
        0.1,
    )
    assert not settings.bias_correction and settings.weight_decay == 0.01
    assert settings.model == "bert_base_en" and settings.select == "last"
    alone = stacking.StackingSettings(adaptation="finetune_only", task="text")
    assert alone.resolve().head == "dense"
    assert alone.resolve().model == "bert_base_en_uncased"


def test_heads_are_those_of_the_models_and_read_what_they_say():
    named = {name for some in names.HEADS.values() for name in some}
    assert named == set(heads.LAYERS)
    for task, some in names.HEADS.items():
        for name in some:
            settings = stacking.StackingSettings(
                task=task, head=name, adaptation="joint"
            ).resolve()
            head = heads.build(task, name, 1, 8, 0.1, 0, "float32")
            assert settings.pooling == head.pooling
            assert settings.pairs == ("cross", "sbert")[head.sides - 1]


def test_naming_a_run_loads_no_tensorflow():
    program = (
        "import sys; from tf_transfer import stacking; "
        "stacking.StackingSettings().resolve(); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"head": "bimpm"}, "--head=bimpm: fits --task=pairs. With --task=ner"),
        ({"head": "crf"}, "--head=crf: is no head"),
        (
            {"adaptation": "finetune_only", "head": "bilstm"},
            "--head=bilstm: --adaptation=finetune_only is the paper's two",
        ),
        ({"adaptation": "stack"}, "--adaptation=stack: pick one of"),
        ({"phase_one_epochs": 0}, "--phase_one_epochs=0"),
        ({"head_lr": 0.0}, "--head_lr=0"),
        ({"trainable_layers": "2"}, "--trainable_layers and --blocks"),
    ],
)
def test_bad_values_are_named(changes, said):
    with pytest.raises(UserError, match=said):
        stacking.StackingSettings(**changes).resolve()


def test_what_a_run_does_not_read_is_not_in_its_name(tmp_path):
    def same(one, other):
        names = [run_folder(settings_of(tmp_path, **c)) for c in (one, other)]
        return names[0] == names[1]

    joint = {"adaptation": "joint"}
    assert same(joint, {**joint, "head_lr": 0.5, "phase_one_epochs": 7})
    assert not same({}, {"head_lr": 0.5})
    assert not same({}, {"phase_one_epochs": 7})
    stacked = {"adaptation": "stack_only"}
    assert same(stacked, {**stacked, "lr": 0.5})
    assert same({}, {"classes": "2,3"})


# === Entities ===


def test_words_are_labelled_and_scored_whole(tmp_path):
    settings = settings_of(
        tmp_path, adaptation="joint", max_epochs=8, batch_size=4
    )
    result = stacking.run(settings)
    assert result["metric"] == "f1"
    assert result["test"]["f1"] > 0.5 and result["test"]["f1_LOC"] == 0.0
    stored = np.load(os.path.join(run_folder(settings), "predictions.npz"))
    labels, logits = stored["test_labels"], stored["test_logits"]
    assert logits.shape == (len(labels), 9)
    accuracy = np.mean(logits.argmax(axis=1) == labels)
    assert accuracy == pytest.approx(result["test"]["accuracy"])


def test_long_sentences_are_cut_and_scored_as_one(tmp_path):
    """At 8 tokens a row has 6 pieces: nearly every sentence is cut."""
    options = {"adaptation": "joint", "dropout": 0.0, "head_dropout": 0.0}
    settings = settings_of(tmp_path, **options, max_length=8)
    stacking.run(settings)
    short = np.load(os.path.join(run_folder(settings), "predictions.npz"))
    settings = settings_of(tmp_path, **options)
    stacking.run(settings)
    whole = np.load(os.path.join(run_folder(settings), "predictions.npz"))
    np.testing.assert_array_equal(short["test_labels"], whole["test_labels"])


# === Phases ===


@pytest.mark.parametrize("frozen_prefix", ["live", "cached"])
def test_the_head_is_trained_first_and_then_everything(tmp_path, frozen_prefix):
    settings = settings_of(tmp_path, frozen_prefix=frozen_prefix)
    result = stacking.run(settings)
    phases = [(p["trainable_layers"], p["lr"]) for p in result["phases"]]
    assert phases == [("head", 1e-2), ("all", 1e-3)]
    assert (result["prefix_seconds"] is None) == (frozen_prefix == "live")
    for line in lines_of(settings):
        assert {"accuracy", "train_accuracy"} <= set(line["validation"])


def test_a_cached_first_phase_learns_what_a_live_one_does(tmp_path):
    options = {"adaptation": "stack_only", "dropout": 0.0, "max_epochs": 2}
    live = stacking.run(settings_of(tmp_path, **options))
    cached = stacking.run(
        settings_of(
            tmp_path, **options, frozen_prefix="cached", cache_dtype="float32"
        )
    )
    assert cached["test"] == pytest.approx(live["test"], abs=1e-3)


def test_the_first_phase_ends_where_training_and_validation_part(
    tmp_path, monkeypatch
):
    """The last epoch within the gap is kept, and what follows starts there."""
    gaps = iter([0.005, 0.02, 0.009, 0.5, 0.0])
    original = run_lib.Run._evaluate

    def evaluate(self, *arguments):
        results, logits = original(self, *arguments)
        metrics = results["validation"]
        metrics["train_accuracy"] = metrics["accuracy"] + next(gaps)
        return results, logits

    monkeypatch.setattr(run_lib.Run, "_evaluate", evaluate)
    settings = settings_of(tmp_path, phase_one_epochs=4, phase_one_gap=0.01)
    result = stacking.run(settings)
    assert [phase["epochs"] for phase in result["phases"]] == [4, 1]
    assert result["phases"][0]["kept_epoch"] == 3
    assert "kept_epoch" not in result["phases"][1]  # nothing chose one


def test_where_no_epoch_is_within_the_gap_the_first_is_kept(tmp_path):
    settings = settings_of(
        tmp_path, adaptation="stack_only", max_epochs=2, phase_one_gap=0.0
    )
    # Accuracies on samples of other sizes are hardly ever the same.
    result = stacking.run(settings)
    lines = lines_of(settings)
    same = [
        line["phase_epoch"]
        for line in lines
        if line["validation"]["train_accuracy"]
        == line["validation"]["accuracy"]
    ]
    assert result["phases"][0]["kept_epoch"] == (same or [1])[-1]


@pytest.mark.parametrize("select", ["last", "best"])
def test_a_finished_run_goes_on_for_more_epochs_of_its_last_phase(
    tmp_path, select
):
    options = {"head": "dense", "dropout": 0.0, "select": select}
    stacking.run(settings_of(tmp_path, **options, max_epochs=1))
    longer = settings_of(tmp_path, **options, max_epochs=2)
    result = stacking.run(longer)
    assert [phase["epochs"] for phase in result["phases"]] == [1, 2]
    at_once = stacking.run(
        dataclasses.replace(longer, out=str(tmp_path / "at_once"))
    )
    assert at_once["test"] == pytest.approx(result["test"], abs=1e-5)


# === Heads and tasks ===


@pytest.mark.parametrize(
    "task, head",
    [
        ("ner", "dense"),
        ("text", "dense"),
        ("text", "densenet"),
        ("text", "highway"),
        ("pairs", "dense"),
        ("pairs", "bimpm"),
        ("pairs", "bimpm_without_context"),
        ("pairs", "sim_transformer"),
    ],
)
def test_every_head_trains_from_the_cache_and_live(tmp_path, task, head):
    settings = settings_of(tmp_path, task, head=head, frozen_prefix="cached")
    result = stacking.run(settings)
    assert len(result["phases"]) == 2
    assert 0 <= result["test"]["accuracy"] <= 1
    assert result["trainable_parameters"] == result["total_parameters"]


def test_a_table_of_ones_own_is_a_text_task(tmp_path):
    path = tmp_path / "mine.csv"
    rows = [
        f"good {('film', 'dog')[n % 2]} {n},{'xy'[n % 2]}" for n in range(40)
    ]
    path.write_text("body,topic\n" + "\n".join(rows) + "\n")
    settings = dataclasses.replace(
        settings_of(tmp_path, "text", head="dense"),
        data=str(path),
        text_column="body",
        label_column="topic",
    )
    assert 0 <= stacking.run(settings)["test"]["accuracy"] <= 1


def test_a_table_with_too_few_texts_is_refused(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("text,label\n" + "good film,1\nbad film,0\n" * 9)
    settings = dataclasses.replace(
        settings_of(tmp_path, "text"), data=str(path)
    )
    with pytest.raises(UserError, match="mine.csv: a tenth of its different"):
        settings.source()
