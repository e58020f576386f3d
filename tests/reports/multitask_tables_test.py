"""Li's tables, filled from runs with known scores."""

import pytest

from tests.reports import multitask_report_test as made
from tf_transfer.multitask import tables
from tf_transfer.reports import claims

PUBLISHED = claims.read_published(made.FOLDER, "multitask")
CLS, MIXED, write = made.CLS, made.MIXED, made.write


def tables_of(*groups):
    [study] = made.collect(*groups)
    return {table.name: table.frame for table in tables.list_tables(study)}


def test_a_row_has_the_published_scores_and_ours():
    found = tables_of(
        write({}, (51, 88, 85)),
        write({"lr": 2e-5}, (49, 87, 84)),
        write({"max_epochs": 100}, (51, 87, 85), seeds=1),
        write(made.HEAD, (46, 75, 69)),
    )
    assert [*found] == [
        *(f"table_{number}" for number in range(1, 9)),
        "combinations",
    ]
    frame = found["table_3"]
    assert list(frame["runs here"]) == [
        "3, lr 0.001, 20 epochs",
        "3, lr 1e-05, 20 epochs",
        "1, lr 1e-05, 100 epochs",
        "3, lr 2e-05, 20 epochs",
    ]
    assert frame.iloc[1].drop("runs here").to_dict() == {
        "model": "Fine-tune, 20 epochs, lr = 1e-5",
        # (51.1 + 88.1 + (85.1 + 100) / 2) / 3
        "overall, published": "77.2",
        "overall, here": "77.25 ± 0.08",
        "SST, published": "51.1",
        "SST, here": "51.10 ± 0.10",
        "Quora, published": "88.2",
        "Quora, here": "88.10 ± 0.10",
        "STS r, published": "84.6",
        "STS r, here": "85.10 ± 0.10",
    }
    assert list(found["table_7"]["runs here"]) == ["", ""]
    assert list(found["table_7"]["SST, published"]) == ["49.8", "49.8"]


@pytest.mark.parametrize(
    "settings",
    [
        {"head_lr": 1e-2},
        {"order": made.ORDER},
        {"pairs": "cross"},
        {"layer_decay": 0.9},
        {"combine": "pcgrad"},
        {"loss_weights": "sentiment=2"},
        {"targets": "truncated"},
        {"train": "head", "lr": 1e-4},
        {"pooling": "cls_state"},
    ],
)
def test_what_differs_from_a_row_does_not_fill_it(settings):
    found = tables_of(write(settings, (60, 90, 90), seeds=4))
    assert not found["table_3"]["runs here"].any()


def test_other_rates_and_epochs_fill_a_row_where_the_paper_s_were_not_run():
    other = write({"lr": 1e-4, "max_epochs": 2}, (40, 80, 80), seeds=5)
    more = write({"lr": 2e-4, "max_epochs": 2}, (40, 80, 80))
    frame = tables_of(other, more)["table_4"]
    assert not frame["runs here"].any()
    frame = tables_of(other, more)["table_3"]
    assert list(frame["runs here"]) == [
        *("", "5, lr 0.0001, 2 epochs", "3, lr 0.0002, 2 epochs", "", "")
    ]
    frame = tables_of(other, more, write({}, (51, 88, 85)))["table_3"]
    assert list(frame["runs here"]) == ["", "3, lr 1e-05, 20 epochs", "", ""]


def test_a_reading_has_a_row_where_it_was_run():
    state = {**CLS, "pooling": "cls_state"}
    found = tables_of(write(state, (52, 86, 81)), write(MIXED, (51, 87, 84)))
    assert list(found["table_2"].model) == [
        "Pre-train output layer",
        "Fine-tune from original BERT",
        "Fine-tune from pre-trained output layer",
        "Fine-tune from pre-trained output layer: [CLS] without the pooler",
    ]
    assert list(found["table_2"]["runs here"].astype(bool)) == [0, 0, 0, 1]
    assert not found["table_4"].model.str.contains("without").any()


def test_table_1_has_the_numbers_of_examples():
    sizes = {"train_sentiment": 600, "validation_sentiment": 400}
    frame = tables_of(write({}, (51, 88, 85), sizes=sizes))["table_1"]
    row = frame.set_index("task").loc["sentiment"]
    assert list(row) == ["SST", 8544, 600, 1101, 400, 2210]


def test_a_change_is_from_the_pass_before_it():
    found = tables_of(write(CLS, (49, 84, 79), passes=made.PASSES))
    rows = found["forgetting"].set_index("a pass over")
    columns = ["SST", "Quora", "STS r"]
    assert {task: list(rows.loc[task, columns]) for task in rows.index} == {
        # +10 and +4, ...; the first pass has none before it.
        "sentiment": ["+7.00 ± 0.00", "-0.50 ± 0.00", "-2.50 ± 0.00"],
        "paraphrase": ["-1.00 ± 0.00", "+6.00 ± 0.00", "-6.00 ± 0.00"],
        "similarity": ["-2.00 ± 0.00", "-0.50 ± 0.00", "+20.00 ± 0.00"],
    }


def test_combinations_and_orders_are_in_a_table_of_ours():
    frame = tables_of(
        write({}, (50, 80, 80)),
        write({"combine": "pcgrad"}, (47, 80, 80)),
        write({"order": made.ORDER}, (48, 80, 80)),
    )["combinations"]
    assert list(zip(frame.tasks, frame.SST)) == [
        ("PCGrad", "47.10 ± 0.10"),
        ("paraphrase,similarity,sentiment", "50.10 ± 0.10"),
        (made.ORDER, "48.10 ± 0.10"),
    ]


def test_other_tasks_have_none_of_the_paper_s_tables():
    record = write({}, (50, 80, 80), seeds=1)
    [study] = made.collect([{**record[0], "task": "sst2+qqp"}])
    assert tables.list_tables(study) == tables.list_figures(study) == []


def test_a_recipe_s_name_says_what_is_not_usual():
    [study] = made.collect(
        write({**MIXED, "layer_decay": 0.95, "combine": "sum"}, (5, 8, 8))
    )
    assert set(study.runs.approach) == {
        "output layers, then everything; [CLS] for sentiment; decay 0.95; "
        "sum of losses"
    }


def test_overall_is_the_mean_of_the_three_published_scores():
    for table in PUBLISHED["tables"]:
        for row in table["rows"]:
            overall, sentiment, paraphrase, pearson = row["figures"]
            mean = (sentiment + paraphrase + (pearson + 1) / 2) / 3
            assert overall == pytest.approx(mean, abs=0.0016)
