"""One encoder, three tasks: its settings, its phases, its turns."""

import dataclasses
import json
import os

import numpy as np
import pytest

from tests import cs224n_runs
from tests import interrupting
from tests.cs224n_runs import lines_of
from tests.cs224n_runs import run_folder
from tests.cs224n_runs import settings_of
from tf_transfer import multitask
from tf_transfer.config import command_line
from tf_transfer.data import cs224n
from tf_transfer.models import freezing
from tf_transfer.models import tiny
from tf_transfer.training import learner
from tf_transfer.training import loop
from tf_transfer.training import run as run_lib
from tf_transfer.utils.errors import UserError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A few rows a file, and a `tiny` of two blocks."""
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    cs224n_runs.write_all(tmp_path)
    return tmp_path


# === Settings ===


def test_defaults_are_the_paper_s_best_run(folder):
    settings = multitask.MultitaskSettings(data=str(folder)).resolve()
    assert (settings.train, settings.head_lr, settings.lr) == (
        "head_then_all",
        1e-3,
        1e-5,
    )
    assert (settings.max_epochs, settings.batch_size) == (20, 32)
    assert (settings.pooling, settings.pairs) == ("mean", "sbert")
    assert (settings.layer_decay, settings.head_dropout) == (1.0, 0.3)
    assert settings.bias_correction and settings.weight_decay == 0.0
    assert (settings.clip_norm, settings.adam_epsilon) == (0.0, 1e-6)
    assert (settings.select, settings.schedule) == ("best", "constant")
    names = multitask.tasks_in_order(settings)
    assert names == ["paraphrase", "similarity", "sentiment"]
    assert (settings.combine, settings.loss_weights) == ("in_turn", "")
    assert settings.head_epochs == 20


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"order": "sentiment"}, "--order=sentiment: give each of"),
        ({"order": "sentiment,sentiment,similarity"}, "--order=sentiment,sen"),
        ({"order": "sentiment,similarity,quora"}, "--order=.*quora"),
        ({"head_lr": 0.0}, "--head_lr=0"),
        ({"layer_decay": 1.5}, "--layer_decay=1.5"),
        ({"trainable_layers": "2"}, "--trainable_layers and --blocks"),
        ({"validation_fraction": 0.2}, "--validation_fraction: has no use"),
        ({"train": "heads"}, "--train=heads"),
        ({"combine": "add"}, "--combine=add: pick one of in_turn, sum"),
        ({"loss_weights": "quora=2"}, "--loss_weights=quora=2: 'quora=2' is"),
        ({"loss_weights": "sentiment=0"}, "with a name of .* number above 0"),
        ({"loss_weights": "sentiment"}, "--loss_weights=sentiment"),
        ({"alpha": -1.0}, "--alpha=-1: give an exponent"),
        ({"last_alpha": -0.5}, "--last_alpha=-0.5"),
        ({"head_epochs": -1}, "--head_epochs=-1"),
        ({"max_dev_examples": -1}, "--max_dev_examples=-1: give 0 or more"),
    ],
)
def test_bad_values_are_named(folder, changes, said):
    with pytest.raises(UserError, match=said):
        settings_of(folder, **changes)


def test_what_a_run_does_not_read_is_not_in_its_name(folder):
    def same(one, other):
        names = [run_folder(settings_of(folder, **c)) for c in (one, other)]
        return names[0] == names[1]

    assert same({"train": "all"}, {"train": "all", "head_lr": 0.5})
    assert not same({}, {"head_lr": 0.5})
    assert same({"train": "head"}, {"train": "head", "lr": 0.5})
    assert same({}, {"alpha": 0.5, "last_alpha": 0.5})
    drawn = {"combine": "sampled"}
    assert not same(drawn, {**drawn, "alpha": 0.5})
    # Under a changing exponent each epoch depends on how many there are.
    kept = {"head_epochs": 1}
    assert same(kept, {**kept, "max_epochs": 9})
    assert not same({**drawn, **kept}, {**drawn, **kept, "max_epochs": 9})
    fixed = {**drawn, **kept, "alpha": 0.5, "last_alpha": 0.5}
    assert same(fixed, {**fixed, "max_epochs": 9})
    # The heads' epochs are the run's own, though they follow --max_epochs.
    assert not same({}, {"max_epochs": 9})


def test_overall_is_the_mean_with_r_brought_into_0_to_1():
    """The first row of the paper's table 3."""
    found = multitask.overall(
        {
            "sentiment_accuracy": 0.461,
            "paraphrase_accuracy": 0.756,
            "similarity_pearson": 0.693,
        }
    )
    assert found == {"overall": pytest.approx(0.688, abs=0.0005)}


