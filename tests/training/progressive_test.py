"""Progressive freezing: the rules, and runs that follow them."""

import dataclasses

import numpy as np
import pytest

from tests.conftest import tiny_settings
from tests.support.quick import eagerly
from tests.warm_test import numbers
from tf_transfer import glue
from tf_transfer.models import freezing
from tf_transfer.training import progressive
from tf_transfer.training.callbacks import Callback
from tf_transfer.utils.errors import UserError


@pytest.mark.parametrize(
    "layers, firsts, cuts",
    [("2", [7, 6], [6, 5]), ("all", [7, 6, 5, 4, 3, 2], [6, 5, 4, 3, 2, 1])],
)
def test_gradual_unfreezing_begins_with_the_head_and_adds_a_block(
    layers, firsts, cuts
):
    trainable = freezing.parse(layers, "", 6)
    stages = progressive.unfreezing_stages(trainable)
    assert [stage.first for stage in stages] == firsts
    assert [stage.cut for stage in stages] == cuts
    assert not any(stage.embeddings for stage in stages)
    assert all(stage.pooler for stage in stages)


@pytest.mark.parametrize(
    "before, now, percentile, index",
    [
        # Changes 0.1, 0.5, 0.2, 0.4: their median is 0.3.
        ([10, 10, 10, 10], [9, 5, 8, 14], 50, 1),
        ([10, 10, 10, 10], [9, 9.5, 8, 14], 100, 3),
        ([10, 10, 10, 10], [9, 5, 8, 14], 0, 0),
        ([10, 10, 10], [5, 9, 9], 50, 0),
        ([10, 10], [9, 5], 75, 1),
        ([10], [10], 50, 0),
        ([0, 10], [1, 5], 50, 0),  # from nothing: it has only begun
        ([0, 0], [0, 0], 50, 0),
    ],
)
def test_the_blocks_below_the_first_that_changes_enough_freeze(
    before, now, percentile, index
):
    assert progressive.choose_first(before, now, percentile) == index


def test_what_freezes_takes_the_embeddings_along():
    everything = freezing.parse("all", "", 6)
    assert progressive.freeze_below(everything, 1) == everything
    rest = progressive.freeze_below(everything, 3)
    assert (rest.cut, rest.embeddings, rest.last) == (2, False, 6)
    assert progressive.freeze_below(rest, 2) == rest


# === Runs ===


@pytest.fixture(autouse=True, scope="module")
def small_and_eager():
    with eagerly(blocks=3):
        yield


def settings_of(out, **changes):
    shared = {
        "task": "sst2",
        "max_train_examples": 16,
        "max_length": 16,
        "patience": 0,
        "cache_dir": str(out / "cache"),
    }
    return tiny_settings(out, **{**shared, **changes})


def frozen_by_epoch(run):
    return run.history.frozen_blocks.tolist()


class Moved(Callback):
    """Which blocks have moved when each epoch ends."""

    def __init__(self):
        self.blocks, self._before = [], None

    def _values(self, trainer):
        return [
            np.concatenate([w.numpy().ravel() for w in block.weights])
            for block in trainer.network.encoder.blocks
        ]

    def on_train_begin(self, trainer):
        self._before = self._values(trainer)

    def on_record(self, trainer, line):
        now = self._values(trainer)
        pairs = zip(self._before, now, strict=True)
        self.blocks.append([bool((a != b).any()) for a, b in pairs])
        self._before = now


class Summed(Callback):
    """Of which weights the gradients are summed up, and of which not."""

    def on_train_begin(self, trainer):
        blocks = trainer.network.encoder.blocks
        self.blocks = {w.path for block in blocks for w in block.weights}

    def on_record(self, trainer, line):
        self.summed = set(trainer.optimizer.sums)


def test_gradual_is_recorded_and_each_epoch_moves_a_block_more(tmp_path):
    moved = Moved()
    settings = settings_of(
        tmp_path, freeze_schedule="gradual", trainable_layers="2", max_epochs=1
    )
    result = glue.run(settings, callbacks=[moved])
    phases = result.record["phases"]
    assert [p["trainable_layers"] for p in phases] == ["0", "1", "2"]
    assert moved.blocks == [
        [False, False, False],
        [False, False, True],
        [False, True, True],
    ]
    assert result.record["approach"] == "last_2_gradual"
    assert result.record["epochs_run"] == 3
    run = glue.Glue(settings)
    assert run.find_finished(run.find_run()) is not None


@pytest.mark.slow
def test_gradual_is_the_same_from_a_cache_and_when_it_is_resumed(tmp_path):
    class Stop(Callback):
        """Fails in the second stage, after its first steps."""

        def on_steps_end(self, trainer, losses, counts):
            if trainer.progress.total_epochs == 2:
                raise RuntimeError("stop")

    def settings(out, **changes):
        folder = tmp_path / out
        folder.mkdir(exist_ok=True)
        return settings_of(
            folder,
            freeze_schedule="gradual",
            trainable_layers="2",
            max_epochs=1,
            dropout=0.0,
            head_dropout=0.0,
            cache_dtype="float32",
            **changes,
        )

    live = glue.run(settings("live"))
    cached = {"frozen_prefix": "cached"}
    with pytest.raises(RuntimeError, match="stop"):
        glue.run(settings("resumed", **cached), callbacks=[Stop()])
    resumed = glue.run(settings("resumed", **cached))
    whole = glue.run(settings("whole", **cached))
    assert numbers(resumed) == numbers(whole)
    assert list(whole.history.train_loss) == pytest.approx(
        list(live.history.train_loss), rel=1e-5
    )
    assert whole.record["prefix_seconds"] > 0


