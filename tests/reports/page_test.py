"""The page: what it says first, how sure it is, and that texts stay texts."""

import csv
import html
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.reports import made_up
from tf_transfer.reports import (
    brief,
    contrast,
    frames,
    groups,
    measures,
    overview,
    page as page_lib,
    study as study_lib,
)

PAPER = made_up.make_paper(
    {"text": "Two blocks lose five points.", "published": -5.0},
    {"text": "Nobody ran it.", "tasks": ("cola",)},
)
HOSTILE = "<img src=x onerror=alert(1)>|`x` {{ 7 * 7 }}"


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


def make_study(*groups, paper=PAPER):
    runs = made_up.frame([run for group in groups for run in group])
    judged = contrast.judge(runs, paper) if paper else []
    summary = {
        "runs": list(runs.record),
        "left_out": [],
        "made": {
            "on": "2026-01-01",
            "machine": "a machine",
            "commits": [],
            "versions": {},
        },
    }
    return study_lib.Study("paper", "A", runs, paper, {}, judged, runs, summary)


def make_page(*groups, paper=PAPER):
    study = make_study(*groups, paper=paper)
    return page_lib.make_page([study], study.summary)


def shorten(*groups, paper=PAPER):
    study = make_study(*groups, paper=paper)
    return " ".join(brief.write(study, overview.make_rows(study.runs)))


ALL = make_runs([80, 80.2, 79.8], "all")
TWO = make_runs([79, 79.2, 78.8], "2", seconds=50.0)
ONE = make_runs([60, 61, 59], "1", seconds=40.0)


# === In short ===


def choose_text(*groups, margin=1.0):
    study = make_study(*groups)
    approaches = brief.group_approaches(study.rows)
    text = brief.describe_choice(approaches, margin)
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_cheapest_approach_that_is_shown_to_lose_little_is_advised():
    four = make_runs([79.9, 80.1, 79.9], "4", seconds=70.0)
    assert choose_text(ALL, four, TWO, ONE) == (
        "Train last 4, +0.0 points (-0.4 to +0.4) against everything, in 70 % "
        "of its time: less than 1 point lost (rte; 3 seeds, 277 test texts)."
    )


def test_noise_does_not_make_the_cheapest_the_advice():
    """A loss of 3.7 points keeps 95.9 % of the score; it is named as a loss."""
    noisy = make_runs([76.0, 84.0, 79.0], "4", seconds=70.0)
    last = make_runs([76.3, 76.5, 76.1], "1", seconds=12.0)
    text = shorten(ALL, noisy, last)
    assert text.startswith(
        "Train everything: nothing cheaper is shown to lose less than 1 point."
        " Next is last 4, -0.3 points ("
    )
    assert "100 seeds would not decide it" in text


def test_a_loss_that_is_the_margin_needs_no_more_seeds():
    text = shorten(ALL, TWO)
    assert "-1.0 points (-1.5 to -0.5) against everything" in text
    assert "100 seeds would not decide it" in text
    worse = shorten(ALL, make_runs([70, 70.2, 69.8], "2"))
    assert "more seeds would not change that" in worse
    advice = choose_text(ALL, TWO, margin=2.0)
    assert advice.startswith("Train last 2, -1.0 points")


def test_what_takes_longer_than_everything_is_no_advice():
    slow = make_runs([79.9, 80.1, 79.9], "4", seconds=104.0)
    assert shorten(ALL, slow).startswith("Train everything: nothing cheaper")


def test_of_many_alike_approaches_luck_names_few():
    """Eleven depths lose a point and a half each: none may be advised."""
    draw, named = np.random.default_rng(0), 0
    for _ in range(40):
        groups = [make_runs(list(draw.normal(80, 0.8, 3)), "all")]
        groups += [
            make_runs(list(draw.normal(78.5, 0.8, 3)), str(depth))
            for depth in range(1, 12)
        ]
        named += not shorten(*groups).startswith("Train everything")
    assert named <= 3


def test_one_seed_is_not_sure_and_has_no_interval():
    text = shorten(ALL[:1], TWO[:1])
    assert "last 2, -1.0 points against everything, in" in text
    assert "(rte; 1 seed, 277 test texts: not sure)" in text


def test_a_mean_is_over_the_tasks_that_every_approach_has():
    """`last 1` was run on one of two tasks: it is not set beside the mean."""
    text = shorten(
        ALL,
        TWO,
        ONE,
        make_runs([60, 60.2, 59.8], "all", "mrpc"),
        make_runs([60, 60.2, 59.8], "2", "mrpc"),
    )
    assert "(mean of rte -1.0 and mrpc +0.0; 3 seeds, 685 test texts)" in text
    assert "last 1" not in text


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

    text = shorten(ALL, TWO, part(ALL), part(make_runs([70, 71, 72], "2")))
    assert "-1.0 points (" in text and "(rte (2,767 texts)" in text


