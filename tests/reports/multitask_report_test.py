"""The report on three tasks at once, on runs with known scores."""

import dataclasses
import os

import numpy as np
import pytest

from tests import commands
from tests.reports import synthetic
from tf_transfer import multitask
from tf_transfer import report
from tf_transfer.data import tasks
from tf_transfer.reports import document
from tf_transfer.reports import forgetting
from tf_transfer.reports import multitask as section
from tf_transfer.reports import multitask_ways
from tf_transfer.reports import reading
from tf_transfer.reports import summary as summary_lib

ORDER = ("paraphrase", "similarity", "sentiment")
SIZES = {
    "train_sentiment": 8544, "validation_sentiment": 1101,
    "train_paraphrase": 15000, "validation_paraphrase": 5000,
    "train_similarity": 6040, "validation_similarity": 863,
}  # fmt: skip
# Of five sentiments, the commonest is two of four; of pairs, three of four.
ARRAYS = {
    "validation_sentiment_labels": np.array([3, 3, 0, 1]),
    "validation_paraphrase_labels": np.array([0, 0, 0, 1]),
    "validation_similarity_labels": np.array([0.0, 5.0], np.float32),
}


@dataclasses.dataclass(frozen=True)
class Multitask(multitask.MultitaskSettings):
    """Settings whose files need not be there."""

    row = tasks.Task("cs224n", "", (), "", None, "overall", "", ())


def measured(sentiment, paraphrase, similarity):
    """Metrics of one evaluation, from points."""
    metrics = {
        "sentiment_accuracy": sentiment / 100,
        "paraphrase_accuracy": paraphrase / 100,
        "similarity_pearson": similarity / 100,
    }
    return {**metrics, **multitask.overall(metrics)}


def lines_of(phase, epoch, turns):
    """Lines of an epoch, a turn each; or one of tasks that share it."""
    return [
        {
            "phase": phase, "epoch": epoch, "turn": turn,
            "validation": measured(*points), "test": None,
            "elapsed_seconds": 1.0, "peak_memory_bytes": 2e9,
        }
        for turn, points in turns
    ]  # fmt: skip


def write(root, scores, seeds=1, step=0.0, **changes):
    """Runs that end with these scores in points; seeds go up by `step`."""
    for seed in range(seeds):
        end = [score + seed * step for score in scores]
        write_lines(root, lines_of(1, 1, [(None, end)]), seed=seed, **changes)


def write_lines(root, lines, **changes):
    """A run with these lines of `epochs.jsonl`."""
    synthetic.write(
        root, None, cls=Multitask, tested=0, sizes=SIZES, lines=lines,
        arrays=ARRAYS, **{"model": "minilm", **changes},
    )  # fmt: skip


def compose(root):
    made = summary_lib.make(str(root))
    return report.compose(made, os.path.join(commands.ROOT, "experiments"))


def tables(parts):
    return {
        part.name: [dict(zip(part.columns, row)) for row in part.rows]
        for part in parts
        if isinstance(part, document.Table)
    }


def signs(root):
    """Dict from a comparison to the cells of its line."""
    rows = tables(compose(root))["signs_A_cs224n"]
    return {row["one against the other"]: row for row in rows}


# === The paper's tables ===


@pytest.fixture
def paper(tmp_path):
    """Tables 2 and 3 in part, at ten times the paper's rate for 4 epochs."""
    usual = {"lr": 1e-4, "max_epochs": 4}
    write(
        tmp_path, (40, 70, 40), train="head", pooling="cls", lr=7e-7,
        max_epochs=6,
    )  # fmt: skip
    write(tmp_path, (44, 80, 60), train="all", pooling="cls", **usual)
    write(tmp_path, (46, 82, 70), seeds=3, step=1.0, pooling="cls", **usual)
    write(tmp_path, (46, 84, 80), seeds=3, step=1.0, **usual)
    write(tmp_path, (30, 70, 60), seeds=2, step=1.0, lr=2e-4, max_epochs=4)
    write(tmp_path, (49, 85, 81), lr=1e-4, max_epochs=20)
    return tmp_path


