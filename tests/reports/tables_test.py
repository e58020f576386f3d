"""Tables as data: what a `tables.toml` may say, and what is refused."""

import pytest

from tests.reports import synthetic
from tests.reports.generic_test import MyOwn
from tf_transfer.reports import (
    page,
    study as study_lib,
    summary as summary_lib,
    tables,
    wording,
)
from tf_transfer.reports.overview import Ranged
from tf_transfer.utils.errors import UserError

TABLE = """
[[table]]
name = "mine_{part}"
caption = "{task}: {metric} of each rate"
of = "task"
rows = "groups"
columns = [
    ["trains", "trains"],
    ["lr", "lr", "rate"],
    ["n", "n"],
    ["score", "score", "spread 1"],
    ["accuracy", "metric:accuracy", "number 0"],
    ["batch", "setting:batch_size"],
    ["empty", "metric:unheard_of", "spread"],
    ["time, s", "seconds", "spread 0"],
]
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two approaches of an experiment of one's own, two seeds each."""
    root = tmp_path_factory.mktemp("my_own")
    for layers, scores in (("all", (0.8, 0.84)), ("1", (0.72, 0.75))):
        for seed, score in enumerate(scores):
            synthetic.write(
                root,
                [0.5, score],
                trainable_layers=layers,
                seed=seed,
                seconds=20.0 if layers == "all" else 5.0,
                cls=MyOwn,
                sizes={"train": 8, "test": 2},
            )
    return summary_lib.summarize_folder(str(root))


def collect(runs, folder, text):
    """The study of some runs beside a `tables.toml`."""
    (folder / "my_own").mkdir()
    (folder / "my_own" / "tables.toml").write_text(text)
    [study] = study_lib.collect(runs, str(folder))
    return study


def test_an_experiment_of_ones_own_has_the_tables_of_its_file(runs, tmp_path):
    study = collect(runs, tmp_path, TABLE)
    [part] = page.make_page([study], runs).parts
    [table] = [t for t in part.tables if t.name == "my_own_A_mine_rte"]
    assert table.caption == "rte: accuracy of each rate"
    assert table.frame.to_dict("records") == [
        {
            "trains": "everything",
            "lr": "2e-05",
            "n": 2,
            "score": "82.0 ± 2.8",
            "accuracy": "82",
            "batch": 1,
            "time, s": "40 ± 0",
        },
        {
            "trains": "last 1",
            "lr": "0.001",
            "n": 2,
            "score": "73.5 ± 2.1",
            "accuracy": "74",
            "batch": 1,
            "time, s": "10 ± 0",
        },
    ]


def test_rows_of_the_overview_have_their_intervals(runs, tmp_path):
    text = """
    [[table]]
    name = "kept"
    caption = "What is kept"
    columns = [
        ["task", "task"],
        ["trains", "trains"],
        ["points", "gain", "interval 1"],
        ["share of time", "share", "interval 0"],
    ]
    """
    [table] = tables.fill_tables(collect(runs, tmp_path, text))
    assert list(table.frame.task) == ["rte", "rte"]
    assert table.frame["share of time"].tolist() == ["", "25"]
    assert table.frame.points[1].startswith("-8.5 (")


def test_without_a_file_there_are_no_tables(runs, tmp_path):
    [study] = study_lib.collect(runs, str(tmp_path))
    assert tables.fill_tables(study) == []


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"setting:', '"', r"column batch: measure: 'batch_size' is not known"),
        (
            '"score", "sp',
            '"scor", "sp',
            r"mine_{part}, column score: measure: 's",
        ),
        ('"spread 1"', '"spraed 1"', r"column score: format: 'spraed' is not "),
        ('"spread 1"', '"spraed 1"', r"Known are text, spread, change, inter"),
        ('"groups"', '"runs"', r"rows: 'runs' is not known. Known are over"),
        ('"task"\n', '"tasks"\n', r"of: 'tasks' is not known. Known are stu"),
        ('"task"\n', '["part"]\n', r"of: 'part' is not known. Known are pa"),
        ('"groups"', '["seeds"]', r"rows: 'seeds' is not known. Known are pa"),
        ('["n", "n"]', '["n"]', r"column n: give texts for a title, a "),
        ('"n"]', "5]", r"column n: give texts for a title, a measure"),
        ('"spread 1"', '"spread x"', r"column score: give texts for a title"),
        ('"spread 1"', '"interval"', r"column score: score is nothing to show"),
        ("{task}", "{}", r"has no word"),
        ("rows", "rosw", r"table mine_{part}: .* 'rosw'"),
        ('caption = "', '#"', r"table mine_{part}: .* 'caption'"),
        ("{task}", "{tasks}", r"table mine_{part}: has no word 'tasks'"),
        ("[[table]]", "[table", r"my_own/tables.toml: cannot be read"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    before, after, message, runs, tmp_path
):
    assert before in TABLE
    study = collect(runs, tmp_path, TABLE.replace(before, after, 1))
    with pytest.raises(UserError, match=message) as error:
        tables.fill_tables(study)
    assert str(tmp_path / "my_own" / "tables.toml") in str(error.value)


# === Figures ===

FIGURE = """
[[figure]]
name = "mine_{study}"
caption = "Score against time"
rows = "groups"
x = "seconds"
y = "score"
xlabel = "seconds, {task}"
colour = "setting:batch_size"
xscale = "zero"
"""


def test_a_figure_of_ones_own_has_a_curve_for_each_name(runs, tmp_path):
    study = collect(runs, tmp_path, FIGURE)
    [part] = page.make_page([study], runs).parts
    names = [figure.name for figure in part.figures]
    assert names == ["my_own_A_mine_A"]
    drawn = part.figures[0].render.args[0]
    [axis] = drawn.axes
    assert axis.get_xlabel() == "seconds, rte"
    assert axis.get_ylabel() == "accuracy on test, points"
    [legend] = drawn.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["everything", "last 1"]
    points = {
        tuple(line.get_xydata()[0].round(6)): line.get_color()
        for line in axis.lines
        if len(line.get_xydata()) == 1 and line.get_marker() == "o"
    }
    assert set(points) == {(40.0, 82.0), (10.0, 73.5)}
    assert len({*points.values()}) == 1  # of one batch size


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"score"', '"scor"', r"figure mine_{study}: measure: 'scor' is not k"),
        ('"zero"', '"nought"', r"xscale: 'nought' is not known. Known are"),
        ("xlabel", "label", r"figure mine_{study}: missing a required argum"),
    ],
)
def test_what_is_wrong_in_a_figure_is_named(
    before, after, message, runs, tmp_path
):
    study = collect(runs, tmp_path, FIGURE.replace(before, after, 1))
    with pytest.raises(UserError, match=message):
        tables.draw_figures(study)


# === Wording ===


def test_a_value_is_written_in_one_way():
    assert wording.spread([80.0, None, 82.0]) == "81.00 ± 1.41"
    assert wording.spread([80.0], 1, "+") == "+80.0"
    assert wording.spread([]) == wording.ranged(Ranged()) == ""
    assert (
        wording.ranged(Ranged(-0.001, -1, 1), 1, "+") == "+0.0 (-1.0 to +1.0)"
    )
    assert wording.percent(Ranged(98.4)) == "98.4\N{NO-BREAK SPACE}%"
    assert wording.difference([2.0], [1.0, 1.0]) == "+1.00"
    assert wording.difference([2.0], []) == ""
