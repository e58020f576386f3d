"""The proof of a search: replays of made-up grids, their table and figure."""

import json
import os

import pytest

from benchmarks import search
from tests import commands
from tests.searches import made_up
from tf_transfer.searches import space as space_lib
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.train import usual_rate


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """What the command writes for two made-up tasks; its rows of results."""
    folder = tmp_path_factory.mktemp("search")
    records = {f"task_{n}": made_up.make_record(n) for n in range(2)}
    (folder / "records.json").write_text(json.dumps(records))
    with commands.flags_of(search.define_flags, f"--out={folder}", "--seeds=2"):
        search.main(["search"])
    return folder, records


def test_a_replay_writes_a_table_and_a_figure(replayed):
    folder, records = replayed
    text = (folder / "results.md").read_text()
    for word in (*records, *search.SHARES, *search.CONTESTANTS, "**mean**"):
        assert word in text
    assert (folder / "search_regret.png").stat().st_size > 1000


@pytest.mark.parametrize("name", search.CONTESTANTS)
def test_no_contestant_takes_more_than_its_budget(name):
    record = made_up.make_record()
    world = search.World(record, 150.0)
    search.CONTESTANTS[name](world, 0)
    assert world.clock <= world.budget
    assert world.events


def test_the_grid_builds_each_cache_once_and_trains_everything():
    record = made_up.make_record()
    seconds = sum(sum(r["epoch_seconds"]) for r in record["runs"])
    seconds += sum(r["beside_seconds"] for r in record["runs"])
    builds = [a["build_seconds"] for a in record["approaches"]]
    assert seconds < search.grid_seconds(record) <= seconds + sum(builds)


def test_regret_falls_to_nothing_with_the_whole_grid():
    record = made_up.make_record()
    best, _ = search.grid_best(record)
    events = [(1.0, best - 2, 0.0), (5.0, best, 0.0)]
    assert search.regret_at(events, 2.0, record)[0] == pytest.approx(2.0)
    assert search.regret_at(events, 9.0, record)[0] == 0.0
    assert search.regret_at(events, 0.5, record)[0] == best - record["floor"]


def test_of_equal_epochs_the_test_chooses_none():
    record = made_up.make_record()
    for number, run in enumerate(record["runs"]):
        run["validation"] = [90.0] * len(run["validation"])
        run["test"] = [80.0 + number] * len(run["test"])
    assert search.grid_best(record) == (90.0, 80.0)
    events = [(1.0, 90.0, 70.0), (2.0, 90.0, 95.0)]
    assert search.regret_at(events, 3.0, record) == (0.0, 10.0)


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
    records = search.collect(grids, out, cache)
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
    assert 0.0 < search.grid_seconds(record) < 600.0


def test_without_records_it_says_what_to_do(tmp_path, capsys):
    code = commands.call(
        lambda: search.main(["search"]),
        search.define_flags,
        f"--out={tmp_path}",
    )
    assert code == 1
    assert "Run the grids beside it" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["glue", "sst2", "tweets"])
def test_the_grids_hold_the_rates_that_a_search_tries(name):
    path = os.path.join(commands.ROOT, "experiments", "search", f"{name}.json")
    grid = grid_lib.read(path)
    for layers in grid["axes"]["trainable_layers"]:
        rates = [
            rate
            for rate in grid["axes"]["lr"]
            if not any(
                str(layers) in map(str, _as_list(rule["trainable_layers"]))
                and rate in rule["lr"]
                for rule in grid["exclude"]
            )
        ]
        usual = usual_rate(str(layers))
        assert tuple(rates) == space_lib.rates_around(usual)


def _as_list(value):
    return value if isinstance(value, list) else [value]
