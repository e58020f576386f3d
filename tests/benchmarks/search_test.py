"""The proof of a search: its command, table, figure and grids."""

import json
import os

import pytest

from benchmarks import (
    search,
    search_contestants,
    search_replay,
)
from tests.searches import made_up
from tests.support import commands
from tf_transfer.searches import ladder
from tf_transfer.sweeps import grid as grid_lib
from tf_transfer.train import RATES

TASKS = [
    "cola",
    "disaster",
    "mrpc",
    "rotten_tomatoes",
    "rte",
    "sst2",
    "stsb",
]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """What the command writes for two made-up tasks, and their records."""
    folder = tmp_path_factory.mktemp("search")
    records = {f"task_{n}": made_up.make_record(n) for n in range(2)}
    (folder / "records.json").write_text(json.dumps(records))
    document = folder / "page.md"
    document.write_text("<!-- begin: search -->\n<!-- end: search -->\n")
    with commands.flags_of(
        search.define_flags,
        f"--out={folder}",
        f"--document={document}",
        "--seeds=2",
    ):
        search.main(["search"])
    return folder, records


@pytest.mark.slow
def test_a_replay_fills_a_document_and_draws_a_figure(replayed):
    folder, records = replayed
    text = (folder / "page.md").read_text()
    contestants = search_contestants.CONTESTANTS
    for word in (*records, *search_replay.SHARES, *contestants, "mean, test"):
        assert word in text
    assert "](search_regret.png)" in text
    assert (folder / "search_regret.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_document_holds_what_its_records_give():
    folder = os.path.join(commands.ROOT, search.FOLDER)
    with open(os.path.join(folder, "records.json"), encoding="utf-8") as file:
        records = json.load(file)
    rows = search_replay.replay(records)
    page = os.path.join(commands.ROOT, "docs", "search.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert search.make_table(rows) in text


def test_without_records_it_says_what_to_do(tmp_path, capsys):
    code = commands.call(
        lambda: search.main(["search"]),
        search.define_flags,
        f"--out={tmp_path}",
    )
    assert code == 1
    assert "Run the grids next to it" in capsys.readouterr().err


def test_without_a_finished_task_the_records_stay(tmp_path, capsys):
    (tmp_path / "records.json").write_text('{"kept": {}}')
    code = commands.call(
        lambda: search.main(["search"]),
        search.define_flags,
        f"--out={tmp_path}",
        "--runs=nowhere",
    )
    assert code == 1
    assert "--runs=nowhere: no task" in capsys.readouterr().err
    assert (tmp_path / "records.json").read_text() == '{"kept": {}}'


@pytest.mark.parametrize("name", TASKS)
def test_the_grids_hold_the_rates_that_a_search_tries(name):
    path = os.path.join(commands.ROOT, "experiments", "search", f"{name}.json")
    grid = grid_lib.read_grid(path)
    assert grid.best_of == "lr"
    for key in ("search", "axes"):
        for axes in getattr(grid, key):
            for layers in axes["trainable_layers"]:
                usual = RATES.of(str(layers))
                assert {*ladder.rates_around(usual)} < {*axes["lr"]}
