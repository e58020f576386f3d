"""The report on three tasks at once, on runs with known scores."""

import numpy as np
import pytest

from tests.reports.composed import compose
from tests.reports.composed import tables
from tests.reports.synthetic_multitask import ARRAYS
from tests.reports.synthetic_multitask import write
from tf_transfer import report
from tf_transfer.reports import document
from tf_transfer.reports import multitask_recipes
from tf_transfer.reports import reading
from tf_transfer.reports import sections
from tf_transfer.reports import summary as summary_lib

# === The paper's tables ===


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    """Tables 2 and 3 in part, at ten times the paper's rate for 4 epochs."""
    root = tmp_path_factory.mktemp("paper")
    usual = {"lr": 1e-4, "max_epochs": 4}
    write(
        root,
        (40, 70, 40),
        train="head",
        pooling="cls",
        lr=7e-7,
        max_epochs=6,
    )
    write(root, (44, 80, 60), train="all", pooling="cls", **usual)
    write(root, (46, 82, 70), seeds=3, step=1.0, pooling="cls", **usual)
    write(root, (46, 84, 80), seeds=3, step=1.0, **usual)
    write(root, (30, 70, 60), seeds=2, step=1.0, lr=2e-4, max_epochs=4)
    write(root, (49, 85, 81), lr=1e-4, max_epochs=20)
    return summary_lib.summarize_folder(str(root))


@pytest.fixture(scope="module")
def paper(summary):
    """The parts of the report on it."""
    return report.compose(summary)


def test_a_row_is_filled_at_the_same_multiple_of_rate_and_epochs(paper):
    rows = tables(paper)["table_3_A_cs224n"]
    assert [row["here"] for row in rows] == [
        "not run",
        "lr 0.0001 after 0.001; 4 epochs",
        "lr 0.0001 after 0.001; 20 epochs",
        "lr 0.0002 after 0.001; 4 epochs",
        "",
    ]
    assert [row["n"] for row in rows] == ["", "3", "1", "2", ""]
    assert [row["SST"] for row in rows] == [
        "",
        "47.00 ± 1.00",
        "49.00",
        "30.50 ± 0.71",
        "50.00",
    ]
    assert [row["SST, paper"] for row in rows] == [
        "46.1",
        "51.1",
        "51.4",
        "49.3",
        "",
    ]
    assert rows[1]["STS r, paper"] == "84.6" and rows[0]["overall"] == ""


def test_runs_of_the_heads_alone_have_a_usual_rate_of_their_own(paper):
    rows = tables(paper)["table_2_A_cs224n"]
    assert [row["here"] for row in rows] == [
        "lr 0.001; 6 epochs",
        "lr 0.0001; 4 epochs",
        "lr 0.0001 after 0.001; 4 epochs",
        "",
    ]
    assert [row["overall, paper"] for row in rows] == [
        "60.6",
        "73.7",
        "76.7",
        "",
    ]


def test_a_table_without_a_run_is_named_alone(paper):
    assert "table_4_A_cs224n" not in tables(paper)
    [said] = [
        part.text
        for part in paper
        if "No run here is a row of" in getattr(part, "text", "")
    ]
    assert "table 4, " in said and "table 7, " in said
    assert "table 3, " not in said and "table 5, " not in said


def test_the_majority_stands_in_every_table(paper):
    found = tables(paper)
    for number in (2, 3, 5, 8):
        last = found[f"table_{number}_A_cs224n"][-1]
        assert last[""] == "the majority class"
        assert (last["SST"], last["Quora"], last["STS r"]) == (
            "50.00",
            "75.00",
            "0.00",
        )
        assert last["overall"] == "58.33"  # (0.5 + 0.75 + 0.5) / 3


def test_the_test_set_s_table_has_our_dev_scores_beside_it(paper):
    part = next(
        part
        for part in paper
        if getattr(part, "name", "") == "table_8_A_cs224n"
    )
    assert "whose labels are hidden, beside ours on dev" in part.caption
    # (47 + 85 + (81 + 100) / 2) / 3 of the seed in the middle.
    assert part.rows[0][3:5] == ("74.17 ± 0.83", "76.4")


def test_the_row_s_own_order_comes_before_more_runs(tmp_path):
    other = "sentiment,paraphrase,similarity"
    write(tmp_path, (50, 80, 80), seeds=2, pooling="cls")
    write(tmp_path, (51, 80, 80), pooling="cls", order=other)
    rows = tables(compose(tmp_path))["table_2_A_cs224n"]
    assert rows[2]["SST"] == "51.00"
    assert rows[2]["here"].endswith("order sentiment, paraphrase, similarity")


