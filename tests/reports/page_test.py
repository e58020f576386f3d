"""The page: what it says first, how sure it is, and that texts stay texts."""

import csv
import dataclasses
import html
import io
import math
import re
import types

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tf_transfer.reports import (
    page as page_lib,
    run_frame as runs_lib,
    run_groups,
    verdicts,
)
from tf_transfer.reports.tables import Table

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


def make_page(*groups, paper=PAPER):
    records = [run for group in groups for run in group]
    study = made_up.collect(paper or made_up.make_paper(), records)
    judged = [*made_up.judge(paper, *groups).values()] if paper else []
    study = dataclasses.replace(
        study, experiment="paper", paper=paper, verdicts=judged
    )
    summary = {
        "runs": records,
        "searches": [],
        "left_out": [],
        "made": {
            "on": "2026-01-01",
            "machine": "a machine",
            "commits": [],
            "versions": {},
        },
    }
    return page_lib.make_page([study], summary)


ALL = make_runs([80, 80.2, 79.8], "all")
TWO = make_runs([79, 79.2, 78.8], "2", seconds=50.0)
ONE = make_runs([60, 61, 59], "1", seconds=40.0)


def test_runs_on_the_sample_mean_nothing():
    runs = [replace(run, data="sample") for run in [*ALL, *TWO]]
    [section] = make_page(runs).sections
    assert section.advice.startswith("On the hand-written sample")


def test_the_probe_heads_no_paper_s_page():
    """It loses less than all that the paper has, and costs less."""
    probe = make_runs(
        *([80, 80.2, 79.8], "0"),
        approach="probe",
        seconds=1.0,
        settings={"features": "frozen"},
    )
    [section] = make_page(ALL, TWO, probe).sections
    assert "probe" not in section.advice
    names = [*section.table.frame.approach]
    assert "the probe (not in the paper)" in names
    [without_paper] = make_page(ALL, TWO, probe, paper=None).sections
    assert without_paper.advice.startswith("Use the probe")


def test_a_difference_of_all_runs_is_not_repeated_at_a_claim():
    """Though the claims ask for more values than the one beside it."""
    paper = made_up.make_paper(
        {"sign": -1},
        {"tasks": ("cola",), "both": {"patience": 3}},
        origins={"patience": "authors_code"},
    )
    other = {"settings": {"patience": 5}}
    [section] = make_page(
        make_runs([80, 80.2, 79.8], "all", **other),
        make_runs([79, 79.2, 78.8], "2", **other),
        paper=paper,
    ).sections
    differences = section.study.differences
    assert differences == ["patience 5 (authors' code: 2 or 3)"]
    [local] = section.local_verdicts
    assert "patience" not in local.local


# === The page ===


def parts_of(text, tag):
    return re.findall(rf"<{tag}[ >].*?</{tag}>", text, re.S)


def test_what_is_not_comparable_has_none_of_the_papers_words():
    other = [replace(run, model="minilm") for run in [*ALL, *TWO]]
    text = page_lib.to_html(make_page(other))
    body = text[text.index("<main>") :]
    words = re.findall(r'<p class="word"><span>(.*?)</span>', body, re.S)
    assert [w.split(";")[0].strip() for w in words] == ["lower", "no result"]
    assert "on this encoder and data" in body
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
    verdict = verdicts.Verdict(paper.claims[0], "A", verdicts.AGREES, "")
    assert page_lib.describe_published(verdict) == expected
    assert page_lib.describe_note(verdict) == "So. The margin: ours: a guess."


def test_a_verdict_has_its_word_figures_and_reason():
    text = page_lib.to_html(
        make_page(ALL, make_runs([75, 75.2, 74.8], "2", seconds=50.0))
    )
    [claim] = parts_of(text[: text.index("Claims without a result")], "li")[-1:]
    claim = html.unescape(re.sub(r"<.*?>|\s+", " ", claim))
    assert "✓ agrees" in claim and "-5 points" in claim
    assert re.search(r"-5.00 points \(-5.\d+ to -4.\d+\), n = 3", claim)
    assert "the sign; about as large as published" in claim


def test_a_hostile_text_in_a_run_stays_text():
    runs = [
        replace(
            run,
            model=HOSTILE,
            approach=HOSTILE,
            task=HOSTILE,
            stop_reason=HOSTILE,
            path=f"{HOSTILE}{run.path}",
        )
        for run in [*ALL, *TWO]
    ]
    page = make_page(runs)
    page.summary["left_out"].append((HOSTILE, HOSTILE))
    made = {**page.summary["made"], "machine": HOSTILE}
    origin = page_lib.describe_origin({**page.summary, "made": made})
    page = dataclasses.replace(page, origin=origin)
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
    warned = [replace(run, warnings=["rte: is one class."]) for run in TWO]
    page = make_page(ALL, warned)
    assert "rte: is one class. (3 runs)" in page.sections[0].notes


def test_nan_and_missing_values_do_not_break_the_page():
    first, second, third = make_runs([79, 79.2, 78.8], "3")
    nan = float("nan")
    broken = [
        replace(first, test=nan, metrics={"accuracy": nan}),
        replace(second, seconds=None, seconds_per_epoch=None, memory=None),
        replace(third, trainable_parameters=None, validation=None),
    ]
    page = make_page(ALL, TWO, broken)
    text = page_lib.to_html(page)
    assert "last 3" in text and "nan" not in text[text.index("<main>") :]