def test_the_time_of_an_epoch_is_told_where_the_limit_ended_runs():
    limited = [
        make_runs(
            [80, 80.2, 79.8], layers, seconds=seconds, stop_reason="max_epochs"
        )
        for layers, seconds in (("all", 100.0), ("2", 50.0))
    ]
    assert "50\N{NO-BREAK SPACE}% of its time per epoch" in shorten(*limited)


def test_times_of_another_machine_are_not_in_the_sentence():
    other = {**made_up.ENVIRONMENT, "threads": 64}
    text = shorten(
        ALL,
        make_runs([79, 79.2, 78.8], "2", timing_environment=other),
    )
    assert "time" not in text and "-1.0 points (" in text


def test_a_row_at_the_score_of_the_majority_baseline_is_not_compared():
    failed = make_runs([50, 50, 50], "3")
    study = make_study(ALL, TWO, failed)
    rows = {row.trains: row for row in overview.make_rows(study.runs)}
    assert rows["last 3"].failed and not rows["last 3"].kept.is_known
    table = page_lib.make_part(study, study.rows).table.frame
    shown = dict(zip(table.trains, table["minus everything"]))
    assert shown["last 3"] == "not shown to be above the majority baseline"


def test_runs_on_the_sample_mean_nothing():
    runs = [{**run, "data": "sample"} for run in [*ALL, *TWO]]
    assert shorten(runs).startswith("These runs are on the hand-written sample")


def test_without_anything_to_compare_nothing_is_advised():
    text = shorten(TWO, ONE, paper=None)
    assert text.startswith("Nothing is compared with training everything")


def test_claims_are_counted_by_their_words():
    comparable = shorten(ALL, make_runs([75, 75.2, 74.8], "2", seconds=50.0))
    assert "2 claims (A paper): 1 agrees; 1 without" in comparable
    other = [{**run, "model": "minilm"} for run in [*ALL, *TWO]]
    text = shorten(other)
    assert "1 not comparable" in text


def test_what_differs_in_all_runs_is_not_repeated_beside_a_claim():
    """Though the claims ask for more values than the one beside it."""
    paper = made_up.make_paper(
        {"sign": -1},
        {"tasks": ("cola",), "both": {"patience": 3}},
        origins={"patience": "authors_code"},
    )
    other = {"settings": {"patience": 5}}
    [part] = make_page(
        make_runs([80, 80.2, 79.8], "all", **other),
        make_runs([79, 79.2, 78.8], "2", **other),
        paper=paper,
    ).parts
    assert part.study.differences == ["patience 5 (authors' code: 2 or 3)"]
    assert [claim.reason for claim in part.local] == [""]


# === Rates ===


def rate(runs, lr):
    return [
        {**run, "lr": lr, "path": f"{run['path']} {lr}"}
        | {"key": {**run["key"], "lr": lr}}
        for run in runs
    ]


def test_a_row_has_the_rate_that_is_best_on_validation():
    worse = rate(make_runs([70, 70.2, 69.8], "2"), 1e-4)
    base = rate(make_runs([70, 70.2, 69.8], "all"), 1e-4)
    rows = overview.make_rows(made_up.frame([*ALL, *base, *TWO, *worse]))
    assert [row.trains for row in rows] == ["everything", "last 2"]
    assert rows[1].lr == 2e-5 and rows[1].gain.value == pytest.approx(-1)


def test_rates_are_compared_on_the_seeds_that_all_have():
    """Else the rate that had more seeds would lose to the lucky one."""
    better = make_runs([72, 60, 60], "2")
    lucky = rate(make_runs([71], "2"), 1e-4)
    rows = overview.make_rows(made_up.frame([*better, *lucky]))
    assert [(row.lr, row.n) for row in rows] == [(2e-5, 3)]


def test_the_best_of_several_rates_is_not_compared_with_the_only_one():
    better = rate(make_runs([85, 85.2, 84.8], "2"), 1e-4)
    rows = overview.make_rows(made_up.frame([*ALL, *TWO, *better]))
    assert not rows[1].gain.is_known
    assert rows[1].note == (
        "its rate is the best of 2, that of training everything of 1"
    )


