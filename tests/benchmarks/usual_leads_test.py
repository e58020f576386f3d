"""The table of usual leads, from made-up scores; nothing trains."""

import numpy as np
import pytest

from benchmarks import usual_leads

SCORES = {
    "the TF-IDF baseline": 60.0,
    "the probe": 70.0,
    "last 1": 69.0,
    "last 2": 72.0,
    "last 4": 73.0,
    "everything": 74.0,
    "contrastive": 80.0,
}


def make_scores(change=0.0):
    return {**SCORES, "everything": SCORES["everything"] + change}


def test_leads_are_over_the_best_baseline():
    leads = usual_leads.find_leads({"sst2": make_scores(2), "cola": SCORES})
    assert leads.loc["sst2"].to_dict() == pytest.approx(
        {"last 1": -1.0, "last 2": 2.0, "last 4": 3.0, "everything": 6.0}
    )
    assert [*leads.index] == ["sst2", "cola"]


def test_a_replay_misses_nothing_where_the_best_is_clear():
    for rule in (usual_leads.expect_together, usual_leads.take_each):
        assert usual_leads.replay(np.array([40.0, 0, 0, 0]), rule) == 0
        assert usual_leads.replay(np.full(4, -40.0), rule) == 0


def test_leads_together_miss_less_where_everything_leads():
    leads = np.array([1.0, 2.0, 2.5, 4.5])
    together, each = (
        usual_leads.replay(leads, rule)
        for rule in (usual_leads.expect_together, usual_leads.take_each)
    )
    assert 0 < together < each < 4.5


def test_the_table_has_a_row_for_each_task_and_their_mean():
    measured = {"model": "minilm", "max_length": 9, "examples": 600}
    measured["tasks"] = {"sst2": SCORES, "cola": make_scores(4.0)}
    rows = usual_leads.make_table(measured).splitlines()[2:]
    assert rows[2].startswith("| sst2 | -1.0 | +2.0 | +3.0 | +4.0 |")
    assert rows[-1].startswith("| **mean** | -1.0 | +2.0 | +3.0 | +6.0 |")
