"""The tables of the freezing study on trials with known means."""

import csv
import json
import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, operating, page, tables as tables_lib
from tf_transfer.reports.papers import freezing

FOLDER = os.path.join(commands.ROOT, "experiments", "freezing")
PAPER = claims.read(os.path.join(FOLDER, "claims.toml"))
with open(os.path.join(FOLDER, "published.json"), encoding="utf-8") as file:
    PUBLISHED = json.load(file)
TRIALS = {"all": [80, 82], 3: [81, 83], 2: [74, 76], 0: [50, 0]}


def write(
    trials=TRIALS, task="mrpc", prefix=None, blocks=4, untrained="", **changes
):
    """Runs by number of trained blocks, of an encoder of four.

    What full models leave `untrained` is in their key alone, where it is set.
    """
    settings = {"frozen_prefix": "cached" if prefix else "live"}
    settings["lr"] = changes.pop("lr", 1e-5)
    if "validation_fraction" in changes:
        settings["validation_fraction"] = changes.pop("validation_fraction")
    records = []
    for number, scores in trials.items():
        for seed, score in enumerate(scores):
            record = made_up.make_record(
                PAPER,
                task,
                {
                    **settings,
                    "trainable_layers": str(number),
                    "untrained": untrained,
                },
                seed,
                score,
                changes.get("seconds", 10.0),
                experiment="freezing",
                blocks=blocks,
                **{n: v for n, v in changes.items() if n != "seconds"},
            )
            record["key"]["module"] = "freezing"
            if not (untrained and number == "all"):
                del record["key"]["untrained"]
            if prefix:
                record |= dict(
                    zip(("prefix_seconds", "prefix_build_seconds"), prefix)
                )
            records.append(record)
    return records


def collect(*groups, **options):
    return made_up.collect(PAPER, *groups, published=PUBLISHED, **options)


def tables(*groups, **options):
    """Tables by name, each with its rows as dicts."""
    return {
        table.name: table.frame.to_dict("records")
        for table in tables_lib.fill_tables(collect(*groups, **options))
    }


def find_points(*groups, **options):
    """The operating points: rows by quality."""
    rows = tables(*groups, **options)["operating_points"]
    return {row["quality"]: row for row in rows}


# === Scores at every number of blocks ===


def test_quality_at_every_number_of_frozen_blocks():
    rows = tables(write())["freezing_mrpc_live"]
    assert [(row["frozen"], row["trained"]) for row in rows] == [
        (0, "all"),
        (1, "3"),
        (2, "2"),
        (4, "0"),
    ]
    assert [row["score"].split()[0] for row in rows] == [
        "81.00",
        "82.00",
        "75.00",
        "25.00",
    ]
    # Of 50 and 0 the authors keep 50.
    assert rows[-1]["authors' averaging"] == "50.00"
    assert [row["relative score, authors' averaging"] for row in rows] == [
        "0.00",
        "1.00",
        "-6.00",
        "-31.00",
    ]
    assert rows[-1]["of full score, %"] == "30.9"
    assert [row["relative score"] for row in rows] == [
        "0.00",
        "1.00",
        "-6.00",
        "-56.00",
    ]
    assert rows[2]["of full score, %"] == "92.6"
    assert {row["trials"] for row in rows} == {2}


def test_each_rate_is_a_table_of_its_own():
    """Nothing is chosen by what was tested."""
    low = write({"all": [81, 81], 1: [60, 60]}, "rte", lr=1e-5)
    high = write({"all": [70, 70], 1: [76, 76]}, "rte", lr=5e-5)
    found = tables(low, high)
    points = {
        (row["lr"], row["quality"]): row["trained blocks"]
        for row in found["operating_points"]
    }
    assert points["1e-05", "≥ 90 %"] == "never"
    assert points["5e-05", "≥ 90 %"] == "1"
    assert found["freezing_rte_live_lr_1e-05"]


def test_full_models_that_train_less_are_rows_of_their_own():
    """With the same frozen runs: 71 is not 90 % of 81, but of 61."""
    usual = write({"all": [80, 82], 1: [70, 72]})
    left_out = write({"all": [60, 62]}, untrained="bias,norm")
    both, alone = tables(usual, left_out), tables(usual)
    points = {
        (row["untrained"], row["quality"]): row
        for row in both["operating_points"]
    }
    assert points["", "all"]["score"].startswith("81.00")
    assert points["bias,norm", "all"]["score"].startswith("61.00")
    assert points["", "≥ 90 %"]["trained blocks"] == "never"
    assert points["bias,norm", "≥ 90 %"]["trained blocks"] == "1"
    assert both["freezing_mrpc_live"] == alone["freezing_mrpc_live"]
    rows = both["freezing_mrpc_live_untrained_bias_norm"]
    assert [row["score"] for row in rows][1:] == [
        row["score"] for row in alone["freezing_mrpc_live"]
    ][1:]
    assert not any("untrained" in row for row in alone["operating_points"])
    [figure] = tables_lib.draw_figures(collect(usual, left_out))
    assert b"live, untrained bias,norm" in figure.svg