def test_a_row_is_met_at_the_same_multiple_of_rate_and_epochs(paper):
    rows = tables(compose(paper))["table_3_A_cs224n"]
    assert [row["here"] for row in rows] == [
        "not run", "lr 0.0001 after 0.001; 4 epochs",
        "lr 0.0001 after 0.001; 20 epochs",
        "lr 0.0002 after 0.001; 4 epochs", "",
    ]  # fmt: skip
    assert [row["n"] for row in rows] == ["", "3", "1", "2", ""]
    assert [row["SST"] for row in rows] == [
        "", "47.00 ± 1.00", "49.00", "30.50 ± 0.71", "50.00",
    ]  # fmt: skip
    assert [row["SST, paper"] for row in rows] == [
        "46.1", "51.1", "51.4", "49.3", "",
    ]  # fmt: skip
    assert rows[1]["STS r, paper"] == "84.6" and rows[0]["overall"] == ""


def test_runs_of_the_heads_alone_have_a_usual_rate_of_their_own(paper):
    rows = tables(compose(paper))["table_2_A_cs224n"]
    assert [row["here"] for row in rows] == [
        "lr 0.001; 6 epochs", "lr 0.0001; 4 epochs",
        "lr 0.0001 after 0.001; 4 epochs", "",
    ]  # fmt: skip
    assert [row["overall, paper"] for row in rows] == [
        "60.6", "73.7", "76.7", "",
    ]  # fmt: skip


def test_the_majority_stands_in_every_table(paper):
    found = tables(compose(paper))
    for number in range(2, 9):
        last = found[f"table_{number}_A_cs224n"][-1]
        assert last[""] == "the majority class"
        assert (last["SST"], last["Quora"], last["STS r"]) == (
            "50.00", "75.00", "0.00",
        )  # fmt: skip
        assert last["overall"] == "58.33"  # (0.5 + 0.75 + 0.5) / 3


