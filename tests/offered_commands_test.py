"""Commands that are offered: each can be run as it is."""

import functools

import pytest

from tests.support import commands, own_data
from tf_transfer import experiment, train
from tf_transfer.config import command_line

# What a study adds to the runs that it does.
SEARCHED = {
    "also_cache": "1",
    "baseline": False,
    "max_seconds": 15.7,
    "schedule": "constant",
    "score_test": False,
    "warmup_fraction": 0.0,
}
RUNS = {
    "train": {"trainable_layers": "0", "lr": 5e-4, **SEARCHED},
    "glue": {"trainable_layers": "1", "lr": 1e-3, "batch_size": 4},
    "tweets": {"trainable_layers": "1", "seed": 3},
    "stacking": {"head": "highway"},
    "multitask": {"batch_size": 4},
    "freezing": {"trainable_layers": "1", "lr": 1e-4},
    "methods": {"method": "lora", "lora_rank": 4},
}


def make(name, folder, **changes):
    """An experiment on a task of one's own."""
    cls = experiment.load(name)
    key = "tasks" if name == "multitask" else "task"
    shared = {key: own_data.write_task(folder), "model": "tiny"}
    settings = {**shared, "max_length": 16, "out": str(folder / "runs")}
    return cls(cls.Settings(**{**settings, **RUNS[name], **changes}))


def describe(name, words):
    """The exit code of a command with `--describe`."""
    cls = experiment.load(name)
    main = functools.partial(commands.execute, cls)
    define = functools.partial(
        command_line.define_flags, cls.Settings, cls.__module__
    )
    return commands.call(main, define, *words, "--describe")


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.slow
def test_an_offered_command_runs_and_finds_its_run(name, tmp_path, capsys):
    made = make(name, tmp_path)
    module, *words = made.command()[2:]
    assert module == made.command_module
    settings = command_line.parse(type(made.settings), words)
    again = type(made)(settings)
    assert again.find_run().path == made.find_run().path
    assert describe(name, words) in (0, None), capsys.readouterr()


def test_a_command_has_no_flag_of_a_search_and_the_usual_rate(tmp_path):
    """The last block's rate would be another approach's."""
    made = make("train", tmp_path)
    words = made.command(trainable_layers="all")
    names = {word.partition("=")[0] for word in words[3:]}
    assert names <= {"--task", "--model", "--max_length", "--out"} | {
        "--schedule",
        "--warmup_fraction",
    }
    settings = command_line.parse(train.Settings, words[3:]).resolve()
    assert settings.lr == train.SMALL_RATE  # of everything