@pytest.mark.parametrize("usual", [True, False])
def test_frozen_runs_are_held_against_what_trains_every_weight(usual):
    """Against what leaves some out where nothing else was run."""
    frozen, full = {1: [70, 72]}, {"all": [80, 82]}
    groups = [write(frozen), write({"all": [60, 62]}, untrained="bias,norm")]
    if usual:
        groups.append(write(full))
    rows = {row.trains: row for row in collect(*groups).rows}
    named = "everything, untrained bias,norm"
    assert set(rows) == {"last 1", named, *["everything"] * usual}
    base = rows["everything" if usual else named]
    assert base.is_base and rows["last 1"].base.runs is base.runs
    assert rows["last 1"].gain.value == pytest.approx(-10 if usual else 10)
    if usual:
        assert rows[named].gain.value == pytest.approx(-20)


def test_cached_trials_are_tables_of_their_own():
    live = write({"all": [80, 82], 1: [70, 72]})
    cached = write({1: [76, 78]}, prefix=(0.0, 5.0), cached=True)
    found = tables(live, cached)
    assert found["freezing_mrpc_live"][1]["score"].startswith("71.00")
    row = found["freezing_mrpc_cached"][1]
    assert row["score"].startswith("77.00")
    assert row["time, s"].startswith("35.0")  # three epochs and the building
    assert (
        found["freezing_mrpc_cached"][0]["score"]
        == found["freezing_mrpc_live"][0]["score"]
    )


def test_a_cache_of_another_precision_is_another_curve():
    cached = {"prefix": (0.0, 5.0), "cached": True}
    precise = write({1: [96, 98]}, **cached)
    for record in precise:
        record["key"]["cache_dtype"] = "float32"
    usual = write({1: [76, 78, 80]}, **cached)
    found = tables(write({"all": [80, 82]}), usual, precise)
    row = found["freezing_mrpc_cached"][1]
    assert row["score"].startswith("78.00")
    row = found["freezing_mrpc_cached_as_float32"][1]
    assert row["score"].startswith("97.00")


def test_runs_without_times_have_no_columns_of_times():
    records = write(seconds_per_epoch=None, trainable_parameters=None)
    for record in records:
        record |= {"seconds": None, "memory": None}
        for epoch in record["epochs"]:
            epoch["seconds"] = None
    found = tables(records)
    assert "time, s" not in found["freezing_mrpc_live"][0]
    assert found["freezing_mrpc_live"][0]["score"].startswith("81.00")


# === Operating points ===


def test_operating_points_stand_in_one_table_with_their_cost():
    """90 % of 81 is 72.9, passed by 2; 95 % is 76.95, passed by 3."""
    points = find_points(write())
    assert {q: row["trained blocks"] for q, row in points.items()} == {
        "all": "all",
        "≥ 90 %": "2",
        "≥ 95 %": "3",
        "none trained": "0",
    }
    assert points["≥ 90 %"]["interval"] == "1 to 2"
    assert points["≥ 90 %"]["trained blocks, authors' averaging"] == "2"
    assert points["≥ 90 %"]["not tried"] == "1"
    assert points["≥ 95 %"]["of full score, %"] == "101.2"
    assert {row["of full epoch, %"] for row in points.values()} == {"100.0"}


def test_both_averages_have_their_own_number_of_blocks():
    """Of 80, 80 and 50 the authors keep two: 72 are to be passed, not 63."""
    trials = {"all": [80, 80, 50], 2: [75, 75, 75], 1: [70, 70, 70]}
    point = find_points(write(trials))["≥ 90 %"]
    assert point["trained blocks"] == "1"
    assert point["score"].startswith("70.00")
    assert point["trained blocks, authors' averaging"] == "2"
    assert point["score, authors' averaging"] == "75.00"
    assert point["of full score, %"] == "100.0"


