"""A grid file: the runs it stands for, and what may be wrong with it."""

import json

import pytest

from tf_transfer import experiment as experiment_lib
from tf_transfer.config import command_line
from tf_transfer.sweeps import grid as grid_lib, subset
from tf_transfer.utils.errors import UserError

GRID = {
    "experiment": "glue",
    "flags": {"model": "tiny", "data": "sample"},
    "axes": [
        {
            "task": ["rte", "sst2"],
            "trainable_layers": ["all"],
            "lr": [2e-5],
            "seed": [0, 1],
        },
        {
            "task": ["rte"],
            "trainable_layers": [2, 1],
            "lr": [2e-5, 1e-3],
            "seed": [0, 1],
        },
        {
            "task": ["sst2"],
            "trainable_layers": [2, 1],
            "lr": [2e-5, 1e-3],
            "seed": [0],
        },
    ],
}


@pytest.fixture
def expand(tmp_path):
    def expand(grid, name="grid.json"):
        path = tmp_path / name
        path.write_text(grid if isinstance(grid, str) else json.dumps(grid))
        return grid_lib.expand(
            str(path), grid_lib.read_grid(str(path)), str(tmp_path / "runs")
        )

    return expand


def test_a_grid_is_every_combination_of_each_object(expand):
    runs = expand(GRID)
    points = {tuple(run.axes.values()) for run in runs}
    assert len(runs) == len(points) == 4 + 8 + 4
    assert ("rte", "all", "2e-05", "1") in points
    assert ("rte", "all", "0.001", "0") not in points
    assert ("sst2", "1", "0.001", "0") in points
    assert ("sst2", "1", "0.001", "1") not in points
    assert len({run.directory.path for run in runs}) == len(runs)
    assert len({run.name for run in runs}) == len(runs)


def test_a_run_is_the_one_that_its_command_does(expand, tmp_path):
    run = expand(GRID)[0]
    assert run.words[:3] == (
        f"--out={tmp_path / 'runs'}",
        "--model=tiny",
        "--data=sample",
    )
    glue = experiment_lib.load("glue")
    again = glue(command_line.parse(glue.Settings, run.words))
    assert again.settings == run.settings
    assert again.find_run(1).path == run.directory.path
    assert run.command[:3] == ["python", "-m", "tf_transfer.glue"]


def test_flags_of_a_flag_file_come_first(expand, tmp_path):
    flagfile = tmp_path / "some.flags"
    flagfile.write_text("--batch_size=4\n--max_epochs=7\n")
    grid = {**GRID, "flagfile": str(flagfile)}
    grid["flags"] = {**GRID["flags"], "max_epochs": 2, "deterministic": True}
    settings = expand(grid)[0].settings
    assert (settings.batch_size, settings.max_epochs) == (4, 2)
    assert settings.deterministic


def test_one_run_named_twice_is_done_once(expand):
    """`cached` with all blocks training is the live run."""
    axes = {"trainable_layers": ["all"], "frozen_prefix": ["live", "cached"]}
    assert len(expand({**GRID, "axes": axes})) == 1
    assert len(expand({**GRID, "axes": 2 * GRID["axes"]})) == 16


@pytest.mark.parametrize(
    "experiment, axis, values",
    [
        ("multitask", "tasks", ["sentiment", "paraphrase", "similarity"]),
        ("tweets", "row_order", ["", "order.txt"]),
        ("tweets", "test_ids", ["", "ids.txt"]),
        ("stacking", "text_column", ["text", "keyword"]),
    ],
)
def test_runs_on_other_data_are_other_runs(experiment, axis, values, expand):
    axes = {axis: values, "seed": [0, 1]}
    flags = {"model": "tiny", "data": "some.csv"}
    grid = {"experiment": experiment, "flags": flags, "axes": axes}
    assert len(expand(grid)) == 2 * len(values)


