"""What to train: the rule, the sentence, the table, and rates."""

import numpy as np
import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tf_transfer.comparison import decisions
from tf_transfer.reports import advice, approaches

PAPER = made_up.make_paper()


def make_runs(scores, layers, task="rte", **changes):
    trained = 1000 if layers == "all" else 70 * int(layers)
    changes = {"trainable_parameters": trained, **changes}
    return made_up.make_runs(
        PAPER,
        task,
        {"trainable_layers": layers, **changes.pop("settings", {})},
        scores,
        **{"majorities": {"accuracy": 0.5}, "commit": None, **changes},
    )


def list_approaches(*groups):
    runs = made_up.frame([run for group in groups for run in group])
    return approaches.list_approaches(approaches.label_runs(runs))


def make_rows(*groups):
    return approaches.make_rows(list_approaches(*groups))


def choose(*groups, margin=1.0):
    rows = decisions.take_headline(make_rows(*groups))
    return decisions.choose(rows, margin).name


def read_table(*groups, margin=1.0):
    """The lines of the table by the name of the approach."""
    lines = advice.make_table(make_rows(*groups), margin)
    return {line["approach"]: line for line in lines}


ALL = make_runs([80, 80.2, 79.8], "all")


FOUR = make_runs([79.9, 80.1, 79.9], "4", seconds=70.0)


TWO = make_runs([79, 79.2, 78.8], "2", seconds=50.0)


ONE = make_runs([60, 61, 59], "1", seconds=40.0)


# === The rule ===


def test_the_cheapest_approach_that_is_shown_to_lose_little_is_chosen():
    assert choose(ALL, FOUR, TWO, ONE) == "last 4"
    assert choose(ALL, FOUR, TWO, ONE, margin=2.0) == "last 2"


def test_noise_does_not_make_the_cheapest_the_advice():
    """A loss of 3.7 points keeps 95.9 % of the score; it is named as a loss."""
    noisy = make_runs([76.0, 84.0, 79.0], "4", seconds=70.0)
    last = make_runs([76.3, 76.5, 76.1], "1", seconds=12.0)
    assert choose(ALL, noisy, last) == "everything"
    table = read_table(ALL, noisy, last)
    words = {name: line["loses < 1 point"] for name, line in table.items()}
    assert words == {
        "everything": "",
        "last 4": "open; 100 seeds would not decide it",
        "last 1": "no",
    }


def test_what_takes_longer_than_everything_is_no_advice():
    slow = make_runs([79.9, 80.1, 79.9], "4", seconds=104.0)
    assert choose(ALL, slow) == "everything"


@pytest.mark.slow  # reads a whole study
def test_luck_names_few_of_many_equal_approaches():
    """Eleven depths lose a point and a half each: none may be advised."""
    draw, named = np.random.default_rng(0), 0
    for _ in range(20):
        groups = [make_runs(list(draw.normal(80, 0.8, 3)), "all")]
        groups += [
            make_runs(list(draw.normal(78.5, 0.8, 3)), str(depth))
            for depth in range(1, 12)
        ]
        named += choose(*groups) != "everything"
    assert named <= 1


def test_the_sentence_says_loss_cost_and_how_sure():
    assert advice.advise(make_rows(ALL, FOUR, ONE)) == (
        "Train last 4: it scores 0.0 points less than training everything "
        "(-0.4 to +0.4), in 70 % of its time (rte, 3 seeds, 277 test texts)."
    )
    text = advice.advise(make_rows(ALL[:1], TWO[:1]))
    assert text.startswith("Train everything: nothing cheaper is shown")
    assert "last 2 scores 1.0 points less than training everything, in" in text
    assert "1 seed, 277 test texts: not sure" in text


def test_one_approach_is_compared_with_nothing():
    assert make_rows(ALL)[0].note == ""
    assert decisions.take_headline(make_rows(ALL)) == []
    assert advice.advise(make_rows(ALL)).startswith("No two approaches")


# === Rows of a study ===


def test_a_mean_is_over_the_tasks_that_every_approach_has():
    """`last 1` was run on one of two tasks: it is not set beside the mean."""
    rows = make_rows(
        ALL,
        TWO,
        ONE,
        make_runs([60, 60.2, 59.8], "all", "mrpc"),
        make_runs([60, 60.2, 59.8], "2", "mrpc"),
    )
    means = decisions.take_headline(rows)
    assert [(row.name, row.task) for row in means] == [
        ("everything", "mean of 2 tasks"),
        ("last 2", "mean of 2 tasks"),
    ]
    assert means[1].difference.value == pytest.approx(-0.5)
    assert means[1].scored == "685 test texts"


