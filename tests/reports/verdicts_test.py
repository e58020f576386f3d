"""The word and the reason that follow from the tests of claims."""

import math

import pytest

from tests.reports import made_up
from tf_transfer.comparison.estimates import Estimate
from tf_transfer.reports import contrast, verdicts
from tf_transfer.reports.contrast import Finding

KNOWN = Estimate(2.0, 1.0, 10.0, {"seeds": 1.0})


def make_test(*p_values, claim=None, paper="A paper", **options):
    """A test with p-values of what agrees and what contradicts."""
    [made] = made_up.make_paper({"sign": 1, **(claim or {})}).claims
    findings = [
        Finding(agrees, reason, p)
        for agrees, reason, p in zip(
            (True, False), ("it is so", "it is not"), p_values
        )
    ]
    options = {"problem": "", "runs": 3, "mean": KNOWN, **options}
    return contrast.Test(made, paper, "a study", findings=findings, **options)


def conclude(*arguments, **options):
    [verdict] = verdicts.conclude([make_test(*arguments, **options)])
    return verdict


# === Words ===


@pytest.mark.parametrize(
    "p_values, word, reason",
    [
        ((0.05, 0.5), "agrees", "it is so"),
        ((0.5, 0.05), "contradicts", "it is not"),
        ((0.01, 0.02), "agrees", "it is so"),
    ],
)
def test_what_is_significant_is_the_word(p_values, word, reason):
    verdict = conclude(*p_values)
    assert (verdict.word, verdict.reason) == (word, reason)
    assert verdict.p == min(p_values) and verdict.local == ""
    assert (verdict.value, verdict.study, verdict.runs) == (2.0, "a study", 3)
    assert verdict.low == pytest.approx(2 - 2.228, abs=0.001)
    assert verdict.high == pytest.approx(2 + 2.228, abs=0.001)
    assert verdict.errors == {"seeds": 1.0}


def test_what_is_not_significant_is_inconclusive():
    verdict = conclude(0.051, 0.5)
    assert verdict.word == "inconclusive"
    seeds = KNOWN.seeds_needed(2.0, 3)
    assert verdict.reason == (
        f"nothing is shown; about {seeds} seeds would decide"
    )


def test_of_several_comparisons_the_tally_is_the_reason():
    claim = {"over": "each", "tasks": ("rte", "mrpc")}
    verdict = conclude(0.5, 0.5, claim=claim, tally="1 of 2 higher")
    assert verdict.reason == "nothing is shown; 1 of 2 higher"


def test_a_problem_is_the_reason_and_nothing_is_tested():
    verdict = conclude(0.001, 0.5, problem="1 run in a group")
    assert (verdict.word, verdict.reason) == (
        "inconclusive",
        "1 run in a group",
    )
    assert math.isnan(verdict.p)
    [without] = verdicts.conclude([make_test(problem="no runs")])
    assert without.reason == "no runs" and math.isnan(without.p)


def test_the_room_is_that_to_the_nearest_end_of_the_claim():
    """Of "no difference", to the margin."""
    claim = {"kind": "equal", "margin": 5.0, "sign": 0}
    wide = Estimate(4.0, 2.0, 10.0, {"seeds": 2.0})
    verdict = conclude(0.5, 0.5, claim=claim, mean=wide)
    seeds = wide.seeds_needed(1.0, 3)
    assert seeds > 10
    assert verdict.reason.endswith(f"about {seeds} seeds would decide")


# === Holm's correction ===


