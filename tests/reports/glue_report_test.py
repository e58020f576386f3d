"""Wang's tables on runs with known means, times and effects.

What is expected is worked out here by hand, from the formulae.
"""

import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, tables as tables_lib
from tf_transfer.reports.papers import glue as paper_tables

PAPER = claims.read(
    os.path.join(commands.ROOT, "experiments", "glue", "claims.toml")
)
SHARES = {"all": 1.0, "4": 0.64, "3": 0.6, "2": 0.55, "1": 0.5}  # of an epoch


def write(finals, task="rte", seconds=100.0, lr=None, **changes):
    """Two seeds half a point around final scores, four epochs each."""
    cached = changes.pop("prefix", None)
    records = []
    for layers, final in finals.items():
        for seed, by in enumerate((-0.5, 0.5)):
            rate = lr or (2e-5 if layers == "all" else 1e-3)
            record = made_up.make_record(
                PAPER,
                task,
                {
                    "trainable_layers": layers,
                    "lr": rate,
                    "frozen_prefix": "cached" if cached else "live",
                },
                seed,
                [final - 6 + by, final - 4 + by, final - 2 + by, final + by],
                seconds=seconds * SHARES[layers],
                trainable_parameters=1000 if layers == "all" else int(layers),
                **changes,
            )
            if cached:
                record |= dict(
                    zip(("prefix_seconds", "prefix_build_seconds"), cached)
                )
            records.append(record)
    return records


def collect(*groups, **options):
    """The study of some records."""
    return made_up.collect(PAPER, *groups, **options)


def tables(*groups, **options):
    """Tables by name, each with its rows as dicts."""
    return {
        table.name: table.frame.to_dict("records")
        for table in tables_lib.fill_tables(collect(*groups, **options))
    }


def find(rows, **wanted):
    [row] = [row for row in rows if all(row[n] == v for n, v in wanted.items())]
    return row


FINALS = {"all": 70, "4": 68, "3": 67, "2": 66, "1": 65}


@pytest.fixture(scope="module")
def report():
    """Tables of every approach on one task."""
    return tables(write(FINALS))


# === Costs ===


def test_an_epoch_is_a_share_of_one_of_training_everything(report):
    row = find(report["costs"], trains="last 4")
    assert row["of its epoch, %"].startswith("64.0")
    assert row["s per epoch"] == "64.0 ± 0.0"
    assert (row["time, s"], row["epochs"]) == ("256.0 ± 0.0", "4.0")
    assert row["trained parameters"] == "4"
    base = find(report["costs"], trains="everything")
    assert base["of its epoch, %"] == ""


def test_runs_that_the_limit_ended_say_so():
    rows = tables(write(FINALS, stop_reason="max_epochs"))["costs"]
    assert {row["epochs"] for row in rows} == {"4.0 (limit)"}


def test_a_cached_prefix_counts_as_if_its_run_had_built_it():
    live = write({"all": 70, "1": 60})
    cached = write({"1": 64}, prefix=(0.0, 20.0), cached=True)
    found = tables(live, cached)
    row = find(found["costs"], trains="last 1 (cached)")
    assert row["time, s"].startswith("220.0")
    assert row["prefix, s"].startswith("20.0")
    assert find(found["costs"], trains="last 1")["time, s"].startswith("200.0")


@pytest.mark.parametrize("difference", [{"threads": 1}, {"traced": True}])
def test_times_of_another_machine_or_a_cold_start_are_left_out(difference):
    slow = {**made_up.ENVIRONMENT, **difference}
    records = write({"all": 70, "1": 60})
    other = write({"1": 60}, seconds=900.0, timing_environment=slow)[:1]
    for record in other:
        record["seed"] = record["key"]["seed"] = 7
        record["path"] += " elsewhere"
    rows = tables(records, other)["costs"]
    assert find(rows, trains="last 1")["time, s"] == "200.0 ± 0.0"


