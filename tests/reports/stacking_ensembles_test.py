"""The ensemble of three stacked models, on known predictions."""

import os

import numpy as np
import pytest

from tests.reports.composed import tables
from tests.reports.synthetic_stacking import BASE
from tests.reports.synthetic_stacking import signs
from tests.reports.synthetic_stacking import write
from tf_transfer import report
from tf_transfer.reports import reading
from tf_transfer.reports import summary as summary_lib

TRUTH = np.array([0, 1, 1, 0, 1, 0, 1, 1])


def trio(root, seeds, **changes):
    """The paper's three models; each errs on other texts, one is very sure."""

    def right_but(*wrong, sure=1.0):
        logits = np.where(TRUTH == 1, 1.0, -1.0)
        logits[list(wrong)] *= -sure
        return lambda seed: logits[:, None]

    same = {"seeds": seeds, "labels": TRUTH, **changes}
    write(root, "text", [75], logits=right_but(0, 1), **same, **BASE)
    stacked = {**same, "logits": right_but(2, 3, sure=9.0)}
    write(root, "text", [70, 75], head="densenet", **stacked)
    stacked["logits"] = right_but(0)
    write(root, "text", [70, 87.5], head="highway", **stacked)


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    """The summary of the three models, three seeds each."""
    root = tmp_path_factory.mktemp("trio")
    trio(root, seeds=3)
    return summary_lib.summarize_folder(str(root))


def test_the_ensemble_stands_against_its_members(summary):
    rows = {
        row[""]: row
        for row in tables(report.compose(summary))["ensemble_A_text_1"]
    }
    assert list(rows) == [
        "two dense layers, finetune-only",
        "DenseNet, stack-and-finetune",
        "Highway LSTM, stack-and-finetune",
        "mean of probabilities",
        "majority vote",
        "the majority class",
    ]
    # Two of three err on text 0; the mean follows the very sure one on 2, 3.
    vote, mean = rows["majority vote"], rows["mean of probabilities"]
    assert vote["accuracy"] == "87.50 ± 0.00" and vote["n"] == "3"
    assert mean["accuracy"] == "62.50 ± 0.00"
    assert vote["against finetune-only"] == "+12.50"
    assert vote["against the best member"] == "+0.00"
    assert rows["DenseNet, stack-and-finetune"]["time, s"] == "20.0 ± 0.0"
    assert vote["time, s"] == "50.0 ± 0.0"  # 10 + 20 + 20


def test_the_ensemble_is_in_the_summary_and_meets_the_paper_s_claim(summary):
    assert [joined["seed"] for joined in summary["ensembles"]] == [0, 1, 2]
    row = signs(report.compose(summary), "text")[
        "ensemble, mean of probabilities against two dense layers, "
        "finetune-only",
        "accuracy",
    ]
    assert row["paper"] == "+0.72" and row["ours"].startswith("-12.50")


def test_an_ensemble_takes_members_of_the_same_seed_and_rates_only(tmp_path):
    trio(tmp_path, seeds=1)
    trio(tmp_path, seeds=2, lr=1e-5)
    write(
        tmp_path,
        "text",
        [70, 75],
        head="highway",
        labels=TRUTH,
        seeds=3,
        head_lr=1e-2,
    )
    made = summary_lib.summarize_folder(str(tmp_path))
    assert len(made["ensembles"]) == 3
    found = tables(report.compose(made))
    assert found["ensemble_A_text_1"][3]["n"] == "2"
    assert found["ensemble_A_text_2"][3]["n"] == "1"


def test_runs_with_other_labels_are_in_no_ensemble_and_that_is_said(tmp_path):
    trio(tmp_path, seeds=1)
    [path] = {
        record["path"]
        for record in reading.read_runs(str(tmp_path))[0]
        if record["key"]["head"] == "highway"
    }
    name = os.path.join(tmp_path, path, "predictions.npz")
    arrays = dict(np.load(name))
    np.savez(name, **{**arrays, "test_labels": 1 - TRUTH})
    made = summary_lib.summarize_folder(str(tmp_path))
    assert made["ensembles"] == []
    [(left, reason)] = made["left_out"]
    assert left == path and "has other labels than" in reason
