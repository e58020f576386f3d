"""The word on a claim, of one comparison and of several."""

import numpy as np
import pytest

from tests.reports import made_up
from tests.reports.made_up import (
    ALL,
    judge_near,
    judge_one,
    LAST,
    OTHER,
    write_near,
)
from tf_transfer.reports import contrast, run_frame as runs_lib, verdicts

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
        assert (wide.detail == contrast.PUBLISHED_SIZE) == is_within
    near = judge_one(claim, [78, 78.1, 77.9], [80, 80.1, 79.9])
    assert near.detail == contrast.PUBLISHED_SIZE


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


@pytest.mark.parametrize(
    "size, reason",
    [
        (2.0, contrast.PUBLISHED_SIZE),
        (5.0, "more than twice as large as published"),
        (0.5, "less than half as large as published"),
        (0.8, "less than half as large as published"),
        (1.0, "the size is open"),
        (4.0, "the size is open"),
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
    assert (verdict.word, verdict.reason) == ("agrees", f"the sign; {reason}")
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


def test_the_opposite_of_a_claim_contradicts_it():
    verdict = judge_one({"sign": 1}, [70, 70.1, 70.2], [80, 80.1, 80.2])
    assert (verdict.word, verdict.reason) == ("contradicts", "the opposite")


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
    assert verdict.reason == "2 of 2 lower; about as large as published on 1"
    assert judge_near(claim, tasks).local == f"shown: {verdict.reason}"


def test_no_difference_on_each_is_counted_with_its_margin():
    tasks = {"rte": (80, 80), "mrpc": (80.3, 80)}
    claim = {"kind": "equal", "margin": 1.0, "over": "each"}
    claim["tasks"] = tuple(tasks)
    verdict = judge_near(claim, tasks, model="bert_base_en_uncased")
    assert verdict.word == "agrees"
    assert verdict.reason == "2 of 2 within 1 points"


def test_a_mean_over_tasks_may_be_shown_where_one_task_is_not():
    tasks = {"rte": (80, 80), "mrpc": (60, 80)}
    verdict = judge_near(
        {"tasks": tuple(tasks), "over": "mean", "sign": -1},
        tasks,
        model="bert_base_en_uncased",
    )
    assert verdict.word == "agrees"
