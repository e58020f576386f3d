"""The scripts of experiments/prefix_cache read their records rightly."""

import collections
import glob
import importlib.util
import json
import os

import numpy as np
import pytest

from tests import commands
from tests import cs224n_runs
from tests import stacking_data
from tests.reports import synthetic
from tf_transfer.sweeps import grid as grid_lib

SCORES = {"live": (0.80, 0.82, 0.84), "cached": (0.79, 0.83, 0.84)}
FOLDER = os.path.join(commands.ROOT, "experiments", "prefix_cache")


def script(name):
    """A script of the experiment as a module."""
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(FOLDER, f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_means_deviations_and_a_paired_interval(tmp_path):
    labels = np.array([0, 0, 0, 1])
    for prefix, scores in SCORES.items():
        for seed, score in enumerate(scores):
            synthetic.write(
                tmp_path,
                [score],
                task="sst2",
                trainable_layers="2",
                max_train_examples=5000,
                frozen_prefix=prefix,
                seed=seed,
                prefix=(0.0, 1.0) if prefix == "cached" else None,
                predictions=(labels, np.ones((4, 1))),
            )
    synthetic.write(tmp_path, [0.1], task="sst2", trainable_layers="1")
    _, _, row = script("faithfulness").table(str(tmp_path)).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["SST-2, 5,000 examples, accuracy", "75.0", "last 2"]
    assert cells[3:5] == ["82.00 ± 2.00", "82.00 ± 2.65"]
    # Differences -1, +1, 0: mean 0, deviation 1; t(0.975, 2) = 4.303.
    assert cells[5:] == ["+0.00 (-2.48 to +2.48)", "3"]


def test_its_grid_is_sixty_runs_in_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    path = os.path.join(FOLDER, "grid.json")
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
    if "module" in json.load(open(path))
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


# === Speed ===


def measured(layers, seconds, cache):
    return {
        "settings": {
            "shape": "",
            "model": "minilm",
            "trainable_layers": layers,
            "batch_size": 16,
            "precision": "float32",
            "max_length": 128,
        },
        "median_seconds": seconds,
        "examples": 256,
        "matmul_peak": {"TensorFlow": 4e11, "PyTorch": 2e11},
        "share_of_peak": {"ours, live": 0.5},
        "cache": cache,
    }


def test_the_table_of_measurements_has_ratios_to_the_best_of_ours(tmp_path):
    module = script("speed")
    seconds = {
        "ours, live": 4.0,
        "ours, cached": 2.0,
        "Hugging Face, grouped, longest": 8.0,
        "keras-nlp fit, padded to 128": 12.0,
    }
    cache = {"build_seconds": 20.0, "pays_after_epochs": 10.0}
    (tmp_path / "last.json").write_text(
        json.dumps(measured("2", seconds, cache))
    )
    del seconds["ours, cached"]
    (tmp_path / "all.json").write_text(
        json.dumps(measured("all", seconds, None))
    )
    _, _, last, fine_tuning = module.table(str(tmp_path)).splitlines()
    assert [cell.strip() for cell in last.strip("|").split("|")] == [
        "minilm",
        "last 2",
        "16",
        "256",
        "4.00",
        "2.00",
        "-",
        "6.00 x",
        "4.00 x",
        "2.00 x",
        "2.00 x",
        "20.0",
        "10.0",
        "50%",
    ]
    assert [cell.strip() for cell in fine_tuning.strip("|").split("|")] == [
        "minilm",
        "all",
        "16",
        "256",
        "4.00",
        "-",
        "-",
        "3.00 x",
        "2.00 x",
        "-",
        "1.00 x",
        "-",
        "-",
        "50%",
    ]
