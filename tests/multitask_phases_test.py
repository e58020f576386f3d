"""One encoder, three tasks: the passes of an epoch, and the phases of a run."""

import dataclasses
import os
import shutil

import numpy as np
import pytest

from tests.support import cs224n_runs, interrupting, quick, run_files
from tests.support.cs224n_runs import lines_of, run_folder, settings_of
from tf_transfer.data import cs224n
from tf_transfer.models import freezing, tiny
from tf_transfer.multitask import experiment as multitask
from tf_transfer.training import steps, strategy, trainer
from tf_transfer.utils.errors import Interrupted

pytestmark = pytest.mark.usefixtures("one_block", "eager")


@pytest.fixture
def folder(tmp_path):
    """A few rows a file."""
    cs224n_runs.write_all(tmp_path)
    return tmp_path


# === Everything from the first step ===


@dataclasses.dataclass
class Trained:
    """A finished run.

    Attributes:
        settings: `multitask.Settings`.
        result: what `result.json` says.
        moved: for each pass the names of the heads whose weights moved.
        evaluated: names of the tasks whose dev set was run, in order.
    """

    settings: multitask.Settings
    result: dict
    moved: list
    evaluated: list


def train(settings):
    """`Trained` with these settings."""
    moved, evaluated = [], []
    train_pass = trainer.Trainer._train_pass
    open_evaluation = steps.ObjectiveProgram.open_evaluation

    def values(network):
        return {
            name: np.concatenate([w.numpy().ravel() for w in head.weights])
            for name, head in network.heads.items()
        }

    def watch_pass(self, *arguments):
        before = values(self.network)
        train_pass(self, *arguments)
        after = values(self.network)
        moved.append(
            {name for name in before if (before[name] != after[name]).any()}
        )

    def watch_evaluation(self, split):
        evaluated.append(self.objective.name)
        return open_evaluation(self, split)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.Trainer, "_train_pass", watch_pass)
        patch.setattr(
            steps.ObjectiveProgram, "open_evaluation", watch_evaluation
        )
        result = multitask.run(settings).record
    return Trained(settings, result, moved, evaluated)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two epochs of everything; each step is a chunk of its own."""
    folder = tmp_path_factory.mktemp("trained")
    cs224n_runs.write_all(folder)
    with quick.eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "LONGEST_CHUNK", 1)
        return train(settings_of(folder, train="all", seed=1))


@pytest.mark.slow  # trains whole runs
def test_every_task_is_evaluated_after_every_pass(trained):
    settings, result = trained.settings, trained.result
    lines = lines_of(settings)
    assert [(line["epoch"], line["task"]) for line in lines] == [
        (epoch, task)
        for epoch in (1, 2)
        for task in ("paraphrase", "similarity", "sentiment")
    ]
    for line in lines:
        metrics = line["validation"]
        assert {
            "sentiment_accuracy",
            "paraphrase_accuracy",
            "similarity_pearson",
            "overall",
        } <= set(metrics)
        assert metrics["overall"] == cs224n.overall(metrics)
        assert line["test"] is None
    best = max(lines[2::3], key=lambda line: line["validation"]["overall"])
    assert result["validation"] == best["validation"]
    assert result["metric"] == "overall" and result["test"] is None
    assert result["trainable_parameters"] == result["total_parameters"]
    stored = np.load(os.path.join(run_folder(settings), "predictions.npz"))
    assert stored["validation_sentiment_logits"].shape == (10, 5)
    assert stored["validation_similarity_labels"].shape == (12,)


def test_an_output_layer_drifts_on_while_another_task_trains(trained):
    """From its own first pass on, as with PyTorch's gradients of zeros."""
    every = {"paraphrase", "similarity", "sentiment"}
    assert trained.moved == [
        {"paraphrase"},
        {"paraphrase", "similarity"},
        *[every] * 4,
    ]


@pytest.mark.slow
def test_an_output_layer_may_stand_still_while_another_task_trains(
    folder, eager
):
    settings = settings_of(folder, train="all", idle_heads="still")
    alone = [{"paraphrase"}, {"similarity"}, {"sentiment"}]
    assert train(settings).moved == alone * 2


def test_each_phase_combines_the_tasks_in_its_own_way(folder):
    def combined(**changes):
        run = multitask.Multitask(settings_of(folder, **changes))
        _, phases, _ = run.build(strategy.single_device())
        return [type(p.combination).__name__ for p in phases]

    assert combined(combine="sum") == ["NoneType", "Sum"]
    both = {"combine": "sum", "head_combine": "sum"}
    assert combined(**both) == ["Sum", "Sum"]
    settings = settings_of(folder, **both)
    assert not {"head_combine", "idle_heads"} & set(settings.hashed())
    assert "idle_heads" in settings.unread()


@pytest.mark.slow
def test_a_run_stopped_within_a_pass_ends_as_the_uninterrupted_one(
    trained, monkeypatch, tmp_path
):
    settings = dataclasses.replace(trained.settings, out=str(tmp_path))
    passes = interrupting.stop_after(monkeypatch, 5)
    with pytest.raises(Interrupted):
        multitask.run(settings)
    assert passes == [0, 0, 0, 1, 1]  # after the second step of the second
    again = multitask.run(settings).record
    for name, value in trained.result["validation"].items():
        assert again["validation"][name] == pytest.approx(value, abs=1e-5)


