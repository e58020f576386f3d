"""What to train: the rule, the sentence, the table, and finished runs."""

import dataclasses
import re

import numpy as np
import pytest

from tests.reports import made_up
from tf_transfer.reports import advice, approaches, estimates, finished_runs
from tf_transfer.reports.finished_runs import Scored

PAPER = made_up.make_paper()


def make_runs(scores, layers, task="rte", **changes):
    trained = 1000 if layers == "all" else 70 * int(layers)
    changes = {"trainable_parameters": trained, **changes}
    return made_up.make_runs(
        PAPER,
        task,
        {"trainable_layers": layers, **changes.pop("settings", {})},
        scores,
        **{"majorities": {"accuracy": 0.5}, "commit": None, **changes},
    )


def list_approaches(*groups):
    runs = made_up.frame([run for group in groups for run in group])
    return approaches.list_approaches(approaches.label_runs(runs))


def make_rows(*groups):
    return approaches.make_rows(list_approaches(*groups))


def choose(*groups, margin=1.0):
    rows = advice.take_headline(make_rows(*groups))
    return advice.choose(rows, margin).name


def read_table(*groups, margin=1.0):
    """The lines of the table by the name of the approach."""
    lines = advice.make_table(make_rows(*groups), margin)
    return {line["approach"]: line for line in lines}


ALL = make_runs([80, 80.2, 79.8], "all")
FOUR = make_runs([79.9, 80.1, 79.9], "4", seconds=70.0)
TWO = make_runs([79, 79.2, 78.8], "2", seconds=50.0)
ONE = make_runs([60, 61, 59], "1", seconds=40.0)


# === The rule ===


def test_the_cheapest_approach_that_is_shown_to_lose_little_is_chosen():
    assert choose(ALL, FOUR, TWO, ONE) == "last 4"
    assert choose(ALL, FOUR, TWO, ONE, margin=2.0) == "last 2"


def test_noise_does_not_make_the_cheapest_the_advice():
    """A loss of 3.7 points keeps 95.9 % of the score; it is named as a loss."""
    noisy = make_runs([76.0, 84.0, 79.0], "4", seconds=70.0)
    last = make_runs([76.3, 76.5, 76.1], "1", seconds=12.0)
    assert choose(ALL, noisy, last) == "everything"
    table = read_table(ALL, noisy, last)
    words = {name: line["loses < 1 point"] for name, line in table.items()}
    assert words == {
        "everything": "",
        "last 4": "open; 100 seeds would not decide it",
        "last 1": "no",
    }


def test_what_takes_longer_than_everything_is_no_advice():
    slow = make_runs([79.9, 80.1, 79.9], "4", seconds=104.0)
    assert choose(ALL, slow) == "everything"


def test_of_many_alike_approaches_luck_names_few():
    """Eleven depths lose a point and a half each: none may be advised."""
    draw, named = np.random.default_rng(0), 0
    for _ in range(40):
        groups = [make_runs(list(draw.normal(80, 0.8, 3)), "all")]
        groups += [
            make_runs(list(draw.normal(78.5, 0.8, 3)), str(depth))
            for depth in range(1, 12)
        ]
        named += choose(*groups) != "everything"
    assert named <= 3


def test_the_sentence_says_loss_cost_and_how_sure():
    assert advice.advise(make_rows(ALL, FOUR, ONE)) == (
        "Train last 4: it scores 0.0 points less than training everything "
        "(-0.4 to +0.4), in 70 % of its time (rte, 3 seeds, 277 test texts)."
    )
    text = advice.advise(make_rows(ALL[:1], TWO[:1]))
    assert text.startswith("Train everything: nothing cheaper is shown")
    assert "last 2 scores 1.0 points less than training everything, in" in text
    assert "1 seed, 277 test texts: not sure" in text


def test_one_approach_is_compared_with_nothing():
    assert make_rows(ALL)[0].note == ""
    assert advice.take_headline(make_rows(ALL)) == []
    assert advice.advise(make_rows(ALL)).startswith("No two approaches")