def test_the_flags_are_the_settings(folder):
    words = [f"--data={folder}", "--train=head", "--pooling=cls"]
    settings = command_line.parse(multitask.MultitaskSettings, words)
    assert settings == dataclasses.replace(
        multitask.MultitaskSettings(),
        data=str(folder),
        train="head",
        pooling="cls",
    )


# === Runs ===


def test_a_part_of_each_dev_set_validates(folder):
    whole, part = (
        settings_of(folder, train="head", max_epochs=1, max_dev_examples=most)
        for most in (0, 5)
    )
    for settings in (whole, part):
        multitask.run(settings)
    stored, fewer = (
        np.load(os.path.join(run_folder(settings), "predictions.npz"))
        for settings in (whole, part)
    )
    for task in cs224n.TASKS:
        ids = fewer[f"validation_{task}_ids"]
        assert len(ids) == 5
        np.testing.assert_allclose(
            fewer[f"validation_{task}_logits"],
            stored[f"validation_{task}_logits"][ids],
            atol=1e-5,
        )


@dataclasses.dataclass
class Done:
    """A run of two epochs that trained everything from the start.

    Attributes:
        settings: `multitask.MultitaskSettings`.
        result: what it returned.
        moved: for each turn the names of the heads whose weights moved.
    """

    settings: multitask.MultitaskSettings
    result: dict
    moved: list


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """`Done`; each of its steps is a chunk of its own."""
    folder = tmp_path_factory.mktemp("done")
    cs224n_runs.write_all(folder)
    settings = settings_of(folder, train="all", seed=1)
    moved = []
    original = run_lib.Run._run_turn

    def listen(self, trainer, *rest):
        def values():
            return {
                name: np.concatenate([w.numpy().ravel() for w in head.weights])
                for name, head in self.network.heads.items()
            }

        before = values()
        original(self, trainer, *rest)
        after = values()
        moved.append(
            {name for name in before if (before[name] != after[name]).any()}
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "BLOCKS", 2)
        patch.setattr(loop, "LONGEST_CHUNK", 1)
        patch.setattr(run_lib.Run, "_run_turn", listen)
        result = multitask.run(settings)
    return Done(settings, result, moved)


def test_every_task_is_evaluated_after_every_turn(done):
    settings, result = done.settings, done.result
    lines = lines_of(settings)
    assert [(line["epoch"], line["turn"]) for line in lines] == [
        (epoch, turn)
        for epoch in (1, 2)
        for turn in ("paraphrase", "similarity", "sentiment")
    ]
    for line in lines:
        metrics = line["validation"]
        assert {
            "sentiment_accuracy",
            "paraphrase_accuracy",
            "similarity_pearson",
            "overall",
        } <= set(metrics)
        assert metrics["overall"] == multitask.overall(metrics)["overall"]
        assert line["test"] is None
    best = max(lines[2::3], key=lambda line: line["validation"]["overall"])
    assert result["validation"] == best["validation"]
    assert result["metric"] == "overall" and result["test"] is None
    stored = np.load(os.path.join(run_folder(settings), "predictions.npz"))
    assert stored["validation_sentiment_logits"].shape == (10, 5)
    assert stored["validation_similarity_labels"].shape == (12,)


def test_heads_first_then_everything_from_the_best_of_them(folder):
    settings = settings_of(folder)
    result = multitask.run(settings)
    assert [
        (p["trainable_layers"], p["lr"], p["epochs"]) for p in result["phases"]
    ] == [
        ("head", 1e-2, 2),
        ("all", 1e-3, 2),
    ]
    assert [line["phase"] for line in lines_of(settings)] == [1] * 6 + [2] * 6
    assert result["trainable_parameters"] == result["total_parameters"]


def test_training_the_heads_leaves_the_encoder_as_it_was(folder):
    settings = settings_of(folder, train="head", pooling="cls_for_sentiment")
    result = multitask.run(settings)
    hidden = tiny.HIDDEN
    assert result["trainable_parameters"] == (
        5 * (hidden + 1) + 2 * (3 * hidden + 1)
    )


