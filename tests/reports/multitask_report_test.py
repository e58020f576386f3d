"""The report on three tasks at once, on runs with known scores."""

import itertools
import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, study as study_lib, tables
from tf_transfer.reports.papers import multitask

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read(claims.find_file(FOLDER, "multitask"))
ORDER = "sentiment,paraphrase,similarity"  # of table 2
CLS = {"pooling": "cls", "order": ORDER}
MIXED = {"pooling": "cls_for_sentiment"}


def measured(sentiment, paraphrase, similarity):
    """Metrics of one evaluation, from points."""
    overall = (sentiment + paraphrase + (similarity + 100) / 2) / 300
    return {
        "sentiment_accuracy": sentiment / 100,
        "paraphrase_accuracy": paraphrase / 100,
        "similarity_pearson": similarity / 100,
        "overall": overall,
    }


def write(settings, scores, seeds=3, step=0.1, **changes):
    """Records whose three scores in points go up by `step` a seed."""
    records = []
    for seed in range(seeds):
        metrics = measured(*(score + seed * step for score in scores))
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
                "phases": [{"epochs": 2, "seconds": 20.0}],
                **changes,
            },
        )
        record["key"] = {
            n: v for n, v in record["key"].items() if n != "max_epochs"
        }
        if record["key"]["train"] == "head":
            del record["key"]["head_epochs"]
        if record["key"]["train"] == "all":
            del record["key"]["head_epochs"], record["key"]["head_lr"]
        records.append(record)
    return records


HEAD = {"train": "head", "lr": 1e-3}
SAMPLED = {"combine": "sampled", "alpha": 1.0}


def collect(*groups):
    records = [record for group in groups for record in group]
    return study_lib.collect({"runs": records}, FOLDER)


def tables_of(study):
    return {table.name: table.frame for table in tables.fill_tables(study)}


def judged(study):
    return {verdict.claim.id: verdict for verdict in study.verdicts}


# === Rows of the paper's tables ===


def test_a_row_is_filled_at_exactly_its_settings():
    [study] = collect(
        write({}, (51, 88, 85)),
        write({"lr": 2e-5}, (49, 87, 84)),
        write({"max_epochs": 100}, (51, 87, 85), seeds=1),
        write(HEAD, (46, 75, 69)),
    )
    rows = tables_of(study)["table_3"]
    assert list(rows.n) == [3, 3, 1, 3]
    assert list(rows["SST"]) == [
        "46.10 ± 0.10",
        "51.10 ± 0.10",
        "51.00",
        "49.10 ± 0.10",
    ]
    assert list(rows["SST, paper"]) == ["46.1", "51.1", "51.4", "49.3"]
    assert "table_7" not in tables_of(study)


@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 5e-6},  # beside 1e-5, that was once the paper's 2e-5
        {"head_lr": 1e-2},
        {"head_epochs": 1},
        {"order": ORDER},
        {"pairs": "cross"},
        {"layer_decay": 0.9},
        {"combine": "pcgrad"},
        {"loss_weights": "sentiment=2"},
        {"model": "minilm"},
        {"max_dev_examples": 400},
        {"max_train_examples": 600},
    ],
)
def test_what_differs_from_a_row_fills_none(settings):
    [study] = collect(write(settings, (60, 90, 90), seeds=4))
    assert not [n for n in tables_of(study) if n.startswith("table_")]


def test_runs_at_half_the_rate_do_not_move_the_others_up():
    """5e-6 and 1e-5: the latter once stood in the paper's row of 2e-5."""
    [study] = collect(
        write({"lr": 5e-6}, (40, 80, 80), seeds=5), write({}, (51, 88, 85))
    )
    rows = tables_of(study)["table_3"].set_index("")
    assert rows["n"]["everything, 20 epochs, lr 1e-5"] == 3
    assert rows["n"]["everything, 20 epochs, lr 2e-5"] == ""
    assert judged(study)["rate_mean"].reason.startswith("no runs with ")


def test_the_faithful_run_is_not_replaced_by_more_runs_of_another():
    [study] = collect(
        write({}, (51, 88, 85)),
        write({"head_lr": 1e-2}, (99, 99, 99), seeds=5),
        write({"head_epochs": 1}, (99, 99, 99), seeds=5),
        write(MIXED, (50, 88, 85)),
        write({**MIXED, "head_epochs": 1}, (10, 88, 85), seeds=5),
    )
    rows = tables_of(study)["table_3"]
    assert rows["SST"][1] == "51.10 ± 0.10"
    assert tables_of(study)["table_4"]["SST"][0] == "50.10 ± 0.10"


def test_table_2_has_the_tasks_in_the_paper_s_order():
    [study] = collect(
        write({"pooling": "cls"}, (60, 90, 90), seeds=4),
        write(CLS, (52, 86, 81)),
    )
    rows = tables_of(study)["table_2"]
    assert rows["SST"][2] == "52.10 ± 0.10"
    assert judged(study)["order"].value == pytest.approx(8.05)
    recipes = tables_of(study)["recipes_1"]["rates and epochs"]
    assert any(
        text.endswith("order sentiment, paraphrase, similarity")
        for text in recipes
    )


