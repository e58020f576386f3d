"""The report on runs with known means, times and effects.

What is expected is worked out here by hand, from the formulae.
"""

import numpy as np
import pytest
import scipy.stats

from tests.reports import composed
from tests.reports import synthetic
from tests.reports import synthetic_multitask
from tests.reports.composed import compose
from tests.reports.synthetic_glue import SMALL
from tests.reports.synthetic_glue import write_task
from tf_transfer.reports import document
from tf_transfer.reports import summary as summary_lib


def tables(parts):
    """Tables by name, each a dict from the unmarked columns to the row."""
    return {
        name: [
            {unmarked(column): row[column] for column in row} for row in rows
        ]
        for name, rows in composed.tables(parts).items()
    }


def unmarked(text):
    return text.split("[")[0]


def find(rows, **wanted):
    [row] = [
        row
        for row in rows
        if all(unmarked(row[name]).strip() == v for name, v in wanted.items())
    ]
    return row


@pytest.fixture(scope="module")
def report(two_small_tasks):
    """Tables of the report on two small tasks, every approach twice."""
    return tables(compose(two_small_tasks))


# === Tables ===


def test_savings_deltas_and_p_values_are_the_known_ones(report):
    rows = report["overview_A"]
    row = find(rows, task="rte", trains="last 4")
    # Seeds 67.5 and 68.5 against 69.5 and 70.5.
    assert row["score"] == f"68.00 ± {0.5**0.5:.2f}"
    assert row["n"] == "2"
    p = scipy.stats.ttest_ind([67.5, 68.5], [69.5, 70.5], equal_var=False)
    assert row["Welch p"] == f"{p.pvalue:.3f}"
    assert p.pvalue > 0.05
    assert row["against fine-tuning"] == "-2.00, not significant"
    # Four epochs of 64 s against four of 100 s.
    assert row["time, s"] == "256.0 ± 0.0"
    assert row["time saved"] == "36.0 %"
    assert row["share of an epoch"] == "64.0 %"
    assert row["epochs"] == "4.0"
    assert row["trained parameters"] == "400"
    base = find(rows, task="rte", trains="fine-tuning")
    assert (base["against fine-tuning"], base["time saved"]) == ("", "")


def test_a_large_effect_is_significant(tmp_path):
    write_task(tmp_path, "rte", SMALL, {"all": 70, "1": 50}, seeds=3)
    rows = tables(compose(tmp_path))["overview_A"]
    row = find(rows, task="rte", trains="last 1")
    test = scipy.stats.ttest_ind([49, 50, 51], [69, 70, 71], equal_var=False)
    assert row["against fine-tuning"] == "-20.00"
    assert row["Welch p"] == f"{test.pvalue:.3f}"


def test_one_seed_has_no_deviation_and_no_p(tmp_path):
    write_task(tmp_path, "rte", SMALL, {"all": 70, "1": 50}, seeds=1)
    rows = tables(compose(tmp_path))["overview_A"]
    row = find(rows, task="rte", trains="last 1")
    assert row["score"] == "50.00" and row["Welch p"] == ""
    assert row["against fine-tuning"] == "-20.00"


def test_the_bootstrap_reads_the_predictions(tmp_path):
    labels = np.array([0, 1] * 200)
    good = np.where(labels == 1, 1.0, -1.0)[:, None]
    half = good.copy()
    half[:200] *= -1  # half of them wrong
    for layers, logits in (("all", good), ("1", half)):
        synthetic.write(
            tmp_path,
            [0.5],
            trainable_layers=layers,
            predictions=(labels, logits),
        )
    made = summary_lib.summarize_folder(str(tmp_path))
    [paired] = made["paired"].values()
    assert paired["p"] == 0
    error = np.sqrt(0.25 / 400)
    assert paired["low"] == pytest.approx(-0.5 - 1.96 * error, abs=0.015)
    assert paired["high"] == pytest.approx(-0.5 + 1.96 * error, abs=0.015)
    [facts] = made["datasets"].values()
    assert facts == {"majority": 0.5, "test": 400}


