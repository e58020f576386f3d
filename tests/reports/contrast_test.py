"""The test of a claim and its word, on runs with known scores."""

import math

import numpy as np
import pytest

from tests.reports import made_up
from tf_transfer.reports import (
    contrast,
    estimates,
    page,
    predictions,
    run_frame as runs_lib,
    verdicts,
)

LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
OTHER = "minilm"  # no paper's encoder
NEAR = (-0.1, 0.0, 0.1)
FOLDS = np.array([70, 74, 78, 72, 76, 71, 75, 77, 73, 74.0])


def judge_one(claim, last, all_, task="rte", majorities=None, **changes):
    """The verdict on a claim, of scores of last 2 and of fine-tuning."""
    paper = made_up.make_paper(claim)
    return made_up.judge(
        paper,
        *(
            made_up.make_runs(
                paper,
                task,
                {**group, **changes},
                scores,
                majorities=majorities or {},
            )
            for group, scores in ((LAST, last), (ALL, all_))
        ),
    )["claim_1"]


def write_near(paper, middles, model=OTHER, **changes):
    """Three runs of last 2 and of everything around a middle, by task."""
    return [
        run
        for task, (first, second) in middles.items()
        for group, middle in ((LAST, first), (ALL, second))
        for run in made_up.make_runs(
            paper,
            task,
            {**group, "model": model},
            [middle + step for step in NEAR],
            **changes,
        )
    ]


def judge_near(claim, middles, **options):
    paper = made_up.make_paper(claim)
    [verdict] = made_up.judge(
        paper, write_near(paper, middles, **options)
    ).values()
    return verdict


# === Words ===


@pytest.mark.parametrize(
    ("first", "published", "word"),
    [
        ([68, 69, 70, 71, 72], -10, "agrees"),
        ([68, 69, 70, 71, 72], -40, "agrees"),
        ([68, 69, 70, 71, 72], 10, "contradicts"),
        ([78, 79, 80, 81, 83], -1, "inconclusive"),
        ([79.8, 79.9, 80, 80.1, 80.2], -10, "contradicts"),
    ],
)
def test_a_difference_has_sign_and_size(first, published, word):
    verdict = judge_one({"published": published}, first, [78, 79, 80, 81, 82])
    assert verdict.word == word, verdict


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_a_size_agrees_only_where_the_interval_is_within_half_to_twice(seeds):
    claim = {"published": -2.0}
    base = list(80 + np.linspace(-1, 1, seeds))

    def judge(size, spread):
        return judge_one(
            claim, list(80 - size + np.linspace(-spread, spread, seeds)), base
        )

    far = judge(8.0, 0.2)  # four times the published
    assert far.word == "agrees"
    assert far.reason == "the sign; more than twice as large as published"
    wide = judge(2.0, 1)
    if wide.word != "inconclusive":
        is_within = -4 <= wide.low <= wide.high <= -1
        assert wide.word == "agrees"
        assert (wide.reason == contrast.SIGN_AND_SIZE) == is_within
    near = judge_one(claim, [78, 78.1, 77.9], [80, 80.1, 79.9])
    assert near.reason == contrast.SIGN_AND_SIZE


def test_no_difference_needs_an_interval_within_the_margin():
    claim = {"kind": "equal", "margin": 1.0}
    wide = judge_one(claim, [30, 90, 150], [70, 80, 90])
    assert wide.value == 10 and wide.low < -40 and wide.high > 60
    assert wide.word == "inconclusive"
    narrow = judge_one(claim, [79.9, 80.0, 80.1], [79.9, 80.0, 80.2])
    assert narrow.word == "agrees"
    apart = judge_one(claim, [70, 70.1, 70.2], [80, 80.1, 80.2])
    assert apart.word == "contradicts"


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_conclude_nothing(seeds):
    verdict = judge_one({"sign": -1}, [70.0, 70.1][:seeds], [80, 80.1, 80.2])
    assert verdict.word == "inconclusive"
    assert f"{seeds} run" in verdict.reason


def test_parts_in_which_nothing_varies_prove_nothing():
    claim = {"tasks": ("rte", "mrpc"), "over": "each", "sign": -1}
    paper = made_up.make_paper(claim)
    alike = [
        made_up.make_runs(paper, "rte", group, [score] * 3)
        for group, score in ((LAST, 70), (ALL, 80))
    ]
    varied = write_near(paper, {"mrpc": (70, 80)}, model=paper.encoders[0])
    [verdict] = made_up.judge(paper, *alike, varied).values()
    assert verdict.word == "inconclusive"
    assert verdict.reason == "nothing is shown; 2 of 2 lower"