def test_tests_of_a_paper_are_corrected_together():
    tests = [make_test(0.02, 1.0, claim={"id": f"c{n}"}) for n in range(3)]
    found = verdicts.conclude(tests)
    assert [verdict.word for verdict in found] == ["inconclusive"] * 3
    assert [verdict.p for verdict in found] == pytest.approx([0.06] * 3)
    seeds = KNOWN.seeds_needed(2.0, 3, 1 - 0.05 / 3)
    assert seeds != KNOWN.seeds_needed(2.0, 3)
    assert found[0].reason == (
        "not significant after Holm's correction; "
        f"about {seeds} seeds would decide"
    )
    alone = conclude(0.02, 1.0)
    assert (alone.word, alone.p) == ("agrees", 0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"paper": "Another paper"},
        {"claim": {"id": "other", "reading_of": "claim_1"}},
        {"differences": ["encoder minilm"]},
        {"problem": "1 run"},
        {},  # the same claim and p-value, in another study
    ],
    ids=str,
)
def test_tests_of_another_family_are_corrected_apart(changes):
    changes = {"claim": {"id": "other"}, **changes} if changes else {}
    first, _ = verdicts.conclude(
        [make_test(0.04, 1.0), make_test(0.04, 1.0, **changes)]
    )
    assert (first.word, first.p) == ("agrees", 0.04)


def test_a_corrected_p_value_is_one_at_most():
    tests = [make_test(p, 1.0, claim={"id": str(p)}) for p in (0.5, 0.6, 0.7)]
    assert [verdict.p for verdict in verdicts.conclude(tests)] == [1.0] * 3


def test_a_p_value_of_0_is_not_divided_by():
    tests = [make_test(p, 1.0, claim={"id": str(p)}) for p in (0.0, 0.02)]
    found = verdicts.conclude(tests)
    assert [verdict.word for verdict in found] == ["agrees"] * 2
    assert found[0].p == 0.0


# === What is not comparable ===


@pytest.mark.parametrize(
    "p_values, options, local",
    [
        ((0.01, 1.0), {}, "higher"),
        ((1.0, 0.01), {"mean": Estimate(-0.5, 0.1, 10.0)}, "lower"),
        ((0.01, 1.0), {"mean": Estimate(-2.0, 1.0, 10.0)}, "lower"),
        (
            (0.01, 1.0),
            {"claim": {"kind": "equal", "margin": 3.0, "sign": 0}},
            "no difference beyond the margin",
        ),
        (
            (1.0, 0.01),
            {"claim": {"kind": "equal", "margin": 1.0, "sign": 0}},
            "higher",
        ),
        ((0.01, 1.0), {"claim": {"over": "most"}}, "shown: it is so"),
        (
            (1.0, 0.01),
            {"claim": {"over": "each"}},
            "the opposite is shown: it is not",
        ),
        ((0.5, 0.5), {"claim": {"over": "each"}}, "unclear: nothing is shown"),
        ((0.01, 1.0), {"problem": "1 run"}, "no result: 1 run"),
        ((), {"problem": "no runs"}, "no result: no runs"),
    ],
)
def test_what_is_not_comparable_has_words_of_its_own(p_values, options, local):
    verdict = conclude(*p_values, differences=["encoder minilm"], **options)
    assert verdict.word == "not comparable"
    assert verdict.reason == "encoder minilm"
    assert verdict.local == local
    has_result = not local.startswith(verdicts.NO_RESULT)
    assert (verdict.outcome != verdicts.NO_RESULT) == has_result


@pytest.mark.parametrize("place, is_failed", [(0, True), (2, True), (3, False)])
def test_a_group_that_did_not_train_shows_nothing(place, is_failed):
    """As far as the reason, of three clauses, says so."""
    differences = [f"setting {n}" for n in range(4)]
    differences[place] = f"last_2 is {verdicts.FAILED} on rte"
    verdict = conclude(0.01, 1.0, differences=differences)
    assert verdict.reason == "; ".join([*differences[:3], "and 1 more"])
    assert (verdict.outcome == verdicts.NO_RESULT) == is_failed
    assert (verdict.detail == f"a group is {verdicts.FAILED}") == is_failed


# === Seeds that would decide ===


def test_seeds_are_named_unless_none_or_too_many_would_decide():
    def describe(room, estimate=KNOWN, runs=3):
        return verdicts.describe_needed_seeds(estimate, room, runs)

    assert describe(
        1.0
    ) == f"about {KNOWN.seeds_needed(1.0, 3)} seeds would " + ("decide")
    assert describe(0.001) == "100 seeds would not decide it"
    assert describe(1.0, Estimate(2.0, 0.0, math.nan)) == ""
