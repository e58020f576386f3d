"""Cases that a report once got wrong, each with the right outcome.

Cases with a test elsewhere: runs without a test score and copied seeds
(`report_test`), rates with few seeds (`utils/selection_test`), runs that did
not finish and the advice (`page_test`).
"""

import math
import re

import numpy as np
import pytest

from tests.reports import made_up
from tf_transfer.reports import (
    brief,
    estimates,
    frames,
    overview,
    page,
    resampling,
    study as study_lib,
    verdicts,
)

TWO, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


def judge_one(claim, two, all_, changes_of_two=None, **changes):
    """The verdict on a claim about rte, from scores of both sides."""
    paper = made_up.make_paper(claim)
    changes = {"majorities": {"accuracy": 0.5}, **changes}
    [verdict] = made_up.judge(
        paper,
        made_up.make_runs(
            paper, "rte", TWO, two, **{**changes, **(changes_of_two or {})}
        ),
        made_up.make_runs(paper, "rte", ALL, all_, **changes),
    ).values()
    return verdict


# === 2: other weights under one name ===


def test_other_weights_under_the_same_name_are_another_study():
    paper = made_up.make_paper({"published": -5.0})
    records = [
        record
        for weights, shift in (("ours", 0), ("theirs", 10))
        for group, middle in ((TWO, 75), (ALL, 80))
        for record in made_up.make_runs(
            paper,
            "rte",
            group,
            [middle + shift + step for step in (-0.2, 0, 0.2)],
            weights=weights,
            path=f"{weights}/{group}",
        )
    ]
    studies = dict(frames.studies(frames.runs_frame(records)))
    assert len(studies) == 2
    for runs in studies.values():
        assert runs.groupby("group").size().tolist() == [3, 3]
        assert runs.settings.str["weights"].nunique() == 1


# === 5: folds ===


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


FOLDS = np.array([70, 74, 78, 72, 76, 71, 75, 77, 73, 74.0])


def test_folds_against_one_test_set_are_not_compared():
    claim = {"first": ({"features": "tfidf"},), "second": (ALL,), "sign": 1}
    paper = made_up.make_paper(claim, varied=("folds",))
    verdict = made_up.judge(
        paper,
        in_folds(paper, "tfidf", FOLDS),
        made_up.make_runs(paper, "rte", ALL, [70, 70.1, 69.9]),
    )["claim_1"]
    assert verdict.word == "not comparable"
    assert "folds stand against one test set" in verdict.reason
    assert not verdict.outcome


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
    assert verdict.variance == {"folds": pytest.approx(error)}


# === 8: what has learned something ===


@pytest.mark.parametrize(
    "score, majority, texts, failed",
    [
        (94.3, 94.0, 300, True),  # one example more
        (94.3, 94.0, 300_000, False),
        (99.0, 94.0, 300, False),
        (57.0, 52.7, 277, True),
        (65.0, 52.7, 277, False),
        (52.0, 52.7, 277_000, True),
    ],
)
def test_an_example_above_the_majority_baseline_is_not_shown_to_be_above_it(
    score, majority, texts, failed
):
    runs = frames.runs_frame(
        made_up.make_runs(
            made_up.make_paper(),
            "rte",
            ALL,
            [score - 0.1, score, score + 0.1],
            majorities={"accuracy": majority / 100},
            sizes={"train": 1000, "test": texts},
        )
    )
    assert verdicts.did_not_train(runs) == failed


def test_the_lead_over_the_majority_baseline_is_paired_where_it_is_stored():
    runs = made_up.make_runs(
        made_up.make_paper(),
        "rte",
        ALL,
        [95.2, 95.3, 95.4],
        majorities={"accuracy": 0.94},
        sizes={"train": 1000, "test": 300},
    )
    assert verdicts.did_not_train(frames.runs_frame(runs))
    paired = [{**run, "lead_error": 0.4} for run in runs]
    assert not verdicts.did_not_train(frames.runs_frame(paired))


def test_what_is_kept_is_of_what_lies_above_the_majority_baseline():
    """94.3 of 97 is 0.3 of the 3 points above what knows nothing."""
    paper = made_up.make_paper()
    options = {
        "majorities": {"accuracy": 0.94},
        "sizes": {"train": 1000, "test": 100_000},
    }
    study = made_up.collect(
        paper,
        made_up.make_runs(paper, "rte", TWO, [94.3, 94.31, 94.29], **options),
        made_up.make_runs(paper, "rte", ALL, [97, 97.1, 96.9], **options),
    )
    [row] = [row for row in study.rows if not row.is_base]
    assert row.kept.value == pytest.approx(10)


