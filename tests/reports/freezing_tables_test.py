"""The tables of the freezing study on trials with known means."""

import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.freezing import tables
from tf_transfer.reports import claims

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read_paper(os.path.join(FOLDER, "freezing", "claims.toml"))
PUBLISHED = claims.read_published(FOLDER, "freezing")
TRIALS = {"all": [80, 82], 3: [81, 83], 2: [74, 76], 0: [50, 0]}
AVERAGING = "authors' averaging"


def write(trials=TRIALS, task="mrpc", lr=1e-5, untrained="", **changes):
    """Runs by number of trained blocks, of an encoder of four."""
    changes.setdefault("majorities", {"accuracy": 0.3})
    settings = {"lr": lr, "untrained": untrained, "frozen_prefix": "live"}
    if changes.get("cached"):
        settings |= {"frozen_prefix": "cached", "cache_dtype": "float16"}
    return [
        made_up.make_record(
            PAPER,
            task,
            {**settings, "trainable_layers": str(number)},
            seed,
            score,
            **{"experiment": "freezing", "blocks": 4, **changes},
        )
        for number, scores in trials.items()
        for seed, score in enumerate(scores)
    ]


def fill(*groups):
    """Tables by name, each with its rows as dicts."""
    study = made_up.collect(PAPER, *groups, published=PUBLISHED)
    made = tables.list_tables(study)
    return {table.name: table.frame.to_dict("records") for table in made}


def find_points(*groups):
    """The operating points: rows by quality."""
    rows = fill(*groups)["operating_points"]
    return {row["quality"]: row for row in rows}


def test_each_number_of_blocks_has_both_means_next_to_the_published_ones():
    rows = {row["tuned"]: row for row in fill(write())["layers"]}
    assert list(rows) == ["all", 6, 5, 4, 3, 2, 1, 0]
    assert rows[2]["score, here"] == "75.00 ± 1.41"
    assert rows[2]["score, published"] == "84.33 ± 0.53"
    assert rows[0]["score, here"].startswith("25.00")
    assert rows[0][f"{AVERAGING}, here"] == "50.00"  # 0 is left out
    assert rows[0][f"{AVERAGING}, published"] == "81.44"
    assert (rows[6]["score, here"], rows[6]["trials, here"]) == ("", "")


def test_the_parameters_of_the_paper_s_encoders_stand_next_to_ours():
    rows = {row["parameters"]: row for row in fill(write())["table_4"]}
    assert rows["embeddings"]["bert-base"] == "23.84 (21.8 %)"
    assert rows["embeddings"]["here"] == "0.00 (29.1 %)"  # 500 of 1,720
    assert rows["total"]["here"] == "0.00 (100.0 %)"


def test_full_models_stand_next_to_the_best_of_the_authors_search():
    records = [*write(task="cola"), *write(task="stsb"), *write(task="mine")]
    cola, stsb, mine, sst2, *others = fill(records)["table_5"]
    assert (cola["lr, published"], cola["lr, here"]) == ("4e-05", 1e-5)
    assert cola["score, published"] == "58.76 ± 1.51"
    assert cola["score, here"].startswith("81.")
    assert (cola["trials, published"], cola["trials, here"]) == ("5", 2)
    assert stsb["lr, published"] == "5e-05"
    assert stsb["score, published"] == "89.05 ± 0.46"
    assert mine["lr, published"] == mine["score, published"] == ""
    # Published, not run: the page leaves these rows out, and counts them.
    assert [sst2["task"], len(others)] == ["SST-2", 7]
    assert sst2["score, published"] == "92.66 ± 0.65"
    assert sst2["lr, here"] == sst2["score, here"] == sst2["trials, here"] == ""