def test_runs_of_another_paper_take_no_comparison_away(tmp_path):
    labels = np.array([0, 1] * 50)
    for layers, sign in (("all", 1), ("1", -1)):
        synthetic.write(
            tmp_path,
            [0.5],
            trainable_layers=layers,
            predictions=(labels, sign * (2.0 * labels[:, None] - 1)),
        )
    for seed in range(3):  # the larger study, but of another paper
        synthetic_multitask.write(tmp_path, (50, 80, 80), seed=seed)
    found = tables(compose(tmp_path))
    overview = next(
        rows for name, rows in found.items() if name.startswith("overview")
    )
    assert [row["bootstrap 95 %"] for row in overview] == [
        "",
        "-100.00 to -100.00",
    ]
    assert found["table_3_A_cs224n"][-1]["SST"] == "50.00"


def test_averages_are_means_of_each_tasks_percentages(report):
    rows = report["averages_A"]
    row = find(rows, **{"tasks, trains": "small, last 4"})
    assert row["n tasks"] == "2" and row["which"] == "mrpc, rte"
    assert row["time saved"] == "36.0 ± 0.0 %"
    assert row["score lost, points"] == f"3.00 ± {2**0.5:.2f}"  # of 4 and 2
    assert row["time saved, Wang"] == "33.48 %"
    assert row["score lost, Wang"] == "2.36"
    large = find(rows, **{"tasks, trains": "large, last 2"})
    assert (large["n tasks"], large["time saved"]) == ("0", "")
    assert large["time saved, Wang"] == "37.3 %"
    assert (
        find(rows, **{"tasks, trains": "qqp, last 4"})["time saved, Wang"]
        == "6.43 %"
    )


def test_each_epoch_has_its_score_and_seconds(report):
    rows = report["epochs_A_rte"]
    row = find(rows, trains="last 4")
    assert [row[f"epoch {n}"] for n in (1, 2, 3, 4)] == [
        f"{score}.00 ± 0.71 / {64 * epoch}"
        for epoch, score in enumerate((62, 64, 66, 68), 1)
    ]
    assert row["n"] == "2"


def test_an_epoch_that_only_one_seed_ran_says_so(tmp_path):
    synthetic.write(tmp_path, [0.6, 0.7], seed=0)
    synthetic.write(tmp_path, [0.6], seed=1)
    [row] = tables(compose(tmp_path))["epochs_A_rte"]
    assert row["epoch 2"] == "70.00 / 20 (1)"


def test_rates_stand_side_by_side(tmp_path):
    write_task(tmp_path, "rte", SMALL, {"all": 80}, lr=2e-5)
    write_task(tmp_path, "rte", SMALL, {"all": 60}, lr=1e-3)
    rows = tables(compose(tmp_path))["rates_A"]
    lower = find(rows, lr="0.001")
    assert lower["lower than at the better by"] == "25.0 %"
    assert find(rows, lr="2e-05")["lower than at the better by"] == "better"


def test_fixed_times_are_those_asked_for(two_small_tasks):
    found = tables(compose(two_small_tasks, budgets=(64.0, 130.0)))
    rows = found["fixed_times_A_rte"]
    assert [row["within"] for row in rows] == ["64 s", "130 s"]
    assert rows[0]["fine-tuning"] == ""  # its first epoch ends at 100 s
    assert rows[0]["last 4"] == f"**62.00 ± {0.5**0.5:.2f}**"
    assert rows[0]["best"] == "last 4"
    # One epoch of fine-tuning, 64; two of 64 s, 64: the first of equals.
    assert rows[1]["last 4"].startswith("64.00")
    assert rows[1]["best"] == "fine-tuning"


def test_fixed_times_are_quarters_of_the_longest_run_by_default(report):
    quarters = report["fixed_times_A_rte"]
    assert [row["within"] for row in quarters] == [
        "100 s",
        "200 s",
        "300 s",
        "400 s",
    ]
    # Within 100 s: fine-tuning 64 after one epoch; last 1 has two: 61.
    assert quarters[0]["best"] == "fine-tuning"


def test_the_front_leaves_out_what_is_surpassed(tmp_path):
    write_task(tmp_path, "rte", SMALL, {"all": 70, "2": 66, "1": 68})
    rows = tables(compose(tmp_path))["pareto_A"]
    assert [row["trains"] for row in rows] == ["last 1", "fine-tuning"]


