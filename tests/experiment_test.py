"""An experiment, a head and a task of one's own go through everything."""

import json
import os
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf

from tests.support import (
    commands,
    head_first,
    interrupting,
    quick,
    run_files,
)
from tf_transfer import experiment, predict, report, sweep
from tf_transfer.data.task import Examples, Source, Task
from tf_transfer.glue import experiment as glue
from tf_transfer.runs import run_data, runners
from tf_transfer.training.callbacks import Callback
from tf_transfer.utils.errors import Interrupted, UserError

ROW = "tests.support.head_first"  # how commands name the sixth experiment
SMALL = {
    "task": "rte",
    "data": "sample",
    "model": "tiny",
    "trainable_layers": "1",
    "batch_size": 8,
    "max_epochs": 1,
    "max_length": 16,
}


pytestmark = pytest.mark.usefixtures("one_block")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run of the sixth experiment."""
    out = tmp_path_factory.mktemp("trained")
    with quick.eagerly():
        return head_first.run(head_first.Settings(**SMALL, out=str(out)))


def out_of(run):
    """The root of the run directories."""
    return run.directory.split(f"{os.sep}head_first{os.sep}")[0]


# === A sixth experiment ===


def test_it_is_as_short_as_its_recipe_says():
    with open(head_first.__file__, encoding="utf-8") as file:
        assert len(file.readlines()) <= 60


@pytest.mark.slow  # trains whole runs
def test_it_trains_in_its_own_phases(trained):
    assert [p["trainable_layers"] for p in trained.record["phases"]] == [
        "head",
        "1",
    ]
    assert trained.history["phase"].tolist() == [1, 2]
    assert f"{os.sep}head_first{os.sep}rte{os.sep}" in trained.directory


@pytest.mark.slow  # trains whole runs
def test_it_resumes_where_it_was_stopped(trained, monkeypatch, tmp_path, eager):
    settings = head_first.Settings(**SMALL, out=str(tmp_path))
    interrupting.stop_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        head_first.run(settings)
    resumed = head_first.run(settings)
    assert resumed.scores == trained.scores
    assert (
        resumed.history["train_loss"].tolist()
        == trained.history["train_loss"].tolist()
    )


def write_grid(folder):
    """A grid of the run that is trained above: its path."""
    flags = {name: value for name, value in SMALL.items() if name != "task"}
    grid = {"experiment": ROW, "flags": flags, "axes": {"task": ["rte"]}}
    path = folder / "grid.json"
    path.write_text(json.dumps(grid))
    return str(path)


def call_sweep(grid, *words):
    """The sweep's command, in this process; its exit code."""
    return commands.call(
        lambda: sweep.main(["sweep", grid]), sweep.Settings, *words
    )


def test_a_sweep_finds_its_finished_runs(trained, tmp_path, capsys):
    words = ("--dry_run", f"--out={out_of(trained)}")
    assert call_sweep(write_grid(tmp_path), *words) == 0
    assert "1 runs, 0 of them pending" in capsys.readouterr().out


@pytest.mark.slow
def test_a_sweep_does_its_runs(tmp_path, monkeypatch, capsys):
    """Each in a process of its own, which imports this module by its name."""
    monkeypatch.chdir(commands.ROOT)
    grid, out = write_grid(tmp_path), tmp_path / "runs"
    assert call_sweep(grid, f"--out={out}") == 0
    [path] = out.glob("head_first/rte/head_first_last_1/*/result.json")
    record = json.loads(path.read_text())
    assert [p["trainable_layers"] for p in record["phases"]] == ["head", "1"]
    capsys.readouterr()
    assert call_sweep(grid, "--dry_run", f"--out={out}") == 0
    assert "1 runs, 0 of them pending" in capsys.readouterr().out


def test_it_predicts_where_its_module_is_named(trained, capsys):
    words = (f"--run={trained.directory}", "--text=Rain.", "--text=It is wet.")
    assert commands.call(predict.main, predict.Settings, *words) == 2
    assert "Give its module as --experiment" in capsys.readouterr().err
    words = (*words, f"--experiment={ROW}")
    assert commands.call(predict.main, predict.Settings, *words) == 0
    *_, label, _ = capsys.readouterr().out.split(",")
    assert label in ("entailment", "not_entailment")


def test_it_is_reported(trained, tmp_path):
    code = commands.call(
        lambda: report.main(["report", out_of(trained)]),
        report.Settings,
        f"--out={tmp_path}",
    )
    assert code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "head_first: tiny" in page and "head first last 1" in page


def test_a_name_without_an_experiment_lists_those_there_are():
    with pytest.raises(UserError, match="Give one of freezing, glue"):
        experiment.load("no_such_experiment")
    with pytest.raises(UserError, match="no experiment"):
        experiment.load("json")


NAMING = """
import json, pathlib, sys
from tests.support import cs224n_runs, stacking_data, tweets_table
from tf_transfer import experiment

folder = pathlib.Path(sys.argv[1])
cs224n_runs.write_all(folder)
small = {"out": str(folder), "model": "tiny", "data": "sample"}
settings = {
    "freezing": {**small, "lr": 1e-3},
    "multitask": {**small, "data": str(folder)},
    "stacking": stacking_data.settings_of(folder).__dict__,
    "train": {**small, "task": "rte"},
    "tweets": {
        **small,
        "data": tweets_table.write(folder),
        "id_column": "number",
    },
}
for name in experiment.EXPERIMENTS:
    cls = experiment.load(name)
    path = cls(cls.Settings(**settings.get(name, small))).find_run().path
    loaded = sorted({"tensorflow", "keras"} & set(sys.modules))
    print("RESULT" + json.dumps([name, path, loaded]))
"""