def test_thirty_points_apart_at_three_seeds_ask_for_more_seeds():
    found = judge_one({"sign": -1}, [90, 50, 80], [70, 95, 98.0], majorities={})
    assert found.word == "inconclusive"
    assert found.reason.startswith("nothing is shown; about ")
    assert found.reason.endswith(" seeds would decide")


# === What is not comparable ===


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch_size": 8}, "batch_size 8 (paper: 1)"),
        ({"model": "minilm"}, "encoder minilm"),
        ({"frozen_prefix": "cached"}, "frozen_prefix cached"),
    ],
)
def test_other_settings_are_not_comparable(changes, reason):
    verdict = judge_one(
        {"sign": -1}, [70, 70.1, 70.3], [80, 80.1, 80.2], **changes
    )
    assert verdict.word == "not comparable"
    assert reason in verdict.reason
    assert verdict.value == pytest.approx(
        -9.967, abs=0.001
    )  # told all the same


@pytest.mark.parametrize(
    ("origins", "clause"),
    [
        ({"batch_size": "paper"}, "batch_size 8 (paper: 1)"),
        ({"batch_size": "authors_code"}, "batch_size 8 (authors' code: 1)"),
        ({"batch_size": "ours"}, "batch_size 8 (our reading: 1)"),
        ({}, "batch_size 8 (our reading: 1)"),
    ],
)
def test_a_difference_names_the_origin_of_the_setting(origins, clause):
    paper = made_up.make_paper({"sign": -1}, origins=origins)
    [verdict] = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", {**LAST, "batch_size": 8}, [70, 71]),
        made_up.make_runs(paper, "rte", {**ALL, "batch_size": 8}, [80, 81]),
    ).values()
    assert verdict.word == "not comparable" and verdict.reason == clause


@pytest.mark.parametrize("task", ["qqp", "mnli", "qnli"])
def test_an_encoder_that_has_seen_the_data_is_not_comparable(task):
    verdict = judge_one(
        {"sign": -1, "tasks": (task,)},
        [70, 70.1, 70.3],
        [80, 80.1, 80.2],
        task,
        model="minilm",
    )
    assert f"minilm has seen {task} before" in verdict.reason


def test_a_side_that_did_not_train_is_not_comparable():
    paper = made_up.make_paper(
        {"sign": -1}, {"sign": -1, "may_fail": ("first",)}
    )
    majorities = {"majorities": {"accuracy": 0.527}}
    judged = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", LAST, [52.7, 52.7, 52.8], **majorities),
        made_up.make_runs(paper, "rte", ALL, [80, 80.1, 80.2], **majorities),
    )
    assert judged["claim_1"].word == "not comparable"
    assert (
        "not shown to be above the majority baseline"
        in judged["claim_1"].reason
    )
    assert judged["claim_2"].word == "agrees"  # there it is the claim


def test_a_single_run_may_show_that_its_group_did_not_train():
    verdict = judge_one(
        {"sign": -1}, [52.7], [80], majorities={"accuracy": 0.527}
    )
    assert (verdict.word, verdict.reason) == (
        "not comparable",
        f"last_2 at 2e-05 is {verdicts.FAILED} on rte",
    )


def test_groups_that_were_scored_on_different_texts_are_not_comparable():
    paper = made_up.make_paper({"sign": -1})
    runs = [
        {**record, "texts": texts}
        for group, m, texts in ((LAST, 70, "a"), (ALL, 80, "b"))
        for record in made_up.make_runs(paper, "rte", group, [m, m + 0.1, m])
    ]
    [verdict] = made_up.judge(paper, runs).values()
    assert verdict.word == "not comparable"
    assert "scored on different texts" in verdict.reason


# === On this encoder and data ===


@pytest.mark.parametrize("model", [OTHER, "bert_base_en_uncased"])
def test_a_task_without_one_of_the_sides_counts_for_nothing(model):
    """The mean over last 4 and last 2 is not that of last 2."""
    claim = {
        "tasks": ("rte", "mrpc"),
        "first": (LAST, {"trainable_layers": "4"}),
        "sign": -1,
    }
    paper = made_up.make_paper(claim)
    runs = write_near(paper, {"rte": (70, 80), "mrpc": (60, 80)}, model=model)
    [verdict] = made_up.judge(paper, runs).values()
    assert math.isnan(verdict.value)
    assert page.describe_ours(verdict) == ""
    lacks = "no runs with trainable_layers=4 on rte, and 1 more"
    assert lacks in (
        verdict.reason,
        verdict.local.removeprefix("not reported: "),
    )
    runs += made_up.make_runs(
        paper,
        "mrpc",
        {"trainable_layers": "4", "model": model},
        [75, 75.1, 75.2],
    )
    [verdict] = made_up.judge(paper, runs).values()
    assert verdict.value == pytest.approx((-20 - 4.9) / 2)
    assert verdict.tasks == ("mrpc",)