def test_many_stages_keep_no_moments_of_those_before(tmp_path, monkeypatch):
    from tf_transfer.training import programs

    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    settings = settings_of(
        tmp_path, freeze_schedule="gradual", trainable_layers="2", max_epochs=1
    )
    assert not glue.run(settings).network.programs


@pytest.fixture
def one_each(monkeypatch):
    """One block freezes after each interval but the first."""
    monkeypatch.setattr(
        progressive, "choose_first", lambda before, now, _: len(before) > 1
    )


@pytest.mark.usefixtures("one_each")
@pytest.mark.slow
def test_autofreeze_freezes_for_good_and_its_cache_follows(tmp_path, capsys):
    shared = {
        "freeze_schedule": "autofreeze",
        "max_epochs": 4,
        "dropout": 0.0,
        "head_dropout": 0.0,
        "cache_dtype": "float32",
    }
    moved = Moved()
    live = glue.run(settings_of(tmp_path, **shared), callbacks=[moved])
    assert frozen_by_epoch(live) == [0, 0, 1, 2]
    assert moved.blocks == [
        [True, True, True],
        [True, True, True],
        [False, True, True],
        [False, False, True],
    ]
    assert "Feature cache" not in capsys.readouterr().out
    cached = glue.run(settings_of(tmp_path, frozen_prefix="cached", **shared))
    assert capsys.readouterr().out.count("built now") == 2
    assert frozen_by_epoch(cached) == [0, 0, 1, 2]
    assert cached.record["prefix_seconds"] > 0
    pairs = zip(live.history.train_loss, cached.history.train_loss)
    for one, other in pairs:
        assert one == pytest.approx(other, rel=1e-5)
    # One that has frozen nothing yet is of the same kind.
    shared |= {"max_epochs": 1, "frozen_prefix": "cached"}
    short = glue.run(settings_of(tmp_path / "short", **shared))
    assert short.record["prefix_seconds"] == 0


@pytest.mark.usefixtures("one_each")
@pytest.mark.parametrize(
    "changes", [{}, {"method": "lora", "frozen_prefix": "cached"}], ids=str
)
@pytest.mark.slow
def test_a_resumed_run_freezes_as_one_that_was_not_interrupted(
    changes, tmp_path
):
    class Stop(Callback):
        """Fails in the third epoch, after its first steps."""

        def on_steps_end(self, trainer, losses, counts):
            if trainer.progress.total_epochs == 3:
                raise RuntimeError("stop")

    def settings(out):
        folder = tmp_path / out
        folder.mkdir(exist_ok=True)
        return settings_of(
            folder, freeze_schedule="autofreeze", max_epochs=4, **changes
        )

    with pytest.raises(RuntimeError, match="stop"):
        glue.run(settings("resumed"), callbacks=[Stop()])
    resumed, whole = glue.run(settings("resumed")), glue.run(settings("whole"))
    assert frozen_by_epoch(resumed) == frozen_by_epoch(whole) == [0, 0, 1, 2]
    assert numbers(resumed) == numbers(whole)


def test_the_rule_reads_the_gradients_of_the_run(tmp_path, monkeypatch):
    asked = []

    def noted(before, now, percentile):
        asked.append((before, now, percentile))
        return 0

    monkeypatch.setattr(progressive, "choose_first", noted)
    settings = settings_of(
        tmp_path,
        freeze_schedule="autofreeze",
        freeze_percentile=75.0,
        max_epochs=3,
    )
    summed = Summed()
    result = glue.run(settings, callbacks=[summed])
    assert summed.summed == summed.blocks  # nobody asks for others
    assert frozen_by_epoch(result) == [0, 0, 0]
    assert len(asked) == 2 and asked[1][0] == asked[0][1]
    for before, now, percentile in asked:
        assert len(before) == len(now) == 3 and percentile == 75
        assert min(before) > 0 and min(now) > 0 and before != now


# === Settings ===


def test_a_schedule_is_part_of_a_run_s_name_and_none_is_not():
    plain = glue.Settings().hashed()
    assert not {"freeze_schedule", "freeze_percentile"} & set(plain)
    auto = glue.Settings(freeze_schedule="autofreeze")
    assert auto.hashed()["freeze_percentile"] == 50
    assert auto.approach == "fine_tuning_autofreeze"
    assert auto.resolve().lr == glue.Settings.usual_rates.everything
    assert not auto.runs_cached
    assert dataclasses.replace(auto, frozen_prefix="cached").runs_cached
    gradual = glue.Settings(freeze_schedule="gradual")
    assert "freeze_percentile" not in gradual.hashed()
    assert "freeze_percentile" in gradual.unread()


@pytest.mark.parametrize("layers", ["0", "1", "head"])
def test_a_schedule_without_blocks_to_choose_from_is_refused(layers):
    with pytest.raises(UserError, match="^--freeze_schedule=gradual"):
        glue.Settings(
            freeze_schedule="gradual", trainable_layers=layers
        ).resolve()