# === 9: sizes ===


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_a_size_agrees_only_where_the_interval_is_within_half_to_twice(seeds):
    claim = {"published": -2.0}
    base = list(80 + np.linspace(-1, 1, seeds))

    def judge(size, spread):
        return judge_one(
            claim, list(80 - size + np.linspace(-spread, spread, seeds)), base
        )

    assert judge(5.0, 1).word == "agrees in sign"  # 2.5 times the published
    wide = judge(2.0, 1)
    if wide.word != "inconclusive":
        is_within = -4 <= wide.low <= wide.high <= -1
        assert wide.word == ("agrees" if is_within else "agrees in sign")
        assert is_within or "the size is open" in wide.reason
    assert judge_one(claim, [78, 78.1, 77.9], [80, 80.1, 79.9]).word == "agrees"


# === 10: local words ===


def test_local_words_are_corrected_over_the_whole_report():
    """One p-value of 0.03 among 37 claims is nothing."""
    claims = [{"tasks": (f"task_{n}",), "sign": -1} for n in range(37)]
    paper = made_up.make_paper(
        *claims,
        sizes={
            f"task_{n}": {"train_and_validation": 1000, "test": 100}
            for n in range(37)
        },
    )
    random = np.random.default_rng(3)
    records = [
        record
        for number in range(37)
        for group in (TWO, ALL)
        for record in made_up.make_runs(
            paper,
            f"task_{number}",
            {**group, "model": "minilm"},
            list(random.normal(80, 1, 3)),
        )
    ]
    judged = list(made_up.judge(paper, records).values())
    assert any(verdict.p <= 0.05 for verdict in judged)
    concluded = verdicts.correct_for_many(judged, True)
    words = {brief.neutral_word(verdict) for verdict in concluded}
    assert words <= {"unclear", "unclear after Holm's correction"}


def test_a_report_is_one_family_of_local_words():
    def judge(step):
        paper = made_up.make_paper({"sign": -1})
        groups = [
            made_up.make_runs(
                paper, "rte", {**group, "model": "minilm"}, [m, m + step, m + 2]
            )
            for group, m in ((TWO, 70), (ALL, 75))
        ]
        return list(made_up.judge(paper, *groups).values())

    [first], [second] = judge(1), judge(0.9)
    together = verdicts.correct_for_many([first, second], True)
    least = min(first.p, second.p)
    assert min(v.p for v in together) == pytest.approx(2 * least)
    # The same verdict in two studies counts once.
    again = verdicts.correct_for_many([first, *judge(1)], True)
    assert [v.p for v in again] == pytest.approx([first.p] * 2)


def test_verdicts_of_several_encoders_are_one_family():
    paper = made_up.make_paper({"sign": -1}, encoders=("first", "second"))
    records = [
        record
        for model, step in zip(paper.encoders, (1, 0.9))
        for group, m in ((TWO, 70), (ALL, 75))
        for record in made_up.make_runs(
            paper, "rte", {**group, "model": model}, [m, m + step, m + 2]
        )
    ]
    judged = verdicts.judge(frames.runs_frame(records), paper)
    alone = [
        verdicts.judge(frames.runs_frame(some), paper)[0].p
        for some in (records[:6], records[6:])
    ]
    assert min(v.p for v in judged) == pytest.approx(2 * min(alone))


# === 12: times ===

FASTER = {"measure": ("seconds", "seconds"), "relative": True, "sign": -1}


def judge_times(two, all_, starts, claim=FASTER):
    """Runs of both sides that start at given times."""
    paper = made_up.make_paper(claim)
    runs = [
        made_up.make_record(
            paper, "rte", group, seed, 80, seconds=second, started=start
        )
        for group, seconds, of_side in (
            (TWO, two, starts[0]),
            (ALL, all_, starts[1]),
        )
        for seed, (second, start) in enumerate(zip(seconds, of_side))
    ]
    [verdict] = made_up.judge(paper, runs).values()
    return verdict


