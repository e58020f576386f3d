"""A big head on the frozen encoder first, then everything."""

import dataclasses
import os
import shutil

import numpy as np
import pytest

from tests.support import quick, stacking_data
from tests.support.stacking_data import (
    arrays_of,
    lines_of,
    run_folder,
    settings_of,
)
from tf_transfer.data import glue
from tf_transfer.models import tiny
from tf_transfer.stacking import experiment as stacking, heads
from tf_transfer.training import programs
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block")
WITHOUT_DROPOUT = {"dropout": 0.0, "head_dropout": 0.0}
# One head for all: a BiLSTM takes five times as long. The others are slow.
HEAD = {"head": "dense"}


def run(settings):
    """What `result.json` says."""
    return stacking.run(settings).record


# === Settings ===


def test_defaults_are_the_paper_s_where_it_has_them():
    settings = stacking.Settings().resolve()
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
    alone = stacking.Settings(adaptation="finetune_only", task="text")
    assert alone.resolve().head == "dense"
    assert alone.resolve().model == "bert_base_en_uncased"


@pytest.mark.parametrize(
    "task, head, pairs, texts",
    [
        ("ner", "dense", "cross", 1),
        ("text", "densenet", "cross", 1),
        ("pairs", "dense", "cross", 1),
        ("pairs", "dense", "sbert", 2),
        ("pairs", "bimpm", "cross", 2),
    ],
)
def test_pairs_are_read_as_the_head_reads_them(
    task, head, pairs, texts, tmp_path
):
    settings = settings_of(
        tmp_path, task, head=head, pairs=pairs, adaptation="joint"
    )
    data = stacking.Stacking(settings).data
    assert data.texts_per_row(data.task) == texts


def test_pairs_may_be_those_of_mrpc(tmp_path):
    folder = os.path.join(glue.SAMPLE, "MRPC")
    settings = settings_of(tmp_path, "pairs", data=folder)
    source = stacking.Stacking(settings).data.source
    assert source.identity.startswith("MRPC ")
    assert (source.task.name, source.task.metric) == ("pairs", "accuracy")
    assert len(source.read("dev").labels) == len(
        glue.open_source(glue.TASKS["mrpc"], "sample", "").read("dev").labels
    )


@pytest.mark.slow
def test_the_dense_head_reads_each_text_of_a_pair_by_itself(tmp_path, eager):
    results = [
        run(
            settings_of(tmp_path, "pairs", **HEAD, pairs=pairs, pooling=pooling)
        )
        for pairs, pooling in (("cross", "cls"), ("sbert", "cls_state"))
    ]
    more = results[1]["total_parameters"] - results[0]["total_parameters"]
    hidden = tiny.HIDDEN  # (u, v, |u - v|) in place of u; no pooler
    assert more == 2 * hidden * hidden - (hidden + 1) * hidden


def test_only_the_head_of_a_run_reads_its_sizes(tmp_path):
    def unread(**changes):
        return set(settings_of(tmp_path, **changes).unread())

    sizes = {*heads.SIZES}
    every = {"pooling", "pairs", *sizes}
    entities = {"head": "bilstm", "adaptation": "joint"}
    assert every - unread(**entities) == {"lstm_units", "lstm_layers"}
    pair = {"task": "pairs", "head": "dense"}
    assert every - unread(**pair) == {"pooling", "pairs", "inner_units"}
    wide = settings_of(tmp_path, **entities, lstm_units=8, lstm_layers=2)
    assert run_folder(wide) != run_folder(settings_of(tmp_path, **entities))
    assert [lstm.forward_layer.units for lstm in head_of(wide).lstms] == [8, 8]


@pytest.mark.parametrize("task", ["ner", "text"])
def test_the_width_of_the_base_s_first_layer_is_a_flag(task, tmp_path):
    wide, usual = (
        settings_of(tmp_path, task, adaptation="finetune_only", **changes)
        for changes in ({"inner_units": 5}, {})
    )
    assert run_folder(wide) != run_folder(usual)
    assert head_of(wide).inner.units == 5
    assert head_of(usual).inner.units == tiny.HIDDEN