def test_the_test_set_s_table_has_our_dev_scores_beside_it(paper):
    part = next(
        part
        for part in compose(paper)
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
    here = [row["here"] for row in found["table_5_A_cs224n"]]
    assert here == ["not run"] * 4 + [""]
    assert {row["trains"] for row in found["ways_A_cs224n"]} == {
        "output layers, then everything; mean; pairs cross; lr 1e-05 after "
        "0.001; 20 epochs",
        "output layers, then everything; mean; decay 0.9; lr 1e-05 after "
        "0.001; 20 epochs",
    }  # fmt: skip


def test_rates_that_train_nothing_make_no_second_run(tmp_path):
    for lr in (1e-5, 2e-5):
        write(tmp_path, (40, 70, 40), train="head", lr=lr)
    [row] = tables(compose(tmp_path))["ways_A_cs224n"]
    assert row["n"] == "1"


def test_other_examples_make_another_study(tmp_path):
    write(tmp_path, (50, 80, 80))
    write(tmp_path, (50, 80, 80), max_train_examples=100)
    assert "ways_B_cs224n" in tables(compose(tmp_path))


def test_runs_that_differ_in_their_most_epochs_alone_are_both_read(tmp_path):
    for epochs in (4, 20):
        write(tmp_path / str(epochs), (50, 80, 80), max_epochs=epochs)
    found, left_out = reading.read(str(tmp_path))
    assert [record["max_epochs"] for record in found] == [20, 4]
    assert not left_out


def test_a_report_without_the_paper_s_figures_shows_what_was_run(paper):
    made = summary_lib.make(str(paper))
    [study] = section.studies.sort_into_studies(section.prepared(made["runs"]))
    found = tables(section.sections(study, made, {}))
    assert set(found) == {"ways_A_cs224n"}
    overall = [row["overall"] for row in found["ways_A_cs224n"]]
    assert overall == sorted(overall, reverse=True)


# === The paper's comparisons ===


def test_a_comparison_has_an_interval_and_a_verdict(tmp_path):
    def two(name, best, step, **changes):
        write(tmp_path, best, seeds=3, step=step, model="tiny", **changes)

    two("mean", (50, 80, 80), 0.1)
    two("[CLS]", (40, 70, 60), 0.1, pooling="cls")
    two("twice the rate", (60, 90, 90), 0.1, lr=2e-5)
    two("five times the epochs", (51, 79, 80), 9.0, max_epochs=100)
    found = signs(tmp_path)
    # 40, 70 and (60 + 100) / 2 against 50, 80 and 90: ten points.
    assert found["Mean against [CLS], everything"] == {
        "one against the other": "Mean against [CLS], everything",
        "rows": "3.2 - 2.3", "paper": "+0.5",
        "ours": "+10.00 (+9.81 to +10.19)", "sign": "agrees",
    }  # fmt: skip
    rate = found["Twice the rate against once, mean"]
    assert (rate["paper"], rate["sign"]) == ("-1.0", "differs")
    epochs = found["Five times the epochs against once, mean"]
    assert epochs["sign"] == "within noise"
    assert found["Decay 0.95 against 1, mean"]["sign"] == "not run"


def test_one_seed_is_not_enough_to_be_sure(paper):
    found = signs(paper)
    row = found["The output layers first against everything at once"]
    assert row["sign"] == "agrees, too few seeds to be sure"
    assert "(" not in row["ours"]


def test_where_the_paper_sees_no_difference_one_within_noise_agrees(tmp_path):
    both = {"pooling": "cls_for_sentiment", "seeds": 3, "step": 1.0}
    write(tmp_path, (50, 80, 80), **both)
    write(tmp_path, (50.1, 80, 80), layer_decay=0.95, **both)
    row = signs(tmp_path)["Decay 0.95 against 1, [CLS] for sentiment"]
    assert (row["paper"], row["sign"]) == ("+0.0", "agrees")


def test_an_encoder_that_was_tuned_so_gives_no_verdict_on_pooling(paper):
    assert signs(paper)["Mean against [CLS], everything"]["sign"] == (
        "no verdict"
    )
    text = document.markdown(compose(paper), None)
    assert "no verdict on mean against [CLS], and none on Quora's" in text


# === Ways of combining ===


def test_ways_of_combining_stand_beside_each_other_with_their_cost(tmp_path):
    write(tmp_path, (50, 80, 80), seconds=10.0)
    for seconds, combine, weights in (
        (20.0, "sum", ""), (40.0, "pcgrad", ""),
        (5.0, "sum", "similarity=0.5"), (15.0, "sampled", ""),
    ):  # fmt: skip
        write(
            tmp_path, (47, 80, 80), seconds=seconds,
            combine=combine, loss_weights=weights,
        )  # fmt: skip
    rows = tables(compose(tmp_path))["combined_A_cs224n_1"]
    assert [row["tasks"] for row in rows] == [
        "in turn", "sum of losses", "sum of losses, weights similarity=0.5",
        "PCGrad", "sampled by size^1 to size^0.2",
    ]  # fmt: skip
    assert [row["of the first's"] for row in rows] == [
        "100.0 %", "200.0 %", "50.0 %", "400.0 %", "150.0 %",
    ]  # fmt: skip
    assert [row["against the first"] for row in rows] == ["", *["-1.00"] * 4]


# === Forgetting ===


def turns_of_two_phases():
    """A first phase, then two epochs of everything."""
    first = [(turn, (10, 10, 10)) for turn in ORDER]
    return [
        *lines_of(1, 1, first),
        *lines_of(2, 2, [
            ("paraphrase", (40, 80, 50)), ("similarity", (37, 80, 70)),
            ("sentiment", (47, 79, 66)),
        ]),
        *lines_of(2, 3, [
            ("paraphrase", (46, 85, 60)), ("similarity", (45, 84, 80)),
            ("sentiment", (49, 84, 79)),
        ]),
    ]  # fmt: skip


def test_a_turn_s_change_is_from_the_turn_before_it_in_its_phase(tmp_path):
    write_lines(tmp_path, turns_of_two_phases())
    parts = compose(tmp_path)
    rows = tables(parts)["forgetting_A_cs224n"]
    changes = {
        row["a turn of"]: (
            row["SST accuracy"], row["Quora accuracy"], row["STS r"],
        )
        for row in rows
    }  # fmt: skip
    assert changes == {
        "sentiment": ("+7.00", "-0.50", "-2.50"),  # +10 and +4, ...
        "paraphrase": ("-1.00", "+6.00", "-6.00"),  # its first is left out
        "similarity": ("-2.00", "-0.50", "+20.00"),
    }
    figures = {p.name for p in parts if isinstance(p, document.Figure)}
    assert figures == {"forgetting_A_cs224n", "turns_A_cs224n"}
    text = document.markdown(parts, None)
    assert "a turn of similarity changes SST accuracy by -2.00" in text


def test_seeds_of_a_way_have_a_mean_and_a_deviation_of_change(tmp_path):
    lines = turns_of_two_phases()
    write_lines(tmp_path, lines)
    lines[-1] = lines_of(2, 3, [("sentiment", (51, 84, 79))])[0]
    write_lines(tmp_path, lines, seed=1)
    [row] = [
        row
        for row in tables(compose(tmp_path))["forgetting_A_cs224n"]
        if row["a turn of"] == "sentiment"
    ]
    assert row["n"] == "2" and row["SST accuracy"] == "+7.50 ± 0.71"


@pytest.mark.parametrize("train", ["head", "all"])
def test_only_turns_that_train_the_encoder_count(train, tmp_path):
    lines = [{**line, "phase": 1} for line in turns_of_two_phases()[3:]]
    write_lines(tmp_path, lines, train=train)
    has = "forgetting_A_cs224n" in tables(compose(tmp_path))
    assert has == (train == "all")


def test_the_figures_show_the_paper_s_best_way_where_it_was_run(tmp_path):
    lines = turns_of_two_phases()
    for seed in range(3):
        write_lines(tmp_path, lines, layer_decay=0.95, seed=seed)
    write_lines(tmp_path, lines)
    figure = next(
        part for part in compose(tmp_path) if isinstance(part, document.Figure)
    )
    assert "decay" not in figure.caption


def test_an_epoch_is_read_once_and_its_turns_beside_it(tmp_path):
    write_lines(tmp_path, turns_of_two_phases())
    [record] = reading.read(str(tmp_path))[0]
    assert [epoch["validation"] for epoch in record["epochs"]] == [
        line["validation"]["overall"] for line in turns_of_two_phases()[2::3]
    ]
    assert [turn["turn"] for turn in record["turns"]] == [*ORDER] * 3
    older = {k: v for k, v in record.items() if k != "turns"}
    assert forgetting.turns_of({**older, "way": {"train": "all"}}) == []


# === Footnotes ===


def test_what_is_not_as_in_the_paper_is_said_from_the_records(paper):
    text = document.markdown(compose(paper), None)
    for said in (
        "model is minilm, there bert_base_en_uncased",
        "lr is 0.0001, there 1e-05", "epochs is 4, there 20",
        "epochs, output layers alone is 6, there 20",
        "examples, train paraphrase is 15000, there 141506",
    ):  # fmt: skip
        assert f"Not as in the paper: {said}." in text
    # The paper counts a header line: that is no difference.
    assert "train similarity" not in text
    assert "batch_size is" not in text


def test_the_footnotes_tell_what_is_odd_in_the_paper_s_tables(paper):
    text = document.markdown(compose(paper), None)
    assert "Rows 1 and 2 of table 6 are the same to three digits" in text
    assert "share of class 0 in SST's dev set: 139 of 1,101" in text
    assert "The test files have no labels" in text
    assert "docstring of tf_transfer/multitask.py" in text


def test_every_way_is_named_by_all_that_tells_it_from_others():
    way = {
        "train": "all", "pooling": "mean", "pairs": "sbert",
        "order": multitask_ways.ORDER, "combine": "in_turn",
        "loss_weights": "", "layer_decay": 1.0, "lr": 1e-5, "head_lr": None,
        "alpha": None, "last_alpha": None, "head_epochs": None, "epochs": 20,
    }  # fmt: skip
    others = {
        "train": "head_then_all", "pooling": "cls", "pairs": "cross",
        "order": "sentiment,similarity,paraphrase", "combine": "sampled",
        "loss_weights": "sentiment=2", "layer_decay": 0.95, "lr": 2e-5,
        "head_lr": 1e-3, "head_epochs": 7, "epochs": 100,
    }  # fmt: skip
    drawn = {**way, "combine": "sampled", "alpha": 1.0, "last_alpha": 0.5}
    ways = [
        way, *({**way, name: value} for name, value in others.items()),
        drawn, {**drawn, "alpha": 0.5}, {**drawn, "last_alpha": 1.0},
    ]  # fmt: skip
    names = {
        (multitask_ways.kind(way), multitask_ways.amount(way)) for way in ways
    }
    assert len(names) == len(ways)
    assert set(way) == {*multitask_ways.VARIED, "epochs"}
