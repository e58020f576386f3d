"""Replays of a search from made-up records, and their table."""

import dataclasses
import math

import pytest

from benchmarks import usual_leads
from tests.searches import race_test
from tf_transfer.searches.costs import Candidate, RunSeconds
from tf_transfer.sweeps.estimate import Work

SCORES = {
    "the TF-IDF baseline": 60.0,
    "the probe": 70.0,
    "last 1": 69.0,
    "last 2": 72.0,
    "last 4": 73.0,
    "everything": 74.0,
    "contrastive": 80.0,
}


def make_task(change=0.0, missed=0.5, gain=0.0):
    """What is measured of a task."""
    scores = {**SCORES, "everything": SCORES["everything"] + change}
    shares = dict.fromkeys(usual_leads.SHARES, missed)
    return {
        "scores": scores,
        "gains": {
            name: dict.fromkeys(usual_leads.VARIANTS, gain)
            for name in usual_leads.APPROACHES
        },
        "missed": shares,
        "seconds": 240.0,
        "processor": "CPU",
    }


def record_all(tops):
    """A run of each usual candidate on each fold, of known seconds."""
    recorded = {}
    for name, top in tops.items():
        seconds = race_test.SECONDS.get(name, 1.0)
        for fold in range(5):
            scored = race_test.make_scored(top / 100, fold, fold)
            recorded[name, fold] = usual_leads.RecordedRun(
                scored, RunSeconds([seconds] * 3), top
            )
    return recorded


def test_leads_are_over_the_best_baseline():
    leads = usual_leads.find_leads(SCORES)
    assert leads == pytest.approx(
        {"last 1": -1.0, "last 2": 2.0, "last 4": 3.0, "everything": 4.0}
    )


REFITS = {name: top + 2.0 for name, top in race_test.TOPS.items()}


def replay(recorded, seconds, first=0):
    race = race_test.make_race()
    score = usual_leads.replay(race, recorded, REFITS, seconds, first)
    assert not race.results and not race.failed  # it is left as it was
    return score


@pytest.mark.parametrize(
    "seconds, score",
    [
        (40.0, REFITS["last 1"]),
        (120.0, REFITS["last 2"]),  # everything fits on no fold
        (1000.0, REFITS["everything"]),
    ],
)
def test_a_replay_has_the_score_of_the_best_that_fits(seconds, score):
    recorded = record_all({**race_test.TOPS, "everything": 95.0})
    assert replay(recorded, seconds) == score


def test_a_replay_starts_with_the_fold_that_it_is_given():
    """Everything fails on the fourth."""
    recorded = record_all({**race_test.TOPS, "everything": 95.0})
    failed = record_all({"everything": 20.0})
    recorded["everything", 3] = failed["everything", 3]
    scores = [replay(recorded, 220.0, first) for first in (0, 3)]
    assert scores == [REFITS["everything"], REFITS["last 2"]]


def test_variants_and_further_seeds_are_not_replayed():
    recorded = record_all(race_test.TOPS)
    assert replay(recorded, math.inf) == REFITS["last 2"]


def test_the_table_has_a_row_for_each_task_and_their_mean():
    measured = {
        "model": "minilm",
        "max_length": 9,
        "examples": 600,
        "tasks": {"sst2": make_task(), "mrpc": make_task(4.0, 1.5, -3.0)},
    }
    text = usual_leads.make_table(measured)
    assert "took 4 minutes" in text
    rows, gains = (
        [line for line in part.splitlines() if line.startswith("|")]
        for part in text.split("The test score of variants")
    )
    assert rows[2] == (
        "| sst2 | -1.0 | +2.0 | +3.0 | +4.0 | 0.50 | 0.50 | 0.50 | 0.50 |"
    )
    assert [row.split(" | ")[0] for row in rows[4:]] == [
        "| **mean of pairs**",
        "| **mean of single texts**",
        "| **mean**",
    ]
    assert rows[4].startswith("| **mean of pairs** | -1.0 | +2.0 | +3.0 | +8.0")
    assert rows[-1].startswith("| **mean** | -1.0 | +2.0 | +3.0 | +6.0 | 1.00")
    assert gains[2] == "| a higher rate | -1.5 | -1.5 | -1.5 | -1.5 |"


@pytest.mark.parametrize(
    "changes, kind",
    [
        ({"flags": {"lr": "5e-4"}}, "a higher rate"),
        ({"flags": {"lr": "1e-4"}}, "a lower rate"),
        ({"flags": {"lr": "2e-4"}, "epochs": 6}, "more epochs"),
    ],
)
def test_a_variant_is_named_by_what_it_changes(changes, kind):
    usual = Candidate("last 2", {"lr": "2e-4"}, Work(), epochs=3)
    variant = dataclasses.replace(usual, **changes)
    assert usual_leads.name_variant(variant, usual) == kind
