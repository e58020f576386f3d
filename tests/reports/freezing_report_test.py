"""The freezing report on trials with known means."""

import csv
import json
import os

import numpy as np
import pytest

from tests import commands
from tests.reports import synthetic
from tests.reports.composed import compose
from tests.reports.composed import tables
from tf_transfer import freezing
from tf_transfer.reports import document

PUBLISHED = os.path.join(
    commands.ROOT, "experiments", "freezing", "published.json"
)


def write(root, trials, **changes):
    """Trials by number of trained blocks, of an encoder of four."""
    for blocks, scores in trials.items():
        for seed, score in enumerate(scores):
            synthetic.write(
                root,
                [score / 100],
                cls=freezing.Settings,
                blocks=4,
                trainable_layers=str(blocks),
                seed=seed,
                **{"lr": 1e-5, "seconds": 10.0, **changes},
            )


TRIALS = {"all": [80, 82], 2: [81, 83], 1: [74, 76], 0: [50, 0]}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The parts of the report on `TRIALS`."""
    root = tmp_path_factory.mktemp("trials")
    write(root, TRIALS, task="mrpc")
    return compose(root)


def test_quality_at_every_number_of_frozen_blocks(report):
    rows = tables(report)["freezing_A_mrpc_live"]
    assert [(row["frozen"], row["trained"]) for row in rows] == [
        ("0", "all"),
        ("2", "2"),
        ("3", "1"),
        ("4", "0"),
    ]
    assert [row["score"].split()[0] for row in rows] == [
        "81.00",
        "82.00",
        "75.00",
        "25.00",
    ]
    # Of 50 and 0 the authors keep 50.
    assert [row["authors' averaging"] for row in rows][-1] == "50.00"
    assert [row["relative score"] for row in rows] == [
        "0.00",
        "1.00",
        "-6.00",
        "-56.00",
    ]
    assert rows[2]["of full score"] == "92.6 %"
    assert {row["trials"] for row in rows} == {"2"}


def test_operating_points_and_claims(report):
    text = document.to_markdown(report)
    # 90 % of 81 is 72.9, passed by 1; 95 % is 76.95, passed by 2.
    assert "- 90 % of all: 1 of 4 trained blocks are enough; 95 % of" in (text)
    assert "- 95 % of all: 2 of 4 trained blocks are enough; 95 % of" in (text)
    assert (
        "A fourth of the blocks (1 of 4, rounded up) for 90 %, CoLA left out, "
        "live: "
        "**holds** (mrpc 1);" in text
    )
    assert "worse than freezing, live: mrpc with 2 trained." in text
    # 25 of 81 points.
    assert "head trained, 30.9 % of the full score are left, live, mean" in text


def test_operating_points_stand_in_one_table_with_their_cost(report):
    rows = tables(report)["operating_points_A"]
    assert [(row["quality"], row["trained blocks"]) for row in rows] == [
        ("all", "all"),
        ("> 90 %", "1"),
        ("> 95 %", "2"),
        ("none trained", "0"),
    ]
    assert [row["of full score"] for row in rows] == [
        "100.0 %",
        "92.6 %",
        "101.2 %",
        "30.9 %",
    ]
    assert {row["of full epoch"] for row in rows} == {"100.0 %"}


def test_the_qualities_that_are_asked_for(tmp_path):
    write(tmp_path, {"all": [80, 82], 2: [81, 83], 1: [74, 76]}, task="mrpc")
    parts = compose(tmp_path, qualities=(0.5, 1.0), level=0.8)
    rows = tables(parts)["operating_points_A"]
    assert [(row["quality"], row["trained blocks"]) for row in rows] == [
        ("all", "all"),
        ("> 50 %", "1"),
        ("> 100 %", "2"),
        ("1 trained", "1"),
    ]
    assert (
        "80 % of resampled trials give 0 to 1, 100.0 % the same"
        in document.to_markdown(parts)
    )


def test_what_was_not_tried_is_said(tmp_path):
    write(tmp_path, {"all": [80], 3: [79], 1: [50]}, task="mrpc")
    text = document.to_markdown(compose(tmp_path))
    assert (
        "90 % of all: 3 of 4 trained blocks are enough; 2 not tried; no "
        "interval of one trial." in text
    )
    assert "2 numbers were tried, 1 between them were not" in text


def test_nothing_is_enough(tmp_path):
    write(tmp_path, {"all": [80], 1: [50], 0: [40]}, task="cola")
    rows = tables(compose(tmp_path))["operating_points_A"]
    assert rows[1]["trained blocks"] == "never"
    assert rows[1]["score"] == ""


def test_both_halves_of_mnli_have_their_points(tmp_path):
    for blocks, scores in {"all": (80, 90), 1: (70, 85)}.items():
        write(
            tmp_path,
            {blocks: [scores[0]]},
            task="mnli",
            metrics={"mismatched_accuracy": scores[1] / 100},
        )
    for folder, _, files in os.walk(tmp_path):
        if "result.json" in files:
            logits = np.eye(3)[np.zeros(4, int)]
            np.savez(
                os.path.join(folder, "predictions.npz"),
                test_ids=np.arange(4),
                test_labels=np.array([0, 0, 1, 2]),
                test_logits=logits,
                test_mismatched_ids=np.arange(4),
                test_mismatched_labels=np.array([2, 2, 2, 1]),
                test_mismatched_logits=logits,
            )
    rows = tables(compose(tmp_path))["operating_points_A"]
    found = {(row["task"], row["quality"]): row["score"] for row in rows}
    assert found["mnli", "> 90 %"] == ""
    assert found["mnli, mismatched", "> 90 %"] == "85.00"
    assert {(row["task"], row["majority"]) for row in rows} == {
        ("mnli", "50.00"),
        ("mnli, mismatched", "75.00"),
    }


def test_what_the_cache_saves_is_summed_over_the_same_runs(tmp_path):
    write(tmp_path, {"all": [80], 1: [70], 0: [60]}, task="rte", seconds=20.0)
    write(
        tmp_path,
        {1: [70], 0: [60]},
        task="rte",
        frozen_prefix="cached",
        prefix=(3.0, 5.0),
        seconds=4.0,
    )
    text = document.to_markdown(compose(tmp_path))
    # 4 s of training each, and 5 s of building, of which they paid 3 each.
    assert (
        "rte, the 2 runs with 0, 1 trained blocks: 40 s live, 13 s cached "
        "with the building of the cache, 32.5 % of it." in text
    )


def test_each_rate_is_a_table_of_its_own(tmp_path):
    """Nothing is chosen by what was tested."""
    write(tmp_path, {"all": [81, 81], 1: [60, 60]}, task="rte", lr=1e-5)
    write(tmp_path, {"all": [70, 70], 1: [76, 76]}, task="rte", lr=5e-5)
    parts = tables(compose(tmp_path))
    rows = parts["operating_points_A"]
    found = {(r["lr"], r["quality"]): r["trained blocks"] for r in rows}
    assert found["1e-05", "> 90 %"] == "never"
    assert found["5e-05", "> 90 %"] == "1"
    assert parts["freezing_A_rte_live_lr 1e-05"]


def test_a_fourth_that_was_not_tried_is_not_decided(tmp_path):
    write(tmp_path, {"all": [80], 3: [79], 0: [50]}, task="rte")
    text = document.to_markdown(compose(tmp_path))
    assert "**is not decided** (rte 3); the paper's own: bert-base 3" in text


def test_what_the_majority_passes_is_marked(tmp_path):
    labels = np.array([1] * 9 + [0])
    write(
        tmp_path,
        {"all": [80], 0: [79]},
        task="rte",
        predictions=(labels, np.ones((10, 1))),
    )
    text = document.to_markdown(compose(tmp_path))
    assert (
        "90 % of all: 0 of 4 trained blocks are enough; no interval of one "
        "trial; **the majority class alone passes**" in text
    )
    rows = tables(compose(tmp_path))["operating_points_A"]
    assert [row["quality"] for row in rows] == [
        "all",
        "> 90 %*",
        "> 95 %*",
        "none trained",
    ]
    assert {row["majority"] for row in rows} == {"90.00"}


def test_what_the_majority_passes_decides_nothing(tmp_path):
    labels = np.array([1] * 9 + [0])
    write(
        tmp_path,
        {"all": [80], 0: [79]},
        task="rte",
        predictions=(labels, np.ones((10, 1))),
    )
    text = document.to_markdown(compose(tmp_path))
    assert "**is not decided** (rte 0*)" in text


def test_a_fourth_that_is_not_enough(tmp_path):
    write(tmp_path, {"all": [80], 2: [79], 1: [60], 0: [50]}, task="rte")
    text = document.to_markdown(compose(tmp_path))
    assert "CoLA left out, live: **does not hold** (rte 2)" in text


def test_cached_trials_are_tables_of_their_own(tmp_path):
    write(tmp_path, {"all": [80, 82], 1: [70, 72]}, task="rte")
    write(
        tmp_path,
        {1: [76, 78]},
        task="rte",
        frozen_prefix="cached",
        prefix=(0.0, 5.0),
    )
    parts = compose(tmp_path)
    live = tables(parts)["freezing_A_rte_live"]
    cached = tables(parts)["freezing_A_rte_cached"]
    assert live[1]["score"].startswith("71.00")
    assert cached[1]["score"].startswith("77.00")
    assert cached[1]["time, s"].startswith("15.0")
    assert cached[0]["score"] == live[0]["score"]


def test_the_search_is_a_table_of_its_own(tmp_path):
    write(tmp_path, TRIALS, task="rte")
    for lr, score in ((1e-5, 70), (2e-5, 75)):
        write(
            tmp_path,
            {"all": [score]},
            task="rte",
            lr=lr,
            validation_fraction=0.1,
        )
    rows = tables(compose(tmp_path))["search_B"]
    assert [(row["lr"], row["validation"], row[""]) for row in rows] == [
        ("1e-05", "70.00", ""),
        ("2e-05", "75.00", "best"),
    ]


def test_published_scores_stand_beside_those_of_the_same_encoder(tmp_path):
    write(
        tmp_path,
        {"all": [80], 1: [70]},
        task="rte",
        model="bert_base_en_uncased",
    )
    rows = tables(compose(tmp_path))["freezing_A_rte_live"]
    assert [row["published"] for row in rows] == ["67.55", "57.87"]
    rows = tables(compose(tmp_path))["operating_points_A"]
    assert [(row["quality"], row["published"]) for row in rows] == [
        ("all", "67.55"),
        ("> 90 %", "62.32 with 3"),
        ("> 95 %", "66.67 with 5"),
        ("1 trained", "57.87"),
    ]


def test_parameters_add_up(tmp_path):
    write(tmp_path, {"all": [80]}, task="rte")
    rows = tables(compose(tmp_path))["parameters_A"]
    assert [(row["part"], row["parameters"]) for row in rows] == [
        ("embeddings", "500"),
        ("each block", "100"),
        ("all blocks", "400"),
        ("pooler", "20"),
        ("total", "920"),
    ]


@pytest.mark.shared
def test_published_scores_are_those_of_the_trials(shared_data):
    from tf_transfer.reports import operating

    published = json.load(open(PUBLISHED))
    trials = {}
    path = os.path.join(shared_data, "..", "papers", "elsa_trials.csv")
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["model"], row["task"], row["trained_blocks"])
            trials.setdefault(key, []).append(100 * float(row["score"]))
    for (model, task, blocks), scores in trials.items():
        known = published["scores"][model][task][blocks]
        assert known[0] == pytest.approx(
            operating.authors_mean(scores), abs=0.006
        )
        assert known[1] == pytest.approx(
            operating.plain_mean(scores), abs=0.006
        )
        assert known[3] == len(scores)
        bar = 0.9 * (1 + operating.TIE) * max(scores)
        assert known[4] == sum(0 < score > bar for score in scores)
    assert sum(
        len(cells)
        for tasks in published["scores"].values()
        for cells in tasks.values()
    ) == len(trials)