def test_other_metrics_are_columns_of_their_own():
    metrics = {"accuracy": 0.8, "matthews": 0.3}
    records = write({"all": 70}, "cola", metrics=metrics)
    records[1]["metrics"] = {**metrics, "matthews": 0.5}
    [row] = tables(records)["costs"]
    assert row["matthews"] == f"40.00 ± {200**0.5:.2f}"
    assert "accuracy" not in row


# === Rates ===


def test_rates_stand_side_by_side():
    found = tables(write({"all": 80}), write({"all": 60}, lr=1e-3))
    lower = "lower than at the better, %"
    assert find(found["rates"], lr="0.001")[lower] == "25.0"
    assert find(found["rates"], lr="2e-05")[lower] == "better"
    assert "rates" not in tables(write(FINALS))


def test_the_better_rate_is_that_of_validation_not_of_test():
    good = write({"all": 80}, validation=0.5)
    found = tables(good, write({"all": 60}, lr=1e-3, validation=0.6))
    lower = "lower than at the better, %"
    assert find(found["rates"], lr="0.001")[lower] == "better"


def test_rates_are_compared_on_the_seeds_that_all_of_them_have():
    """As the overview does it: one rate was tried with one seed alone."""
    best, other = write({"all": 70}), write({"all": 60}, lr=1e-3)[:1]
    for record, validation in zip([*best, *other], (0.8, 0.6, 0.75)):
        record["validation"] = validation
    found = tables(best, other)["rates"]
    lower = "lower than at the better, %"
    assert find(found, lr="2e-05")[lower] == "better"
    of_seed = 100 * (1 - other[0]["test"] / best[0]["test"])
    assert find(found, lr="0.001")[lower] == f"{of_seed:.1f}"


# === After each epoch ===


def test_caches_of_two_precisions_are_two_rows():
    cached = {"prefix": (0.0, 20.0), "cached": True}
    precise = write({"1": 54}, **cached)
    for record in precise:
        record["key"]["cache_dtype"] = "float32"
    usual = write({"1": 64}, **cached)
    for record in usual:
        record["key"]["cache_dtype"] = "float16"
    rows = tables(usual, precise)["epochs_rte"]
    assert [row["n"] for row in rows] == [2, 2]
    assert {row["trains"] for row in rows} == {
        "last 1 (cached), cache_dtype float16",
        "last 1 (cached), cache_dtype float32",
    }


def test_each_epoch_has_its_score_and_seconds(report):
    row = find(report["epochs_rte"], trains="last 4")
    assert [row[f"epoch {n}"] for n in (1, 2, 3, 4)] == [
        f"{score}.00 ± 0.71 / {64 * epoch}"
        for epoch, score in enumerate((62, 64, 66, 68), 1)
    ]
    assert row["n"] == 2


def test_an_epoch_that_only_one_seed_ran_says_so():
    records = write({"all": 70})
    records[1]["epochs"] = records[1]["epochs"][:1]
    [row] = tables(records)["epochs_rte"]
    assert row["epoch 1"] == "64.00 ± 0.71 / 100"
    assert row["epoch 2"] == "65.50 / 200 (1)"


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({}, 9),
        ({"task": "cola"}, 6),
        ({"task": "wnli"}, None),
        ({"model": "minilm"}, None),
        ({"sizes": {"train": 540, "validation": 60, "test": 277}}, None),
        ({"max_epochs": 3}, None),
    ],
)
def test_only_the_paper_s_runs_fill_its_numbered_tables(changes, number):
    """Neither a cut data set nor another encoder or limit does."""
    made = collect(write(FINALS, **changes))
    [caption] = [
        table.caption
        for table in tables_lib.fill_tables(made)
        if table.name.startswith("epochs_")
    ]
    if number:
        assert f"(the paper's table {number})" in caption
    else:
        assert "the paper's table" not in caption


def test_two_files_of_a_task_are_two_tables():
    other = write(
        {"all": 60}, sizes={"train": 540, "validation": 60, "test": 277}
    )
    for record in other:
        record["key"]["data_identity"] = "another file"
        record["path"] += " of another file"
    names = [n for n in tables(write(FINALS), other) if n.startswith("epochs_")]
    assert len(names) == 2 and any("877 texts" in name for name in names)


# === Beside the paper's ===