@pytest.mark.parametrize("adaptation", ["joint", "two_rates"])
def test_the_head_may_have_a_rate_of_its_own(adaptation, tmp_path):
    settings = settings_of(
        tmp_path, adaptation=adaptation, head="bilstm", lr=2e-5, head_lr=1e-3
    ).resolve()
    [phase] = stacking.Stacking(settings).make_phases([], tiny.BLOCKS)
    expected = 50 if adaptation == "two_rates" else 1
    assert phase.head_scale == pytest.approx(expected)
    assert ("head_lr" in settings.hashed()) == (adaptation == "two_rates")


def test_an_input_that_is_the_usual_one_is_in_no_name(tmp_path):
    usual, embeddings = (
        settings_of(tmp_path, "text", head="densenet", reads_embeddings=value)
        for value in (0, 1)
    )
    assert "reads_embeddings" not in usual.resolve().hashed()
    assert run_folder(usual) != run_folder(embeddings)


def head_of(settings):
    experiment = stacking.Stacking(settings)
    network = experiment.build_network(experiment.set_up_devices())
    [head] = network.heads.values()
    return head


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"head": "bimpm"}, "--head=bimpm: fits --task=pairs. With --task=ner"),
        ({"head": "crf"}, "--head=crf: there is no such head"),
        (
            {"adaptation": "finetune_only", "head": "bilstm"},
            "--head=bilstm: --adaptation=finetune_only is the paper's two",
        ),
        ({"adaptation": "stack"}, "--adaptation=stack: pick one of"),
        ({"phase_one_epochs": 0}, "--phase_one_epochs=0: must be at least 1"),
        ({"head_lr": 0.0}, "--head_lr=0.0: must be above 0"),
        ({"transformer_units": 100}, "--transformer_units=100: must be a mult"),
        ({"trainable_layers": "2"}, "--trainable_layers and --blocks"),
        (
            {
                "task": "text",
                "head": "densenet",
                "reads_embeddings": 1,
                "frozen_prefix": "cached",
            },
            "--reads_embeddings=1: the feature cache holds",
        ),
    ],
)
def test_bad_values_are_named(changes, said):
    with pytest.raises(UserError, match=said):
        stacking.Settings(**changes).resolve()


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


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """Settings and result of a run that learns entities, traced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", 1)
        settings = settings_of(
            tmp_path_factory.mktemp("tagger"),
            **HEAD,
            adaptation="joint",
            max_epochs=12,
            batch_size=4,
            lr=5e-3,
        )
        return settings, run(settings)


def test_words_are_labelled_and_scored(tagger):
    settings, result = tagger
    assert result["metric"] == "f1"
    assert result["test"]["f1"] > 0.5 and result["test"]["f1_LOC"] == 0.0
    arrays = arrays_of(settings)
    labels, logits = arrays["test_labels"], arrays["test_logits"]
    assert logits.shape == (len(labels), 9)
    accuracy = np.mean(logits.argmax(axis=1) == labels)
    assert accuracy == pytest.approx(result["test"]["accuracy"])


@pytest.mark.slow  # trains whole runs
def test_long_sentences_are_cut_and_scored_whole(tagger, tmp_path, eager):
    """At 8 tokens a row has 6 pieces: nearly every sentence is cut."""
    settings = settings_of(tmp_path, **HEAD, adaptation="joint", max_length=8)
    run(settings)
    np.testing.assert_array_equal(
        arrays_of(settings)["test_labels"], arrays_of(tagger[0])["test_labels"]
    )


@pytest.mark.parametrize("size", [0, 15])
def test_a_sample_of_what_trains_is_validated_too(tmp_path, size):
    settings = settings_of(tmp_path, max_train_examples=size)
    examples = stacking.Stacking(settings).data.examples["ner"]
    train, validation = examples["train"][""], examples["validation"]
    sizes = stacking_data.SIZES
    assert len(train) == (size or sizes["train"])
    assert len(validation[""]) == len(validation["train"]) == sizes["testa"]
    assert len(examples["test"][""]) == sizes["testb"]
    assert set(validation["train"].ids) < set(train.ids)


# === Phases ===


@pytest.fixture(scope="module")
def in_phases(tmp_path_factory):
    """Settings and result of a run of the head, then of everything."""
    settings = settings_of(
        tmp_path_factory.mktemp("in_phases"), **HEAD, **WITHOUT_DROPOUT
    )
    with quick.eagerly():
        return settings, run(settings)


def test_the_head_trains_first_and_then_everything(in_phases):
    settings, result = in_phases
    phases = [(p["trainable_layers"], p["lr"]) for p in result["phases"]]
    assert phases == [("head", 1e-2), ("all", 1e-3)]
    assert result["prefix_seconds"] is None
    for line in lines_of(settings):
        assert {"accuracy", "train_accuracy"} <= set(line["validation"])


def test_a_cached_first_phase_learns_what_a_live_one_does(
    in_phases, tmp_path, eager
):
    live, _ = in_phases
    settings = dataclasses.replace(
        live,
        frozen_prefix="cached",
        cache_dtype="float32",
        out=str(tmp_path),
    )
    result = run(settings)
    assert result["prefix_seconds"] > 0
    for one, other in zip(lines_of(settings), lines_of(live), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], abs=1e-3)
        assert one["test"] == pytest.approx(other["test"], abs=1e-3)


@pytest.mark.slow
def test_the_first_phase_ends_where_training_and_validation_part(
    tmp_path, monkeypatch, eager
):
    """The last epoch within the gap is kept, and what follows starts there."""
    gaps = iter([0.005, 0.02, 0.009, 0.5, 0.0])
    original = programs.PhasePrograms.evaluate

    def evaluate(self, *arguments):
        scores, logits = original(self, *arguments)
        metrics = scores["validation"]
        metrics["train_accuracy"] = metrics["accuracy"] + next(gaps)
        return scores, logits

    monkeypatch.setattr(programs.PhasePrograms, "evaluate", evaluate)
    result = run(
        settings_of(
            tmp_path,
            **HEAD,
            max_train_examples=8,
            phase_one_epochs=4,
            phase_one_gap=0.01,
        )
    )
    assert [phase["epochs"] for phase in result["phases"]] == [4, 1]
    assert result["phases"][0]["kept_epoch"] == 3
    assert "kept_epoch" not in result["phases"][1]  # nothing chose one


def test_where_no_epoch_is_within_the_gap_the_first_is_kept(tmp_path, eager):
    settings = settings_of(
        tmp_path,
        **HEAD,
        max_train_examples=8,
        adaptation="stack_only",
        max_epochs=2,
        phase_one_gap=0.0,
    )
    # Accuracies on samples of other sizes are hardly ever the same.
    result = run(settings)
    equal = [
        line["phase_epoch"]
        for line in lines_of(settings)
        if line["validation"]["train_accuracy"]
        == line["validation"]["accuracy"]
    ]
    assert result["phases"][0]["kept_epoch"] == (equal or [1])[-1]


@pytest.mark.parametrize("select", ["last", "best"])
@pytest.mark.slow
def test_a_finished_run_is_extended_by_epochs_of_its_last_phase(
    in_phases, tmp_path, select, eager
):
    shorter = dataclasses.replace(in_phases[0], select=select)
    if select != in_phases[0].select:
        run(shorter)
    results = []
    for name in ("extended", "at_once"):
        settings = dataclasses.replace(
            shorter, max_epochs=2, out=str(tmp_path / name)
        )
        if name == "extended":
            shutil.copytree(run_folder(shorter), run_folder(settings))
        results.append(run(settings))
    extended, at_once = results
    for result in results:
        assert [phase["epochs"] for phase in result["phases"]] == [1, 2]
    assert extended["test"] == pytest.approx(at_once["test"], abs=1e-5)


# === Heads and tasks ===


@pytest.mark.slow
@pytest.mark.parametrize(
    "task, head",
    [(task, head) for task in heads.HEADS for head in heads.HEADS[task]],
)
def test_every_head_trains_from_the_cache_and_live(tmp_path, task, head, eager):
    result = run(settings_of(tmp_path, task, head=head, frozen_prefix="cached"))
    assert len(result["phases"]) == 2
    assert 0 <= result["test"]["accuracy"] <= 1
    assert result["trainable_parameters"] == result["total_parameters"]


def test_your_own_table_is_a_text_task(tmp_path):
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
    source = stacking.Stacking(settings).data.source
    assert source.task.labels == ("x", "y")
    train, test = source.read("train"), source.read("test")
    assert len(test) == 4 and not {*train.ids} & {*test.ids}
    assert train.texts[0][0].startswith("good ")


def test_a_table_with_too_few_texts_is_refused(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("text,label\n" + "good film,1\nbad film,0\n" * 9)
    settings = dataclasses.replace(
        settings_of(tmp_path, "text"), data=str(path)
    )
    source = stacking.Stacking(settings).data.source
    with pytest.raises(UserError, match="mine.csv: cannot test 0.1 of its 2"):
        source.read("train")