def test_the_authors_own_trials_have_two_operating_points_on_rte():
    means = PUBLISHED["scores"]["roberta-base"]["RTE"]
    points = [
        operating.operating_point(
            {
                blocks if blocks == "all" else int(blocks): [known[column]]
                for blocks, known in means.items()
            },
            0.9,
        )
        for column in (0, 1)
    ]
    assert points == [5, 4]  # by the authors' averaging, and plainly


def test_the_qualities_and_intervals_that_are_asked_for():
    trials = {"all": [80, 82], 2: [81, 83], 1: [74, 76]}
    points = find_points(write(trials), qualities=(0.5, 1.0), level=0.8)
    assert {q: row["trained blocks"] for q, row in points.items()} == {
        "all": "all",
        "≥ 50 %": "1",
        "≥ 100 %": "2",
        "1 trained": "1",
    }
    assert points["≥ 50 %"]["interval"] == "0 to 1"
    [caption] = [
        table.caption
        for table in tables_lib.fill_tables(collect(write(trials), level=0.8))
        if table.name == "operating_points"
    ]
    assert "holds 80 % of resampled trials" in caption


def test_one_trial_has_no_interval_and_holes_are_named():
    records = write({"all": [80], 3: [79], 0: [50]})
    points = find_points(records)
    assert points["≥ 90 %"]["trained blocks"] == "3"
    assert points["≥ 90 %"]["not tried"] == "1, 2"
    assert "interval" not in points["≥ 90 %"]


def test_nothing_is_enough():
    points = find_points(write({"all": [80], 1: [50], 0: [40]}, "cola"))
    assert points["≥ 90 %"]["trained blocks"] == "never"
    assert points["≥ 90 %"]["score"] == ""


def test_what_the_majority_baseline_passes_is_marked():
    points = find_points(
        write({"all": [80], 0: [79]}, majorities={"accuracy": 0.75})
    )
    assert list(points) == ["all", "≥ 90 %*", "≥ 95 %", "none trained"]
    assert points["all"]["majority"] == "75.00"


def test_both_development_sets_of_mnli_have_their_points():
    records = write({"all": [80], 1: [70]}, "mnli")
    for record in records:
        is_all = record["approach"] == "fine_tuning"
        record["metrics"]["mismatched_accuracy"] = 0.9 if is_all else 0.85
        record["majorities"] = {"accuracy": 0.35, "mismatched_accuracy": 0.33}
    rows = tables(records)["operating_points"]
    found = {(row["task"], row["quality"]): row for row in rows}
    assert found["mnli", "≥ 90 %"]["trained blocks"] == "never"
    assert found["mnli, mismatched", "≥ 90 %"]["score"] == "85.00"
    assert found["mnli", "all"]["majority"] == "35.00"
    assert found["mnli, mismatched", "all"]["majority"] == "33.00"


# === Beside the paper's ===


@pytest.mark.parametrize("untrained", ["", "bias,norm"])
def test_published_scores_stand_beside_the_paper_s_runs(untrained):
    """Whichever full models theirs were: nobody knows."""
    records = write(
        {"all": [80], 1: [70]}, "rte", blocks=12, untrained=untrained
    )
    found = tables(records)
    rows = found["freezing_rte_live" + "_untrained_bias_norm" * bool(untrained)]
    assert [row["published"] for row in rows] == [
        "67.55 ± 2.88",
        "57.87 ± 1.18",
    ]
    points = {row["quality"]: row for row in found["operating_points"]}
    assert {q: row["published"] for q, row in points.items()} == {
        "all": "67.55 ± 2.88",
        "≥ 90 %": "62.32 ± 2.41 with 3",
        "≥ 95 %": "66.67 ± 3.62 with 5",
        "1 trained": "57.87 ± 1.18",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": {"train": 500, "test": 277}},
        {"max_epochs": 1},
        {"model": "minilm"},
        {"prefix": (0.0, 5.0), "cached": True},
        {"recorded_by": "somebody"},
    ],
)
def test_no_published_score_stands_beside_other_runs(changes):
    """500 examples, one epoch, another encoder: nothing to compare with."""
    changes = dict(changes)
    recorded_by = changes.pop("recorded_by", None)
    base = write({"all": [80]}, "rte", blocks=12)
    frozen = write({1: [70]}, "rte", blocks=12, **changes)
    if "prefix" not in changes:
        base = write({"all": [80]}, "rte", blocks=12, **changes)
    for record in (*base, *frozen):
        if recorded_by:
            record["key"]["recorded_by"] = recorded_by
    for rows in tables(base, frozen).values():
        assert all("published" not in row for row in rows)