def test_sides_that_were_timed_one_after_another_are_not_compared():
    day, night = (0, 100, 200), (50_000, 50_100, 50_200)
    found = judge_times([98, 98.1, 97.9], [100, 100.1, 99.9], (day, night))
    assert found.word == "inconclusive"
    assert "not known to have been timed in turn" in found.reason
    assert found.value == pytest.approx(-2, abs=0.1)  # a figure all the same
    unknown = (None,) * 3
    found = judge_times([50, 51, 52], [100, 101, 102], (unknown, unknown))
    assert found.word == "inconclusive"


def test_sides_that_were_timed_in_turn_are_compared_as_a_ratio():
    starts = (0, 200, 400), (100, 300, 500)
    found = judge_times([49, 50, 51], [99, 100, 101.5], starts)
    assert found.word == "agrees"
    assert found.value == pytest.approx(-50, abs=1)
    assert found.value - found.low < found.high - found.value  # a ratio's


# === 13: words and signs ===


def test_a_share_of_what_is_not_above_zero_is_not_told():
    """-80 % of -2 points would be a gain."""
    found = judge_one(
        {"published": -50.0, "relative": True},
        [1, 1.5, 2],
        [-1, 0.5, -2],
        majorities={},
    )
    assert math.isnan(found.value)


def test_thirty_points_apart_at_three_seeds_ask_for_more_seeds():
    found = judge_one({"sign": -1}, [90, 50, 80], [70, 95, 98.0], majorities={})
    assert found.word == "inconclusive"
    assert found.reason.startswith("nothing is shown; about ")
    assert found.reason.endswith(" seeds would decide")


def test_a_claim_on_each_task_needs_the_seeds_of_its_noisiest_task():
    def count_seeds(over):
        tasks = {"rte": 3.0, "mrpc": 8.0}
        claim = {"tasks": tuple(tasks), "over": over, "sign": -1}
        paper = made_up.make_paper(claim)
        groups = []
        for task, spread in tasks.items():
            for group, middle in ((TWO, 76), (ALL, 80)):
                scores = [middle - spread, middle, middle + spread]
                groups.append(made_up.make_runs(paper, task, group, scores))
        [verdict] = made_up.judge(paper, *groups).values()
        assert verdict.word == "inconclusive"
        [seeds] = re.findall(r"about (\d+) seeds would decide", verdict.reason)
        return int(seeds)

    # 4 points, and 1.96 * sqrt(2 * 9 / n) or sqrt(2 * 64 / n) around them; of
    # two tests for "some", the level is 2.5 %.
    assert count_seeds("each") == pytest.approx(1.96**2 * 128 / 16, abs=3)
    assert count_seeds("some") == pytest.approx(2.24**2 * 18 / 16, abs=3)


def test_a_share_of_the_blocks_is_named_for_the_encoder_at_hand():
    claim = {"first": ({"trainable_layers": "L/4"},), "factor": 0.9, "sign": 1}
    found = judge_one(claim, [75, 75.2, 75.4], [80, 80.1, 80.2], blocks=6)
    shown = page.describe_ours(found)
    assert "points against 90 % of it" in shown and "2 of 6 blocks" in shown


# === 15: costs and names ===


def test_a_cost_that_is_not_comparable_stands_with_its_reason():
    paper = made_up.make_paper()
    beside = {**made_up.ENVIRONMENT, "concurrent_runs": 3}
    study = made_up.collect(
        paper,
        made_up.make_runs(paper, "rte", ALL, [80, 81, 82, 80]),
        made_up.make_runs(
            paper, "rte", TWO, [70, 71, 72], timing_environment=beside
        ),
    )
    table = page.tabulate("a", study.rows)
    by_name = table.frame.set_index("trains")
    assert by_name["time, s"]["last 2"] == "300*"
    assert overview.TIMED_APART in table.caption


def test_studies_are_named_by_what_differs():
    paper = made_up.make_paper()
    records = [
        record
        for length in (64, 128)
        for group in (TWO, ALL)
        for record in made_up.make_runs(
            paper, "rte", {**group, "max_length": length}, [70, 71, 72]
        )
    ]
    records = [{**r, "experiment": "mine"} for r in records]
    studies = study_lib.collect({"runs": records, "left_out": []})
    titles = {study.title for study in studies}
    assert titles == {
        f"mine: bert_base_en_uncased, 12 blocks (max_length={length})"
        for length in (64, 128)
    }