@pytest.mark.parametrize(
    "over, words",
    [
        ("each", "the opposite is shown: 2 of 3 lower, not last_2 on cola"),
        ("most", "shown: 2 of 3 lower, not last_2 on cola"),
        ("mean", "lower"),
    ],
)
def test_each_of_several_is_not_told_by_the_mean(over, words):
    tasks = {"rte": (60, 80), "mrpc": (60, 80), "cola": (85, 80)}
    claim = {"tasks": tuple(tasks), "over": over, "sign": -1}
    assert judge_near(claim, tasks).local == words


# === Several comparisons, many claims ===


def test_holms_correction_counts_the_claims_of_the_paper():
    scores = [77.5, 78.5, 79.5, 80.5, 81.5]
    alone = judge_one({"sign": -1}, scores, [80, 81, 82, 83, 84])
    assert alone.word == "agrees" and 0.01 < alone.p < 0.05
    paper = made_up.make_paper(*[{"sign": -1}] * 5)
    many = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", LAST, scores),
        made_up.make_runs(paper, "rte", ALL, [80, 81, 82, 83, 84]),
    )
    assert {v.word for v in many.values()} == {"inconclusive"}
    assert "Holm" in many["claim_1"].reason


def test_a_report_is_one_family_of_local_words():
    """Tests of two papers are corrected together, if not comparable."""

    def test(step, name, **changes):
        paper = made_up.make_paper({"sign": -1}, name=name)
        groups = [
            made_up.make_runs(
                paper, "rte", {**group, **changes}, [m, m + step, m + 2]
            )
            for group, m in ((LAST, 70), (ALL, 75))
        ]
        runs = runs_lib.runs_frame([run for group in groups for run in group])
        return contrast.test_claims(runs, paper)

    tests = [*test(1, "one", model=OTHER), *test(0.9, "two", model=OTHER)]
    local = verdicts.conclude(tests)
    least = min(test.p for test in tests)
    assert min(v.p for v in local) == pytest.approx(2 * least)
    # The same test in two studies counts once.
    again = verdicts.conclude([tests[0], *test(1, "one", model=OTHER)])
    assert [v.p for v in again] == pytest.approx([tests[0].p] * 2)
    papers = [*test(1, "one"), *test(0.9, "two")]
    alone = [verdict.p for verdict in verdicts.conclude(papers)]
    assert alone == pytest.approx([test.p for test in papers])


# === Folds and test texts ===


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
        {**record, "texts": "a", "resampled": resampled}
        for group, m in ((LAST, 79), (ALL, 80))
        for resampled in [predictions.encode(random.normal(0, 3, 100))]
        for record in made_up.make_runs(paper, "rte", group, [m, m + 0.1, m, m])
    ]


def test_intervals_are_over_test_texts_where_predictions_are_stored():
    paper = made_up.make_paper({"sign": -1})
    runs = make_scored(paper)
    [verdict] = made_up.judge(paper, runs).values()
    assert set(verdict.errors) >= {"seeds", "texts"}
    alone = [{n: v for n, v in r.items() if n != "resampled"} for r in runs]
    [without] = made_up.judge(paper, alone).values()
    assert verdict.high - verdict.low > 2 * (without.high - without.low)
    assert without.word == "agrees" and verdict.word == "inconclusive"
    assert f"{estimates.REALISTIC} seeds" in verdict.reason or (
        "seeds would decide" in verdict.reason
    )


# === Measures ===


def time_paper(*entries):
    """A paper with claims on times; `both` seconds are of an epoch."""
    return made_up.make_paper(
        *({"measure": ("seconds_per_epoch",) * 2, **entry} for entry in entries)
    )


