"""Whole runs on `tiny`, in a process that stays warm.

TensorFlow's threads do not survive a fork, so a point has no process of its
own: `disk.Ended` stands for its end. `WARM` keeps network and programs from
point to point, so that a run takes a fraction of a second.
"""

import contextlib
import functools
import os
import pathlib
import signal
import sys
import tempfile

import pytest

from tests.faults import run_scenarios, study_scenarios
from tests.faults.disk import read_tree
from tests.faults.points import Scenario
from tests.support import answering, own_data
from tests.sweeps import fakes
from tf_transfer import experiment, train
from tf_transfer.runs import export_folder
from tf_transfer.runs.warm import WarmState
from tf_transfer.sweeps import grid as grid_lib, worker
from tf_transfer.sweeps.states import RunStates
from tf_transfer.utils.errors import Interrupted

WARM = WarmState()
TEXTS = 24
FLAGS = {
    "model": "tiny",
    "batch_size": 8,
    "max_epochs": 2,
    "max_length": 16,
    "lr": 1e-2,
    "trainable_layers": "0",
    "frozen_prefix": "cached",
    "baseline": False,
}
SEEDS = (0, 1)  # of a sweep


# === A run ===


def train_run(root, callbacks=(), **changes):
    """A run of `tf_transfer.train`: two epochs of two steps."""
    settings = train.Settings(
        **FLAGS
        | {
            "task": os.path.join(root, "news.toml"),
            "out": os.path.join(root, "runs"),
            "cache_dir": os.path.join(root, "cache"),
            **changes,
        }
    )
    return train.Train(settings, warm=WARM).train(callbacks).directory


class Stop:
    """A callback that asks a run to stop after its first steps."""

    def __getattr__(self, name):
        return lambda *arguments: None

    def on_steps_end(self, trainer, losses, counts):
        os.kill(os.getpid(), signal.SIGTERM)


def prepare_task(root):
    own_data.write_task(
        pathlib.Path(root),
        columns=own_data.news(TEXTS),
        test=None,
        validation=0.25,
    )


def prepare_other(root):
    """A finished run of another seed, whose cache this one reads."""
    prepare_task(root)
    train_run(root, seed=1)


def prepare_half(root):
    prepare_other(root)
    with contextlib.suppress(Interrupted):
        train_run(root, [Stop()])


def prepare_finished(root):
    prepare_task(root)
    train_run(root)
    columns = {"body": ["the moon", "a bank"], "team": ["space", "money"]}
    own_data.write(pathlib.Path(root, "new.csv"), columns)


def find_run(root, seed=0):
    pattern = f"runs/train/news/*/*seed={seed}-*/result.json"
    folders = pathlib.Path(root).glob(pattern)
    return [os.path.relpath(path.parent, root) for path in folders]


def read_run(root):
    for path in find_run(root):
        return run_scenarios.read_run(root, path)


# === Predictions and exports ===


def answer(root):
    [path] = find_run(root)
    run = experiment.open_run(
        os.path.join(root, path), os.path.join(root, "cache")
    )
    answering.predict_file(
        run.predictor(),
        os.path.join(root, "new.csv"),
        os.path.join(root, "answers.csv"),
        label_column="team",
    )


@functools.cache
def open_predictor():
    """Of a run elsewhere: the folder of an export is all that may fail.

    Returns:
        The predictor, and the folder, which stays as long as that is kept.
    """
    folder = tempfile.TemporaryDirectory()
    prepare_finished(folder.name)
    [path] = find_run(folder.name)
    run = experiment.open_run(os.path.join(folder.name, path))
    predictor = run.predictor()
    model = predictor.text_model()  # traced once
    functions = model.signatures()
    predictor.text_model, model.signatures = lambda: model, lambda: functions
    return predictor, folder


def export_as(form):
    def act(root):
        folder = os.path.join(root, "export")
        if None in read_export(form, root):
            export_folder.export(open_predictor()[0], folder, form)

    return act


# The weights, and a file that is written with them.
FILES = {
    "saved_model": (
        "variables/variables.data-00000-of-00001",
        "saved_model.pb",
    ),
    "hugging_face": ("model.safetensors", "config.json"),
    "keras_preset": ("model.weights.h5", "task.json"),
}


def read_export(form, root):
    """The weights, and whether they can be read.

    The other files have names of layers, which differ from export to export.
    """
    tree = read_tree(os.path.join(root, "export"))
    weights, other = FILES[form]
    return [tree.get(weights), other in tree or None]


# === A sweep ===


@functools.cache
def plan_runs(root):
    grid = {
        "experiment": "train",
        "flags": FLAGS
        | {
            "task": os.path.join(root, "news.toml"),
            "cache_dir": os.path.join(root, "cache"),
        },
        "axes": {"seed": [*SEEDS]},
    }
    return grid_lib.expand(
        "grid.json", grid_lib.Grid(**grid), os.path.join(root, "runs")
    )


def sweep(root):
    """A worker does the runs in this process."""
    out = os.path.join(root, "runs")

    def do_run(run):
        log = RunStates(out, [run]).log_file(run)
        outcome = worker.Worker(lambda report: None).do(
            worker.Order.of_run(run, log)
        )
        # A worker that was stopped ends its process.
        return "broken" if outcome == "stopped" else outcome

    with (
        contextlib.closing(fakes.make_pool(do_run)) as pool,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", sys.argv)  # which a worker replaces
        fakes.run_completely(plan_runs(root), out, pool, retry_failed=True)


def read_sweep(root):
    results = {}
    for seed in SEEDS:
        for path in find_run(root, seed):
            results[seed] = run_scenarios.read_run(root, path)
    return results


OWN = ("runs/train/*/*/*seed=0-*/*", "cache/*")
SCENARIOS = {
    "whole run": Scenario(
        prepare_task, train_run, read_run, ("runs/*", "cache/*"), share=3
    ),
    "whole run, resumed": Scenario(
        prepare_half, train_run, read_run, OWN, share=4
    ),
    "whole sweep": Scenario(
        prepare_task,
        sweep,
        read_sweep,
        ("runs/*", "cache/*"),
        leaves=study_scenarios.has_right_results,
        share=17,
    ),
    "whole predictions": Scenario(
        prepare_finished,
        answer,
        run_scenarios.read_answers,
        ("answers.csv*",),
        litters=True,
        leaves=run_scenarios.has_whole_files,
        share=3,
    ),
    **{
        f"whole export, {form}": Scenario(
            lambda root: open_predictor(),
            export_as(form),
            functools.partial(read_export, form),
            ("export/*",),
            leaves=lambda result, before, expected: all(
                part in (None, one) for part, one in zip(result, expected)
            ),
            litters=True,
            refusals=("is not empty. Give a new folder.",),
            share=9,
        )
        for form in FILES
    },
}