# === The heads first, then everything ===


@pytest.fixture(scope="module")
def in_phases(tmp_path_factory):
    """An epoch of the heads, and one of everything, without dropout."""
    folder = tmp_path_factory.mktemp("in_phases")
    cs224n_runs.write_all(folder)
    with quick.eagerly():
        return train(
            settings_of(folder, dropout=0.0, max_epochs=1, idle_heads="still")
        )


@pytest.mark.slow  # trains whole runs
def test_the_heads_train_first_and_then_everything(in_phases):
    result = in_phases.result
    assert [
        (p["trainable_layers"], p["lr"], p["epochs"]) for p in result["phases"]
    ] == [("head", 1e-2, 1), ("all", 1e-3, 1)]
    lines = lines_of(in_phases.settings)
    assert [line["phase"] for line in lines] == [1] * 3 + [2] * 3
    assert result["trainable_parameters"] == result["total_parameters"]


@pytest.mark.slow  # trains whole runs
def test_only_changed_heads_are_evaluated_again(
    in_phases, monkeypatch, tmp_path
):
    """The skipped evaluations would give the same scores."""
    order = ["paraphrase", "similarity", "sentiment"]
    # The first pass of the heads' phase knows nothing yet.
    assert in_phases.evaluated == [*order, *order[1:], *order * 3]
    monkeypatch.setattr(freezing.Trainable, "only_heads", False)
    heads = train(
        dataclasses.replace(
            in_phases.settings, train="head", out=str(tmp_path)
        ).resolve()
    )
    assert heads.evaluated == order * 3
    assert lines_of(heads.settings)[2]["validation"] == pytest.approx(
        lines_of(in_phases.settings)[2]["validation"], abs=1e-6
    )
    hidden = tiny.HIDDEN
    assert heads.result["trainable_parameters"] == (
        5 * (hidden + 1) + 2 * (3 * hidden + 1)
    )


@pytest.mark.slow
def test_heads_that_drift_are_evaluated_after_every_pass(
    in_phases, tmp_path, eager
):
    settings = dataclasses.replace(
        in_phases.settings, train="head", idle_heads="drift", out=str(tmp_path)
    )
    heads = train(settings.resolve())
    order = ["paraphrase", "similarity", "sentiment"]
    assert heads.evaluated == order * 3


@pytest.mark.slow
def test_a_cached_first_phase_learns_the_same_and_the_second_runs_live(
    in_phases, tmp_path
):
    settings = dataclasses.replace(
        in_phases.settings,
        frozen_prefix="cached",
        cache_dtype="float32",
        out=str(tmp_path),
    )
    result = multitask.run(settings).record
    assert [p["trainable_layers"] for p in result["phases"]] == ["head", "all"]
    assert result["prefix_seconds"] > 0
    for cached, live in zip(lines_of(settings), lines_of(in_phases.settings)):
        assert cached["validation"] == pytest.approx(
            live["validation"], abs=1e-3
        )
        assert cached["train_loss"] == pytest.approx(
            live["train_loss"], abs=1e-3
        )


@pytest.mark.slow
def test_the_heads_learn_the_same_from_cached_cls_and_mean_vectors(folder):
    options = {
        "train": "head",
        "pooling": "cls_for_sentiment",
        "dropout": 0.0,
        "max_epochs": 1,
    }
    live = multitask.run(settings_of(folder, **options)).record
    cached = multitask.run(
        settings_of(
            folder, **options, frozen_prefix="cached", cache_dtype="float32"
        )
    ).record
    assert cached["validation"] == pytest.approx(live["validation"], abs=1e-3)


@pytest.mark.slow
def test_the_heads_phase_saves_heads_alone_and_is_resumed(
    in_phases, monkeypatch, tmp_path
):
    settings = dataclasses.replace(in_phases.settings, out=str(tmp_path))
    passes = interrupting.stop_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        multitask.run(settings)
    assert passes == [0, 0]
    saved = run_files.checkpoint_of(run_folder(settings))
    weights = [n for n in saved if not n.startswith(("optimizer/", "best/"))]
    assert weights and all("head_" in name for name in weights)
    again = multitask.run(settings).record
    assert again["validation"] == pytest.approx(
        in_phases.result["validation"], abs=1e-5
    )
    saved = run_files.checkpoint_of(run_folder(settings))
    assert any("token_embedding" in name for name in saved)


@pytest.mark.slow
def test_a_finished_run_is_extended_by_epochs_of_its_last_phase(
    in_phases, tmp_path
):
    # The epochs of the heads are resolved already: one.
    longer = dataclasses.replace(in_phases.settings, max_epochs=2)
    results = []
    for name in ("extended", "at_once"):
        settings = dataclasses.replace(longer, out=str(tmp_path / name))
        if name == "extended":
            shutil.copytree(
                run_folder(in_phases.settings), run_folder(settings)
            )
        result = multitask.run(settings).record
        assert [phase["epochs"] for phase in result["phases"]] == [1, 2]
        results.append(result)
    extended, at_once = results
    assert extended["validation"] == pytest.approx(
        at_once["validation"], abs=1e-5
    )