def test_a_part_of_the_data_is_in_no_mean():
    def part(runs):
        return [
            replace(
                run,
                sizes={"train": 100, "test": 277},
                path=run.path * 2,
                key={**run.key, "data_identity": "part"},
            )
            for run in runs
        ]

    rows = make_rows(ALL, TWO, part(ALL), part(make_runs([70, 71, 72], "2")))
    headline = decisions.take_headline(rows)
    assert {row.task for row in headline} == {"rte (2,767 texts)"}


def test_the_time_of_an_epoch_is_compared_where_the_limit_ended_runs():
    limited = [
        make_runs(
            [80, 80.2, 79.8], layers, seconds=seconds, stop_reason="max_epochs"
        )
        for layers, seconds in (("all", 100.0), ("2", 50.0))
    ]
    assert read_table(*limited)["last 2"]["time per epoch, %"].startswith("50")


@pytest.mark.parametrize(
    "build, cost",
    [
        (
            150.0,
            ", in 20 % of its time per epoch: 210 s with the cache's build "
            "against 300 s in all (",
        ),
        (30.0, " and costs 90 s with the cache's build, 3 times less than 300"),
    ],
)
def test_the_time_of_an_epoch_is_shown_with_the_build_of_the_cache(build, cost):
    live = make_runs([80, 80.2, 79.8], "all", stop_reason="max_epochs")
    cached = make_runs(
        [79.9, 80.1, 79.9],
        "4",
        seconds=20.0,
        settings={"frozen_prefix": "cached"},
        prefix_build_seconds=build,
    )
    line = read_table(live, cached)["last 4 (cached)"]
    assert line["time per epoch, %"].startswith("20")
    assert line[advice.COST] == f"{60 + build:.0f}"
    assert cost in advice.advise(make_rows(live, cached))
    assert "time, %" not in line


def test_times_of_another_machine_are_not_compared():
    other = replace(made_up.ENVIRONMENT, threads=64)
    elsewhere = make_runs([79, 79.2, 78.8], "2", timing_environment=other)
    assert "time, %" not in read_table(ALL, elsewhere)["last 2"]


def test_a_row_at_the_score_of_the_majority_baseline_is_not_compared():
    line = read_table(ALL, TWO, make_runs([50, 50, 50], "3"))["last 3"]
    words = "not shown to be above the majority baseline"
    assert line["minus everything"] == words
    assert line["loses < 1 point"] == ""


def test_without_training_everything_the_best_on_validation_is_the_reference():
    rows = make_rows(TWO, ONE)
    assert [row.name for row in rows if row.is_reference] == ["last 2"]
    assert rows[1].difference.value == pytest.approx(-19)


# === Rates ===


def rate(runs, lr):
    return [
        replace(run, lr=lr, path=f"{run.path} {lr}", key={**run.key, "lr": lr})
        for run in runs
    ]


def test_an_approach_has_the_rate_that_is_best_on_validation():
    worse = rate(make_runs([70, 70.2, 69.8], "2"), 1e-4)
    base = rate(make_runs([70, 70.2, 69.8], "all"), 1e-4)
    found = list_approaches(ALL, base, TWO, worse)
    assert [one.name for one in found] == ["everything", "last 2"]
    assert found[1].first.lr == 2e-5 and found[1].is_compared


def test_rates_are_compared_on_the_seeds_that_all_have():
    """Else the rate that had more seeds would lose to the lucky one."""
    better = make_runs([72, 60, 60], "2")
    [found] = list_approaches(better, rate(make_runs([71], "2"), 1e-4))
    assert found.first.lr == 2e-5 and len(found.runs) == 3


def test_the_best_of_several_rates_is_not_compared_with_the_only_one():
    better = rate(make_runs([85, 85.2, 84.8], "2"), 1e-4)
    rows = make_rows(ALL, TWO, better)
    assert not rows[1].difference.is_known
    assert rows[1].note == "best of 2 rates, everything of 1"