def test_runs_are_selected_by_any_flag(expand):
    runs = expand(GRID)
    some = subset.select_runs("grid.json", runs, ["task=rte", "seed=1"])
    assert {(r.axes["task"], r.axes["seed"]) for r in some} == {("rte", "1")}
    assert subset.select_runs("grid.json", runs, ["model=tiny"]) == runs
    high = subset.select_runs("grid.json", runs, ["lr=1e-3"])
    assert {run.settings.lr for run in high} == {1e-3}


@pytest.mark.parametrize(
    "condition, message",
    [
        ("task=qqp", "There are: rte, sst2"),
        ("tasks=rte", "give a flag"),
        ("rte", "give a flag"),
    ],
)
def test_a_selection_without_runs_lists_the_values(condition, message, expand):
    with pytest.raises(UserError, match=message):
        subset.select_runs("grid.json", expand(GRID), [condition])


def changed(**changes):
    return {**GRID, **changes}


@pytest.mark.parametrize(
    "grid, message",
    [
        ("{", r"grid.json, line 1: is not JSON"),
        (
            '{"experiment": "glue",\n "axes": {,}}',
            r"grid.json, line 2: is not JSON",
        ),
        ("[]", "A grid is a JSON object with experiment, flagfile"),
        (changed(axis={}), "unknown field `axis`"),
        (changed(exclude=[]), "unknown field `exclude`"),
        ({"flags": {}}, "missing required field `experiment`"),
        (changed(experiment="glu"), "no experiment .*glu.*freezing.*glue"),
        (changed(experiment=3), "Expected `str`.*experiment"),
        (changed(flags=[]), "Expected `object`.*flags"),
        (changed(flagfile=3), "Expected `str`.*flagfile"),
        (changed(axes={"task": "rte"}), "Expected `array`.*axes"),
        (changed(axes={"task": []}), "length >= 1.*axes"),
        (changed(flags={"out": "runs"}), "out: belongs to the sweep"),
        (changed(flags={"rerun": True}), "rerun: belongs to the sweep"),
        (changed(axes={"max_epochs": [1, 2]}), "max_epochs: 1 and 2"),
        (changed(folder="../x"), "Expected `str` matching regex.*folder"),
        (changed(best_of="lrs"), "best_of: give the name of an axis"),
        (changed(best_of="lr"), "search: has no runs for task=rte"),
        (changed(flags={"lrr": 1}), "flag 'lrr'.*There are"),
        (changed(flags={"lr": "high"}, axes={}), "--lr=high"),
        (changed(flags={"task": "xyz"}, axes={}), "task=xyz.*cola"),
        (changed(flags={"lr": -1}, axes={}), "--lr=-1"),
        (changed(flagfile="/nowhere"), "/nowhere"),
    ],
)
def test_a_wrong_grid_is_an_error_with_its_file(grid, message, expand):
    if "grid.json" not in message:
        message = f"grid.json.*{message}"
    with pytest.raises(UserError, match=f"(?s){message}"):
        expand(grid)


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"data": "/nowhere", "model": "tiny"}, "such folder"),
        ({"model": "bort"}, "bort"),
    ],
)
def test_only_the_directory_of_a_run_needs_its_model_and_data(
    flags, message, expand
):
    run, *_ = expand(changed(flags=flags))
    with pytest.raises(UserError, match=message):
        _ = run.directory


# === A search, then its best value ===


def test_the_runs_of_a_search_come_first_and_the_others_wait(expand):
    """Each task has its own best rate; seeds and blocks have none."""
    axes = {
        "task": ["rte", "sst2"],
        "trainable_layers": ["all"],
        "lr": [1e-5, 2e-5],
    }
    runs = expand(
        {
            **GRID,
            "best_of": "lr",
            "search": {**axes, "seed": [0, 1]},
            "axes": {**axes, "trainable_layers": ["all", 1], "seed": [0, 1, 2]},
        }
    )
    searched = [run for run in runs if not run.searched]
    waiting = [run for run in runs if run.searched]
    assert (len(searched), len(waiting)) == (8, 24 - 8)  # each run once
    assert runs[:8] == searched
    assert {run.searched for run in waiting} == {"lr"}
    tasks = {run.group: run.settings.task for run in searched}
    assert len(tasks) == 2
    assert all(tasks[run.group] == run.settings.task for run in waiting)
    some = subset.select_runs(
        "grid.json", runs, ["task=rte", "trainable_layers=1"]
    )
    assert [run.searched for run in some] == 4 * [""] + 6 * ["lr"]