def test_a_mean_without_failed_trials_names_what_it_keeps_and_its_rate():
    wnli = fill(write(task="wnli"))["table_5"][0]
    assert wnli["lr, published"] == "4e-05"
    assert wnli["score, published"] == "50.70 ± 10.30"
    assert wnli[f"{AVERAGING}, published"] == "56.34 at 3e-05 (2 of 5)"
    mnli = fill(write(task="mnli", model="roberta_large_en"))["table_5"][0]
    assert mnli["score, published"] == "67.59 ± 30.60"
    assert mnli[f"{AVERAGING}, published"] == "89.93 (3 of 5)"


def test_three_points_are_tuned_in_the_tables_6_to_9():
    """On RTE 90 % needs 3 blocks; CoLA does not count."""
    cola = write({"all": [80], 3: [10], 0: [10]}, "cola")
    rte = write({"all": [80], 3: [79], 2: [71], 0: [50]}, "rte")
    rows = fill(cola, rte)["tables_6_to_9"]
    assert [row["tuned"] for row in rows] == ["all", 3, 0]
    here = [row["RTE, here"] for row in rows]
    assert here == ["80.00", "79.00", "50.00"]
    published = [row["RTE, published"] for row in rows]
    assert published == ["67.55", "62.32", "57.51"]
    assert rows[1]["CoLA, here"] == "10.00"


def test_operating_points_are_found_by_both_means():
    """90 % of 81 is 72.9; of 80, 80 and 50 the authors keep two."""
    points = find_points(write())
    assert points["≥ 90 %"]["tuned, here"] == "2"
    assert points["≥ 90 %"]["interval"] == "1 to 2"
    assert points["≥ 95 %"]["tuned, here"] == "3"
    assert points["≥ 95 %"]["tuned, published"] == "4"
    trials = {"all": [80, 80, 50], 2: [75, 75, 75], 1: [70, 70, 70]}
    point = find_points(write(trials))["≥ 90 %"]
    assert point["tuned, here"] == "1"
    assert point[f"here, {AVERAGING}"] == "2"


def test_an_interval_needs_two_trials():
    [point, _] = find_points(write({"all": [80], 0: [50]})).values()
    assert (point["tuned, here"], point["interval"]) == ("never", "")


def test_what_the_majority_baseline_passes_is_marked():
    trials = write({"all": [80], 0: [79]}, majorities={"accuracy": 0.75})
    assert list(find_points(trials)) == ["≥ 90 %*", "≥ 95 %"]


@pytest.mark.parametrize(
    "majorities, mark", [({"accuracy": 0.8}, "†"), ({}, "‡")]
)
def test_a_full_model_that_did_not_train_is_no_base(majorities, mark):
    trials = write({"all": [80, 80], 1: [79, 79]}, majorities=majorities)
    point = find_points(trials)["≥ 90 %" if not majorities else "≥ 90 %*"]
    shown = [
        point[n] for n in ("tuned, here", f"here, {AVERAGING}", "interval")
    ]
    assert shown == [mark] * 3
    study = made_up.collect(PAPER, trials, published=PUBLISHED)
    [*_, layers] = tables.list_tables(study)
    assert "80.00 ± 0.00" in [*layers.frame["score, here"]]
    caption = tables.list_tables(study)[2].caption
    assert "here not known; without MRPC" in caption


def test_rates_caches_and_kinds_of_full_models_are_curves_of_their_own():
    usual = write({"all": [80, 82], 1: [70, 72]})
    cached = write({1: [76, 78]}, cached=True)
    less = write({"all": [60, 62]}, untrained="bias,norm")
    low = write({"all": [50, 52], 1: [50, 50]}, lr=5e-5)
    rows = fill(usual, cached, less, low)["operating_points"]
    found = {(row["lr"], row["runs"]): row["tuned, here"] for row in rows[::2]}
    assert found == {
        (1e-5, "cached float16"): "1",
        (1e-5, "cached float16, untrained bias,norm"): "1",
        (1e-5, "live"): "never",
        (1e-5, "live, untrained bias,norm"): "1",
        (5e-5, "live"): "1",
    }


