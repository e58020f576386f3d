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


def make_draw(change=0.0):
    scores = {**SCORES, "everything": SCORES["everything"] + change}
    return {
        name: {"score": score, "seconds": 1} for name, score in scores.items()
    }


def test_leads_are_over_the_best_baseline_and_means_over_draws():
    draws = {
        "sst2 0": make_draw(),
        "sst2 1": make_draw(2.0),
        "cola 0": make_draw(),
    }
    leads = usual_leads.find_leads(draws)
    assert leads.loc["sst2"].to_dict() == pytest.approx(
        {"last 1": -1.0, "last 2": 2.0, "last 4": 3.0, "everything": 5.0}
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
    measured = {
        "cases": {"600": {"sst2 0": make_draw(), "cola 0": make_draw(4)}}
    }
    rows = usual_leads.make_table(measured).splitlines()
    assert rows[2].startswith("| 600 | sst2 | -1.0 | +2.0 | +3.0 | +4.0 |")
    assert rows[-1].startswith("| 600 | **mean** | -1.0 | +2.0 | +3.0 | +6.0 |")
