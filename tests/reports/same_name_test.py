"""Data sets of one name are rows of their own in a report."""

import pytest

from tests.reports import made_up
from tests.reports.advice_test import make_rows, make_runs
from tf_transfer.reports import approaches, figures, reading


def write_runs(path, identity="", layers="all", scores=(80, 81), **changes):
    """Runs on a table; the same content has one identity."""
    settings = {"data_identity": identity or path}
    return make_runs(
        [*scores], layers, task="data", data=path, settings=settings, **changes
    )


def list_names(*groups):
    return [*dict.fromkeys(row.task for row in make_rows(*groups))]


@pytest.mark.parametrize(
    "paths, names",
    [
        (("a/data.csv", "b/data.csv"), ("a/data.csv", "b/data.csv")),
        (("/x y/a/mine.toml", "/x y/b.toml"), ("a/mine.toml", "b.toml")),
        (("/x/data.csv", "data.csv"), ("/x/data.csv", "data.csv")),
        (("", "a/data.csv"), ("", "a/data.csv")),
    ],
)
def test_two_tables_of_one_name_are_two_rows_with_a_name_each(paths, names):
    groups = [write_runs(path, path or "none") for path in paths]
    assert list_names(*groups) == [
        f"data (1,100 texts, {name})" for name in names
    ]
    rows = make_rows(*groups)
    assert len(rows) == 2 and [row.seeds for row in rows] == [2, 2]


def test_tables_of_other_sizes_have_their_sizes():
    small = {"sizes": {"train": 50, "test": 10}}
    groups = write_runs("a/data.csv"), write_runs("b/data.csv", **small)
    assert list_names(*groups) == ["data (1,100 texts)", "data (60 texts)"]


def test_one_table_at_two_places_is_one_row():
    """Such as on two machines."""
    paths = "/here/data.csv", "/there/data.csv"
    groups = [
        write_runs(path, "content", layers)
        for path, layers in zip(paths, ("all", "2"))
    ]
    assert list_names(*groups) == ["data"]


def test_other_readings_of_one_table_have_no_path():
    groups = [write_runs("data.csv", reading) for reading in ("plain", "clean")]
    assert list_names(*groups) == ["data (1,100 texts)"]


def test_each_of_them_has_its_depth_profile():
    groups = [
        write_runs(f"{name}/data.csv", profile={"of": name}) for name in "ab"
    ]
    runs = made_up.frame([run for group in groups for run in group])
    profiles = figures.profiles_of(approaches.label_runs(runs))
    assert [profile["of"] for profile in profiles.values()] == ["a", "b"]


@pytest.mark.parametrize(
    "settings, task, source",
    [
        ({"task": "a/mine.toml", "data": "glue"}, "mine", "a/mine.toml"),
        ({"task": "", "data": "a/data.csv"}, "data", "a/data.csv"),
        ({"task": "rte", "data": "folder"}, "rte", "folder"),
        ({"data": "folder"}, "cs224n", "folder"),
    ],
)
def test_the_source_of_a_run_is_what_its_command_names(settings, task, source):
    assert reading._find_source(settings, task) == source