def test_wnli_is_the_paper_s_without_a_score():
    """One of its tasks, of which nothing is published."""
    records = write({"all": [56], 1: [56]}, "wnli", blocks=12)
    assert sum(collect(records).runs.sizes.iloc[0].values()) == 635 + 71
    assert not claims.list_differences(collect(records).runs, PAPER)
    points = tables(records)["operating_points"]
    assert not any("published" in row for row in points)
    assert not any("wnli" in claim.tasks for claim in PAPER.claims)


def test_records_of_others_are_called_so():
    records = write()
    for record in records:
        record["key"]["recorded_by"] = "the authors"
    study = collect(records)
    study.summary["left_out"] = []
    notes = page.make_part(study, study.rows).notes
    assert any("are records of the authors, not ours." in n for n in notes)


def test_parameters_add_up():
    rows = tables(write(model="minilm"))["parameters"]
    assert [(row["part"], row["parameters"]) for row in rows] == [
        ("embeddings", "500"),
        ("each block", "100"),
        ("all blocks", "1,200"),
        ("pooler", "20"),
        ("total", "1,720"),
    ]
    rows = tables(write())["parameters"]
    assert rows[-1]["published architecture"] == "109,482,240"


# === The search and the cache ===


def test_the_search_is_a_table_of_its_own():
    records = [
        *write({"all": [70]}, "rte", validation_fraction=0.1),
        *write({"all": [75]}, "rte", lr=2e-5, validation_fraction=0.1),
    ]
    found = tables(records)
    assert list(found) == ["search"]
    shown = ("lr", "validation", "")
    assert [tuple(r[n] for n in shown) for r in found["search"]] == [
        ("1e-05", "70.00", ""),
        ("2e-05", "75.00", "best"),
    ]
    assert tables_lib.draw_figures(collect(records)) == []


def test_a_search_has_its_best_rate_for_each_kind_of_full_model():
    records = [
        record
        for lr, untrained, score in (
            (1e-5, "", 70),
            (2e-5, "", 75),
            (1e-5, "bias,norm", 74),
            (2e-5, "bias,norm", 71),
        )
        for record in write(
            {"all": [score]},
            "rte",
            lr=lr,
            untrained=untrained,
            validation_fraction=0.1,
        )
    ]
    shown = ("untrained", "lr", "validation", "")
    assert [tuple(r[n] for n in shown) for r in tables(records)["search"]] == [
        ("", "1e-05", "70.00", ""),
        ("", "2e-05", "75.00", "best"),
        ("bias,norm", "1e-05", "74.00", "best"),
        ("bias,norm", "2e-05", "71.00", ""),
    ]


# === Figures ===


def test_the_figure_has_intervals():
    records = write({"all": [67, 68], 3: [62, 63], 1: [57, 58]}, "rte")
    drawn = tables_lib.draw_figures(collect(records))
    assert [figure.name for figure in drawn] == ["relative_scores"]
    assert drawn[0].render("png").startswith(b"\x89PNG")
    assert "95 % intervals" in drawn[0].caption


def test_the_published_curve_is_relative_to_the_authors_full_model():
    [curve] = freezing.list_curves(
        collect(write({"all": [80], 1: [70]}, "rte", blocks=12))
    )
    frozen, scores = zip(*freezing.published_curve(curve).items())
    assert list(frozen) == [6, 7, 8, 9, 10, 11, 12]
    assert scores[0] == pytest.approx(68.71 - 67.55)  # by their averaging
    [figure] = tables_lib.draw_figures(
        collect(write({"all": [80, 81], 1: [70, 71]}, "rte", blocks=12))
    )
    assert "published for these settings, by their own" in figure.caption


# === The published file ===


@pytest.mark.shared
def test_published_scores_are_those_of_the_trials(shared_data):
    trials = {}
    path = os.path.join(shared_data, "..", "papers", "elsa_trials.csv")
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["model"], row["task"], row["trained_blocks"])
            trials.setdefault(key, []).append(100 * float(row["score"]))
    for (model, task, blocks), scores in trials.items():
        known = PUBLISHED["scores"][model][task][blocks]
        assert known[0] == pytest.approx(
            operating.authors_mean(scores), abs=0.006
        )
        assert known[1] == pytest.approx(
            operating.plain_mean(scores), abs=0.006
        )
        assert known[3] == len(scores)
        assert known[4] == len(operating.keep_as_authors(scores))
    assert sum(
        len(cells)
        for tasks in PUBLISHED["scores"].values()
        for cells in tasks.values()
    ) == len(trials)
