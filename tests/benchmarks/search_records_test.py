"""What is kept of the runs of a grid."""

import json

import pytest

from benchmarks import search_records, search_world
from tf_transfer.sweeps import grid as grid_lib


@pytest.mark.slow
def test_records_are_collected_of_the_tasks_that_are_finished(
    tmp_path, eager, capsys
):
    grid = {
        "experiment": "train",
        "flags": {
            "model": "tiny",
            "data": "sample",
            "baseline": False,
            "schedule": "constant",
            "warmup_fraction": 0,
            "max_epochs": 2,
        },
        "axes": {
            "trainable_layers": ["0", "all"],
            "lr": [2e-4],
            "seed": [0, 1],
        },
    }
    out, cache = str(tmp_path / "runs"), str(tmp_path / "cache")
    grids = []
    for task in ("sst2", "rte"):
        flags = {**grid["flags"], "task": task}
        path = tmp_path / f"of_{task}.json"
        path.write_text(json.dumps({**grid, "flags": flags}))
        grids.append(str(path))
        for run in grid_lib.expand(
            str(path), grid_lib.read_grid(path), out, cache
        ):
            is_first = run.settings.trainable_layers == "0"
            if task == "sst2" and (run.settings.seed == 0 or is_first):
                run.experiment.train()
    records = search_records.collect(grids, out, cache)
    said = capsys.readouterr().out
    assert "of_rte: 2 runs of seed 0 are not finished." in said
    assert list(records) == ["of_sst2"]
    [record] = records.values()
    assert [(run["approach"], run["seed"]) for run in record["runs"]] == [
        ("last_0", 0),
        ("last_0", 1),
        ("fine_tuning", 0),
    ]
    for run in record["runs"]:
        assert len(run["validation"]) == len(run["epoch_seconds"]) == 2
        approach = next(
            a for a in record["approaches"] if a["name"] == run["approach"]
        )
        assert approach["rates"][run["rate"]] == 2e-4
        work = approach["work"]
        assert bool(work["epochs"][0]) == (not work["family"])
        assert 0.0 <= run["beside_seconds"] < 60.0
    assert record["start_seconds"] > 0
    assert 0.0 < search_world.grid_seconds(record) < 600.0

    # Baselines are fitted again where the data is; passes keep their seconds.
    fitted, probe = dict(record), dict(record["probe"])
    record |= {"floor": 0.0, "test_floor": 0.0}
    record["probe"] |= {"test": 0.0, "pass_seconds": 1000.0}
    search_records.refit_baselines(grids, out, cache, records)
    assert record["floor"] == fitted["floor"]
    assert record["test_floor"] == fitted["test_floor"]
    assert record["probe"]["test"] == probe["test"]
    assert 1000.0 < record["probe"]["seconds"] < 1100.0
    flags = {**grid["flags"], "task": "sst2", "data": "nowhere"}
    path = tmp_path / "of_sst2.json"
    path.write_text(json.dumps({**grid, "flags": flags}))
    search_records.refit_baselines([str(path)], out, cache, records)
    assert "of_sst2: its baselines stay. --data=nowhere" in (
        capsys.readouterr().out
    )
    assert record["floor"] == fitted["floor"]