def test_the_run_of_every_paper_is_named_without_tensorflow(tmp_path):
    names = commands.results_of(NAMING, str(tmp_path))
    assert [name for name, _, _ in names] == list(experiment.EXPERIMENTS)
    for name, path, loaded in names:
        assert path.startswith(f"{tmp_path}{os.sep}") and name in path
        assert not loaded, name


# === From Python ===


@pytest.mark.slow  # traces and saves a model
def test_a_result_has_scores_history_and_a_model_of_strings(trained):
    assert (
        trained.scores["test"]["accuracy"] == trained.record["test"]["accuracy"]
    )
    assert "validation.accuracy" in trained.history.columns
    arrays = np.load(os.path.join(trained.directory, "predictions.npz"))
    source = trained.experiment.data.source.read("dev")
    model = trained.model()
    probabilities = model.predict(
        tuple(map(tf.constant, source.texts)), verbose=0
    )
    logits = arrays["test_logits"][:, 0]
    np.testing.assert_allclose(
        probabilities[:, 1], 1 / (1 + np.exp(-logits)), atol=1e-5
    )
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)


def test_a_finished_run_is_opened_with_the_weights_that_it_wrote(trained):
    opened = experiment.open_run(trained.directory, experiment_name=ROW)
    texts = ["Rain."], ["It is wet."]
    assert opened.predictor().answer(*texts) == trained.predictor().answer(
        *texts
    )


class Colours(Source):
    """A task of one's own, in memory."""

    task = Task(
        "colours",
        "",
        ("text",),
        "",
        ("red", "green", "blue"),
        "accuracy",
        "",
        (),
        development=("test",),
    )
    identity = "colours 1"

    def read(self, split):
        count = 24 if split == "train" else 9
        ids = np.arange(count)
        texts = [f"the {self.task.labels[i % 3]} house" for i in ids]
        return Examples(ids, [texts], ids % 3)


class Recorder(Callback):
    """Notes what happens."""

    def __init__(self):
        self.events = []

    def on_record(self, trainer, line):
        self.events.append((line["epoch"], trainer.progress.total_steps))


def test_a_task_a_head_and_a_callback_are_arguments(tmp_path, eager):
    import keras

    class Sum(keras.layers.Layer):
        """The sum of the states of [CLS], times a weight a class."""

        pooling = "cls"
        texts_per_example = 1

        def __init__(self, units):
            super().__init__(name="sum")
            self.kernel = self.add_weight(shape=(1, units), name="kernel")
            self.built = True

        def call(self, pooled, training=False):
            return keras.ops.sum(pooled, axis=1, keepdims=True) * self.kernel

    def build_sum(task, encoder):
        return Sum(task.units)

    recorder = Recorder()
    result = glue.run(
        glue.Settings(**{**SMALL, "max_epochs": 2}, out=str(tmp_path)),
        callbacks=[recorder],
        source=Colours(),
        head=build_sum,
    )
    assert result.record["task"] == "colours"
    assert f"{os.sep}colours{os.sep}" in result.directory
    assert recorder.events == [(1, 3), (2, 6)]
    texts = tf.constant(["the red house"])
    logits = result.model()(texts)
    assert logits.shape == (1, 3)
    # Opened again, it needs the head again.
    with pytest.raises(UserError, match="trained with the head .*build_sum"):
        experiment.open_run(result.directory)
    opened = experiment.open_run(result.directory, head=build_sum)
    np.testing.assert_allclose(opened.model()(texts), logits, atol=1e-6)


def test_a_head_draws_from_tensorflow_what_it_draws_in_a_new_process():
    def draw(head=None):
        settings = glue.Settings(**SMALL)
        glue.Glue(settings, head=head).set_up_devices()
        return tf.random.uniform([]).numpy()

    assert draw(head=Recorder) == draw(head=Recorder)
    # No code of the package draws there, and seeding it unloads programs.
    assert draw() != draw()


class FewTexts(run_data.RunData):
    """The first three training texts of a task."""

    def read_splits(self, task):
        texts = super().read_splits(task)
        train = texts["train"][""].take(np.arange(3))
        return {**texts, "train": {"": train}}


class FewShots(head_first.HeadFirst):
    """An experiment with data of its own."""

    Data = FewTexts


def test_an_experiment_may_have_data_of_its_own():
    data = FewShots(FewShots.Settings(data="sample")).data
    assert len(data.examples["rte"]["train"][""]) == 3
    assert data.task == data.source.task


# === The end of a run ===


class DoneRunner(runners.Runner):
    """In place of training: returns a record with a warning."""

    def run(self, directory):
        os.makedirs(directory.path)
        return run_files.finished(warnings=["all labels are of one class."])


class Done(glue.Glue):
    """An experiment whose runs are over at once."""

    runners: ClassVar = {"bert": DoneRunner}


def test_the_end_prints_the_result_and_its_warnings(tmp_path, capsys):
    run = Done.run(glue.Settings(**SMALL, out=str(tmp_path)))
    printed = capsys.readouterr()
    assert printed.err == "Warning: all labels are of one class.\n"
    assert "test accuracy 0.5000" in printed.out
    assert f"Written to {run.directory}" in printed.out
    again = Done.run(glue.Settings(**SMALL, out=str(tmp_path)))
    assert again.record["warnings"] == ["all labels are of one class."]
    assert "Already done" in capsys.readouterr().out
