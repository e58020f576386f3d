"""Every big head goes through the shared loop: devices, precision, resuming."""

import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy

from tests import commands
from tests import interrupting
from tests.stacking_data import settings_of
from tf_transfer import stacking
from tf_transfer.models import tiny
from tf_transfer.models.heads import names
from tf_transfer.training import run as run_lib

QUICK = (("ner", "bilstm"),)
EVERY = tuple((t, h) for t, names in names.HEADS.items() for h in names)
HEADS = [
    pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.slow)
    for pair in EVERY
]


@pytest.fixture(autouse=True)
def two_blocks(monkeypatch):
    monkeypatch.setattr(tiny, "BLOCKS", 2)


def adaptation_of(head):
    return "finetune_only" if head == "dense" else "joint"


PROGRAM = """
import json, pathlib, sys
from tests import interrupting
from tests.stacking_data import settings_of
from tf_transfer import stacking
from tf_transfer.models import tiny

tiny.BLOCKS = 1
folder, out, changes, heads = sys.argv[1:]
for task, head in json.loads(heads):
    settings = settings_of(
        pathlib.Path(folder), task, head=head, out=out, dropout=0.0,
        adaptation="finetune_only" if head == "dense" else "joint",
        head_dropout=0.0, **json.loads(changes),
    )
    result = stacking.run(settings)
    print("RESULT" + json.dumps([result["validation"], result["test"]]))
"""


@pytest.mark.parametrize(
    "heads", [QUICK, pytest.param(EVERY, marks=pytest.mark.slow)]
)
def test_two_devices_train_as_one_does(heads, tmp_path):
    found = []
    for changes in ({}, {"strategy": "mirrored", "cpu_devices": 2}):
        found.append(
            commands.results_of(
                PROGRAM,
                str(tmp_path),
                str(tmp_path / f"out{len(found)}"),
                json.dumps(changes),
                json.dumps(heads),
            )
        )
    assert len(found[0]) == len(heads)
    for one, other in zip(*found, strict=True):
        for metrics, same in zip(one, other):
            assert metrics == pytest.approx(same, abs=1e-4)


@pytest.mark.parametrize("task, head", HEADS)
@pytest.mark.parametrize(
    "precision",
    ["mixed_float16", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)],
)
def test_half_precision_trains_float32_weights(task, head, precision, tmp_path):
    changes = {"head": head, "adaptation": adaptation_of(head)}
    losses = []
    for kind in ("float32", precision):
        settings = settings_of(
            tmp_path,
            task,
            **changes,
            precision=kind,
            dropout=0.0,
            head_dropout=0.0,
        )
        stacking.run(settings)
        path = pathlib.Path(stacking.locate(settings, 1).path)
        line = json.loads((path / "epochs.jsonl").read_text().splitlines()[0])
        losses.append(line["train_loss"])
        [weights] = (path / "model").iterdir()
        arrays = safetensors.numpy.load_file(weights)
        assert {array.dtype for array in arrays.values()} == {
            np.dtype(np.float32)
        }
    assert losses[1] == pytest.approx(losses[0], rel=0.1)


@pytest.mark.parametrize("task, head", HEADS)
def test_a_stopped_run_ends_as_if_it_had_not_been(
    task, head, tmp_path, monkeypatch
):
    changes = {"head": head, "adaptation": adaptation_of(head)}
    whole = settings_of(tmp_path, task, **changes)
    stacking.run(whole)
    stopped = settings_of(
        tmp_path, task, **changes, out=str(tmp_path / "stopped")
    )
    turns = interrupting.stop_after(monkeypatch, 1)  # of 2 or more
    with pytest.raises(run_lib.Interrupted):
        stacking.run(stopped)
    stacking.run(stopped)
    assert len(turns) > 1
    one, other = (
        interrupting.checkpoint_of(stacking.locate(settings, 1).path)
        for settings in (whole, stopped)
    )
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, atol=1e-5, err_msg=name)