def test_where_nothing_validates_each_rate_has_its_row():
    def blind(runs):
        return [
            {**run, "validation": None}
            | {"epochs": [{**e, "validation": None} for e in run["epochs"]]}
            for run in runs
        ]

    runs = [*ALL, *TWO, *rate(TWO, 1e-4)]
    rows = overview.make_rows(made_up.frame(blind(runs)))
    assert [row.trains for row in rows] == [
        "everything",
        "last 2, lr 2e-05",
        "last 2, lr 0.0001",
    ]


@pytest.mark.parametrize(
    "scores, end",
    [
        ([79, 70, 60], "lowest"),
        ([60, 70, 79], "highest"),
        ([60, 79, 70], ""),
        ([70, 79], ""),  # of two, each is an end
    ],
)
def test_a_best_rate_at_an_end_of_those_tried_is_known(scores, end):
    rates = (1e-5, 2e-5, 5e-5)
    runs = [
        run
        for score, lr in zip(scores, rates)
        for run in rate(make_runs([score, score + 0.2, score - 0.2], "2"), lr)
    ]
    [row] = [row for row in make_study(ALL, runs).rows if not row.is_base]
    assert brief.end_of_rates(row) == end


# === The page ===


def parts_of(text, tag):
    return re.findall(rf"<{tag}[ >].*?</{tag}>", text, re.S)


def test_what_is_not_comparable_has_none_of_the_papers_words():
    other = [{**run, "model": "minilm"} for run in [*ALL, *TWO]]
    text = page_lib.to_html(make_page(other))
    body = text[text.index("<main>") :]
    words = re.findall(r'<p class="word"><span>(.*?)</span>', body, re.S)
    assert [word.strip() for word in words] == ["lower"]
    assert "On this encoder and data" in body
    assert "agrees" not in body and "contradicts" not in body


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"kind": "equal"}, "no difference; our margin: 1 points"),
        (
            {"kind": "equal", "published": -0.25},
            "-0.25 points; our margin: 1 points",
        ),
        ({"published": 2.5}, "+2.5 points"),
        ({"sign": -1}, "lower"),
    ],
)
def test_a_margin_is_not_shown_as_the_paper_s(changes, expected):
    paper = made_up.make_paper(
        {
            "margin": 1.0,
            "margin_from": "ours: a guess",
            "note": "So.",
            **changes,
        }
    )
    verdict = contrast.Verdict(paper.claims[0], "A", contrast.AGREES, "")
    assert page_lib.describe_published(verdict) == expected
    assert page_lib.describe_note(verdict) == "So. The margin: ours: a guess."


def test_a_verdict_has_its_word_figures_and_reason():
    text = page_lib.to_html(
        make_page(ALL, make_runs([75, 75.2, 74.8], "2", seconds=50.0))
    )
    [claim] = parts_of(text[: text.index("Claims without runs")], "li")[-1:]
    claim = html.unescape(re.sub(r"<.*?>|\s+", " ", claim))
    assert "✓ agrees" in claim and "-5 points" in claim
    assert re.search(r"-5.00 points \(-5.\d+ to -4.\d+\), n = 3", claim)
    assert "sign and size" in claim


def test_a_hostile_text_in_a_run_stays_text():
    runs = [
        {**run, "model": HOSTILE, "approach": HOSTILE, "task": HOSTILE}
        | {"stop_reason": HOSTILE, "path": f"{HOSTILE}{run['path']}"}
        for run in [*ALL, *TWO]
    ]
    study = make_study(runs, paper=PAPER)
    study.summary["left_out"].append((HOSTILE, HOSTILE))
    study.summary["made"]["machine"] = HOSTILE
    page = page_lib.make_page([study], study.summary)
    text = page_lib.to_html(page)
    assert "<img src=x" not in text and "&lt;img src=x" in text
    assert "7 * 7" in text and "{{ 49 }}" not in text
    markdown = page_lib.to_markdown(page)
    assert "<img" not in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows[-2:]}
    assert len(cells) == 1


def test_a_table_holds_no_formula_and_a_document_no_link():
    frame = pd.DataFrame(
        {
            "=a": ["=1+1", "@x", "-2+3+cmd|' /C calc'!A0", "+0.5 (+0.1 to +1)"],
            "n": [-1.5, 2.0, np.nan, 0.0],
        }
    )
    rows = list(csv.reader(io.StringIO(page_lib.to_csv(frame))))
    assert [row[0] for row in rows] == [
        "'=a",
        "'=1+1",
        "'@x",
        "'-2+3+cmd|' /C calc'!A0",
        "+0.5 (+0.1 to +1)",
    ]
    assert [row[1] for row in rows[1:]] == ["-1.5", "2.0", "", "0.0"]
    shown = page_lib._escape_markdown("[a](b) \\| c\u2028<d>")
    assert shown == r"[a]\(b) \\\| c &lt;d>"