# === A paper's folder ===


def test_a_folder_stands_for_its_grids_each_run_once(expand, tmp_path):
    expand({**GRID, "axes": {"seed": [0, 1]}}, "a.json")
    expand({**GRID, "axes": {"seed": [1, 2]}}, "b.json")
    flags = {**GRID["flags"], "max_epochs": 99}
    longer = {**GRID, "flags": flags, "axes": {"seed": [0]}}
    expand(longer, "c.json")
    claims = tmp_path / "claims.toml"
    claims.write_text('grids = ["b.json", "a.json"]')
    runs = grid_lib.expand_all(str(tmp_path), "runs")
    assert [run.axes["seed"] for run in runs] == ["1", "2", "0"]
    assert [run.path[-6:] for run in runs] == ["b.json", "b.json", "a.json"]
    claims.write_text('grids = ["a.json", "c.json"]')
    with pytest.raises(UserError, match="c.json: max_epochs: 30 and 99 are"):
        grid_lib.expand_all(str(tmp_path), "runs")
    expand({**longer, "folder": "long"}, "c.json")
    runs = grid_lib.expand_all(str(tmp_path), "runs")
    assert [run.settings.out for run in runs] == ["runs", "runs", "runs/long"]
    assert len({run.name for run in runs}) == 3
    assert runs[2].name.startswith("long~glue~")


@pytest.mark.parametrize("text", ["", "grids = [", "grids = 3"])
def test_a_folder_without_a_list_is_refused(text, tmp_path):
    (tmp_path / "claims.toml").write_text(text)
    with pytest.raises(UserError, match="without a claims.toml that lists"):
        grid_lib.expand_all(str(tmp_path), "runs")


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(UserError, match="No such file.*embedded.json"):
        grid_lib.read_grid(str(tmp_path / "grid.json"))


# === What is too large, too deep, or no value ===


def test_a_grid_of_too_many_runs_is_refused_before_it_is_expanded(expand):
    axes = {name: list(range(100)) for name in ("seed", "patience", "lr")}
    with pytest.raises(UserError, match=r"1,000,000 combinations.*--yes"):
        expand({"experiment": "glue", "axes": axes})


@pytest.mark.parametrize(
    "text, said",
    [
        ("[" * 5000, "is not JSON"),
        ('{"experiment": "glue", "flags": {"data": "a\\u0000b"}}', "NUL"),
        ('{"experiment": "glue", "axes": {"data": ["a\\u0000b"]}}', "NUL"),
        ('{"experiment": "glue", "axes": {"seed": [[1]]}}', "got `array`"),
        ('{"experiment": "glue", "flags": {"seed": null}}', "got `null`"),
        (
            '{"experiment": "glue", "flags": {"seed": %s}}' % ("9" * 5000),
            "is not JSON",
        ),
        ('{"experiment": "a\\u0000b"}', "no experiment"),
        ('{"experiment": "glue", "flagfile": "a\\u0000b"}', "flagfile="),
    ],
    ids=range(8),
)
def test_what_no_flag_can_be_is_refused_in_a_short_line(text, said, tmp_path):
    path = tmp_path / "grid.json"
    path.write_text(text)
    with pytest.raises(UserError, match=said) as error:
        grid_lib.expand(str(path), grid_lib.read_grid(str(path)), str(tmp_path))
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("name", ["/tmp/x", "../../..", "a/b"])
def test_a_grid_writes_nowhere_but_below_its_out(name, tmp_path):
    grid = {
        "experiment": "tweets",
        "flags": {"data": "a.csv", "model": "tiny"},
        "axes": {"task": [name]},
    }
    with pytest.raises(UserError, match=f"--task={name}: becomes a folder"):
        grid_lib.expand(
            "grid.json", grid_lib.Grid(**grid), str(tmp_path / "runs")
        )