# === Rows of a study ===


def test_a_mean_is_over_the_tasks_that_every_approach_has():
    """`last 1` was run on one of two tasks: it is not set beside the mean."""
    rows = make_rows(
        ALL,
        TWO,
        ONE,
        make_runs([60, 60.2, 59.8], "all", "mrpc"),
        make_runs([60, 60.2, 59.8], "2", "mrpc"),
    )
    means = advice.take_headline(rows)
    assert [(row.name, row.task) for row in means] == [
        ("everything", "mean of 2 tasks"),
        ("last 2", "mean of 2 tasks"),
    ]
    assert means[1].difference.value == pytest.approx(-0.5)
    assert means[1].scored == "685 test texts"


def test_a_part_of_the_data_is_in_no_mean():
    def part(runs):
        return [
            {
                **run,
                "sizes": {"train": 100, "test": 277},
                "path": run["path"] * 2,
            }
            | {"key": {**run["key"], "data_identity": "part"}}
            for run in runs
        ]

    rows = make_rows(ALL, TWO, part(ALL), part(make_runs([70, 71, 72], "2")))
    headline = advice.take_headline(rows)
    assert {row.task for row in headline} == {"rte (2,767 texts)"}


def test_the_time_of_an_epoch_is_compared_where_the_limit_ended_runs():
    limited = [
        make_runs(
            [80, 80.2, 79.8], layers, seconds=seconds, stop_reason="max_epochs"
        )
        for layers, seconds in (("all", 100.0), ("2", 50.0))
    ]
    assert read_table(*limited)["last 2"]["time per epoch, %"].startswith("50")


@pytest.mark.parametrize(
    "build, cost",
    [
        (
            150.0,
            ", in 20 % of its time per epoch: 210 s with the cache's build "
            "against 300 s in all (",
        ),
        (30.0, " and costs 90 s with the cache's build, 3 times less than 300"),
    ],
)
def test_the_time_of_an_epoch_has_the_build_of_the_cache_beside_it(build, cost):
    live = make_runs([80, 80.2, 79.8], "all", stop_reason="max_epochs")
    cached = make_runs(
        [79.9, 80.1, 79.9],
        "4",
        seconds=20.0,
        settings={"frozen_prefix": "cached"},
        prefix_build_seconds=build,
    )
    line = read_table(live, cached)["last 4 (cached)"]
    assert line["time per epoch, %"].startswith("20")
    assert line[advice.WITH_BUILD] == f"{60 + build:.0f}"
    assert cost in advice.advise(make_rows(live, cached))
    assert advice.WITH_BUILD not in read_table(live, FOUR)["last 4"]


def test_times_of_another_machine_are_not_compared():
    other = {**made_up.ENVIRONMENT, "threads": 64}
    elsewhere = make_runs([79, 79.2, 78.8], "2", timing_environment=other)
    assert "time, %" not in read_table(ALL, elsewhere)["last 2"]


def test_a_row_at_the_score_of_the_majority_baseline_is_not_compared():
    line = read_table(ALL, TWO, make_runs([50, 50, 50], "3"))["last 3"]
    words = "not shown to be above the majority baseline"
    assert line["minus everything"] == words
    assert line["loses < 1 point"] == ""


def test_without_training_everything_the_best_on_validation_is_the_reference():
    rows = make_rows(TWO, ONE)
    assert [row.name for row in rows if row.is_reference] == ["last 2"]
    assert rows[1].difference.value == pytest.approx(-19)


# === Rates ===


def rate(runs, lr):
    return [
        {**run, "lr": lr, "path": f"{run['path']} {lr}"}
        | {"key": {**run["key"], "lr": lr}}
        for run in runs
    ]


def test_an_approach_has_the_rate_that_is_best_on_validation():
    worse = rate(make_runs([70, 70.2, 69.8], "2"), 1e-4)
    base = rate(make_runs([70, 70.2, 69.8], "all"), 1e-4)
    found = list_approaches(ALL, base, TWO, worse)
    assert [one.name for one in found] == ["everything", "last 2"]
    assert found[1].first.lr == 2e-5 and found[1].is_compared


