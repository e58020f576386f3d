"""The probe in a report: its row, its star, and its depth profile."""

import pytest

from tests.reports import made_up
from tests.support import own_data, quick
from tf_transfer import train
from tf_transfer.reports import (
    brief,
    depth,
    first_figure,
    overview,
    study as study_lib,
    summary,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A probe beside everything, one block and the head."""
    folder = tmp_path_factory.mktemp("reported")
    path = own_data.write_task(folder, columns=own_data.news(90))
    shared = {
        "task": path,
        "model": "tiny",
        "max_length": 16,
        "max_epochs": 4,
        "batch_size": 8,
        "baseline": False,
        "out": str(folder / "runs"),
        "cache_dir": str(folder / "cache"),
    }
    with quick.eagerly(2):
        for layers in ("all", "1"):
            train.run(
                train.Settings(trainable_layers=layers, lr=3e-3, **shared)
            )
        train.run(train.Settings(features="frozen", **shared))
    [found] = study_lib.collect(summary.summarize_folder(str(folder / "runs")))
    return found


def test_a_probe_is_compared_with_training_everything(study):
    [row] = [row for row in study.rows if row.is_probe]
    assert row.trains == "the probe" and row.base.is_base
    assert row.kept.value == pytest.approx(
        100
        * (row.score.value - row.majority)
        / (row.base.score.value - row.majority)
    )


def test_its_star_is_in_the_first_figure(study):
    approaches = brief.group_approaches(study.rows)
    figure = first_figure.draw_costs(study, approaches)
    assert "Star: the probe" in figure.caption
    [axis] = figure.render.args[0].axes
    names = [text.get_text() for text in axis.texts]
    assert "the probe" in names  # it traces nothing: its time is compared
    assert "*" in [line.get_marker() for line in axis.lines]


def test_its_depth_profile_is_a_figure(study):
    profiles = depth.profiles_of(study.runs)
    assert [*profiles] == ["news"]
    assert b"<svg" in depth.draw(profiles).svg


def test_a_probe_changes_no_interval_of_other_rows():
    """What it is compared with has one variance in all comparisons."""
    paper = made_up.make_paper({"published": -2.0})
    scores = {"all": [80, 81, 80.4], "2": [77, 79, 78], "1": [75, 77.2, 76]}
    runs = [
        made_up.make_runs(paper, "rte", {"trainable_layers": n}, of)
        for n, of in scores.items()
    ]
    probe = made_up.make_runs(
        paper, "rte", {}, [82], approach="probe", blocks=0
    )
    for names in ("trainable_layers", "lr"):
        probe[0]["key"].pop(names, None)
    gains = [
        {
            row.trains: (row.gain.low, row.gain.high)
            for row in overview.make_rows(made_up.collect(paper, *of).runs)
            if not (row.is_probe or row.is_base)
        }
        for of in (runs, [*runs, probe])
    ]
    assert len(gains[0]) == 2 and gains[0] == gains[1]
