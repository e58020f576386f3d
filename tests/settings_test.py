"""Settings: what is refused, what is filled in, and the flags made of them."""

import dataclasses
import glob
import importlib
import json
import os
import re
import shlex

import pytest
from absl import flags

from tests import command_line_test
from tests.support import commands
from tf_transfer.config import command_line
from tf_transfer.freezing import experiment as freezing
from tf_transfer.glue import experiment as glue
from tf_transfer.multitask import experiment as multitask
from tf_transfer.stacking import experiment as stacking
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError

FLAG_FILES = sorted(
    os.path.relpath(path, commands.ROOT)
    for path in glob.glob(
        os.path.join(commands.ROOT, "flags", "**", "*.flags"), recursive=True
    )
)


def parsed(*arguments):
    """The resolved settings that a command line gives."""
    with commands.flags_of(commands.define_glue, *arguments):
        return command_line.from_flags(glue.Settings).resolve()


def parsed_for(path, *arguments):
    """The same, for the module whose flag file it is."""
    folder = os.path.basename(os.path.dirname(path))
    cls = {
        "freezing": freezing.Settings,
        "tweets": tweets.Settings,
        "multitask": multitask.Settings,
        "stacking": stacking.Settings,
    }.get(folder, glue.Settings)
    return command_line.parse(cls, arguments).resolve()


# === What is refused ===

NAN = float("nan")
REFUSED = (
    ({"trainable_layers": "abc"}, "--trainable_layers=abc"),
    ({"trainable_layers": "-1"}, "--trainable_layers=-1"),
    ({"trainable_layers": "1.5"}, "--trainable_layers=1.5"),
    ({"blocks": "8"}, "--blocks=8"),
    ({"blocks": "7-"}, "--blocks=7-"),
    ({"blocks": "7-8", "trainable_layers": "2"}, "--blocks"),
    ({"lr": 0.0}, "--lr=0"),
    ({"lr": -1e-3}, "--lr=-0.001"),
    ({"lr": NAN}, "--lr=nan"),
    ({"lr": float("inf")}, "--lr=inf"),
    ({"batch_size": 0}, "--batch_size=0"),
    ({"max_epochs": 0}, "--max_epochs=0"),
    ({"cpu_devices": 0}, "--cpu_devices=0"),
    ({"max_length": 7}, "--max_length=7"),
    ({"max_train_examples": -1}, "--max_train_examples=-1"),
    ({"weight_decay": -0.1}, "--weight_decay=-0.1"),
    ({"clip_norm": NAN}, "--clip_norm=nan"),
    ({"patience": -1}, "--patience=-1"),
    ({"min_delta": -0.1}, "--min_delta=-0.1"),
    ({"seed": -1}, "--seed=-1"),
    ({"split_seed": -1}, "--split_seed=-1"),
    ({"dropout": 1.0}, "--dropout=1"),
    ({"head_dropout": -0.1}, "--head_dropout=-0.1"),
    ({"adam_beta1": 1.0}, "--adam_beta1=1"),
    ({"adam_beta2": NAN}, "--adam_beta2=nan"),
    ({"warmup_fraction": 1.0}, "--warmup_fraction=1"),
    ({"validation_fraction": 1.5}, "--validation_fraction=1.5"),
    ({"adam_epsilon": 0.0}, "--adam_epsilon=0"),
    ({"layer_decay": 0.0}, "--layer_decay=0"),
    ({"layer_decay": 1.1}, "--layer_decay=1.1"),
    ({"checkpoint_minutes": 0.0}, "--checkpoint_minutes=0"),
    ({"deterministic": True, "jit_compile": "true"}, "--deterministic"),
    ({"validation_fraction": 0.0}, "--validation_fraction=0"),
    ({"cpu_devices": 2}, "--cpu_devices=2"),
    ({"trainable_layers": "٣"}, "--trainable_layers=٣"),
    ({"trainable_layers": "00000001"}, "--trainable_layers=00000001"),
    ({"blocks": "07-8"}, "--blocks=07-8"),
    ({"seed": 9223372036854775807}, "--seed=9223372036854775807"),
    ({"seed": 10**20}, "--seed=1000000"),
    ({"seed": "1"}, "--seed=1"),
    ({"lr": "1"}, "--lr=1"),
    ({"seed": True}, "--seed=True"),
    ({"batch_size": 10**6}, "--batch_size=1000000"),
    ({"batch_size": 10**20}, "--batch_size=1000000"),
    ({"max_length": 10**9}, "--max_length=1000000000"),
    ({"out": ""}, "--out="),
    ({"out": "a\0b"}, "--out='a\\x00b'"),
    ({"task": "imdb"}, "--task=imdb"),
    ({"pooling": "max"}, "--pooling=max"),
    ({"batching": "sorted"}, "--batching=sorted"),
    ({"schedule": "cosine"}, "--schedule=cosine"),
    ({"select": "first"}, "--select=first"),
    ({"precision": "float16"}, "--precision=float16"),
    ({"strategy": "tpu"}, "--strategy=tpu"),
)