def test_rates_are_compared_on_the_seeds_that_all_have():
    """Else the rate that had more seeds would lose to the lucky one."""
    better = make_runs([72, 60, 60], "2")
    [found] = list_approaches(better, rate(make_runs([71], "2"), 1e-4))
    assert found.first.lr == 2e-5 and len(found.runs) == 3


def test_the_best_of_several_rates_is_not_compared_with_the_only_one():
    better = rate(make_runs([85, 85.2, 84.8], "2"), 1e-4)
    rows = make_rows(ALL, TWO, better)
    assert not rows[1].difference.is_known
    assert rows[1].note == "best of 2 rates, everything of 1"


def test_where_nothing_validates_each_rate_has_its_row():
    def blind(runs):
        return [
            {**run, "validation": None}
            | {"epochs": [{**e, "validation": None} for e in run["epochs"]]}
            for run in runs
        ]

    runs = [*ALL, *TWO, *rate(TWO, 1e-4)]
    assert [row.name for row in make_rows(blind(runs))] == [
        "everything",
        "last 2, lr 0.0001",
        "last 2, lr 2e-05",
    ]


def test_another_alpha_is_another_row_and_never_a_choice():
    """Else LoRA would have the best of two, and training everything of one."""
    runs = []
    for alpha, scores in ((16.0, [80, 80.2, 79.8]), (64.0, [99, 99.2, 98.8])):
        lora = {"method": "lora", "lora_alpha": alpha}
        for run in make_runs(scores, "all", settings=lora):
            runs.append({**run, "approach": "all_lora8"})
    names = [one.name for one in list_approaches(ALL, runs)]
    assert names[1:] == ["all lora8, lora_alpha 16", "all lora8, lora_alpha 64"]


@pytest.mark.parametrize(
    "approach, words",
    [
        ("fine_tuning_keep4", "everything, keep4"),
        ("all_lora8_keep4", "all lora8 keep4"),
        ("head", "the output layer alone"),
        ("probe_keep4", "the probe, keep4"),
    ],
)
def test_an_approach_has_a_name_in_words(approach, words):
    assert advice.name_approach(approach) == words


# === Finished runs ===


def scored(right, count=200, approach="fine_tuning", seconds=3.0):
    """A run that is right on the first so many of the texts."""
    labels = np.arange(count) % 2
    answers = np.where(np.arange(count) < right, labels, 1 - labels)
    record = {
        "metric": "accuracy",
        "approach": approach,
        "test": {"accuracy": right / count},
        "train_seconds": seconds,
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        "trainable_parameters": 5,
    }
    logits = np.where(answers == 1, 1.0, -1.0)[:, None]
    return Scored("here", record, "test", np.arange(count), labels, logits)


@pytest.fixture
def compare(monkeypatch):
    """Compares runs by their names."""

    def compare_all(**runs):
        monkeypatch.setattr(
            finished_runs,
            "open_scored",
            lambda path, kind: runs[path] if kind == "test" else None,
        )
        return finished_runs.compare_runs({name: name for name in runs})

    return compare_all


@pytest.mark.parametrize(
    "ours, theirs, count, reference, sign",
    [
        (180, 150, 200, "last", "-"),
        (150, 180, 200, "probe", "-"),
        (14, 14, 24, "last", "+"),
    ],
)
def test_the_strongest_run_is_the_reference(
    ours, theirs, count, reference, sign, compare
):
    rows = compare(
        last=scored(ours, count), probe=scored(theirs, count, "probe")
    )
    assert [row.name for row in rows if row.is_reference] == [reference]
    [other] = [row for row in rows if not row.is_reference]
    line = advice.make_table([other, *rows])[0]
    assert line[f"minus {reference}"].startswith(sign)


