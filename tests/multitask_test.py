"""One encoder, three tasks: its settings, its phases, its turns."""

import dataclasses
import json
import os

import numpy as np
import pytest

from tf_transfer import multitask
from tf_transfer import settings as settings_lib
from tf_transfer.data import cs224n
from tf_transfer.errors import UserError
from tf_transfer.models import tiny
from tf_transfer.training import loop
from tf_transfer.training import run as run_lib

WORDS = "the dog was not in house good film water children two cats".split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A few rows a file, and a `tiny` of two blocks."""
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    draw = np.random.default_rng(0)
    labels = {
        "sentiment": lambda n: n % 5, "paraphrase": lambda n: float(n % 2),
        "similarity": lambda n: n % 6,
    }  # fmt: skip
    sizes = {"sentiment": 10, "paraphrase": 24, "similarity": 12}
    for task in cs224n.TASKS.values():
        for split in ("train", "dev"):
            lines = ["\t".join(["", "id", *task.texts, task.label])]
            for number in range(sizes[task.name]):
                texts = [" ".join(draw.choice(WORDS, 4)) for _ in task.texts]
                lines.append(
                    "\t".join(
                        [str(number), f"id{number}", *texts,
                         str(labels[task.name](number))]
                    )
                )  # fmt: skip
            path = tmp_path / f"{task.folder}-{split}.csv"
            path.write_text("\n".join(lines) + "\n")
    return tmp_path


def settings_of(folder, **changes):
    return multitask.MultitaskSettings(
        **{
            "data": str(folder), "model": "tiny", "max_length": 16,
            "batch_size": 8, "max_epochs": 2, "out": str(folder / "runs"),
            "cache_dir": str(folder / "cache"), "lr": 1e-3, "head_lr": 1e-2,
            **changes,
        }
    ).resolve()  # fmt: skip


def run_folder(settings):
    return multitask.locate(settings, 1).path


def lines_of(settings):
    path = os.path.join(run_folder(settings), "epochs.jsonl")
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# === Settings ===


def test_defaults_are_the_paper_s_best_run(folder):
    settings = multitask.MultitaskSettings(data=str(folder)).resolve()
    assert (settings.train, settings.head_lr, settings.lr) == (
        "head_then_all", 1e-3, 1e-5,
    )  # fmt: skip
    assert (settings.max_epochs, settings.batch_size) == (20, 32)
    assert (settings.pooling, settings.pairs) == ("mean", "sbert")
    assert (settings.layer_decay, settings.head_dropout) == (1.0, 0.3)
    assert settings.bias_correction and settings.weight_decay == 0.0
    assert (settings.clip_norm, settings.adam_epsilon) == (0.0, 1e-6)
    assert (settings.select, settings.schedule) == ("best", "constant")
    names = [task.name for task in multitask.tasks_in_order(settings)]
    assert names == ["paraphrase", "similarity", "sentiment"]


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"data": ""}, "--data: give the folder"),
        ({"order": "sentiment"}, "--order=sentiment: give each of"),
        ({"order": "sentiment,sentiment,similarity"}, "--order=sentiment,sen"),
        ({"order": "sentiment,similarity,quora"}, "--order=.*quora"),
        ({"head_lr": 0.0}, "--head_lr=0"),
        ({"layer_decay": 1.5}, "--layer_decay=1.5"),
        ({"trainable_layers": "2"}, "--trainable_layers and --blocks"),
        ({"validation_fraction": 0.2}, "--validation_fraction: has no use"),
        ({"train": "heads"}, "--train=heads"),
    ],
)
def test_bad_values_are_named(folder, changes, said):
    with pytest.raises(UserError, match=said):
        settings_of(folder, **changes)


def test_overall_is_the_mean_with_r_brought_into_0_to_1():
    """The first row of the paper's table 3."""
    found = multitask.overall(
        {
            "sentiment_accuracy": 0.461, "paraphrase_accuracy": 0.756,
            "similarity_pearson": 0.693,
        }
    )  # fmt: skip
    assert found == {"overall": pytest.approx(0.688, abs=0.0005)}


# === Runs ===


def test_every_task_is_evaluated_after_every_turn(folder):
    settings = settings_of(folder, train="all")
    result = multitask.run(settings)
    lines = lines_of(settings)
    assert [(line["epoch"], line["turn"]) for line in lines] == [
        (epoch, turn)
        for epoch in (1, 2)
        for turn in ("paraphrase", "similarity", "sentiment")
    ]
    for line in lines:
        metrics = line["validation"]
        assert {
            "sentiment_accuracy", "paraphrase_accuracy", "similarity_pearson",
            "overall",
        } <= set(metrics)  # fmt: skip
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
    assert [(p["trainable_layers"], p["lr"], p["epochs"])
            for p in result["phases"]] == [
        ("head", 1e-2, 2), ("all", 1e-3, 2),
    ]  # fmt: skip
    assert [line["phase"] for line in lines_of(settings)] == [1] * 6 + [2] * 6
    assert result["trainable_parameters"] == result["total_parameters"]


def test_training_the_heads_leaves_the_encoder_as_it_was(folder):
    settings = settings_of(folder, train="head", pooling="cls_for_sentiment")
    result = multitask.run(settings)
    hidden = tiny.HIDDEN
    assert result["trainable_parameters"] == (
        5 * (hidden + 1) + 2 * (3 * hidden + 1)
    )


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


def test_a_head_that_is_not_in_turn_stands_still(folder, monkeypatch):
    """Weights of the three heads before and after the first turn."""
    seen = []
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
        seen.append(
            {name for name in before if (before[name] != after[name]).any()}
        )

    monkeypatch.setattr(run_lib.Run, "_run_turn", listen)
    multitask.run(settings_of(folder, train="all"))
    assert seen == [{"paraphrase"}, {"similarity"}, {"sentiment"}] * 2


def test_a_run_that_is_stopped_in_a_turn_ends_as_if_it_had_not_been(
    folder, monkeypatch
):
    monkeypatch.setattr(loop, "LONGEST_CHUNK", 1)
    whole = multitask.run(settings_of(folder, train="all", seed=1))
    settings = settings_of(
        folder, train="all", seed=1, out=str(folder / "stopped")
    )
    steps = []
    original = run_lib.Run._after_chunk

    def stop(self, *arguments):
        steps.append(self.progress.turn)
        if len(steps) == 5:  # the second step of the second turn
            self.signals.came = True
        return original(self, *arguments)

    monkeypatch.setattr(run_lib.Run, "_after_chunk", stop)
    with pytest.raises(run_lib.Interrupted):
        multitask.run(settings)
    assert steps == [0, 0, 0, 1, 1]
    monkeypatch.setattr(run_lib.Run, "_after_chunk", original)
    again = multitask.run(settings)
    for name, value in whole["validation"].items():
        assert again["validation"][name] == pytest.approx(value, abs=1e-5)


def test_the_flags_are_the_settings(folder):
    words = [f"--data={folder}", "--train=head", "--pooling=cls"]
    settings = settings_lib.parse(multitask.MultitaskSettings, words)
    assert settings == dataclasses.replace(
        multitask.MultitaskSettings(), data=str(folder), train="head",
        pooling="cls",
    )  # fmt: skip