def test_what_is_no_row_of_the_paper_s_meets_none(tmp_path):
    write(tmp_path, (50, 80, 80), pairs="cross")
    write(tmp_path, (50, 80, 80), layer_decay=0.9)
    found = tables(compose(tmp_path))
    assert not [name for name in found if name.startswith("table_")]
    assert {row["trains"] for row in found["recipes_A_cs224n"]} == {
        "output layers, then everything; mean; pairs cross; lr 1e-05 after "
        "0.001; 20 epochs",
        "output layers, then everything; mean; decay 0.9; lr 1e-05 after "
        "0.001; 20 epochs",
    }


def test_rates_that_train_nothing_make_no_second_run(tmp_path):
    for lr in (1e-5, 2e-5):
        write(tmp_path, (40, 70, 40), train="head", lr=lr)
    [row] = tables(compose(tmp_path))["recipes_A_cs224n"]
    assert row["n"] == "1"


def test_other_examples_make_another_study(tmp_path):
    write(tmp_path, (50, 80, 80))
    write(tmp_path, (50, 80, 80), max_train_examples=100)
    assert "recipes_B_cs224n" in tables(compose(tmp_path))


def test_each_study_s_majority_is_of_its_own_dev_set(tmp_path):
    cut = {**ARRAYS, "validation_sentiment_labels": np.array([1, 1, 1, 0])}
    write(tmp_path, (50, 80, 80))
    write(tmp_path, (50, 80, 80), max_dev_examples=4, arrays=cut)
    found = tables(compose(tmp_path))
    last = [found[f"table_3_{study}_cs224n"][-1] for study in "AB"]
    assert sorted(row["SST"] for row in last) == ["50.00", "75.00"]
    assert {row["Quora"] for row in last} == {"75.00"}


def test_runs_that_differ_in_their_most_epochs_alone_are_both_read(tmp_path):
    for epochs in (4, 20):
        write(tmp_path / str(epochs), (50, 80, 80), max_epochs=epochs)
    found, left_out = reading.read_runs(str(tmp_path))
    assert [record["max_epochs"] for record in found] == [20, 4]
    assert not left_out


def test_a_report_without_the_paper_s_figures_shows_what_was_run(summary):
    [(_, section, [study])] = sections.group_by_experiment(summary["runs"])
    found = tables(section.sections(study, summary, {}))
    assert set(found) == {"recipes_A_cs224n"}
    overall = [row["overall"] for row in found["recipes_A_cs224n"]]
    assert overall == sorted(overall, reverse=True)


# === The paper's comparisons ===


def signs(parts):
    """Dict from a comparison to the cells of its line."""
    rows = tables(parts)["signs_A_cs224n"]
    return {row["comparison"]: row for row in rows}


def test_a_comparison_has_an_interval_and_a_verdict(tmp_path):
    def two(name, best, step, **changes):
        write(tmp_path, best, seeds=3, step=step, model="tiny", **changes)

    two("mean", (50, 80, 80), 0.1)
    two("[CLS]", (40, 70, 60), 0.1, pooling="cls")
    two("twice the rate", (60, 90, 90), 0.1, lr=2e-5)
    two("five times the epochs", (51, 79, 80), 9.0, max_epochs=100)
    parts = compose(tmp_path)
    found = signs(parts)
    # 40, 70 and (60 + 100) / 2 against 50, 80 and 90: ten points.
    assert found["Mean against [CLS], everything"] == {
        "comparison": "Mean against [CLS], everything",
        "rows": "3.2 - 2.3",
        "paper": "+0.5",
        "ours": "+10.00 (+9.81 to +10.19)",
        "sign": "agrees",
    }
    rate = found["Twice the rate against once, mean"]
    assert (rate["paper"], rate["sign"]) == ("-1.0", "differs")
    epochs = found["Five times the epochs against once, mean"]
    assert epochs["sign"] == "within noise"
    assert "Decay 0.95 against 1, mean" not in found
    [said] = [
        part.text
        for part in parts
        if getattr(part, "text", "").startswith("Not compared here: ")
    ]
    assert "; Decay 0.95 against 1, mean; " in said
    assert "Twice the rate against once, mean;" not in said


def test_one_seed_is_not_enough_to_be_sure(paper):
    found = signs(paper)
    row = found["The output layers first against everything at once"]
    assert row["sign"] == "agrees, too few seeds to be sure"
    assert "(" not in row["ours"]


