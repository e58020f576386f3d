"""Three tasks that share a turn: summed, drawn, and by gradient surgery."""

import json

import numpy as np
import pytest

from tests import commands
from tests import cs224n_runs
from tests import interrupting
from tests.cs224n_runs import lines_of
from tests.cs224n_runs import run_folder
from tests.cs224n_runs import settings_of
from tf_transfer import multitask
from tf_transfer.models import tiny
from tf_transfer.training import run as run_lib


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A few rows a file, and a `tiny` of two blocks."""
    monkeypatch.setattr(tiny, "BLOCKS", 2)
    cs224n_runs.write_all(tmp_path)
    return tmp_path


def test_a_shared_turn_moves_all_heads_and_ends_the_epoch(folder):
    settings = settings_of(folder, train="all", combine="sum", max_epochs=1)
    multitask.run(settings)
    [line] = lines_of(settings)
    assert line["turn"] is None
    # 24 pairs in three steps of 8; 10 and 12 others are shuffled anew.
    arrays = interrupting.checkpoint_of(run_folder(settings))
    for name in ("", "/paraphrase", "/similarity", "/sentiment"):
        assert arrays[f"optimizer/updates{name}"] == 3


def test_a_drawn_step_moves_the_drawn_head_alone(folder):
    settings = settings_of(
        folder,
        train="all",
        combine="sampled",
        max_epochs=1,
        alpha=0.0,
        last_alpha=0.0,
        seed=3,
    )
    multitask.run(settings)
    arrays = interrupting.checkpoint_of(run_folder(settings))
    heads = [
        int(arrays[f"optimizer/updates/{name}"])
        for name in ("paraphrase", "similarity", "sentiment")
    ]
    # As many steps as three passes have: 3 + 2 + 2.
    assert sum(heads) == arrays["optimizer/updates"] == 7
    assert min(heads) > 0


def test_one_task_s_loss_may_weigh_more(folder):
    options = {"train": "all", "combine": "sum", "max_epochs": 1}
    options |= {"dropout": 0.0, "head_dropout": 0.0, "batch_size": 24}
    losses = {}
    for word in ("", "sentiment=3", "paraphrase=3"):
        settings = settings_of(folder, **options, loss_weights=word)
        multitask.run(settings)
        losses[word] = lines_of(settings)[0]["train_loss"]  # of one step
    # Each is the sum of all and twice the task's own more.
    sentiment = (losses["sentiment=3"] - losses[""]) / 2
    paraphrase = (losses["paraphrase=3"] - losses[""]) / 2
    assert sentiment == pytest.approx(np.log(5), abs=0.3)
    assert paraphrase == pytest.approx(np.log(2), abs=0.2)


@pytest.mark.parametrize("combine", ["pcgrad", "sampled"])
def test_a_shared_turn_is_resumed_inside(folder, monkeypatch, combine):
    options = {"train": "all", "combine": combine, "max_epochs": 1}
    whole = settings_of(folder, **options)
    multitask.run(whole)
    settings = settings_of(folder, **options, out=str(folder / "stopped"))
    turns = interrupting.stop_after(monkeypatch, 2)
    with pytest.raises(run_lib.Interrupted):
        multitask.run(settings)
    multitask.run(settings)
    assert len(turns) == (3 if combine == "pcgrad" else 7)
    one, other = (
        interrupting.checkpoint_of(run_folder(whole)),
        interrupting.checkpoint_of(run_folder(settings)),
    )
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, atol=1e-5, err_msg=name)


PROGRAM = """
import json, pathlib, sys
from tests.cs224n_runs import settings_of
from tf_transfer import multitask
from tf_transfer.models import tiny

tiny.BLOCKS = 1
folder, out, changes = sys.argv[1:]
for combine in ("pcgrad", "sampled"):
    settings = settings_of(
        pathlib.Path(folder), train="all", combine=combine, out=out,
        dropout=0.0, head_dropout=0.0, max_epochs=1, **json.loads(changes),
    )
    print("RESULT" + json.dumps(multitask.run(settings)["validation"]))
"""


def test_two_devices_combine_as_one_does(folder):
    found = []
    for changes in ({}, {"strategy": "mirrored", "cpu_devices": 2}):
        found.append(
            commands.results_of(
                PROGRAM,
                str(folder),
                str(folder / f"out{len(found)}"),
                json.dumps(changes),
            )
        )
    assert len(found[0]) == 2
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