PUBLISHED = claims.read_published(
    os.path.join(commands.ROOT, "experiments"), "glue"
)


def test_the_paper_s_times_are_multiples_of_an_epoch():
    """Its seconds are those of another machine."""
    slow = write(FINALS, "mnli", seconds=40_000.0)
    rows = tables(slow, published=PUBLISHED)["fixed_times_mnli"]
    published = {row["within"]: row["published"] for row in rows}
    assert published["50,520 s, 1.263 epochs of everything"] == "+0.66"
    assert published["160,000 s"] == ""
    assert len(rows) == 8
    other = write(FINALS, "mnli", seconds=40_000.0, model="minilm")
    rows = tables(other, published=PUBLISHED)["fixed_times_mnli"]
    assert len(rows) == 4 and "published" not in rows[0]


def test_what_is_saved_is_a_share_of_training_everything(report):
    assert find(report["costs"], trains="last 4")["saved, %"] == "36.00"


def test_the_share_of_trained_blocks_is_a_column(report):
    shares = {row["trains"]: row["of the blocks, %"] for row in report["costs"]}
    assert shares["last 1"] == "8.33" and shares["last 3"] == "25"
    assert shares["everything"] == "100"


# === Fixed times ===


def test_a_fixed_time_has_what_each_approach_has_reached(monkeypatch):
    monkeypatch.setattr(paper_tables, "QUARTERS", (64 / 400, 130 / 400))
    rows = tables(write(FINALS))["fixed_times_rte"]
    assert [row["within"] for row in rows] == ["64 s", "130 s"]
    assert rows[0]["everything"] == ""  # its first epoch ends at 100 s
    assert rows[0]["last 4"] == f"62.00 ± {0.5**0.5:.2f}"
    assert rows[0]["best"] == "last 4"
    # One epoch of training everything, 64; two of 64 s, 64: both are named.
    assert rows[1]["last 4"].startswith("64.00")
    assert rows[1]["best"] == "everything, last 4"


def test_fixed_times_are_quarters_of_the_longest_run_by_default(report):
    rows = report["fixed_times_rte"]
    assert [row["within"] for row in rows] == [
        "100 s",
        "200 s",
        "300 s",
        "400 s",
    ]
    assert rows[0]["best"] == "everything"


def test_what_was_timed_elsewhere_has_no_fixed_time():
    other = {**made_up.ENVIRONMENT, "machine": "another"}
    records = write({"all": 70, "1": 60})
    for record in write({"2": 65}):
        records.append({**record, "timing_environment": other})
    rows = tables(records)["fixed_times_rte"]
    assert "last 2" not in rows[0] and "last 1" in rows[0]


def test_a_seed_that_has_ended_no_epoch_leaves_the_cell_empty():
    records = write({"all": 70, "1": 60})
    for epoch in records[0]["epochs"]:
        epoch["seconds"] += 60
    rows = tables(records)["fixed_times_rte"]
    assert rows[0]["everything"] == "" and rows[0]["best"] == "last 1"


# === Figures and notes ===


def test_rates_are_drawn_where_there_are_several():
    both = write(FINALS), write({"all": 40, "4": 50}, lr=5e-4)
    drawn = {f.name: f for f in tables_lib.draw_figures(collect(*both))}
    assert b"learning rate" in drawn["rates"].svg
    assert drawn["rates"].render("png").startswith(b"\x89PNG")


def test_both_figures_are_drawn():
    drawn = tables_lib.draw_figures(collect(write(FINALS)))
    assert [f.name for f in drawn] == ["score_against_time"]
    for figure in drawn:
        assert figure.render("png").startswith(b"\x89PNG")
        assert b"<svg" in figure.svg


def test_runs_without_times_have_tables_and_no_figure():
    records = write(FINALS, seconds_per_epoch=None)
    for record in records:
        record |= {"seconds": None, "memory": None}
        for epoch in record["epochs"]:
            epoch["seconds"] = None
    made = collect(records)
    assert tables_lib.draw_figures(made) == []
    names = {table.name for table in tables_lib.fill_tables(made)}
    assert names == {"costs", "epochs_rte"}
