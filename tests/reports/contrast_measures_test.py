"""Measures, groups, folds and test texts of a claim, at known scores."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from tests.reports import made_up, synthetic
from tests.reports.made_up import ALL, LAST
from tf_transfer.comparison import estimates, predictions
from tf_transfer.reports import contrast, reading

# === Measures ===


def time_paper(*entries):
    """A paper with claims on times; `both` seconds are of an epoch."""
    return made_up.make_paper(
        *({"measure": ("seconds_per_epoch",) * 2, **entry} for entry in entries)
    )


def timed(paper, group, seconds, starts, **changes):
    return [
        replace(record, **changes)
        for record in made_up.time_runs(
            paper, group, seconds, starts, ["a"] * len(seconds)
        )
    ]


def test_a_ratio_of_times_is_one_of_logarithms():
    paper = time_paper(
        {"relative": True, "published": -50.0},
        {"relative": True, "published": -90.0, "factor": 0.5},
        {"published": -50.0},
    )
    last = timed(paper, LAST, [49, 50, 51], [0, 200, 400])
    whole = timed(paper, ALL, [98, 100, 102], [100, 300, 500])
    ratio, half, difference = made_up.judge(paper, last, whole).values()
    assert ratio.value == pytest.approx(-50)
    assert ratio.low < -50 < ratio.high < -45
    assert ratio.detail == contrast.PUBLISHED_SIZE
    # Of half of the time of the second group, it is all.
    assert half.value == pytest.approx(0, abs=1e-9)
    assert half.word == "contradicts"
    assert half.reason == ("any difference is below half of the published one")
    assert difference.value == pytest.approx(-50)


def test_a_score_in_percent_of_another_is_a_ratio():
    paper = made_up.make_paper(
        {"relative": True, "sign": -1},
        {"relative": True, "sign": -1, "factor": 0.5},
        {"sign": -1, "factor": 0.5},
    )
    runs = [
        made_up.make_runs(paper, "rte", group, [m - 1, m, m + 1])
        for group, m in ((LAST, 60), (ALL, 80))
    ]
    percent, half, points = made_up.judge(paper, *runs).values()
    assert percent.value == pytest.approx(-25)
    assert half.value == pytest.approx(50)
    assert points.value == pytest.approx(60 - 40)


def test_times_that_were_not_taken_in_turn_decide_nothing():
    paper = time_paper({"relative": True, "sign": -1})
    last = timed(paper, LAST, [49, 50, 51], [0, 1, 2])
    whole = timed(paper, ALL, [98, 100, 102], [100, 101, 102])
    [verdict] = made_up.judge(paper, last, whole).values()
    assert verdict.word == "inconclusive"
    assert verdict.reason == (
        "the runs on rte are not known to have been timed in turn"
    )


def test_few_times_are_few_in_one_timing_environment():
    paper = time_paper({"relative": True, "sign": -1})
    last = timed(paper, LAST, [49, 50], [0, 200])
    whole = timed(paper, ALL, [98, 100, 102], [100, 300, 500])
    [verdict] = made_up.judge(paper, last, whole).values()
    assert verdict.reason == (
        "2 runs in a group on rte; 3 are needed, timed alike"
    )


@pytest.mark.parametrize(
    "measure, is_cut", [("epochs_run", True), ("score", False)]
)
def test_the_limit_of_epochs_leaves_the_stopping_point_open(measure, is_cut):
    paper = made_up.make_paper({"measure": (measure,) * 2, "sign": -1})
    last, whole = (
        made_up.make_runs(paper, "rte", group, [m, m + 0.1, m + 0.2], **changes)
        for group, m, changes in (
            (LAST, 70, {"stop_reason": "max_epochs"}),
            (ALL, 80, {}),
        )
    )
    [verdict] = made_up.judge(paper, last, whole).values()
    reason = "the limit of epochs came before the stopping point on rte"
    assert (verdict.reason == reason) == is_cut


def test_scores_at_several_times_have_no_interval_of_their_mean():
    claim = {"measure": ("score_within",) * 2, "at": (1.0, 2.0), "sign": -1}
    scores = [[70.0, 71.0, 72.0], [70.1, 71.1, 72.1], [70.2, 71.2, 72.2]]
    paper = made_up.make_paper(claim, {**claim, "over": "each"})
    runs = [
        made_up.make_runs(
            paper, "rte", group, [[p + more for p in score] for score in scores]
        )
        for group, more in ((LAST, 0), (ALL, 10))
    ]
    mean, each = made_up.judge(paper, *runs).values()
    assert mean.value == pytest.approx(-10)
    assert math.isnan(mean.low) and not mean.errors
    assert each.word == "agrees" and each.reason == "2 of 2 lower"
    single = made_up.make_paper({**claim, "at": (1.0,)})
    [one] = made_up.judge(single, *runs).values()
    assert one.low < -10 < one.high
    apart = made_up.make_paper({**claim, "over": "each", "sign": 1})
    [opposite] = made_up.judge(apart, *runs).values()
    assert opposite.reason == (
        "0 of 2 higher, not last_2 on rte at 1 epochs, last_2 on rte at 2 "
        "epochs"
    )


# === Groups ===


def judge_all(paper, groups, task="rte"):
    """The verdicts by runs of groups, each with its settings and middle."""
    return made_up.judge(
        paper,
        *(
            made_up.make_runs(paper, task, group, [m - 0.1, m, m + 0.1])
            for group, m in groups
        ),
    )


FOUR = {"trainable_layers": "4"}


DEPTHS = ((LAST, 70), (FOUR, 75), (ALL, 80))


def test_groups_are_compared_each_with_each_or_in_pairs():
    entry = {"first": (LAST, FOUR), "second": (FOUR, ALL), "sign": -1}
    paper = made_up.make_paper(entry, {**entry, "paired": True})
    each, pairs = judge_all(paper, DEPTHS).values()
    assert each.value == pytest.approx((-5 - 10 + 0 - 5) / 4)
    assert pairs.value == pytest.approx((-5 - 5) / 2)


def test_a_claim_may_be_on_one_group_alone():
    paper = made_up.make_paper(
        {"second": (), "published": 72.0},
        {"second": (), "first": (LAST, FOUR), "published": 72.0},
    )
    one, two = judge_all(paper, DEPTHS).values()
    assert one.value == pytest.approx(70)
    assert two.value == pytest.approx(72.5)


def test_settings_of_both_groups_choose_the_runs():
    paper = made_up.make_paper({"both": {"lr": 1e-3}, "sign": -1})
    runs = [
        made_up.make_runs(paper, "rte", {**group, "lr": lr}, [m, m + 0.1, m])
        for group, m in ((LAST, 70), (ALL, 80))
        for lr, m in ((2e-5, m), (1e-3, m - 20 if group is LAST else m))
    ]
    [verdict] = made_up.judge(paper, *runs).values()
    assert verdict.value == pytest.approx(-30)


# === Folds and test texts ===

FOLDS = np.array([70, 74, 78, 72, 76, 71, 75, 77, 73, 74.0])


def in_folds(paper, features, scores):
    settings = {"features": features, "folds": len(scores)}
    folds = [{"accuracy": score / 100} for score in scores]
    return [
        made_up.make_record(
            paper,
            "rte",
            settings,
            0,
            float(np.mean(scores)),
            blocks=0,
            approach=features,
            folds=folds,
            sizes={"train": 900, "test": 100},
        )
    ]


def test_folds_against_one_test_set_are_not_compared():
    claim = {"first": ({"features": "tfidf"},), "second": (ALL,), "sign": 1}
    paper = made_up.make_paper(claim, varied=("folds",))
    verdict = made_up.judge(
        paper,
        in_folds(paper, "tfidf", FOLDS),
        made_up.make_runs(paper, "rte", ALL, [70, 70.1, 69.9]),
    )["claim_1"]
    assert verdict.word == "not comparable"  # its data are not the paper's
    assert "folds stand against one test set" in verdict.local


def test_one_held_out_set_of_a_baseline_is_no_fold(tmp_path):
    scores = {"accuracy": 0.7}
    for seed, count in enumerate((1, 3)):
        folds = count * [scores]
        synthetic.write(tmp_path, None, task="rte", seed=seed, folds=folds)
    records, _ = reading.read_runs(str(tmp_path))
    folds = {record.seed: record.folds for record in records}
    assert folds == {0: None, 1: 3 * [scores]}


def test_groups_on_the_same_folds_are_paired():
    """The folds differ by far more than the features do in any of them."""
    claim = {
        "first": ({"features": "tfidf"},),
        "second": ({"features": "count"},),
        "sign": 1,
    }
    paper = made_up.make_paper(
        claim, sizes={"rte": {"train": 900, "test": 100}}
    )
    better = FOLDS + 1 + np.tile([0.2, -0.2], 5)
    verdict = made_up.judge(
        paper, in_folds(paper, "tfidf", better), in_folds(paper, "count", FOLDS)
    )["claim_1"]
    assert verdict.word == "agrees"
    spread = np.var(better - FOLDS, ddof=1)
    error = math.sqrt((1 / 10 + 100 / 900) * spread)
    assert verdict.errors == {"folds": pytest.approx(error)}


def make_scored(paper):
    """Runs a point apart, whose scores vary by 3 points over test texts."""
    random = np.random.default_rng(0)
    return [
        replace(record, texts="a", resampled=resampled)
        for group, m in ((LAST, 79), (ALL, 80))
        for resampled in [predictions.encode(random.normal(0, 3, 100))]
        for record in made_up.make_runs(paper, "rte", group, [m, m + 0.1, m, m])
    ]


def test_intervals_are_over_test_texts_where_predictions_are_stored():
    paper = made_up.make_paper({"sign": -1})
    runs = make_scored(paper)
    [verdict] = made_up.judge(paper, runs).values()
    assert set(verdict.errors) >= {"seeds", "texts"}
    alone = [replace(run, resampled=None) for run in runs]
    [without] = made_up.judge(paper, alone).values()
    assert verdict.high - verdict.low > 2 * (without.high - without.low)
    assert without.word == "agrees" and verdict.word == "inconclusive"
    assert f"{estimates.REALISTIC} seeds" in verdict.reason or (
        "seeds would decide" in verdict.reason
    )
