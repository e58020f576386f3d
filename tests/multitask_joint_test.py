"""Three tasks that share a pass: summed, drawn, and by gradient surgery."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from tests.support import cs224n_runs, interrupting, quick, run_files
from tests.support.cs224n_runs import lines_of, run_folder, settings_of
from tf_transfer.models import tiny
from tf_transfer.multitask import experiment as multitask
from tf_transfer.utils.errors import Interrupted

pytestmark = pytest.mark.usefixtures("one_block")
HEADS = ("paraphrase", "similarity", "sentiment")
# Drawn evenly, so that each task comes.
SAMPLED = {
    "combine": "sampled",
    "alpha": 0.0,
    "last_alpha": 0.0,
    "seed": 3,
    "idle_heads": "still",
}


@pytest.fixture
def folder(tmp_path):
    """A few rows a file."""
    cs224n_runs.write_all(tmp_path)
    return tmp_path


@pytest.fixture(scope="module", params=["sampled"])
def finished(request, tmp_path_factory):
    """Settings of a finished run of an epoch."""
    folder = tmp_path_factory.mktemp("finished")
    cs224n_runs.write_all(folder)
    options = SAMPLED if request.param == "sampled" else {"combine": "pcgrad"}
    settings = settings_of(folder, train="all", max_epochs=1, **options)
    with quick.eagerly():
        multitask.run(settings)
    return settings


def count_updates(settings):
    """Updates of everything, and of each head."""
    arrays = run_files.checkpoint_of(run_folder(settings))
    return (
        int(arrays["optimizer/updates"]),
        [int(arrays[f"optimizer/updates/{name}"]) for name in HEADS],
    )


with_pcgrad = pytest.mark.parametrize("finished", ["pcgrad"], indirect=True)


@pytest.mark.slow  # trains whole runs
@with_pcgrad
def test_a_joint_pass_moves_all_heads_and_ends_the_epoch(finished):
    [line] = lines_of(finished)
    assert line["task"] is None
    # 24 pairs in three steps of 8; 10 and 12 others are shuffled anew.
    assert count_updates(finished) == (3, [3, 3, 3])


@pytest.mark.slow  # trains whole runs
def test_a_sampled_step_moves_the_sampled_head_alone(finished):
    # As many steps as three passes have: 3 + 2 + 2.
    total, heads = count_updates(finished)
    assert total == sum(heads) == 7 and min(heads) > 0


@pytest.mark.slow
def test_the_traced_choice_of_a_task_is_a_branch_of_the_graph(finished, folder):
    traced = settings_of(folder, train="all", max_epochs=1, **SAMPLED)
    multitask.run(traced)
    assert count_updates(traced) == count_updates(finished)
    [line], [eager] = lines_of(traced), lines_of(finished)
    assert line["train_loss"] == pytest.approx(eager["train_loss"], abs=1e-3)


@pytest.mark.slow
def test_one_task_s_loss_may_weigh_more(folder, eager):
    options = {"train": "all", "combine": "sum", "max_epochs": 1}
    options |= {"dropout": 0.0, "head_dropout": 0.0, "batch_size": 24}
    losses = {}
    for word in ("", "sentiment=3"):
        settings = settings_of(folder, **options, loss_weights=word)
        multitask.run(settings)
        losses[word] = lines_of(settings)[0]["train_loss"]  # of one step
    # The sum of all, and twice the task's own more.
    sentiment = (losses["sentiment=3"] - losses[""]) / 2
    assert sentiment == pytest.approx(np.log(5), abs=0.3)


@pytest.mark.parametrize(
    "finished",
    ["sampled", "pcgrad"],
    indirect=True,
)
@pytest.mark.slow
def test_a_run_stopped_within_a_joint_pass_ends_as_the_uninterrupted_one(
    finished, tmp_path, monkeypatch, eager
):
    settings = dataclasses.replace(finished, out=str(tmp_path))
    chunks = interrupting.stop_after(monkeypatch, 2)
    with pytest.raises(Interrupted):
        multitask.run(settings)
    multitask.run(settings)
    assert len(chunks) == (7 if finished.combine == "sampled" else 3)
    expected, resumed = (
        run_files.checkpoint_of(run_folder(each))
        for each in (finished, settings)
    )
    assert expected.keys() == resumed.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(
            resumed[name], array, atol=1e-5, err_msg=name
        )


def run_both(folder, out, changes):
    """Does a run of each, and prints the scores; in a fork."""
    tiny.BLOCKS = 1
    for combine in ("pcgrad", "sampled"):
        settings = settings_of(
            pathlib.Path(folder),
            train="all",
            combine=combine,
            out=out,
            dropout=0.0,
            head_dropout=0.0,
            max_epochs=1,
            **changes,
        )
        scores = multitask.run(settings).scores
        print("RESULT" + json.dumps(scores["validation"]))


@pytest.mark.slow
def test_two_devices_combine_as_one_does(forks, folder):
    results = [
        forks.start(
            run_both,
            str(folder),
            str(folder / f"out{number}"),
            changes,
            folder=str(folder),
        ).results()
        for number, changes in enumerate(
            ({}, {"strategy": "mirrored", "cpu_devices": 2})
        )
    ]
    assert len(results[0]) == 2
    for one, other in zip(*results, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