def test_what_runs_warned_of_is_a_note():
    warned = [{**run, "warnings": ["rte: is one class."]} for run in TWO]
    page = make_page(ALL, warned)
    assert "rte: is one class. (3 runs)" in page.parts[0].notes


def test_nan_and_missing_values_do_not_break_the_page():
    broken = [dict(run) for run in make_runs([79, 79.2, 78.8], "3")]
    broken[0] |= {"test": float("nan"), "metrics": {"accuracy": float("nan")}}
    broken[1] |= {"seconds": None, "seconds_per_epoch": None, "memory": None}
    broken[2] |= {"trainable_parameters": None, "validation": None}
    page = make_page(ALL, TWO, broken)
    text = page_lib.to_html(page)
    assert "last 3" in text and "nan" not in text[text.index("<main>") :]


def test_each_table_of_a_page_has_a_name_and_few_columns():
    page = make_page(ALL, TWO, ONE)
    tables = page.all_tables
    names = [table.name for table in tables]
    assert len(set(names)) == len(names)
    assert {"paper_A_overview", "runs", "epochs"} <= set(names)
    assert len(page.parts[0].table.frame.columns) <= 8


def test_every_run_of_the_study_is_in_a_table():
    page = make_page(ALL, TWO, ONE)
    [runs] = [t.frame for t in page.all_tables if t.name == "runs"]
    assert set(runs["run"]) == {run["path"] for run in [*ALL, *TWO, *ONE]}


def test_a_long_table_is_cut_on_the_page_and_says_so(monkeypatch):
    monkeypatch.setattr(page_lib, "MOST_SHOWN", 4)
    text = page_lib.to_html(make_page(ALL, TWO))
    assert "The first 4 of 6 rows; all of them: tables/runs.csv" in text


def test_an_interval_stands_apart_from_its_value():
    shown = page_lib._split_interval("-1.23 (-2.00 to -0.46)")
    assert shown == "-1.23 <small>(-2.00 to -0.46)</small>"
    assert page_lib._split_interval("<b> (1)") == "&lt;b&gt; (1)"
    assert page_lib.show_cell(float("nan")) == "" and (
        page_lib.show_cell(np.True_) == "yes"
    )


# === Times ===


def test_runs_are_timed_in_the_environment_of_most():
    usual = ALL[0]["timing_environment"]
    other = [{}, {}, {"machine": "b"}, {"mixed": True}]
    runs = frames.runs_frame(
        [
            {
                **ALL[0],
                "path": str(number),
                "timing_environment": {**usual, **change},
            }
            for number, change in enumerate(other)
        ]
    )
    assert list(runs.timed) == [True, True, False, False]
    known = runs.seconds_per_epoch.notna()
    assert list(known) == [True, True, False, False]
    assert len(measures.measure_runs("seconds", runs)) == 2


def test_times_are_compared_in_the_environment_that_both_sides_share():
    """Whatever most runs on the texts have."""
    usual = ALL[0]["timing_environment"]

    def runs_in(*environments):
        return [
            {
                **ALL[0],
                "path": f"{environments} {number}",
                "seconds": float(number),
                "seconds_per_epoch": float(number),
                "timing_environment": {**usual, **environment},
            }
            for number, environment in enumerate(environments)
        ]

    here, there = {"machine": "here"}, {"machine": "there"}
    mixed = {"machine": "here", "mixed": True}
    first = runs_in(here, there, here, here, mixed)
    second = runs_in(there, there, there, here, here)
    frame = frames.runs_frame(first + second)

    def measure(name, *sides):
        cells = groups.measure((name,) * len(sides), sides)
        return [list(cell.values) for cell in cells]

    sides = frame[:5], frame[5:]
    assert measure("seconds", *sides) == [[0, 2, 3], [3, 4]]
    assert measure("seconds", sides[1]) == [[0, 1, 2]]
    apart = frame[1:2], frame[8:]
    assert measure("seconds", *apart) == [[], []]
    assert len(measure("score", *apart)[1]) == 2


def test_frames_of_records_without_all_metrics_are_made():
    record = {**ALL[0], "metrics": {"accuracy": 0.8, "f1": None}}
    runs = frames.runs_frame([record])
    assert pd.isna(runs.metrics.iloc[0]["f1"])
    json.dumps(record)


@pytest.mark.parametrize(
    "percent, shown",
    [(31.87, 31.9), (0.13, 0.1), (0.042, 0.04), (0.0017, 0.002), (0.0, 0.0)],
)
def test_a_share_that_is_not_nothing_is_not_shown_as_nothing(percent, shown):
    assert page_lib._round_share(percent) == shown
