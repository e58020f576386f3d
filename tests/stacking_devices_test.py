"""Heads in the shared training loop: devices, precision, resuming.

One head of each task stands for all of them. What every head does is tested
beside the heads.
"""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.support import interrupting, run_files
from tests.support.stacking_data import lines_of, run_folder, settings_of
from tf_transfer.models import tiny
from tf_transfer.stacking import experiment as stacking
from tf_transfer.utils.errors import Interrupted

pytestmark = [
    pytest.mark.usefixtures("one_block", "eager"),
    pytest.mark.slow,
]
OTHERS = [
    ("ner", "bilstm"),
    ("pairs", "bimpm_without_context"),
    ("text", "densenet"),
]
some_heads = pytest.mark.parametrize(
    "task, head",
    [
        ("ner", "dense"),
        *OTHERS,
    ],
)


def settings_for(folder, task, head, **changes):
    """Settings of a run of two steps in one phase, without dropout."""
    return settings_of(
        folder,
        task,
        head=head,
        adaptation="finetune_only" if head == "dense" else "joint",
        **{
            "dropout": 0.0,
            "head_dropout": 0.0,
            "max_train_examples": 16,
            **changes,
        },
    )


def run_on_two_devices(folder):
    """Does a run of each head, and prints the scores; in a fork."""
    tiny.BLOCKS = 1
    tf.config.run_functions_eagerly(True)
    for task, head in OTHERS:
        settings = settings_for(
            pathlib.Path(folder), task, head, strategy="mirrored", cpu_devices=2
        )
        print("RESULT" + json.dumps(stacking.run(settings).scores))


@pytest.mark.slow
def test_two_devices_train_heads_as_one_does(forks, tmp_path):
    results = forks.start(
        run_on_two_devices, str(tmp_path), folder=str(tmp_path)
    ).results()
    for pair, mirrored in zip(OTHERS, results, strict=True):
        scores = stacking.run(settings_for(tmp_path, *pair)).scores
        for split, metrics in scores.items():
            assert mirrored[split] == pytest.approx(metrics, abs=1e-4), pair


@some_heads
def test_half_precision_trains_float32_weights(task, head, tmp_path):
    losses = {}
    for precision in ("float32", "mixed_bfloat16"):
        settings = settings_for(
            tmp_path, task, head, precision=precision, max_train_examples=8
        )
        stacking.run(settings)
        losses[precision] = lines_of(settings)[0]["train_loss"]
        arrays = run_files.model_of(run_folder(settings))
        assert {array.dtype for array in arrays.values()} == {
            np.dtype(np.float32)
        }
    whole = losses.pop("float32")
    for loss in losses.values():
        assert loss == pytest.approx(whole, rel=0.1)


@some_heads
def test_a_resumed_run_equals_an_uninterrupted_one(
    task, head, tmp_path, monkeypatch
):
    dropout = {"dropout": 0.1, "head_dropout": 0.1}
    whole = settings_for(tmp_path, task, head, **dropout)
    stacking.run(whole)
    stopped = settings_for(
        tmp_path, task, head, **dropout, out=str(tmp_path / "stopped")
    )
    chunks = interrupting.stop_after(monkeypatch, 1)
    with pytest.raises(Interrupted):
        stacking.run(stopped)
    stacking.run(stopped)
    assert len(chunks) == 2
    expected, resumed = (
        run_files.checkpoint_of(run_folder(settings))
        for settings in (whole, stopped)
    )
    assert expected.keys() == resumed.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(
            resumed[name], array, atol=1e-5, err_msg=name
        )