@pytest.mark.parametrize("changes, named", REFUSED, ids=map(str, REFUSED))
def test_a_bad_value_is_refused_by_the_name_of_its_flag(changes, named):
    with pytest.raises(UserError) as error:
        glue.Settings(**changes).resolve()
    message = str(error.value)
    assert message.startswith(named)
    assert len(message) > len(named) + 10  # it also says what to do


TABLE = {"data": "a.csv"}
REFUSED_OF_A_TABLE = (
    *(
        {"task": name}
        for name in ("/tmp/x", "../../..", "a/b", "..", ".", "", "a\\b", "a\nb")
    ),
    {"task": "\x7f"},
    {"task": "x" * 5000},
    {"fold_seed": -1},
    {"fold_seed": 2**32},
    {"text_column": ""},
    {"label_column": ""},
    {"encoding": "utf-8\0"},
)


def test_a_probe_without_validation_selects_no_epoch():
    settings = glue.Settings(
        task="rte", features="frozen", validation_fraction=0.0
    )
    assert settings.resolve().validation_fraction == 0


@pytest.mark.parametrize("changes", REFUSED_OF_A_TABLE, ids=ascii)
def test_a_bad_value_of_a_table_is_refused_in_a_short_line(changes):
    with pytest.raises(UserError) as error:
        tweets.Settings(**TABLE, **changes).resolve()
    message = str(error.value)
    [name] = changes
    assert message.startswith(f"--{name}=")
    assert len(message) < 300 and message.isprintable()


@pytest.mark.parametrize(
    "name", ["tweets", "My reviews (2)", "größe", ".x", "…"]
)
def test_any_other_name_is_a_task_s(name):
    assert tweets.Settings(**TABLE, task=name).resolve().task == name


def test_every_choice_is_a_setting(monkeypatch):
    monkeypatch.setitem(machine.versions(), "openvino", "2026.0")
    for field in dataclasses.fields(glue.Settings):
        choices = field.metadata["choices"]
        for choice in choices or ():
            glue.Settings(**{field.name: choice}).resolve()
        assert not choices or field.default in choices


# === What is filled in ===


@pytest.mark.parametrize(
    "changes, approach, lr",
    [
        ({}, "fine_tuning", 2e-5),
        ({"trainable_layers": "0"}, "last_0", 1e-3),
        ({"trainable_layers": 4}, "last_4", 1e-3),
        ({"blocks": "7-8"}, "blocks_7-8", 1e-3),
        ({"trainable_layers": "4", "lr": 2e-5}, "last_4", 2e-5),
        ({"lr": 1e-3}, "fine_tuning", 1e-3),
    ],
)
def test_the_rate_follows_from_what_trains_unless_given(changes, approach, lr):
    settings = glue.Settings(**changes).resolve()
    assert (settings.approach, settings.lr) == (approach, lr)


@pytest.mark.parametrize(
    "changes, belongs",
    [
        ({}, False),
        ({"schedule": "linear"}, True),
        ({"warmup_fraction": 0.1}, True),
    ],
)
def test_max_epochs_names_a_run_only_where_the_rate_looks_at_it(
    changes, belongs
):
    assert ("max_epochs" in glue.Settings(**changes).hashed()) == belongs


def test_what_cannot_change_a_number_is_not_hashed():
    everything = {field.name for field in dataclasses.fields(glue.Settings)}
    settings = glue.Settings(
        schedule="linear",
        trainable_layers="1",
        frozen_prefix="cached",
        layer_decay=0.9,
        pairs="sbert",
    )
    assert everything - set(settings.hashed()) == {
        "model",
        "data",  # their content is hashed, wherever it lies
        "text_column",  # and the identity of a table has what is read of it
        "label_column",
        "group_column",
        "label_separator",
        "kind",
        "metric",
        "test_fraction",
        "encoding",
        "skip_bad_rows",
        "ignore_labels",
        "duplicates",
        "long_texts",  # where they are as before, and not otherwise
        "class_weights",
        "features",
        "keep_blocks",
        "loss_head",
        "head",
        "method",
        "lora_rank",  # with the method alone that reads them
        "lora_alpha",
        "lora_targets",
        "out",
        "cache_dir",
        "cache_limit_gb",
        "also_cache",
        "checkpoint_minutes",
        "checkpoint_epochs",
        "rerun",
        "describe",
    }