def test_each_table_of_a_page_has_a_name_and_few_columns():
    page = make_page(ALL, TWO, ONE)
    tables = page.all_tables
    names = [table.name for table in tables]
    assert len(set(names)) == len(names)
    assert {"paper_A_approaches", "runs", "epochs"} <= set(names)
    assert len(page.sections[0].table.frame.columns) <= 8


def test_every_run_of_the_study_is_in_a_table():
    page = make_page(ALL, TWO, ONE)
    [runs] = [t.frame for t in page.all_tables if t.name == "runs"]
    assert set(runs["run"]) == {run.path for run in [*ALL, *TWO, *ONE]}


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
    usual = ALL[0].timing_environment
    other = [{}, {}, {"machine": "b"}, {"mixed": True}]
    runs = runs_lib.runs_frame(
        [
            replace(
                ALL[0],
                path=str(number),
                timing_environment=replace(usual, **change),
            )
            for number, change in enumerate(other)
        ]
    )
    assert list(runs.timed) == [True, True, False, False]
    is_timed = runs.seconds_per_epoch.notna()
    assert list(is_timed) == [True, True, False, False]
    assert len(runs_lib.measure_runs("seconds", runs)) == 2


def test_times_are_compared_in_the_environment_that_both_groups_share():
    """Whatever most runs on the texts have."""
    usual = ALL[0].timing_environment

    def runs_in(*environments):
        return [
            replace(
                ALL[0],
                path=f"{environments} {number}",
                seconds=float(number),
                seconds_per_epoch=float(number),
                timing_environment=replace(usual, **environment),
            )
            for number, environment in enumerate(environments)
        ]

    here, there = {"machine": "here"}, {"machine": "there"}
    mixed = {"machine": "here", "mixed": True}
    first = runs_in(here, there, here, here, mixed)
    second = runs_in(there, there, there, here, here)
    frame = runs_lib.runs_frame(first + second)

    def measure(name, *sides):
        cells = run_groups.measure((name,) * len(sides), sides)
        return [list(cell.values) for cell in cells]

    sides = frame[:5], frame[5:]
    assert measure("seconds", *sides) == [[0, 2, 3], [3, 4]]
    assert measure("seconds", sides[1]) == [[0, 1, 2]]
    apart = frame[1:2], frame[8:]
    assert measure("seconds", *apart) == [[], []]
    assert len(measure("score", *apart)[1]) == 2


def test_frames_of_records_without_all_metrics_are_made():
    record = replace(ALL[0], metrics={"accuracy": 0.8, "f1": None})
    runs = runs_lib.runs_frame([record])
    assert pd.isna(runs.metrics.iloc[0]["f1"])


# === What was run comes first ===


def test_one_run_is_said_to_be_one():
    page = make_page(make_runs([80], "all"), paper=None)
    [section] = page.sections
    assert section.advice == "One run: there is nothing to compare it with."


def make_tables(monkeypatch, *frames):
    """A page of runs whose paper has these tables."""
    tables = [
        Table(f"table_{number}", f"Table {number}, of a paper: text", frame)
        for number, frame in enumerate(frames, 1)
    ]
    module = types.SimpleNamespace(
        list_tables=lambda study: tables, list_figures=lambda study: []
    )
    monkeypatch.setattr(page_lib, "module_of", lambda experiment: module)
    return make_page(make_runs([80, 81, 82], "all"), make_runs([70], "2"))


EMPTY = pd.DataFrame({"task": ["rte"], "x, published": [1], "x, here": [""]})
PARTLY = pd.DataFrame({"task": ["a", "b"], "here": [math.nan, 2.0]})
OWN = pd.DataFrame({"approach": ["a"], "epoch 1": ["81.0 / 3"]})


def test_tables_and_rows_without_runs_are_one_sentence(monkeypatch):
    page = make_tables(monkeypatch, EMPTY, PARTLY, OWN, EMPTY)
    [section] = page.sections
    assert [table.title for table in section.paper_tables] == [
        *("Table 2", "Table 3"),
    ]
    assert list(section.paper_tables[0].frame.task) == ["b"]
    assert section.not_run == (
        "Not run: Table 1 and Table 4; 1 row of the tables that are here. "
        "`python -m tf_transfer.sweep experiments/paper` runs all that the "
        "paper has."
    )
    for text in (page_lib.to_html(page), page_lib.to_markdown(page)):
        first, *others = (
            text.index(words)
            for words in ("Scores in points", "Table 2, of a paper", "Not run:")
        )
        assert first < others[0] < others[1]


def test_a_complete_grid_begins_with_the_papers_tables(monkeypatch):
    page = make_tables(monkeypatch, OWN)
    assert page.sections[0].is_complete and not page.sections[0].not_run
    for text in (page_lib.to_html(page), page_lib.to_markdown(page)):
        assert text.index("Table 1, of a paper") < text.index(
            "Scores in points"
        )
        assert "Not run" not in text


def test_the_probe_has_no_epochs():
    ended = {"stop_reason": "max_epochs"}
    probe = made_up.make_runs(
        PAPER, "rte", {"features": "frozen"}, [75], approach="probe", **ended
    )
    page = make_page(
        make_runs([80, 81], "all", **ended),
        make_runs([70, 71], "2", **ended),
        probe,
        paper=None,
    )
    rows = page.sections[0].table.frame.set_index("approach")
    assert rows.loc["last 2", "time per epoch, %"]
    assert not rows.loc["the probe", "time per epoch, %"]
    assert rows.loc["the probe", "time, s"]


def test_a_run_of_several_studies_is_listed_once():
    study = make_page(ALL).sections[0].study
    runs, epochs = page_lib._list_runs([study, study])
    assert (len(runs.frame), len(epochs.frame)) == (3, 9)