def test_where_the_paper_sees_no_difference_one_within_noise_agrees(tmp_path):
    both = {"pooling": "cls_for_sentiment", "seeds": 3, "step": 1.0}
    write(tmp_path, (50, 80, 80), **both)
    write(tmp_path, (50.1, 80, 80), layer_decay=0.95, **both)
    row = signs(compose(tmp_path))["Decay 0.95 against 1, [CLS] for sentiment"]
    assert (row["paper"], row["sign"]) == ("+0.0", "agrees")


def test_an_encoder_that_was_tuned_so_gives_no_verdict_on_pooling(paper):
    assert signs(paper)["Mean against [CLS], everything"]["sign"] == (
        "no verdict"
    )
    text = document.to_markdown(paper)
    assert "no verdict on mean against [CLS], and none on Quora's" in text


# === Combinations of the tasks ===


def test_combinations_stand_beside_each_other_with_their_cost(tmp_path):
    write(tmp_path, (50, 80, 80), seconds=10.0)
    for seconds, combine, weights in (
        (20.0, "sum", ""),
        (40.0, "pcgrad", ""),
        (5.0, "sum", "similarity=0.5"),
        (15.0, "sampled", ""),
    ):
        write(
            tmp_path,
            (47, 80, 80),
            seconds=seconds,
            combine=combine,
            loss_weights=weights,
        )
    rows = tables(compose(tmp_path))["combined_A_cs224n_1"]
    assert [row["tasks"] for row in rows] == [
        "in turn",
        "sum of losses",
        "sum of losses, weights similarity=0.5",
        "PCGrad",
        "sampled by size^1 to size^0.2",
    ]
    assert [row["of the first's"] for row in rows] == [
        "100.0 %",
        "200.0 %",
        "50.0 %",
        "400.0 %",
        "150.0 %",
    ]
    assert [row["s per epoch"] for row in rows] == [
        "10.0",
        "20.0",
        "5.0",
        "40.0",
        "15.0",
    ]
    assert [row["against the first"] for row in rows] == ["", *["-1.00"] * 4]


# === Footnotes ===


def test_what_is_not_as_in_the_paper_is_said_from_the_records(paper):
    text = document.to_markdown(paper)
    for said in (
        "model is minilm, there bert_base_en_uncased",
        "lr is 0.0001, there 1e-05",
        "epochs is 4, there 20",
        "epochs, output layers alone is 6, there 20",
        "examples, train paraphrase is 15000, there 141506",
    ):
        assert f"Not as in the paper: {said}." in text
    # The paper counts a header line: that is no difference.
    assert "train similarity" not in text
    assert "batch_size is" not in text


def test_the_footnotes_tell_what_is_odd_in_the_paper_s_tables(paper):
    text = document.to_markdown(paper)
    assert "Rows 1 and 2 of table 6 are the same to three digits" in text
    assert "share of class 0 in SST's dev set: 139 of 1,101" in text
    assert "The test files have no labels" in text
    assert "docstring of tf_transfer/multitask.py" in text


def test_every_recipe_is_named_by_all_that_differs():
    recipe = {
        "train": "all",
        "pooling": "mean",
        "pairs": "sbert",
        "order": multitask_recipes.ORDER,
        "combine": "in_turn",
        "loss_weights": "",
        "layer_decay": 1.0,
        "lr": 1e-5,
        "head_lr": None,
        "alpha": None,
        "last_alpha": None,
        "head_epochs": None,
        "epochs": 20,
    }
    others = {
        "train": "head_then_all",
        "pooling": "cls",
        "pairs": "cross",
        "order": "sentiment,similarity,paraphrase",
        "combine": "sampled",
        "loss_weights": "sentiment=2",
        "layer_decay": 0.95,
        "lr": 2e-5,
        "head_lr": 1e-3,
        "head_epochs": 7,
        "epochs": 100,
    }
    sampled = {**recipe, "combine": "sampled", "alpha": 1.0, "last_alpha": 0.5}
    recipes = [
        recipe,
        *({**recipe, name: value} for name, value in others.items()),
        sampled,
        {**sampled, "alpha": 0.5},
        {**sampled, "last_alpha": 1.0},
    ]
    names = {
        (multitask_recipes.kind(r), multitask_recipes.amount(r))
        for r in recipes
    }
    assert len(names) == len(recipes)
    assert set(recipe) == {*multitask_recipes.VARIED, "epochs"}