def test_sst_2_does_not_stand_beside_sst_5():
    """GLUE's nearest sets have other sizes: no figure of the paper's."""
    sizes = {
        **PAPER.sizes["cs224n"],
        "train_sentiment": 67349,
        "validation_sentiment": 872,
    }
    [study] = collect(
        write({}, (92, 88, 85), sizes=sizes),
        write({"lr": 2e-5}, (91, 88, 85), sizes=sizes),
    )
    assert set(tables_of(study)) == {"recipes_1"}
    verdict = judged(study)["rate_mean"]
    assert verdict.word == "not comparable"
    assert "67,349 examples in train sentiment" in verdict.reason


def test_a_header_line_that_the_paper_counted_is_no_difference():
    sizes = {
        **PAPER.sizes["cs224n"],
        "train_similarity": 6040,
        "validation_similarity": 863,
        "validation_paraphrase": 20212,
    }
    [study] = collect(write({}, (51, 88, 85), sizes=sizes))
    assert "table_3" in tables_of(study)


# === Claims ===


def test_each_task_has_its_own_verdict():
    [study] = collect(
        write({}, (51.1, 88.2, 84.6)), write(CLS, (52.6, 86.9, 81.1))
    )
    found = judged(study)
    for task, value in (
        ("paraphrase", 1.3),
        ("similarity", 3.5),
        ("sentiment", -1.5),
    ):
        verdict = found[f"mean_{task}"]
        assert (verdict.word, round(verdict.value, 2)) == ("agrees", value)


def test_the_sum_of_losses_is_compared_on_the_same_pooling():
    [study] = collect(
        write(MIXED, (50.7, 87.8, 85.0)),
        write({**MIXED, "combine": "sum"}, (49.8, 87.8, 80.3)),
        write({"combine": "sum"}, (99, 99, 99), seeds=5),
    )
    found = judged(study)
    assert found["sum_similarity"].value == pytest.approx(-4.7)
    assert found["sum_similarity"].word == "agrees"
    # Both sides are needed: no run has a decay.
    assert found["sum_decay"].reason.startswith("no runs with ")


def test_no_difference_over_three_seeds_of_noise_is_not_shown():
    """Three of four `agrees` in a committed study were of this kind."""
    [study] = collect(
        write(MIXED, (50, 80, 80), step=1.0),
        write({**MIXED, "layer_decay": 0.95}, (50.1, 80, 80), step=1.0),
    )
    assert judged(study)["decay_mixed"].word == "inconclusive"


@pytest.mark.parametrize("pooled", [{}, MIXED])
def test_quora_is_a_third_of_overall_and_minilm_has_seen_it(pooled):
    model = {**pooled, "model": "minilm"}
    [study] = collect(
        write(model, (50, 80, 80)),
        write({**model, "layer_decay": 0.95}, (45, 70, 70)),
    )
    name = "decay_mixed" if pooled else "decay_mean"
    verdict = judged(study)[name]
    assert verdict.word == "not comparable"
    assert "minilm has seen paraphrase before" in verdict.reason


def test_a_group_that_other_settings_share_is_not_mixed_into_a_side():
    """Heads at 1e-3 fix their rate; everything else stays at its own."""
    [study] = collect(
        write({**CLS, **HEAD}, (40, 72, 39)),
        write({**CLS, "train": "all"}, (51, 85, 68)),
        write({**CLS, "train": "all", "lr": 2e-5}, (10, 10, 10), seeds=5),
    )
    verdict = judged(study)["everything_over_heads"]
    assert verdict.word in ("agrees", "agrees in sign"), verdict
    assert verdict.value == pytest.approx((11 + 13 + 29 / 2) / 3, abs=0.01)


def test_every_difference_from_the_paper_is_said_of_a_study():
    [study] = collect(
        write({"lr": 1e-4, "head_epochs": 200, "max_epochs": 2}, (50, 80, 80)),
    )
    assert set(study.differences) == {
        "lr 0.0001 (paper: 1e-05 or 0.001 or 2e-05)",
        "head_epochs 200 (paper: 20)",
        "max_epochs 2 (paper: 20 or 100)",
    }


# === Passes over one task ===


def passes_of(*lines):
    return [
        {"task": task, "validation": measured(*points)}
        for task, points in lines
    ]


PASSES = passes_of(
    ("paraphrase", (40, 80, 50)),
    ("similarity", (37, 80, 70)),
    ("sentiment", (47, 79, 66)),
    ("paraphrase", (46, 85, 60)),
    ("similarity", (45, 84, 80)),
    ("sentiment", (49, 84, 79)),
)


