"""The probe in a report: its row, its star, and its depth profile."""

from dataclasses import replace

import pandas as pd
import pytest

from tests.support import own_data, quick
from tf_transfer import train
from tf_transfer.comparison.estimates import Ranged
from tf_transfer.reports import (
    approaches,
    figures,
    study as study_lib,
    summary,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A probe beside everything, one block and the head."""
    folder = tmp_path_factory.mktemp("reported")
    path = own_data.write_task(folder, columns=own_data.news(60))
    shared = {
        "task": path,
        "model": "tiny",
        "max_length": 16,
        "max_epochs": 3,
        "select": "best",
        "batching": "random",
        "batch_size": 8,
        "baseline": False,
        "out": str(folder / "runs"),
        "cache_dir": str(folder / "cache"),
    }
    with quick.eagerly(1):
        for layers in ("all", "1"):
            train.run(
                train.Settings(trainable_layers=layers, lr=5e-3, **shared)
            )
        train.run(train.Settings(features="frozen", **shared))
    [found] = study_lib.collect(summary.summarize_folder(str(folder / "runs")))
    return found


def test_without_a_probe_there_is_no_profile():
    assert figures.draw_profile({}) is None


def test_own_runs_are_compared_with_the_best_on_validation(study):
    [base] = [row for row in study.rows if row.is_reference]
    assert base.name == "the probe"
    others = [row for row in study.rows if row.difference.is_known]
    assert "everything" in [row.name for row in others]
    for row in others:
        assert row.validation.value <= base.validation.value
        assert row.difference.value == pytest.approx(
            row.test.value - base.test.value
        )


@pytest.fixture
def rows(study):
    """As in a paper's study."""
    return approaches.make_rows(approaches.list_approaches(study.runs))


def test_a_probe_is_compared_with_training_everything(rows):
    [row] = [row for row in rows if row.is_baseline]
    [base] = [row for row in rows if row.is_reference]
    assert row.name == "the probe" and base.name == "everything"
    assert row.difference.value == pytest.approx(
        row.test.value - base.test.value
    )


@pytest.mark.parametrize("gain, dropout", [(-1.0, 0.1), (1.0, 0.5)])
def test_of_several_references_a_probe_has_the_best(study, gain, dropout):
    runs = study.runs
    other = runs[runs.trains == "everything"].copy()
    other["settings"] = [{**s, "dropout": 0.5} for s in other.settings]
    other["validation"] += gain
    other["group"] = runs.group.max() + 1
    frame = pd.concat([runs, other], ignore_index=True)
    [probe] = [x for x in approaches.list_approaches(frame) if x.is_probe]
    assert probe.base.first.settings["dropout"] == dropout


def test_its_star_is_in_the_first_figure(rows):
    figure = figures.draw_costs(rows, 1.0)
    [axis] = figure.render.args[0].axes
    [legend] = figure.render.args[0].legends
    names = [text.get_text() for text in legend.texts]
    assert "1 the probe" in names  # it traces nothing: its time is compared
    assert "*" in [line.get_marker() for line in axis.lines]


@pytest.mark.parametrize("weights, is_drawn", [(99.5, False), (90.0, True)])
def test_approaches_without_times_that_train_the_same_have_no_figure(
    rows, weights, is_drawn
):
    equal = [
        replace(row, is_baseline=False, time=Ranged(), weights=weights)
        for row in rows
    ]
    assert (figures.draw_costs(equal, 1.0) is not None) == is_drawn


def test_its_depth_profile_is_a_figure(study):
    profiles = figures.profiles_of(study.runs)
    assert [*profiles] == ["news"]
    assert b"<svg" in figures.draw_profile(profiles).svg


def test_a_long_name_takes_several_lines_of_the_legend():
    figure, [axis] = figures.make_panels(1, 3.0)
    handle = axis.errorbar([0], [1])
    name = "output layers, then everything; [CLS] for sentiment; sum of losses"
    figures.finish(figure, {name: handle}, "costs", "A caption")
    [text] = figure.legends[0].get_texts()
    lines = text.get_text().splitlines()
    assert " ".join(lines) == name
    assert max(map(len, lines)) <= figures.LEGEND_WIDTH