# === Test texts ===


def make_scored(paper):
    """Runs a point apart, whose scores vary by 3 points over test texts."""
    random = np.random.default_rng(0)
    return [
        {**record, "texts": "a", "resampled": resampled}
        for group, m in ((TWO, 79), (ALL, 80))
        for resampled in [resampling.encode(random.normal(0, 3, 100))]
        for record in made_up.make_runs(paper, "rte", group, [m, m + 0.1, m, m])
    ]


def test_intervals_are_over_test_texts_where_predictions_are_stored():
    paper = made_up.make_paper({"sign": -1})
    runs = make_scored(paper)
    [verdict] = made_up.judge(paper, runs).values()
    assert set(verdict.variance) >= {"seeds", "texts"}
    alone = [{n: v for n, v in r.items() if n != "resampled"} for r in runs]
    [without] = made_up.judge(paper, alone).values()
    assert verdict.high - verdict.low > 2 * (without.high - without.low)
    assert without.word == "agrees" and verdict.word == "inconclusive"
    assert f"{estimates.REALISTIC} seeds" in verdict.reason or (
        "seeds would decide" in verdict.reason
    )


def test_groups_that_were_scored_on_different_texts_are_not_comparable():
    paper = made_up.make_paper({"sign": -1})
    runs = [
        {**record, "texts": texts}
        for group, m, texts in ((TWO, 70, "a"), (ALL, 80, "b"))
        for record in made_up.make_runs(paper, "rte", group, [m, m + 0.1, m])
    ]
    [verdict] = made_up.judge(paper, runs).values()
    assert verdict.word == "not comparable"
    assert "scored on different texts" in verdict.reason


# === What a second reading found ===


def test_times_within_a_margin_are_tested_on_their_own_scale():
    """Three times as long is not within 25 %."""
    starts = (0, 200, 400), (100, 300, 500)
    claim = {**FASTER, "kind": "equal", "margin": 25.0, "sign": 0}
    found = judge_times([300, 303, 306], [100, 101, 102], starts, claim)
    assert found.word == "contradicts"
    near = judge_times([110, 111, 112], [100, 101, 102], starts, claim)
    assert near.word == "agrees"


def test_a_run_without_predictions_does_not_hide_the_noise_of_texts():
    paper = made_up.make_paper({"sign": -1})
    runs = make_scored(paper)
    [whole] = made_up.judge(paper, runs).values()
    lacking = [{n: v for n, v in runs[0].items() if n != "resampled"}]
    [found] = made_up.judge(paper, lacking + runs[1:]).values()
    assert found.word == whole.word == "inconclusive"
    assert found.variance["texts"] == pytest.approx(whole.variance["texts"])


def test_one_environment_has_to_be_timed_in_turn_by_itself():
    paper = made_up.make_paper(FASTER)
    early, late = (0, 1, 2), (1000, 1001, 1002)
    sides = (
        (TWO, [95, 95.3, 95.1, 120, 121, 122], (*early, *late)),
        (ALL, [100, 100.3, 100.2, 125, 126, 127], (*late, *early)),
    )
    [verdict] = made_up.judge(
        paper, *(made_up.time_runs(paper, *side, "AAABBB") for side in sides)
    ).values()
    assert verdict.word == "inconclusive"
    assert "timed in turn" in verdict.reason


def test_a_base_that_several_comparisons_share_has_one_luck_of_times():
    firsts = tuple({"trainable_layers": str(n)} for n in (1, 2, 3, 4))
    paper = made_up.make_paper({**FASTER, "first": firsts})
    random = np.random.default_rng(1)
    false, count = 0, 80
    for _ in range(count):
        records = [
            made_up.make_record(
                paper,
                "rte",
                group,
                seed,
                80,
                seconds=100 * math.exp(noise),
                started=10.0 * (5 * seed + number),
            )
            for number, group in enumerate((*firsts, ALL))
            for seed, noise in enumerate(random.normal(0, 0.01, 3))
        ]
        [found] = made_up.judge(paper, records).values()
        false += found.p <= 0.05
    assert 100 * false / count <= 5 + 2 * 100 * math.sqrt(0.05 * 0.95 / count)