def test_only_what_moved_is_evaluated_anew(folder, monkeypatch):
    """And what is not, is what it would be."""
    seen = []
    original = learner.Learner.predict

    def listen(self, part):
        seen.append(self.objective.name)
        return original(self, part)

    monkeypatch.setattr(learner.Learner, "predict", listen)
    settings = settings_of(folder, max_epochs=1)
    multitask.run(settings)
    order = ["paraphrase", "similarity", "sentiment"]
    # The first turn of the heads' phase knows nothing yet.
    assert seen == [*order, *order[1:], *order * 3]
    last = lines_of(settings)[2]["validation"]
    monkeypatch.setattr(freezing.Trainable, "only_heads", False)
    always = settings_of(folder, max_epochs=1, out=str(folder / "always"))
    multitask.run(always)
    assert lines_of(always)[2]["validation"] == pytest.approx(last, abs=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls_for_sentiment"])
def test_the_heads_learn_the_same_from_the_cache(folder, pooling):
    options = {"train": "head", "pooling": pooling, "dropout": 0.0}
    live = multitask.run(settings_of(folder, **options))
    settings = settings_of(
        folder, **options, frozen_prefix="cached", cache_dtype="float32"
    )
    cached = multitask.run(settings)
    assert cached["prefix_seconds"] > 0
    for name, value in live["validation"].items():
        assert cached["validation"][name] == pytest.approx(value, abs=1e-3)


def test_the_second_phase_runs_live_after_a_cached_first(folder):
    result = multitask.run(
        settings_of(folder, frozen_prefix="cached", max_epochs=1)
    )
    assert [p["trainable_layers"] for p in result["phases"]] == ["head", "all"]


def test_a_head_that_is_not_in_turn_stands_still(done):
    assert done.moved == [{"paraphrase"}, {"similarity"}, {"sentiment"}] * 2


def test_a_run_that_is_stopped_in_a_turn_ends_as_if_it_had_not_been(
    done, folder, monkeypatch
):
    settings = settings_of(
        folder, train="all", seed=1, out=str(folder / "stopped")
    )
    turns = interrupting.stop_after(monkeypatch, 5)
    with pytest.raises(run_lib.Interrupted):
        multitask.run(settings)
    assert turns == [0, 0, 0, 1, 1]  # after the second step of the second
    again = multitask.run(settings)
    for name, value in done.result["validation"].items():
        assert again["validation"][name] == pytest.approx(value, abs=1e-5)


def test_the_heads_phase_saves_heads_alone_and_is_resumed(folder, monkeypatch):
    options = {"dropout": 0.0, "max_epochs": 1}
    whole = multitask.run(settings_of(folder, **options))
    settings = settings_of(folder, **options, out=str(folder / "stopped"))
    turns = interrupting.stop_after(monkeypatch, 2)
    with pytest.raises(run_lib.Interrupted):
        multitask.run(settings)
    assert turns == [0, 0]
    saved = interrupting.checkpoint_of(run_folder(settings))
    weights = [n for n in saved if not n.startswith(("optimizer/", "best/"))]
    assert weights and all("head_" in name for name in weights)
    again = multitask.run(settings)
    assert again["validation"] == pytest.approx(whole["validation"], abs=1e-5)
    saved = interrupting.checkpoint_of(run_folder(settings))
    assert any("token_embedding" in name for name in saved)


def test_a_finished_run_goes_on_for_more_epochs_of_its_last_phase(folder):
    options = {"head_epochs": 1, "pooling": "cls", "dropout": 0.0}
    multitask.run(settings_of(folder, **options, max_epochs=1))
    longer = settings_of(folder, **options, max_epochs=2)
    result = multitask.run(longer)
    assert [phase["epochs"] for phase in result["phases"]] == [1, 2]
    at_once = multitask.run(
        dataclasses.replace(longer, out=str(folder / "at_once"))
    )
    assert at_once["validation"] == pytest.approx(
        result["validation"], abs=1e-5
    )


# === Where the texts come from ===


def test_glue_s_nearest_sets_stand_in(folder):
    settings = settings_of(
        folder, data="sample", train="head", max_epochs=1, pairs="cross"
    )
    result = multitask.run(settings)
    with open(os.path.join(run_folder(settings), "config.json")) as file:
        config = json.load(file)
    assert config["tasks"]["sentiment"]["labels"] == ["0", "1"]
    assert config["split_sizes"]["train_paraphrase"] > 0
    assert 0 <= result["validation"]["overall"] <= 1