def test_a_change_is_from_the_pass_before_it():
    [study] = collect(write(CLS, (49, 84, 79), passes=PASSES))
    rows = tables_of(study)["forgetting_1"].set_index("a pass over")
    columns = ["SST accuracy", "Quora accuracy", "STS r"]
    assert {task: list(rows.loc[task, columns]) for task in rows.index} == {
        # +10 and +4, ...; the first pass has none before it.
        "sentiment": ["+7.00 ± 0.00", "-0.50 ± 0.00", "-2.50 ± 0.00"],
        "paraphrase": ["-1.00 ± 0.00", "+6.00 ± 0.00", "-6.00 ± 0.00"],
        "similarity": ["-2.00 ± 0.00", "-0.50 ± 0.00", "+20.00 ± 0.00"],
    }


def test_that_tasks_hurt_each_other_is_judged_pass_by_pass():
    baselines = [
        write({**CLS, "train": train}, (49, 84, 79))
        for train in ("all", "head_then_all")
    ]
    for number, record in itertools.chain(*map(enumerate, baselines)):
        lines = [{**line} for line in PASSES]
        lines[-1] = passes_of(("sentiment", (49, 84, 79 - number)))[0]
        lines[1] = passes_of(("similarity", (37 + number / 2, 80, 70)))[0]
        record["passes"] = lines
    [study] = collect(*baselines)
    found = judged(study)
    assert found["similarity_hurts_sentiment"].value == pytest.approx(-1.75)
    assert found["sentiment_hurts_similarity"].value == pytest.approx(-3.0)
    assert found["similarity_hurts_sentiment"].word == "agrees"


def test_cached_runs_are_compared_though_others_freeze_nothing():
    """A run of everything at once is live, and no twin of the cached ones."""
    cached = {**CLS, "frozen_prefix": "cached", "max_epochs": 2}
    turned = {**cached, "order": "paraphrase,similarity,sentiment"}
    [study] = collect(
        write(cached, (50, 80, 70)),
        write(turned, (50, 80, 70)),
        write({**CLS, "train": "all", "max_epochs": 10}, (40, 70, 60)),
    )
    verdict = judged(study)["order"]
    assert verdict.study and verdict.value == pytest.approx(0.0)


def test_runs_without_such_passes_have_no_table():
    [study] = collect(write({"combine": "sum"}, (50, 80, 80)))
    assert "forgetting_1" not in tables_of(study)


# === Everything that was run ===


def test_every_run_is_in_the_list_the_best_first_then_the_majority():
    groups = [
        write({}, (50, 80, 80)),
        write({"lr": 2e-5}, (51, 80, 80)),
        write(
            {"combine": "sampled", "alpha": 1.0, "last_alpha": 0.2}, (9, 9, 9)
        ),
        write({**HEAD, "frozen_prefix": "cached"}, (26, 62.5, -0.2), seeds=1),
    ]
    [study] = collect(*groups)
    rows = tables_of(study)["recipes_1"]
    assert list(rows.trains) == [
        "output layers, then everything; mean",
        "output layers, then everything; mean",
        "output layers; mean; cached; "
        "not shown to be above the majority baseline",
        "output layers, then everything; mean; sampled by size^1 to size^0.2; "
        "not shown to be above the majority baseline",
        "the majority baseline",
    ]
    assert rows["rates and epochs"][0] == "lr 2e-05 after 0.001; 20 epochs"
    assert sum(rows.n[:-1]) == sum(map(len, groups))
    assert rows.SST.iloc[-1] == "26.25"


def test_every_setting_that_differs_is_in_a_recipe_s_name():
    changes = [
        {},
        {"train": "all"},
        HEAD,
        MIXED,
        {"pairs": "cross"},
        {"order": ORDER},
        {"combine": "sum"},
        {"loss_weights": "sentiment=2"},
        {"layer_decay": 0.95},
        {"lr": 2e-5},
        {"head_lr": 1e-2},
        {"head_epochs": 7},
        {"max_epochs": 100},
        {**SAMPLED, "last_alpha": 0.2},
        {**SAMPLED, "alpha": 0.5, "last_alpha": 0.5},
        {"frozen_prefix": "cached"},
        {"frozen_prefix": "cached", "cache_dtype": "float32"},
    ]
    [study] = collect(*(write(c, (50, 80, 80), seeds=1) for c in changes))
    names = {multitask.recipe(settings) for settings in study.runs.settings}
    assert len(names) == len(changes)


def test_combinations_stand_beside_each_other_with_their_cost():
    [study] = collect(
        write({}, (50, 80, 80)),
        write({"combine": "sum"}, (47, 80, 80)),
        write({"combine": "pcgrad"}, (47, 80, 80)),
        write({"combine": "sum", "lr": 2e-5}, (47, 80, 80)),
    )
    rows = tables_of(study)["combined_1"]
    assert list(rows.tasks) == ["in turn", "sum of losses", "PCGrad"]
    assert rows["overall against the first"][1].startswith("-1.00 (")
    assert list(rows["s per epoch"]) == ["10.0 ± 0.0"] * 3
    assert "combined_2" not in tables_of(study)


def test_a_report_without_the_paper_s_figures_shows_what_was_run(tmp_path):
    [study] = collect(write({}, (50, 80, 80)))
    [alone] = [study_lib.dataclasses.replace(study, published={}, paper=None)]
    assert set(tables_of(alone)) == {"recipes_1"}
    assert alone.differences == []
