"""Li's tables and claims, on runs with known scores."""

import os

import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tests.support import commands
from tf_transfer.comparison.run_record import Pass
from tf_transfer.multitask import tables
from tf_transfer.reports import claims, study as study_lib

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read_paper(claims.find_file(FOLDER, "multitask"))
PUBLISHED = claims.read_published(FOLDER, "multitask")
ORDER = "sentiment,paraphrase,similarity"  # of table 2
CLS = {"pooling": "cls", "order": ORDER}
HEAD = {"train": "head", "lr": 1e-3}


def measured(sentiment, paraphrase, similarity):
    """Metrics of one evaluation, from points."""
    overall = (sentiment + paraphrase + (similarity + 100) / 2) / 300
    return {
        "sentiment_accuracy": sentiment / 100,
        "paraphrase_accuracy": paraphrase / 100,
        "similarity_pearson": similarity / 100,
        "overall": overall,
    }


def write(settings, scores, seeds=3, **changes):
    """Records whose three scores in points go up by 0.1 a seed."""
    records = []
    for seed in range(seeds):
        metrics = measured(*(score + seed / 10 for score in scores))
        record = made_up.make_record(
            PAPER,
            "cs224n",
            {"max_epochs": PAPER.settings["max_epochs"], **settings},
            seed,
            0.0,
            **{
                "experiment": "multitask",
                "metric": "overall",
                "metrics": metrics,
                "validation": metrics["overall"],
                "test": None,
                "majorities": measured(26.25, 62.5, 0),
                **changes,
            },
        )
        unread = {
            "head": ["max_epochs", "head_epochs"],
            "all": ["max_epochs", "head_epochs", "head_lr"],
        }
        for name in unread.get(record.key["train"], ["max_epochs"]):
            record.key.pop(name, None)
        records.append(record)
    return records


def collect(*groups):
    records = [record for group in groups for record in group]
    [study] = study_lib.collect({"runs": records}, FOLDER)
    return study


def tables_of(*groups):
    return {t.name: t.frame for t in tables.list_tables(collect(*groups))}


def judged(*groups):
    return {v.claim.id: v for v in collect(*groups).verdicts}


def test_a_row_has_the_published_scores_and_ours():
    found = tables_of(
        write({}, (51, 88, 85)),
        write({"lr": 2e-5}, (49, 87, 84)),
        write({"max_epochs": 100}, (51, 87, 85), seeds=1),
        write(HEAD, (46, 75, 69)),
    )
    assert [*found] == [f"table_{number}" for number in range(1, 9)]
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


@pytest.mark.parametrize(
    "settings",
    [
        {"head_lr": 1e-2},
        {"layer_decay": 0.9},
        {"train": "head", "lr": 1e-4},
        {"pooling": "cls_state"},
    ],
)
def test_what_differs_from_a_row_does_not_fill_it(settings):
    found = tables_of(write(settings, (60, 90, 90), seeds=4))
    assert not found["table_3"]["runs here"].any()


def test_the_longest_runs_stand_in_where_the_paper_s_were_not_run():
    other = write({"lr": 1e-4, "max_epochs": 2}, (40, 80, 80), seeds=5)
    more = write({"lr": 2e-4, "max_epochs": 2}, (40, 80, 80))
    assert not tables_of(other, more)["table_4"]["runs here"].any()
    runs = tables_of(more, other)["table_3"]["runs here"]
    assert list(runs) == ["", "5, lr 0.0001, 2 epochs", "", ""]
    runs = tables_of(other, more, write({}, (51, 88, 85)))["table_3"]
    assert list(runs["runs here"]) == ["", "3, lr 1e-05, 20 epochs", "", ""]


def test_table_1_has_the_numbers_of_examples():
    sizes = {"train_sentiment": 600, "validation_sentiment": 400}
    frame = tables_of(write({}, (51, 88, 85), sizes=sizes))["table_1"]
    row = frame.set_index("task").loc["sentiment"]
    assert list(row) == ["SST", 8544, 600, 1101, 400, 2210]


def test_other_tasks_have_none_of_the_paper_s_tables():
    [record] = write({}, (50, 80, 80), seeds=1)
    study = collect([replace(record, task="sst2+qqp")])
    assert tables.list_tables(study) == tables.list_figures(study) == []


def test_a_recipe_s_name_says_what_is_not_usual():
    changes = {"pooling": "cls_for_sentiment", "combine": "sum"}
    study = collect(write({**changes, "layer_decay": 0.95}, (5, 8, 8)))
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


# === Claims on three tasks ===


def test_cached_runs_are_compared_though_others_freeze_nothing():
    """A run of everything at once is live, and no twin of the cached ones."""
    cached = {**CLS, "frozen_prefix": "cached", "max_epochs": 2}
    turned = {**cached, "order": "paraphrase,similarity,sentiment"}
    verdict = judged(
        write(cached, (50, 80, 70)),
        write(turned, (50, 80, 70)),
        write({**CLS, "train": "all", "max_epochs": 10}, (40, 70, 60)),
    )["order"]
    assert verdict.study and verdict.value == pytest.approx(0.0)


def test_that_tasks_hurt_each_other_is_judged_pass_by_pass():
    """Changes are +10 and +4 of sentiment, ...; the first has none."""
    points = [
        ("paraphrase", (40, 80, 50)),
        ("similarity", (37, 80, 70)),
        ("sentiment", (47, 79, 66)),
        ("paraphrase", (46, 85, 60)),
        ("similarity", (45, 84, 80)),
        ("sentiment", (49, 84, 79)),
    ]
    passes = [Pass(task, measured(*scores)) for task, scores in points]
    runs = write(CLS, (49, 84, 79), passes=passes)
    everything = write({**CLS, "train": "all"}, (49, 84, 79), passes=passes)
    verdicts = judged(runs, everything)
    assert verdicts["similarity_hurts_sentiment"].value == pytest.approx(-2)
    assert verdicts["sentiment_hurts_similarity"].value == pytest.approx(-2.5)
