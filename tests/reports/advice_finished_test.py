"""What to train, of finished runs that are compared on their texts."""

import dataclasses
import re

import numpy as np
import pytest

from tests.comparison.scored_runs import answer_first
from tf_transfer.comparison import compare, decisions, estimates
from tf_transfer.reports import advice

# === Finished runs ===


def scored(right, count=200, approach="fine_tuning", seconds=3.0):
    """A run that is right on the first so many of the texts."""
    return answer_first(right, count, approach=approach, seconds=seconds)


def compare_all(**runs):
    """The rows of runs by their names."""
    return compare.compare_runs(
        [compare.make_candidate(name, run, [run]) for name, run in runs.items()]
    )


@pytest.mark.parametrize(
    "ours, theirs, count, reference, sign",
    [
        (180, 150, 200, "last", "-"),
        (150, 180, 200, "probe", "-"),
        (14, 14, 24, "last", "+"),
    ],
)
def test_the_strongest_run_is_the_reference(
    ours, theirs, count, reference, sign
):
    rows = compare_all(
        last=scored(ours, count), probe=scored(theirs, count, "probe")
    )
    assert [row.name for row in rows if row.is_reference] == [reference]
    [other] = [row for row in rows if not row.is_reference]
    line = advice.make_table([other, *rows])[0]
    assert line[f"minus {reference}"].startswith(sign)


def test_the_headline_is_no_stronger_than_the_gain():
    words = scored(147, 200, "tfidf", 1.0)
    is_right = np.random.default_rng(0).permutation(200) < 147
    words.logits[:, 0] = np.where(is_right, 1, -1) * (2 * words.labels - 1)
    rows = compare_all(last=scored(152, seconds=34.0), words=words)
    assert re.fullmatch(
        r"No gain shown over words, which costs 1 s; last is \+2\.5 "
        r"\(-\d\.\d to \+\d+\.\d\) and costs 34 s \(1 seed, 200 test texts: "
        r"not sure\)\. Best guess: last\.",
        advice.advise(rows),
    )


def test_a_gain_that_is_shown_has_its_cost():
    rows = compare_all(
        last=scored(180, seconds=34.0), words=scored(150, 200, "tfidf", 1.0)
    )
    assert re.fullmatch(
        r"Train last: \+15.0 \(\+\d+.\d to \+\d+.\d\) over words, which costs "
        r"1 s; last costs 34 s \(1 seed, 200 test texts: not sure\)\.",
        advice.advise(rows),
    )


def test_the_cheapest_baseline_without_a_shown_gain_is_named():
    rows = compare_all(
        last=scored(180, seconds=34.0),
        probe=scored(180, 200, "probe", 9.0),
        words=scored(150, 200, "tfidf", 1.0),
    )
    [last, *_] = rows
    assert decisions.find_floor(last, rows).name == "probe"
    rows = compare_all(
        last=scored(180, seconds=34.0),
        probe=scored(180, 200, "probe", 9.0),
        words=scored(180, 200, "tfidf", 1.0),
    )
    assert decisions.find_floor(rows[0], rows).name == "words"


def test_compared_with_a_baseline_times_are_seconds_and_no_margin_no_column():
    rows = compare_all(
        words=scored(180, 200, "tfidf", 1.0), last=scored(170, seconds=34.0)
    )
    [words, last] = advice.make_table(rows, 0.0)
    assert (words["time, s"], last["time, s"]) == ("1", "34")
    assert not any("loses" in title or "%" in title for title in last)
    assert re.fullmatch(
        r"Use words: nothing is shown to score more; last scores 5\.0 points "
        r"less than words \(-\d+\.\d to -\d+\.\d\) and costs 34 s \(1 seed, "
        r"200 test texts: not sure\)\.",
        advice.advise(rows, 0.0),
    )


def test_a_cheaper_approach_has_seconds_and_a_factor():
    rows = compare_all(
        two=scored(180, seconds=204.0), last=scored(180, seconds=34.0)
    )
    rows[1] = dataclasses.replace(
        rows[1], difference=estimates.Estimate(-0.3, 0.1, 9.0).ranged()
    )
    assert advice.advise(rows) == (
        "Train last: it scores 0.3 points less than training two (-0.5 to "
        "-0.1) and costs 34 s, 6 times less than 204 s (1 seed, 200 test "
        "texts: not sure)."
    )


# === The majority baseline, and chance ===


@pytest.mark.parametrize("right, is_likely", [(104, False), (112, True)])
def test_nothing_is_recommended_that_is_not_likely_above_the_majority(
    right, is_likely
):
    """A standard error of the lead is 3.5 points."""
    rows = compare_all(last=scored(right), probe=scored(100, 200, "probe"))
    assert rows[0].is_likely == is_likely
    text = advice.advise(rows)
    assert text.startswith("Nothing is recommended") != is_likely
    if not is_likely:
        assert "The best, last, is +2.0 (" in text


def test_a_row_at_the_majority_is_never_the_cheap_choice():
    row = decisions.Row("last", is_reference=True)
    cheap = decisions.Row(
        "words",
        difference=estimates.Estimate(-0.1, 0.1, 99.0).ranged(),
        time=estimates.Ranged(5.0),
        lead=estimates.Estimate(0.1, 2.0, 99.0).ranged(),
    )
    assert decisions.choose([row, cheap], 1.0) is row
    shown = dataclasses.replace(
        cheap, lead=estimates.Estimate(9.0, 2.0, 99.0).ranged()
    )
    assert decisions.choose([row, shown], 1.0) is shown


def test_a_score_below_chance_is_an_alarm_with_causes():
    rows = compare_all(last=scored(120), words=scored(44, 200, "tfidf"))
    assert advice.advise(rows) == (
        "Check the data: words is below chance, 22.0 on 200 test texts. "
        "Likely causes: labels that are reversed in a file, or a text (one of "
        "a pair is enough) that training and scored rows share with different "
        "labels."
    )
    assert advice.warn(rows[1:]) == advice.advise(rows)
