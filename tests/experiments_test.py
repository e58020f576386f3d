"""The grids of experiments/ stand for the runs that they should."""

import collections
import glob
import json
import os

import pytest

from tests import commands
from tests import cs224n_runs
from tests import stacking_data
from tf_transfer.sweeps import grid as grid_lib


def test_the_grid_of_the_prefix_cache_is_sixty_runs_in_pairs(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(commands.ROOT)
    path = "experiments/prefix_cache/grid.json"
    runs = grid_lib.expand(path, grid_lib.read(path), str(tmp_path))
    pairs = collections.defaultdict(list)
    for run in runs:
        key = dict(run.directory.key)
        pairs[
            json.dumps(
                {
                    name: value
                    for name, value in key.items()
                    if name not in ("frozen_prefix", "cache_dtype")
                },
                sort_keys=True,
            )
        ].append(key["frozen_prefix"])
    assert len(runs) == 60 and len(pairs) == 30
    assert all(sorted(pair) == ["cached", "live"] for pair in pairs.values())
    [settings] = {
        (run.settings.batch_size, run.settings.max_epochs, run.settings.dropout)
        for run in runs
    }
    assert settings == (16, 5, 0.1)


# === Grids ===

GRIDS = sorted(
    os.path.relpath(path, commands.ROOT)
    for path in glob.glob(os.path.join(commands.ROOT, "experiments/*/*.json"))
    if "experiment" in json.load(open(path))
)


@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_stands_for_runs_that_could_be_started(
    name, tmp_path, monkeypatch
):
    path = os.path.join(commands.ROOT, name)
    monkeypatch.chdir(tmp_path)
    os.symlink(os.path.join(commands.ROOT, "flags"), "flags")
    _write_tweets(tmp_path / "tweets")
    for name in ("cs224n", "conll2003", "yahoo_answers"):
        (tmp_path / name).mkdir()
    stacking_data.write_conll(tmp_path / "conll2003")
    stacking_data.write_yahoo(tmp_path / "yahoo_answers")
    cs224n_runs.write_all(tmp_path / "cs224n")
    assert grid_lib.expand(name, grid_lib.read(path), str(tmp_path))


def _write_tweets(folder):
    """Files such as the grids on tweets ask for, with other content."""
    folder.mkdir()
    rows = [f"{n},text {n},{n % 2}" for n in range(40)]
    (folder / "train.csv").write_text("id,text,target\n" + "\n".join(rows))
    (folder / "hart_order.txt").write_text("\n".join(map(str, range(40))))
    (folder / "hart_test_ids.txt").write_text("1\n2\n3\n4\n")


def test_the_paper_s_grid_is_the_paper_s_settings(tmp_path, monkeypatch):
    """Section 3.2: eight tasks, five approaches, both rates, twice."""
    monkeypatch.chdir(commands.ROOT)
    name = "experiments/glue/grid.json"
    runs = grid_lib.expand(name, grid_lib.read(name), str(tmp_path))
    assert len(runs) == 8 * 5 * 2 * 2
    assert len({run.settings.task for run in runs}) == 8
    assert {run.settings.lr for run in runs} == {2e-5, 1e-3}
    for run in runs:
        settings = run.settings
        assert settings.model == "bert_base_en_uncased"
        assert (settings.batch_size, settings.max_epochs) == (1, 30)
        assert (settings.validation_fraction, settings.patience) == (0.1, 2)
        assert settings.frozen_prefix == "live"
