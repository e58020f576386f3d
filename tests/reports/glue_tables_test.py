"""Wang's tables on runs with known scores and times, worked out by hand."""

import os

import pandas as pd
import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tests.support import commands
from tf_transfer.glue import tables
from tf_transfer.reports import claims

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read_paper(os.path.join(FOLDER, "glue", "claims.toml"))
PUBLISHED = claims.read_published(FOLDER, "glue")
SHARES = {"all": 1.0, "4": 0.64, "3": 0.6, "2": 0.55, "1": 0.5}  # of an epoch
FINALS = {"all": 70, "4": 68, "3": 67, "2": 66, "1": 65}


def write(
    finals=FINALS,
    task="rte",
    lr=None,
    seconds=100.0,
    schedule="constant",
    frozen_prefix="live",
    **changes,
):
    """Two seeds half a point around final scores, four epochs each."""
    changes.setdefault("majorities", {"accuracy": 0.3})
    records = []
    for layers, final in finals.items():
        rate = lr or (2e-5 if layers == "all" else 1e-3)
        for seed, by in enumerate((-0.5, 0.5)):
            record = made_up.make_record(
                PAPER,
                task,
                {
                    "trainable_layers": layers,
                    "lr": rate,
                    "schedule": schedule,
                    "frozen_prefix": frozen_prefix,
                },
                seed,
                [final - 6 + by, final - 4 + by, final - 2 + by, final + by],
                seconds=seconds * SHARES[layers],
                **changes,
            )
            records.append(record)
    return records


def collect(*groups):
    return made_up.collect(PAPER, *groups, published=PUBLISHED)


def fill(*groups):
    """Tables by name, each with its rows as dicts."""
    made = tables.list_tables(collect(*groups))
    return {table.name: table.frame.to_dict("records") for table in made}


def find(rows, **wanted):
    [row] = [row for row in rows if all(row[n] == v for n, v in wanted.items())]
    return row


def test_the_time_saved_is_a_share_of_that_of_fine_tuning():
    rows = fill(write())["table_a"]
    row = find(rows, task="RTE")
    assert row["last 4, here"] == "36.00" and row["last 1, here"] == "50.00"
    assert row["last 4, published"] == ""
    row = find(rows, task="QQP")
    assert (row["last 4, published"], row["last 4, here"]) == ("6.43", "")
    means = "CoLA, STS-B, MRPC, RTE, mean"
    assert find(rows, task=means)["last 3, published"] == "53.24"
    assert find(rows, task=means)["last 3, here"] == ""  # three are missing


def test_the_final_score_is_that_of_the_last_epoch():
    records = []
    for task in ("cola", "stsb", "mrpc", "rte"):
        more = 4 if task == "rte" else 0
        records += write({"all": 70 + more, "4": 68}, task)
    # The score of the selected epoch is another.
    rows = fill([replace(record, test=0.5) for record in records])["table_b"]
    assert find(rows, task="RTE")["last 4, here"] == "-6.00"
    row = find(rows, task="CoLA, STS-B, MRPC, RTE, mean")
    assert (row["last 4, published"], row["last 4, here"]) == ("-2.36", "-3.00")


@pytest.mark.parametrize(
    "majorities, mark", [({"accuracy": 0.7}, "†"), ({}, "‡")]
)
def test_nothing_is_saved_or_lost_by_a_model_that_did_not_train(
    majorities, mark
):
    finals = {"all": 80, "4": 69.5, "3": 79}
    study = collect(write(finals, majorities=majorities))
    made = {table.name: table for table in tables.list_tables(study)}
    for name in ("table_a", "table_b"):
        row = find(made[name].frame.to_dict("records"), task="RTE")
        assert row["last 4, here"] == mark and mark in made[name].note
        assert (row["last 3, here"] == mark) == (mark == "‡")
    assert mark in [*made["table_c"].frame.here]
    assert not made["table_9"].note  # scores stand as they are


def test_a_model_that_lost_again_what_it_had_learned_has_no_final_score():
    records = write({"all": 80, "4": 69.5}, majorities={"accuracy": 0.7})
    rows = fill([replace(record, test=0.8) for record in records])
    assert find(rows["table_b"], task="RTE")["last 4, here"] == "†"
    assert find(rows["table_a"], task="RTE")["last 4, here"] == "36.00"


def test_both_are_at_a_rate_that_both_were_tried_at():
    low = write({"all": 70, "4": 60}, lr=1e-5, validation=0.9)
    high = write({"4": 68}, lr=1e-3, validation=0.95)
    row = find(fill(low, high)["table_b"], task="RTE")
    assert row["last 4, here"] == "-10.00"