def test_a_cached_prefix_counts_only_where_there_is_one():
    def hashed(**changes):
        return glue.Settings(**changes).hashed()

    last = {"trainable_layers": "1"}
    cached = {"frozen_prefix": "cached"}
    half = {"cache_dtype": "bfloat16"}
    assert hashed(**cached, **half) == hashed()
    assert hashed(**last, **half) == hashed(**last)
    assert hashed(**last)["frozen_prefix"] == "live"
    assert hashed(**last, **cached)["frozen_prefix"] == "cached"
    assert hashed(**last, **cached) != hashed(**last, **cached, **half)


def test_the_cache_is_where_the_flag_or_the_user_wants_it(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert glue.Settings().cache_folder == "/elsewhere/tf_transfer"
    assert glue.Settings(cache_dir="/mine").cache_folder == "/mine"


# === Flags ===


def test_flags_without_arguments_are_the_defaults():
    assert parsed() == glue.Settings().resolve()


def test_a_flag_gives_a_value_of_its_type():
    settings = parsed(
        "--lr=3e-4",
        "--batch_size=7",
        "--bias_correction",
        "--norerun",
        "--trainable_layers=2",
    )
    assert (
        settings
        == glue.Settings(
            lr=3e-4, batch_size=7, bias_correction=True, trainable_layers="2"
        ).resolve()
    )


def test_there_are_flag_files():
    assert len(FLAG_FILES) >= 12


@pytest.mark.parametrize("path", FLAG_FILES)
def test_a_flag_file_gives_the_settings_that_its_name_says(path, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    settings = parsed_for(path, f"--flagfile={path}")
    name = os.path.basename(path).removesuffix(".flags")
    if match := re.fullmatch(r"last_(\d)(_low_lr)?", name):
        expected = (match[1], 2e-5 if match[2] else 1e-3)
    elif match := re.fullmatch(r"fine_tuning(_high_lr)?", name):
        expected = ("all", 1e-3 if match[1] else 2e-5)
    else:
        return
    assert (settings.trainable_layers, settings.lr) == expected


def test_the_shared_file_of_wangs_table_is_the_default(monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    assert parsed("--flagfile=flags/glue/wang.flags") == parsed()


def test_the_embedded_file_needs_nothing_but_pip(monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    settings = parsed("--flagfile=flags/embedded.flags")
    assert (settings.task, settings.data, settings.model) == (
        "sst2",
        "rotten_tomatoes",
        "minilm",
    )


def test_what_stands_behind_a_flag_file_overrides_it(monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    settings = parsed("--flagfile=flags/glue/last_2.flags", "--lr=0.5")
    assert (settings.trainable_layers, settings.lr) == ("2", 0.5)


@pytest.mark.parametrize("path", FLAG_FILES)
def test_the_command_in_a_flag_file_is_one_of_its_own(path, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    with open(path) as file:
        found = [
            shlex.split(line.removeprefix("#"))
            for line in file
            if line.startswith("#   python -m tf_transfer.")
        ]
    shared = (
        "elsa.flags",
        "hart.flags",
        "li.flags",
        "stacking.flags",
        "wang.flags",
    )
    if os.path.basename(path) in shared:
        assert not found  # it is there to be inherited
        return
    [[_python, _m, module, *arguments]] = found
    assert f"--flagfile={path}" in arguments
    found = parsed_for(path, *arguments)
    assert module == type(found).__module__.rpartition(".")[0]


# === The entry modules ===


def test_all_entry_modules_can_be_imported_into_one_process():
    for module in command_line_test.ENTRIES:
        importlib.import_module(f"tf_transfer.{module}")
    names = {field.name for field in dataclasses.fields(glue.Settings)}
    assert not names & set(flags.FLAGS)


def test_whole_numbers_are_the_floats_of_the_command_line():
    ours = glue.Settings(task="rte", dropout=0, lr=1).resolve().hashed()
    theirs = glue.Settings(task="rte", dropout=0.0, lr=1.0).resolve().hashed()
    assert json.dumps(ours) == json.dumps(theirs)