def timed(paper, group, seconds, starts, **changes):
    return [
        {**record, **changes}
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
    assert ratio.reason == contrast.SIGN_AND_SIZE
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


def test_few_times_are_few_that_were_timed_alike():
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


@pytest.mark.parametrize(
    "over, word, p_value",
    [
        ("each", "contradicts", None),
        ("most", "agrees", None),
        ("some", "agrees", None),
    ],
)
def test_each_most_or_some_of_the_comparisons_are_claimed(over, word, p_value):
    tasks = {"rte": (60, 80), "mrpc": (60, 80), "cola": (85, 80)}
    claim = {"tasks": tuple(tasks), "over": over, "sign": -1}
    verdict = judge_near(claim, tasks, model="bert_base_en_uncased")
    assert verdict.word == word
    assert verdict.reason == "2 of 3 lower, not last_2 on cola"


@pytest.mark.parametrize("over", ["most", "some"])
def test_half_of_the_comparisons_are_some_and_not_most(over):
    tasks = {"rte": (60, 80), "mrpc": (80, 80)}
    claim = {"tasks": tuple(tasks), "over": over, "sign": -1}
    verdict = judge_near(claim, tasks, model="bert_base_en_uncased")
    expected = {"most": "inconclusive", "some": "agrees"}[over]
    assert verdict.word == expected
    assert "1 of 2 lower, not last_2 on mrpc" in verdict.reason


def test_the_tally_counts_the_sizes_that_are_published():
    tasks = {"rte": (78, 80), "mrpc": (60, 80)}
    claim = {"tasks": tuple(tasks), "over": "each", "published": -2.0}
    verdict = judge_near(claim, tasks, model="bert_base_en_uncased")
    assert verdict.reason == "2 of 2 lower; the size on 1"
    # On another encoder the published size is not looked at.
    assert judge_near(claim, tasks).local == "shown: 2 of 2 lower"


def test_no_difference_on_each_is_counted_with_its_margin():
    tasks = {"rte": (80, 80), "mrpc": (80.3, 80)}
    claim = {"kind": "equal", "margin": 1.0, "over": "each"}
    claim["tasks"] = tuple(tasks)
    verdict = judge_near(claim, tasks, model="bert_base_en_uncased")
    assert verdict.word == "agrees"
    assert verdict.reason == "2 of 2 within 1 points"


@pytest.mark.parametrize(
    "size, reason",
    [
        (2.0, contrast.SIGN_AND_SIZE),
        (5.0, "the sign; more than twice as large as published"),
        (0.5, "the sign; less than half as large as published"),
        (0.8, "the sign; less than half as large as published"),
        (1.0, "the sign; the size is open"),
        (4.0, "the sign; the size is open"),
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_reason_says_whether_the_size_is_shown(size, reason, sign):
    near = [-0.05, 0.0, 0.05]
    verdict = judge_one(
        {"published": 2.0 * sign},
        [80 + sign * size + step for step in near],
        [80 + step for step in near],
    )
    assert (verdict.word, verdict.reason) == ("agrees", reason)
    assert (
        judge_one(
            {"sign": sign}, [80 + sign * 2 + s for s in near], [80, 80.1, 80.2]
        ).reason
        == "the sign"
    )


def test_less_than_half_of_a_difference_contradicts_its_size():
    # The error of the difference is 0.2: it is shown to be below 1, half of
    # what is published, but neither above 0 nor below a third of it.
    scores = [80 - 0.245, 80.0, 80 + 0.245]
    verdict = judge_one({"published": 2.0}, [s + 0.4 for s in scores], scores)
    assert verdict.word == "contradicts"
    assert verdict.reason == "any difference is below half of the published one"
    # Here it is shown to be below 2, and neither below 1 nor above 0.
    scores = [79.5, 80.0, 80.5]
    verdict = judge_one({"published": 2.0}, [s + 0.8 for s in scores], scores)
    assert verdict.word == "inconclusive"


def test_a_mean_over_tasks_may_be_shown_where_one_task_is_not():
    tasks = {"rte": (80, 80), "mrpc": (60, 80)}
    verdict = judge_near(
        {"tasks": tuple(tasks), "over": "mean", "sign": -1},
        tasks,
        model="bert_base_en_uncased",
    )
    assert verdict.word == "agrees"


def test_the_opposite_of_a_claim_contradicts_it():
    verdict = judge_one({"sign": 1}, [70, 70.1, 70.2], [80, 80.1, 80.2])
    assert (verdict.word, verdict.reason) == ("contradicts", "the opposite")


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


# === Which runs ===


def test_a_claim_on_an_encoder_is_judged_by_its_runs():
    paper = made_up.make_paper(
        {"sign": -1, "encoder": "bert_base_en_uncased"},
        {"sign": -1, "encoder": "bert_large_en_uncased"},
        {"sign": -1},
        encoders=("bert_base_en_uncased", "bert_large_en_uncased"),
    )

    def judge(model):
        return [
            (verdict.word, verdict.reason)
            for verdict in made_up.judge(
                paper,
                *(
                    made_up.make_runs(
                        paper, "rte", {**group, "model": model}, scores
                    )
                    for group, scores in (
                        (LAST, [70, 70.1, 70.2]),
                        (ALL, [80, 80.1, 80.2]),
                    )
                ),
            ).values()
        ]

    none = ("inconclusive", "no runs of its encoder")
    agrees = ("agrees", "the sign")
    assert judge("bert_base_en_uncased") == [agrees, none, agrees]
    assert judge("bert_large_en_uncased") == [none, agrees, agrees]
    other, nothing, _ = judge(OTHER)  # the first stands for encoders of ours
    assert other[0] == "not comparable" and nothing == none


def test_a_task_without_runs_is_missing():
    verdict = judge_one(
        {"sign": -1, "tasks": ("rte", "mrpc", "cola")},
        [70, 70.1, 70.2],
        [80, 80.1, 80.2],
    )
    assert (verdict.word, verdict.reason) == (
        "inconclusive",
        "no runs on mrpc, and 1 more",
    )
    assert verdict.tasks == ("rte",) and verdict.study
    assert verdict.value == pytest.approx(-10)
    nothing = judge_one({"sign": -1, "tasks": ("mrpc",)}, [70, 71], [80, 81])
    assert (nothing.study, nothing.reason) == ("", "no runs on mrpc")
    assert nothing.runs == 0 and math.isnan(nothing.value)


@pytest.mark.parametrize(
    "task, data, has_seen",
    [
        ("pairs", "MRPC files", False),
        ("pairs", "other files", True),
        ("paraphrase", "MRPC files", True),
        ("rte", "rte files", False),
    ],
)
def test_pairs_of_mrpc_are_new_to_every_encoder(task, data, has_seen):
    paper = made_up.make_paper({"sign": -1, "tasks": (task,)})
    runs = [
        {**record, "key": {**record["key"], "data_identity": data}}
        for group, m in ((LAST, 70), (ALL, 80))
        for record in made_up.make_runs(
            paper, task, {**group, "model": OTHER}, [m, m + 0.1, m + 0.2]
        )
    ]
    [verdict] = made_up.judge(paper, runs).values()
    [test] = contrast.test_claims(runs_lib.runs_frame(runs), paper)
    seen = f"{OTHER} has seen {task} before"
    assert (seen in test.differences) == has_seen
    assert verdict.word == "not comparable"


def test_what_a_measure_looks_at_may_have_been_seen():
    paper = made_up.make_paper({"sign": -1, "uses": ("qqp", "sst2")})
    runs = [
        record
        for group, m in ((LAST, 70), (ALL, 80))
        for record in made_up.make_runs(
            paper, "rte", {**group, "model": OTHER}, [m, m + 0.1, m + 0.2]
        )
    ]
    [test] = contrast.test_claims(runs_lib.runs_frame(runs), paper)
    assert f"{OTHER} has seen qqp before" in test.differences
    assert len(test.differences) == len({*test.differences})
    assert not any("sst2" in clause for clause in test.differences)


def test_a_baseline_without_luck_has_runs_enough():
    claim = {"first": ({"features": "tfidf"},), "sign": -1}
    paper = made_up.make_paper(claim, varied=("features",))
    baseline = [
        made_up.make_record(
            paper,
            "rte",
            {"features": "tfidf"},
            0,
            60.0,
            blocks=0,
            approach="tfidf",
        )
    ]
    whole = made_up.make_runs(paper, "rte", ALL, [80, 80.1, 80.2])
    [verdict] = made_up.judge(paper, baseline, whole).values()
    assert verdict.runs == 3
    assert "run in a group" not in verdict.reason + verdict.local


def test_a_run_without_a_value_decides_nothing():
    paper = made_up.make_paper({"sign": -1})
    last, whole = (
        made_up.make_runs(paper, "rte", group, [m, m + 0.1, m + 0.2, m - 0.1])
        for group, m in ((LAST, 70), (ALL, 80))
    )
    last[3]["test"] = None
    last[3]["metrics"] = {}
    [verdict] = made_up.judge(paper, last, whole).values()
    assert verdict.word == "inconclusive"
    assert verdict.reason == "not all runs have a value on rte"
