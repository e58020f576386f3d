"""What the end of a command says beside the baselines."""

import numpy as np
import pytest

from tf_transfer.reports import answer


def scored(right, count=200, approach="fine_tuning", kind="test"):
    """A run that is right on the first so many of the texts."""
    labels = np.arange(count) % 2
    answers = np.where(np.arange(count) < right, labels, 1 - labels)
    record = {
        "task": "mine",
        "metric": "accuracy",
        "approach": approach,
        kind: {"accuracy": right / count},
        "train_seconds": 3.0,
        "best_epoch": 1,
        "epochs_run": 4,
    }
    logits = np.where(answers == 1, 1.0, -1.0)[:, None]
    return answer.Scored("here", record, kind, np.arange(count), labels, logits)


@pytest.mark.parametrize(
    "ours, theirs, count, words",
    [
        (180, 150, 200, "15.0 points less ("),
        (150, 180, 200, "15.0 points more ("),
        (15, 14, 24, "4.2 points less (0.0"),  # may be chance
        (13, 14, 24, "4.2 points more (-"),
    ],
)
def test_a_baseline_stands_next_to_what_was_trained(ours, theirs, count, words):
    baselines = {answer.PROBE: scored(theirs, count, "probe")}
    text = answer.describe(scored(ours, count), baselines, "so")
    lines = [line for line in text.splitlines() if "the probe" in line]
    assert words in lines[0]
    first = f"Test: accuracy {100 * ours / count:.1f} ("
    assert text.strip().startswith(first)


def test_a_depth_profile_is_a_line():
    profile = {
        "metric": "accuracy",
        "blocks_needed": 1,
        "blocks": [
            {"block": n, "score": score, "standard_error": 0.01}
            for n, score in enumerate((0.5, 0.79, 0.8))
        ],
    }
    assert answer.describe_profile(profile) == (
        "Depth profile, accuracy of the probe below block 1 and above each "
        "block: 50.0 79.0 80.0; 1 of 2 blocks are within a standard error of "
        "the best: --keep_blocks=1."
    )


@pytest.mark.parametrize("positives, expected", [(150, "85.7"), (50, "0.0")])
def test_f1_is_next_to_that_of_the_commonest_answer(positives, expected):
    labels = (np.arange(200) < positives).astype(np.int64)
    record = {**scored(1).record, "metric": "f1", "test": {"f1": 0.9}}
    logits = np.where(labels == 1, 1.0, -1.0)[:, None]
    run = answer.Scored("here", record, "test", np.arange(200), labels, logits)
    rows = answer.describe(run, {}, "so").splitlines()
    [row] = [line for line in rows if line.startswith(answer.MAJORITY)]
    assert row.split()[-2:] == ["f1", expected]