def test_a_run_that_the_limit_ended_has_no_stopping_point():
    records = write({"all": 70, "4": 68})
    records[0] = replace(records[0], stop_reason="max_epochs")
    found = fill(records)
    tasks = [row["task"] for name in "ab" for row in found[f"table_{name}"]]
    assert "RTE" not in tasks
    assert "epoch 4" in found["table_9"][0]


def test_each_approach_has_the_rate_that_is_better_on_validation():
    high = write({"all": 40}, lr=1e-3, validation=0.9)
    rows = fill(write(validation=0.8), high)["table_9"]
    assert find(rows, approach="fine-tuning")["lr"] == "0.001"


def test_within_a_time_the_unit_is_an_epoch_of_fine_tuning():
    """At 126.3 s: 64 + 2 * 26.3 / 100 against 62 + 2 * 62.3 / 64."""
    rows = fill(write(task="mnli"))["table_c"]
    row = find(rows, time="50,000 s")
    assert (row["task"], row["published"]) == ("MNLI", 0.66)
    gain = (62 + 2 * 62.3 / 64) - (64 + 2 * 26.3 / 100)
    assert row["here"] == f"{gain:+.2f}"
    # At 181.8 s one epoch of fine-tuning is over, and two of the last 4.
    assert find(rows, time="20 h, by whole epochs")["here"] == "+0.00"
    assert find(rows, time="40,000 s")["here"] == ""


def test_each_epoch_that_all_seeds_ran_has_its_score_and_seconds():
    records = write()
    records[0] = replace(records[0], epochs=records[0].epochs[:1])
    found = fill(records)
    assert {*found} == {*(f"table_{name}" for name in "abc"), "table_9"}
    row = find(found["table_9"], approach="last 4")
    assert [row[f"epoch {n}"] for n in (1, 2, 3, 4)] == [
        f"{score}.00 ± 0.71 / {64 * epoch}"
        for epoch, score in enumerate((62, 64, 66, 68), 1)
    ]
    row = find(found["table_9"], approach="fine-tuning")
    assert row["epoch 1"] == "64.00 ± 0.71 / 100"
    assert pd.isna(row["epoch 2"])


def test_figures_are_drawn_of_what_was_run():
    figures = tables.list_figures(collect(write()))
    assert [figure.name for figure in figures] == ["figure_6"]
    assert b"training time" in figures[0].svg
    both = collect(write(), write({"all": 40, "4": 50}, lr=5e-4))
    names = [figure.name for figure in tables.list_figures(both)]
    assert names == ["figure_2", "figure_6"]


def read_panels(figure):
    """Titles of the panels and what they show."""
    return [
        (axis.get_title(), axis.get_ylabel())
        for axis in figure.render.args[0].axes
    ]


def test_figures_3_to_6_have_two_tasks_each():
    figures = tables.list_figures(
        collect(*(write(task=task) for task in ("mnli", "qqp", "stsb", "rte")))
    )
    titles = {
        figure.name: [title for title, _ in read_panels(figure)]
        for figure in figures
    }
    assert titles == {
        "figure_3": ["MNLI", "QQP"],
        "figure_5": ["STS-B"],
        "figure_6": ["RTE"],
    }


def test_figure_2_has_the_score_and_the_time_of_each_task():
    other = {"all": 40, "4": 50}
    figure, *_ = tables.list_figures(
        collect(
            write(task="sst2", schedule="linear", seconds=900.0),  # left out
            *(write(task=task) for task in ("sst2", "rte")),
            *(
                write(other, task=task, lr=5e-4, seconds=200.0)
                for task in ("sst2", "rte")
            ),
        )
    )
    score, time = "test score, points", "training time, s"
    assert read_panels(figure) == [
        *(("SST-2", score), ("SST-2", time)),
        *(("RTE", score), ("RTE", time)),
    ]
    # Four epochs of 100 s at 2e-5, and of 200 s at 5e-4; of the last 4, 64 %.
    fine_tuning, last_4 = (
        list(container.lines[0].get_ydata())
        for container in figure.render.args[0].axes[1].containers
    )
    labels = figure.render.args[0].axes[1].get_xticklabels()
    assert [label.get_text() for label in labels] == [
        "2e-05",
        "0.0005",
        "0.001",
    ]
    assert fine_tuning == pytest.approx([400, 800])
    assert last_4 == pytest.approx([512, 256])


def test_figure_2_has_cached_runs_where_no_live_one_ran():
    figure, *_ = tables.list_figures(
        collect(
            *(write({"all": 70}, lr=lr) for lr in (2e-5, 1e-3)),
            *(
                write({"4": 68}, lr=lr, frozen_prefix="cached")
                for lr in (2e-5, 1e-3)
            ),
        )
    )
    for axis in figure.render.args[0].axes:
        _, last_4 = axis.containers
        assert len(last_4.lines[0].get_xdata()) == 2