def test_cached_runs_are_rows_of_their_own_and_have_no_published_figure(
    tmp_path,
):
    write_task(tmp_path, "rte", SMALL, {"all": 70, "1": 60})
    write_task(
        tmp_path,
        "rte",
        SMALL,
        {"1": 64},
        frozen_prefix="cached",
        prefix=(0.0, 20.0),
    )
    found = tables(compose(tmp_path))
    row = find(found["overview_A"], trains="last 1, cached")
    assert row["score"].startswith("64.00")
    assert row["time, s"].startswith("220.0")
    assert row["prefix, s"].startswith("20.0")
    average = find(
        found["averages_A"], **{"tasks, trains": "small, last 1, cached"}
    )
    assert average["time saved, Wang"] == ""


def test_the_sample_enters_no_average_and_no_verdict(tmp_path):
    write_task(tmp_path, "rte", SMALL, {"all": 70, "4": 60}, data="sample")
    parts = compose(tmp_path)
    row = find(
        tables(parts)["averages_A"], **{"tasks, trains": "small, last 4"}
    )
    assert row["n tasks"] == "0"
    assert "mean nothing" in document.to_markdown(parts)


# === Other limits ===


def test_runs_with_another_limit_are_another_study(tmp_path):
    synthetic.write(tmp_path, [0.6, 0.7], seed=0)
    synthetic.write(tmp_path, [0.6, 0.7], seed=1, max_epochs=2)
    found = tables(compose(tmp_path))["studies_glue"]
    assert [row["setting"] for row in found] == ["max_epochs"]


def test_a_run_that_was_cut_off_is_marked(tmp_path):
    synthetic.write(tmp_path, [0.6, 0.7], stop_reason="max_epochs")
    text = document.to_markdown(compose(tmp_path))
    assert "ended at --max_epochs (30)" in text
    write_task(tmp_path / "other", "rte", SMALL, {"all": 70})
    text = document.to_markdown(compose(tmp_path / "other"))
    assert "ended at --max_epochs" not in text


# === Beside the headline metric ===


def test_other_metrics_stand_in_a_table_of_their_own(tmp_path):
    for seed, score in enumerate((0.3, 0.5)):
        synthetic.write(
            tmp_path,
            [0.8],
            task="cola",
            seed=seed,
            metrics={"matthews": score},
        )
    [row] = tables(compose(tmp_path))["other_metrics_A"]
    assert row["metric"] == "matthews"
    assert row["score"] == f"40.00 ± {200**0.5:.2f}"


# === Footnotes ===


def test_every_known_difference_to_the_paper_is_a_footnote(tmp_path):
    write_task(
        tmp_path,
        "rte",
        SMALL,
        {"all": 70},
        batch_size=16,
        max_train_examples=100,
        patience=0,
        data="rotten_tomatoes",
    )
    text = document.to_markdown(compose(tmp_path))
    for words in (
        "model is tiny, there bert_base_en_uncased",
        "batch_size is 16, there 1",
        "max_train_examples is 100, there 0",
        "patience is 0, there 2",
        "data from rotten_tomatoes",
    ):
        assert words in text, words


def test_the_paper_itself_has_no_such_footnote(tmp_path):
    write_task(
        tmp_path,
        "rte",
        SMALL,
        {"all": 70},
        model="bert_base_en_uncased",
        data="tfds",
    )
    assert "Not as in the paper" not in document.to_markdown(compose(tmp_path))


def test_untimed_runs_are_counted_in_a_footnote(tmp_path):
    synthetic.write(tmp_path, [0.8], seed=0)
    synthetic.write(tmp_path, [0.8], seed=1)
    synthetic.write(tmp_path, [0.8], seed=2, environment={"threads": 1})
    text = document.to_markdown(compose(tmp_path))
    assert "1 run was timed in another environment" in text
    synthetic.write(tmp_path, [0.8], seed=3, environment={"threads": 1})
    synthetic.write(tmp_path, [0.8], seed=4)
    text = document.to_markdown(compose(tmp_path))
    assert "2 runs were timed in another environment" in text


def test_studies_are_listed_with_what_differs(tmp_path):
    synthetic.write(tmp_path, [0.8])
    synthetic.write(tmp_path, [0.8], batch_size=8)
    parts = compose(tmp_path)
    assert tables(parts)["studies_glue"] == [
        {"setting": "batch_size", "A (1 run)": "1", "B (1 run)": "8"}
    ]
