"""The scripts of experiments/prefix_cache read their records rightly."""

import importlib.util
import json
import os

import pytest
from absl import flags

from tests import commands

SCORES = {"live": (0.80, 0.82, 0.84), "cached": (0.79, 0.83, 0.84)}


def spec_of(name):
    return importlib.util.spec_from_file_location(
        name,
        os.path.join(
            commands.ROOT, "experiments", "prefix_cache", name + ".py"
        ),
    )


@pytest.fixture
def script(tmp_path):
    spec = spec_of("faithfulness")
    module = importlib.util.module_from_spec(spec)
    with commands.flags_of(
        lambda: spec.loader.exec_module(module),
        "--norun", "--glue=sample", f"--out={tmp_path}",
    ):  # fmt: skip
        yield module
    assert "glue" not in flags.FLAGS


def write(folder, settings, score, seconds):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"settings": settings}, file)
    with open(os.path.join(folder, "result.json"), "w") as file:
        json.dump(
            {"test": {"accuracy": score}, "seconds_per_epoch": seconds}, file
        )


def test_the_table_has_means_deviations_and_a_paired_interval(
    script, tmp_path, capsys
):
    for prefix, scores in SCORES.items():
        for seed, score in enumerate(scores):
            settings = {
                "task": "sst2", "data": "sample", "trainable_layers": "2",
                "frozen_prefix": prefix, "seed": seed,
            }  # fmt: skip
            seconds = {"live": 9.0, "cached": 3.0}[prefix]
            write(tmp_path / prefix / str(seed), settings, score, seconds)
    script.main([])
    *_, row = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:1] == ["SST-2, 5,000 examples, accuracy"]
    assert cells[2:5] == ["last 2", "82.00 ± 2.00", "82.00 ± 2.65"]
    # Differences -1, +1, 0: mean 0, deviation 1; t(0.975, 2) = 4.303.
    assert cells[5] == "+0.00 (-2.48 to +2.48)"
    assert cells[6:] == ["9.0", "3.0", "3"]


def test_its_runs_differ_in_what_they_say_they_compare(script):
    case = script.cases()[0][1]
    one = script.settings_of(case, 1, "live", 3).resolve()
    other = script.settings_of(case, 1, "cached", 3).resolve()
    differing = {
        name
        for name in one.hashed() | other.hashed()
        if one.hashed().get(name) != other.hashed().get(name)
    }
    assert differing == {"frozen_prefix", "cache_dtype"}
    assert (one.batch_size, one.max_epochs, one.dropout) == (16, 5, 0.1)


# === Speed ===


def measured(layers, seconds, cache):
    return {
        "settings": {
            "shape": "", "model": "minilm", "trainable_layers": layers,
            "batch_size": 16, "precision": "float32", "max_length": 128,
        },
        "median_seconds": seconds,
        "examples": 256,
        "matmul_peak": {"TensorFlow": 4e11, "PyTorch": 2e11},
        "share_of_peak": {"ours, live": 0.5},
        "cache": cache,
    }  # fmt: skip


def test_the_table_of_measurements_has_ratios_to_the_best_of_ours(tmp_path):
    spec = spec_of("speed")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seconds = {
        "ours, live": 4.0, "ours, cached": 2.0,
        "Hugging Face, grouped, longest": 8.0,
        "keras-nlp fit, padded to 128": 12.0,
    }  # fmt: skip
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
        "minilm", "last 2", "16", "256", "4.00", "2.00", "-", "6.00 x",
        "4.00 x", "2.00 x", "2.00 x", "20.0", "10.0", "50%",
    ]  # fmt: skip
    assert [cell.strip() for cell in fine_tuning.strip("|").split("|")] == [
        "minilm", "all", "16", "256", "4.00", "-", "-", "3.00 x", "2.00 x",
        "-", "1.00 x", "-", "-", "50%",
    ]  # fmt: skip