def test_holm_s_correction_hides_no_contradiction_of_a_size():
    tasks = [f"task_{number}" for number in range(10)]
    paper = made_up.make_paper(
        *({"tasks": (task,), "published": -10.0} for task in tasks),
        sizes={
            task: {"train_and_validation": 1000, "test": 100} for task in tasks
        },
    )
    for middle in (79.35, 79.28):  # 0 is just in the interval, or just not
        judged = made_up.judge(
            paper,
            *(
                made_up.make_runs(paper, task, group, [m - 0.3, m, m + 0.3])
                for task in tasks
                for group, m in ((TWO, middle), (ALL, 80))
            ),
        )
        assert {verdict.word for verdict in judged.values()} == {"contradicts"}


def test_seeds_that_are_needed_count_the_correction():
    tasks = [f"task_{number}" for number in range(10)]
    paper = made_up.make_paper(
        *({"tasks": (task,), "sign": -1} for task in tasks),
        sizes={
            task: {"train_and_validation": 1000, "test": 100} for task in tasks
        },
    )
    judged = made_up.judge(
        paper,
        *(
            made_up.make_runs(paper, task, group, [m - 0.5, m, m + 0.5])
            for task in tasks
            for group, m in ((TWO, 79), (ALL, 80.5))
        ),
    )
    reason = judged["claim_1"].reason
    assert "after Holm's correction" in reason
    [seeds] = re.findall(r"about (\d+) seeds", reason)
    assert int(seeds) >= 5


@pytest.mark.parametrize(
    "record, failed",
    [
        (  # ten folds of 70 texts: 700
            {
                "folds": [{"accuracy": s / 100} for s in (60, 62, 61, 63, 59)]
                * 2,
                "sizes": {"train": 630, "test": 70},
                "majorities": {"accuracy": 0.55},
                "score": 61.0,
            },
            False,
        ),
        (  # scored on validation, of which there are few texts
            {
                "sizes": {"train": 1000, "validation": 100, "test": 100_000},
                "test": None,
                "majorities": {"accuracy": 0.527},
                "score": 57.0,
            },
            True,
        ),
        (  # one entity found
            {
                "metric": "f1",
                "metrics": {"f1": 0.004},
                "majorities": {"f1": 0.0},
                "score": 0.4,
            },
            True,
        ),
    ],
)
def test_what_is_above_the_majority_baseline_is_told_by_the_right_texts(
    record, failed
):
    record = dict(record)
    run = made_up.make_record(
        made_up.make_paper(), "rte", ALL, 0, record.pop("score"), **record
    )
    assert verdicts.did_not_train(frames.runs_frame([run])) == failed


def test_the_probe_may_be_the_advice_and_a_task_that_it_fails_is_named():
    """Better on average, and five points worse on one of two tasks."""
    options = {
        "majorities": {"accuracy": 0.5},
        "sizes": {"train": 1000, "test": 100_000},
    }
    paper = made_up.make_paper()
    records = []
    for task, probe in (("rte", 75.0), ("mrpc", 90.0)):
        for layers, middle, seconds in (("all", 80, 100.0), ("2", 80, 50.0)):
            scores = [middle - 0.2, middle, middle + 0.2]
            group = {"trainable_layers": layers}
            records += made_up.make_runs(
                paper, task, group, scores, seconds=seconds, **options
            )
        first = records[-1]
        identity = {"data_identity": first["key"]["data_identity"]}
        records.append(
            {
                **made_up.make_record(
                    paper, task, ALL, 0, probe, seconds=1.0, **options
                ),
                "path": f"probe {task}",
                "approach": "probe",
                "blocks": 0,
                "key": {"module": "glue", "task": task, **identity},
            }
        )
    study = made_up.collect(paper, records)
    [text] = brief.describe_rows(study, study.rows)
    assert text.startswith("Use the probe, +2.5 points")
    assert "(mean of rte -5.0 and mrpc +10.0; 3 seeds" in text


def test_tests_agree_with_the_interval_that_is_shown():
    """Their 95 % interval ends beyond the margin: nothing is shown."""
    found = judge_one(
        {"kind": "equal", "margin": 1.0},
        [80.1, 80.45, 80.7],
        [79.7, 80, 80.2],
        majorities={},
    )
    assert found.high > 1 and found.word == "inconclusive"