def test_both_development_sets_of_mnli_are_tasks():
    records = write({"all": [80], 1: [70]}, "mnli")
    for record in records:
        share = 0.9 if record.approach == "fine_tuning" else 0.85
        record.metrics["mismatched_accuracy"] = share
    rows = fill(records)["operating_points"]
    assert [(row["task"], row["tuned, here"]) for row in rows[::2]] == [
        ("MNLI", "never"),
        ("MNLI-MM", "1"),
    ]


def test_what_is_enough_is_next_to_the_published_number_on_the_same_tasks():
    """CoLA does not count, and RTE was not run."""
    runs = [write(task=task) for task in ("cola", "mrpc", "stsb")]
    study = made_up.collect(PAPER, *runs, published=PUBLISHED)
    caption = tables.list_tables(study)[2].caption
    here = "here 2 on MRPC and STS-B (published on these: 1)"
    assert f"published 3, {here}" in caption


def test_a_search_has_no_tables():
    """It trains full models alone."""
    assert fill(write({"all": [70]})) == {}


def draw(*groups):
    """Curves of each panel of the figure, by title."""
    study = made_up.collect(PAPER, *groups, published=PUBLISHED)
    return {
        axis.get_title(): len(axis.containers)
        for figure in tables.list_figures(study)
        for axis in figure.render.args[0].axes
    }


def test_the_figure_has_both_families_base_above_large():
    """Ours is next to the encoders of its size."""
    assert draw(write()) == {"MRPC, base": 3, "MRPC, large": 2}
    large = draw(write(model="roberta_large_en"))
    assert large == {"MRPC, base": 2, "MRPC, large": 3}
    study = made_up.collect(PAPER, write(), published=PUBLISHED)
    [figure] = tables.list_figures(study)
    for label in (b"published, BERT", b"published, RoBERTa", b"here, live"):
        assert label in figure.svg


def test_a_task_without_published_trials_has_a_panel_of_its_own():
    assert draw(write(task="mine")) == {"mine": 1}


def test_the_figure_leaves_out_what_has_no_base():
    failed = {"majorities": {"accuracy": 0.9}}
    assert draw(write(**failed)) == {"MRPC, base": 2, "MRPC, large": 2}
    assert draw(write(task="mine", **failed)) == {}


def test_shares_with_nothing_trained_stand_next_to_each_encoder():
    """Of 0 and 50 the authors keep 50, which is 61.7 % of 81."""
    frame = [write(task=task) for task in ("cola", "sst2", "mrpc", "stsb")]
    rows = {row["task"]: row for row in fill(*frame)["nothing_trained"]}
    assert list(rows) == ["CoLA", "SST-2", "MRPC", "STS-B", "mean"]
    assert rows["CoLA"]["bert-base"] == "50.4"  # 29.36 of 58.26
    assert rows["CoLA"]["roberta-large"] == "0.0"
    assert rows["mean"]["mean, published"] == "62.7"
    assert {row["here"] for row in rows.values()} == {"61.7"}


@pytest.mark.parametrize(
    "trials, majorities, here",
    [
        (TRIALS, {"accuracy": 0.9}, "†"),
        (TRIALS, {}, "‡"),
        ({"all": [80, 82], 1: [70, 71]}, {"accuracy": 0.3}, ""),
        ({0: [50, 51], 1: [70, 71]}, {"accuracy": 0.3}, ""),
    ],
)
def test_a_share_without_its_models_is_empty(trials, majorities, here):
    """A mean needs all of its tasks: nothing counts as zero."""
    cola = write(task="cola")
    sst2 = write(trials, "sst2", majorities=majorities)
    rows = {row["task"]: row for row in fill(cola, sst2)["nothing_trained"]}
    assert rows["CoLA"]["here"] == "61.7"
    assert rows["SST-2"]["here"] == rows["mean"]["here"] == here
