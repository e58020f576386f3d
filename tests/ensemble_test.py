"""Finished runs are combined from their stored predictions."""

import json
import os
import re
import shutil

import numpy as np
import pytest

from tests.reports import synthetic
from tests.support import commands
from tf_transfer import ensemble
from tf_transfer.data import ensembles, metrics

LABELS = np.array([0, 1, 1, 0])
# Each is wrong once; the second so surely that the mean follows it.
LOGITS = ([-1.0, 1, -1, -1], [-1.0, -9, 1, -1], [1.0, 1, 1, -1])


def write(root, logits, labels=LABELS, seed=0, **changes):
    predictions = labels, np.array(logits, np.float32)[:, None]
    folder = synthetic.write(
        root,
        [0.75],
        seed=seed,
        predictions=predictions,
        metrics={"accuracy": 0.75},
        task="rte",
        **changes,
    )
    return folder


def call(*runs, output=None):
    words = [f"--run={run}" for run in runs]
    if output is not None:
        words.append(f"--output={output}")
    return commands.call(ensemble.main, ensemble.define_flags, *words)


def test_three_runs_are_scored_alone_and_together(tmp_path, capsys):
    runs = [
        write(tmp_path / "runs", logits, seed=seed)
        for seed, logits in enumerate(LOGITS)
    ]
    assert call(*runs, output=tmp_path / "both") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["accuracy"]
    found = {row.rsplit("  ", 1)[0].strip(): row.split()[-1] for row in rows}
    assert [found[run] for run in runs] == ["0.7500"] * 3
    assert found["mean of probabilities"] == "0.7500"
    assert found["majority vote"] == "1.0000"
    with open(tmp_path / "both" / "ensemble.json") as file:
        written = json.load(file)
    assert written["runs"] == runs
    assert written["scores"]["majority vote"] == {"accuracy": 1.0}
    arrays = np.load(tmp_path / "both" / "predictions.npz")
    assert arrays["test_labels"].tolist() == LABELS.tolist()
    assert metrics.decide(arrays["vote"]).tolist() == LABELS.tolist()
    expected = [metrics.probabilities(np.array(one)[:, None]) for one in LOGITS]
    np.testing.assert_allclose(arrays["mean"], np.mean(expected, 0), atol=1e-6)


def test_one_unit_and_two_are_joined_alike():
    """A sigmoid of z is the softmax of (0, z)."""
    one = np.array(LOGITS[0])[:, None]
    two = np.concatenate([np.zeros_like(one), one], axis=1)
    ids = np.arange(4)
    members = [
        ensembles.Member(name, "", {}, ids, LABELS, logits)
        for name, logits in (("one", one), ("two", two))
    ]
    joined = ensembles.join(members)
    np.testing.assert_allclose(joined[0], joined[1])


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"data_identity": "RTE 2"}, "has other data"),
        ({"split_seed": 5}, r"splits its data differently \(split_seed\)"),
        ({"labels": np.array([0, 1, 1, 1])}, "has other labels"),
    ],
)
def test_runs_over_other_examples_are_not_joined(
    tmp_path, capfd, changes, said
):
    one = write(tmp_path / "runs", LOGITS[0])
    other = write(tmp_path / "others", LOGITS[1], **changes)
    assert call(one, other, output=tmp_path / "both") == 1
    message = capfd.readouterr().err
    assert message.startswith(f"error: {other}: ")
    assert re.search(said, message)
    assert not os.path.exists(tmp_path / "both")


def test_a_run_that_cannot_be_in_an_ensemble_is_refused(tmp_path, capfd):
    run = write(tmp_path / "runs", LOGITS[0])

    def message(*runs, **options):
        assert call(*runs, **options) == 1
        return capfd.readouterr().err

    assert "--run: give two different" in message(run)
    assert "--run: give two different" in message(run, os.path.relpath(run))
    nothing = tmp_path / "nothing"
    assert f"--run={nothing}: has no config.json" in message(run, nothing)
    scores = write(tmp_path / "scores", LOGITS[0], LABELS + 0.5)
    assert "gives scores, not classes" in message(run, scores)
    untested = synthetic.write(tmp_path / "untested", [0.5], task="rte")
    assert "was not tested" in message(run, untested)
    words = synthetic.write(
        tmp_path / "words",
        [0.5],
        task="rte",
        arrays={
            "test_ids": np.arange(2),
            "test_labels": LABELS,
            "test_logits": np.zeros([4, 3]),
        },
    )
    assert "labels words" in message(run, words)
    damaged = write(tmp_path / "damaged", LOGITS[0])
    with open(os.path.join(damaged, "predictions.npz"), "wb") as file:
        file.write(b"PK")
    assert "has no intact predictions" in message(run, damaged)
    nan = write(tmp_path / "nan", [np.nan] * 4)
    assert "holds test_logits that are not finite" in message(run, nan)
    other = write(tmp_path / "other", LOGITS[1], seed=1)
    for name in ("result.json", "predictions.npz"):
        shutil.copy(os.path.join(run, name), os.path.join(other, name))
    assert "result.json: is damaged (is another run's)" in message(run, other)
    second = write(tmp_path / "runs", LOGITS[1], seed=1)
    assert f"--output={run}: is a run" in message(run, second, output=run)