def test_the_headline_is_no_stronger_than_the_gain(compare):
    words = scored(147, 200, "tfidf", 1.0)
    is_right = np.random.default_rng(0).permutation(200) < 147
    words.logits[:, 0] = np.where(is_right, 1, -1) * (2 * words.labels - 1)
    rows = compare(last=scored(152, seconds=34.0), words=words)
    assert re.fullmatch(
        r"No gain shown over words, which costs 1 s; last is \+2\.5 "
        r"\(-\d\.\d to \+\d+\.\d\) and costs 34 s \(1 seed, 200 test texts: "
        r"not sure\)\. Best guess: last\.",
        advice.advise(rows),
    )


def test_a_gain_that_is_shown_has_its_cost(compare):
    rows = compare(
        last=scored(180, seconds=34.0), words=scored(150, 200, "tfidf", 1.0)
    )
    assert re.fullmatch(
        r"Train last: \+15.0 \(\+\d+.\d to \+\d+.\d\) over words, which costs "
        r"1 s; last costs 34 s \(1 seed, 200 test texts: not sure\)\.",
        advice.advise(rows),
    )


def test_the_cheapest_baseline_without_a_shown_gain_is_named(compare):
    rows = compare(
        last=scored(180, seconds=34.0),
        probe=scored(180, 200, "probe", 9.0),
        words=scored(150, 200, "tfidf", 1.0),
    )
    [last, *_] = rows
    assert advice.find_floor(last, rows).name == "probe"
    rows = compare(
        last=scored(180, seconds=34.0),
        probe=scored(180, 200, "probe", 9.0),
        words=scored(180, 200, "tfidf", 1.0),
    )
    assert advice.find_floor(rows[0], rows).name == "words"


def test_beside_a_baseline_times_are_seconds_and_no_margin_no_column(compare):
    rows = compare(
        words=scored(180, 200, "tfidf", 1.0), last=scored(170, seconds=34.0)
    )
    [words, last] = advice.make_table(rows, 0.0)
    assert (words["time"], last["time"]) == ("1 s", "34 s")
    assert not any("loses" in title or "%" in title for title in last)
    assert re.fullmatch(
        r"Use words: nothing is shown to score more; last scores 5\.0 points "
        r"less than words \(-\d+\.\d to -\d+\.\d\) and costs 34 s \(1 seed, "
        r"200 test texts: not sure\)\.",
        advice.advise(rows, 0.0),
    )


def test_a_cheaper_approach_has_seconds_and_a_factor(compare):
    rows = compare(
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
    right, is_likely, compare
):
    """A standard error of the lead is 3.5 points."""
    rows = compare(last=scored(right), probe=scored(100, 200, "probe"))
    assert rows[0].is_likely == is_likely
    text = advice.advise(rows)
    assert text.startswith("Nothing is recommended") != is_likely
    if not is_likely:
        assert "The best, last, is +2.0 (" in text


def test_a_row_at_the_majority_is_never_the_cheap_choice():
    row = advice.Row("last", is_reference=True)
    cheap = advice.Row(
        "words",
        difference=estimates.Estimate(-0.1, 0.1, 99.0).ranged(),
        time=estimates.Ranged(5.0),
        lead=estimates.Estimate(0.1, 2.0, 99.0).ranged(),
    )
    assert advice.choose([row, cheap], 1.0) is row
    shown = dataclasses.replace(
        cheap, lead=estimates.Estimate(9.0, 2.0, 99.0).ranged()
    )
    assert advice.choose([row, shown], 1.0) is shown


def test_a_score_below_chance_is_an_alarm_with_causes(compare):
    rows = compare(last=scored(120), words=scored(44, 200, "tfidf"))
    assert advice.advise(rows) == (
        "Check the data: words is below chance, 22.0 on 200 test texts. "
        "Likely causes: labels that are reversed in a file, or a text (one of "
        "a pair is enough) that training and scored rows share with different "
        "labels."
    )
    assert advice.warn(rows[1:]) == advice.advise(rows)