def test_where_nothing_validates_each_rate_has_its_row():
    def blind(runs):
        return [
            replace(
                run,
                validation=None,
                epochs=[replace(e, validation=None) for e in run.epochs],
            )
            for run in runs
        ]

    runs = [*ALL, *TWO, *rate(TWO, 1e-4)]
    assert [row.name for row in make_rows(blind(runs))] == [
        "everything",
        "last 2, lr 0.0001",
        "last 2, lr 2e-05",
    ]


def test_another_alpha_is_another_row_and_never_a_choice():
    """Else LoRA would have the best of two, and training everything of one."""
    runs = []
    for alpha, scores in ((16.0, [80, 80.2, 79.8]), (64.0, [99, 99.2, 98.8])):
        lora = {"method": "lora", "lora_alpha": alpha}
        for run in make_runs(scores, "all", settings=lora):
            runs.append(replace(run, approach="all_lora8"))
    names = [one.name for one in list_approaches(ALL, runs)]
    assert names[1:] == ["all lora8, lora_alpha 16", "all lora8, lora_alpha 64"]


@pytest.mark.parametrize("partly", [{"load_blocks": "none"}, {"blocks": "1-2"}])
def test_only_a_whole_trained_encoder_is_what_others_are_compared_with(partly):
    def make_some(scores, layers, **settings):
        whole = {"load_blocks": "all", "blocks": "", "pooler": "trained"}
        return make_runs(scores, layers, settings={**whole, **settings})

    probe = {"settings": {"features": "frozen"}, "approach": "probe"}
    rows = make_rows(
        make_some([80, 81, 79], "all"),
        make_some([60, 61, 59], "all", **partly),
        make_some([70, 71, 69], "0", pooler="frozen"),
        make_runs([75], "0", **probe),
    )
    assert [round(row.difference.value) for row in rows[-2:]] == [-10, -5]


@pytest.mark.parametrize(
    "approach, words",
    [
        ("fine_tuning_keep4", "everything, keep4"),
        ("all_lora8_keep4", "all lora8 keep4"),
        ("head", "the output layer alone"),
        ("probe_keep4", "the probe, keep4"),
    ],
)
def test_an_approach_has_a_name_in_words(approach, words):
    assert advice.name_approach(approach) == words


def test_a_name_has_differing_settings_in_one_order():
    """A summary keeps them in another one than a run."""
    one, other = {"folds": 10, "clean": "a"}, {"clean": "b", "folds": 0}
    expected = [", clean a, folds 10", ", clean b, folds 0"]
    assert approaches.describe_differences([one, other]) == expected
    assert approaches.describe_differences([other, one]) == expected[::-1]


def test_own_runs_are_held_against_the_best_and_not_against_cut_runs():
    cut = make_runs([60], "all", stop_reason="max_seconds", epochs_run=1)
    runs = made_up.frame([*cut, *make_runs([75], "2")])
    own = approaches.list_approaches(
        approaches.label_runs(runs), of_paper=False
    )
    best, other = sorted(own, key=lambda one: one is not one.base)
    assert (best.name, other.name) == ("last 2", "everything")
    assert other.note == "ended by its time limit, after 1 of 30 epochs"


def test_a_mean_over_tasks_has_one_reference():
    """The best of one task is last 2, of the other last 4."""
    rows = make_rows(
        *(
            make_runs([score], layers, task)
            for task, scores in (("rte", (81, 61)), ("mrpc", (61, 91)))
            for layers, score in zip("24", scores)
        )
    )
    assert not [row for row in rows if row.task.startswith("mean of")]
    assert {(row.task, row.name) for row in rows if row.is_reference} == {
        ("rte", "last 2"),
        ("mrpc", "last 4"),
    }


@pytest.mark.parametrize(
    "halved, words",
    [
        (
            (60, 61, 62, 60, 61),
            "are likely to help. From half of the training ",
        ),
        ((70, 68, 72, 69, 71), "It is not shown that more labelled texts"),
        ((70, 70, 70, 70, 70), "the probe gains +0.0 points, cross-validated."),
    ],
)
def test_the_gain_of_labels_is_that_of_the_last_half(halved, words):
    profile = {
        "fold_scores": [0.7] * 5,
        "half_scores": [score / 100 for score in halved],
    }
    assert words in advice.describe_labels(profile)
    assert advice.describe_labels({"fold_scores": [0.7]}) == ""
