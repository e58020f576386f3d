"""What `--help` says, and flags that a run could not mean."""

import dataclasses
import inspect

import pytest
from absl import flags

import tf_transfer.__main__ as main
from tests.support import commands
from tf_transfer import experiment, predict, train
from tf_transfer.config import command_line, help as help_lib
from tf_transfer.config.fields import Group
from tf_transfer.glue import experiment as glue
from tf_transfer.multitask import experiment as multitask
from tf_transfer.runs.task_settings import TaskSettings
from tf_transfer.stacking import experiment as stacking
from tf_transfer.utils import machine
from tf_transfer.utils.errors import UserError


def help_of(module):
    values = flags.FlagValues()
    command_line.define_flags(module.Settings, "here", values)
    command_flags = values.get_key_flags_for_module("here")
    return help_lib.format_help(
        inspect.getdoc(module), command_flags, module.Settings
    )


@pytest.mark.parametrize(
    "module", [experiment.load(name) for name in experiment.EXPERIMENTS]
)
def test_the_flags_to_know_come_first_and_examples_last(module):
    text = help_of(inspect.getmodule(module))
    first = text.partition("The optimizer:")[0].partition(Group.OWN)[0]
    assert text.index(Group.FIRST) < text.index("The optimizer:")
    assert "--model:" in first and "--adam_beta1:" not in first
    assert text.index("The optimizer:") < text.index("Examples:")
    assert text.rstrip().splitlines()[-1].startswith("    ")
    for field in dataclasses.fields(module.Settings):
        assert f"--{field.name}:" in text or f"--[no]{field.name}:" in text


def test_a_flag_that_is_repeated_has_the_help_of_its_field():
    text = help_of(predict)
    assert "A text. Give it twice for a task on pairs.\n" in text
    assert "default: []" not in text


def test_every_shared_flag_has_a_purpose():
    for field in dataclasses.fields(TaskSettings):
        is_own = field.metadata["group"] == Group.OWN
        assert is_own == (field.name in help_lib.FIRST_FLAGS), field.name


def test_the_package_lists_its_commands():
    text = main.list_commands()
    for name in (*experiment.EXPERIMENTS, "predict", "sweep", "report"):
        assert f"  {name} " in text
    assert "Trains once on your own texts with common settings" in text


def test_a_word_that_is_no_command_is_refused(monkeypatch):
    monkeypatch.setattr("sys.argv", ["tf-transfer", "glu", "--task=rte"])
    with pytest.raises(UserError, match="'glu' is not a .*Is glue meant"):
        main.run()


def test_a_flag_given_twice_is_refused():
    with commands.flags_of(predict.Settings):
        command_line.check_single_flags(["--text=a", "--text=b"])
        with pytest.raises(UserError, match="--run: is given 2 times"):
            command_line.check_single_flags(["--run=a", "--text=b", "--run=c"])


@pytest.mark.parametrize(
    "cls, values, names",
    [
        (glue.Settings, {}, {"text_column", "cache_dtype"}),
        (train.Settings, {"features": "tfidf", "task": "rte"}, {"lr", "model"}),
        (stacking.Settings, {"adaptation": "joint"}, {"head_lr"}),
        (multitask.Settings, {"train": "all"}, {"head_lr", "alpha"}),
    ],
)
def test_flags_that_a_run_does_not_read_are_known(cls, values, names):
    assert names <= set(cls(**values).unread())


def test_a_flag_that_is_not_read_is_refused(monkeypatch):
    with commands.flags_of(commands.define_glue):
        monkeypatch.setattr("sys.argv", ["glue", "--text_column=body"])
        with pytest.raises(UserError, match="--text_column=.*has no effect"):
            command_line.from_flags(glue.Settings)
        monkeypatch.setenv(machine.JOBS_VARIABLE, "1")  # in a sweep
        command_line.from_flags(glue.Settings)
