"""What is kept of the runs of a grid."""

import json

from benchmarks import search_records
from benchmarks import search_replay
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.train import usual_rate


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
        "axes": {"task": ["sst2", "rte"], "trainable_layers": ["0", "all"]},
    }
    out, cache = str(tmp_path / "runs"), str(tmp_path / "cache")
    grids = []
    for layers in ("0", "all"):
        axes = {**grid["axes"], "trainable_layers": [layers]}
        flags = {**grid["flags"], "lr": usual_rate(layers)}
        path = tmp_path / f"{layers}.json"
        path.write_text(json.dumps({**grid, "axes": axes, "flags": flags}))
        grids.append(str(path))
        for run in grid_lib.expand(str(path), grid_lib.read(path), out, cache):
            if run.settings.task == "sst2":
                run.experiment.train()
    records = search_records.collect(grids, out, cache)
    assert "rte: 2 of 2 are not finished." in capsys.readouterr().out
    [record] = records.values()
    assert [run["approach"] for run in record["runs"]] == [
        "last_0",
        "fine_tuning",
    ]
    for run in record["runs"]:
        assert len(run["validation"]) == len(run["epoch_seconds"]) == 2
        approach = next(
            a for a in record["approaches"] if a["name"] == run["approach"]
        )
        assert approach["rates"][run["rate"]] == usual_rate(
            "0" if run["approach"] == "last_0" else "all"
        )
        assert approach["prior"]["epoch_seconds"] > 0.0
        assert 0.0 <= run["beside_seconds"] < 60.0
    assert record["start_seconds"] > 0
    assert 0.0 < search_replay.grid_seconds(record) < 600.0
