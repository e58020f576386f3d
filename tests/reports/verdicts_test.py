"""The word of a verdict, and when it must not be given."""

import dataclasses
import math

import pytest

from tests.reports import made_up

LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}


def judge_one(first, second, claim, task="rte", **changes):
    """The verdict on one claim, of scores of last 2 and of fine-tuning."""
    paper = made_up.make_paper(claim)
    return made_up.judge(
        paper,
        made_up.make_runs(paper, task, {**LAST, **changes}, first),
        made_up.make_runs(paper, task, {**ALL, **changes}, second),
    )["claim_1"]


@pytest.mark.parametrize(
    ("first", "published", "word"),
    [
        ([68, 69, 70, 71, 72], -10, "agrees"),
        ([68, 69, 70, 71, 72], -40, "agrees in sign"),
        ([68, 69, 70, 71, 72], 10, "contradicts"),
        ([78, 79, 80, 81, 83], -1, "inconclusive"),
        ([79.8, 79.9, 80, 80.1, 80.2], -10, "contradicts"),
    ],
)
def test_a_difference_has_sign_and_size(first, published, word):
    verdict = judge_one(first, [78, 79, 80, 81, 82], {"published": published})
    assert verdict.word == word, verdict


def test_no_difference_needs_an_interval_within_the_margin():
    claim = {"kind": "equal", "margin": 1.0}
    wide = judge_one([30, 90, 150], [70, 80, 90], claim)
    assert wide.value == 10 and wide.low < -40 and wide.high > 60
    assert wide.word == "inconclusive"
    narrow = judge_one([79.9, 80.0, 80.1], [79.9, 80.0, 80.2], claim)
    assert narrow.word == "agrees"
    apart = judge_one([70, 70.1, 70.2], [80, 80.1, 80.2], claim)
    assert apart.word == "contradicts"


@pytest.mark.parametrize(
    "setting, usual, value",
    [
        ("class_weights", "none", "balanced"),
        ("head", "linear", "mlp"),
    ],
)
def test_a_setting_that_a_claim_does_not_name_is_the_papers(
    setting, usual, value
):
    paper = made_up.make_paper({"sign": -1})
    paper = dataclasses.replace(
        paper, settings={**paper.settings, setting: usual}
    )
    groups = [
        made_up.make_runs(
            paper, "rte", {"trainable_layers": layers, setting: value}, scores
        )
        for layers, scores in (("2", [70, 71, 72]), ("all", [80, 81, 82]))
    ]
    verdict = made_up.judge(paper, *groups)["claim_1"]
    assert verdict.word == "not comparable" and setting in verdict.reason


@pytest.mark.parametrize("seeds", [1, 2])
def test_fewer_than_three_seeds_conclude_nothing(seeds):
    verdict = judge_one([70.0, 70.1][:seeds], [80, 80.1, 80.2], {"sign": -1})
    assert verdict.word == "inconclusive"
    assert f"{seeds} run" in verdict.reason


def test_a_missing_task_leaves_a_claim_open():
    verdict = judge_one(
        [70, 70.1, 70.2],
        [80, 80.1, 80.3],
        {"tasks": ("rte", "mrpc"), "sign": -1},
    )
    assert verdict.word == "inconclusive"
    assert verdict.reason == "no runs on mrpc"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch_size": 8}, "batch_size 8 (paper: 1)"),
        ({"model": "minilm"}, "encoder minilm"),
        ({"frozen_prefix": "cached"}, "frozen_prefix cached"),
    ],
)
def test_other_settings_are_not_comparable(changes, reason):
    verdict = judge_one(
        [70, 70.1, 70.3], [80, 80.1, 80.2], {"sign": -1}, **changes
    )
    assert verdict.word == "not comparable"
    assert reason in verdict.reason
    assert verdict.value == pytest.approx(
        -9.967, abs=0.001
    )  # told all the same


@pytest.mark.parametrize(
    ("origins", "clause"),
    [
        ({"batch_size": "paper"}, "batch_size 8 (paper: 1)"),
        ({"batch_size": "authors_code"}, "batch_size 8 (authors' code: 1)"),
        ({"batch_size": "ours"}, "batch_size 8 (our reading: 1)"),
        ({}, "batch_size 8 (our reading: 1)"),
    ],
)
def test_a_difference_names_the_origin_of_the_setting(origins, clause):
    paper = made_up.make_paper({"sign": -1}, origins=origins)
    [verdict] = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", {**LAST, "batch_size": 8}, [70, 71]),
        made_up.make_runs(paper, "rte", {**ALL, "batch_size": 8}, [80, 81]),
    ).values()
    assert verdict.word == "not comparable" and verdict.reason == clause


def test_cut_data_are_not_comparable():
    paper = made_up.make_paper({"sign": -1})
    sizes = {"train": 540, "validation": 60, "test": 277}
    [verdict] = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", LAST, [70, 70.1, 70.3], sizes=sizes),
        made_up.make_runs(paper, "rte", ALL, [80, 80.1, 80.2], sizes=sizes),
    ).values()
    assert verdict.word == "not comparable"
    assert "600 examples in train and validation" in verdict.reason


@pytest.mark.parametrize("task", ["qqp", "mnli", "qnli"])
def test_an_encoder_that_has_seen_the_data_is_not_comparable(task):
    verdict = judge_one(
        [70, 70.1, 70.3],
        [80, 80.1, 80.2],
        {"sign": -1, "tasks": (task,)},
        task,
        model="minilm",
    )
    assert f"minilm has seen {task} before" in verdict.reason


def test_a_side_that_did_not_train_is_not_comparable():
    paper = made_up.make_paper(
        {"sign": -1}, {"sign": -1, "may_fail": ("first",)}
    )
    majorities = {"majorities": {"accuracy": 0.527}}
    verdicts = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", LAST, [52.7, 52.7, 52.8], **majorities),
        made_up.make_runs(paper, "rte", ALL, [80, 80.1, 80.2], **majorities),
    )
    assert verdicts["claim_1"].word == "not comparable"
    assert (
        "not shown to be above the majority baseline"
        in verdicts["claim_1"].reason
    )
    assert verdicts["claim_2"].word == "agrees"  # there it is the claim


def test_a_time_that_the_limit_cut_off_concludes_nothing():
    claim = {"measure": ("seconds", "seconds"), "relative": True, "sign": -1}
    paper = made_up.make_paper(claim)

    def judge(reason):
        return made_up.judge(
            paper,
            made_up.make_runs(
                paper, "rte", LAST, [80] * 4, stop_reason=reason, seconds=50.0
            ),
            [
                made_up.make_record(
                    paper,
                    "rte",
                    ALL,
                    seed,
                    80,
                    100.0 + seed,
                    stop_reason=reason,
                )
                for seed in range(4)
            ],
        )["claim_1"]

    assert judge("patience").word == "agrees"
    cut_off = judge("max_epochs")
    assert cut_off.word == "inconclusive"
    assert "limit of epochs" in cut_off.reason


def test_each_pair_is_timed_in_the_environment_that_it_shares():
    """Everything ran on a slow machine and on a fast one, the rest on one."""
    claim = {
        "first": (LAST, {"trainable_layers": "4"}),
        "measure": ("seconds_per_epoch", "seconds_per_epoch"),
        "relative": True,
        "sign": -1,
        "over": "mean",
    }
    paper = made_up.make_paper(claim)

    def runs(group, seconds, *machines):
        times = [
            second * (1 + seed / 1000)
            for second in seconds
            for seed in range(3)
        ]
        starts = [0, 1000, 2000] * len(machines)
        names = [machine for machine in machines for _ in range(3)]
        return made_up.time_runs(paper, group, times, starts, names)

    whole = runs(ALL, (100.0, 10.0), "slow", "fast")
    few = runs(LAST, (50.0,), "slow")
    more = runs({"trainable_layers": "4"}, (5.0,), "fast")
    judged = made_up.judge(paper, whole, few, more)["claim_1"]
    assert judged.value == pytest.approx(-50, abs=0.5)
    assert judged.word == "agrees"
    apart = runs({"trainable_layers": "4"}, (5.0,), "third")
    judged = made_up.judge(paper, whole, few, apart)["claim_1"]
    assert judged.word == "inconclusive"
    assert "0 runs in a group on rte timed in an env" in judged.reason


def test_exact_settings_win_over_more_runs():
    paper = made_up.make_paper(
        {"sign": 1, "both": {"pooling": "mean"}}, varied=("pooling",)
    )
    mean = {"pooling": "mean"}
    [verdict] = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", {**LAST, **mean}, [70, 71, 72]),
        made_up.make_runs(paper, "rte", {**ALL, **mean}, [60, 61, 62]),
        made_up.make_runs(
            paper, "rte", {**LAST, **mean, "lr": 1e-5}, [10, 11, 12, 13, 14]
        ),
        made_up.make_runs(
            paper, "rte", {**ALL, **mean, "lr": 1e-5}, [80, 81, 82, 83, 84]
        ),
    ).values()
    assert verdict.word == "agrees" and verdict.value == pytest.approx(10)


def test_runs_at_another_rate_never_fill_the_papers_row():
    verdict = judge_one(
        [70, 70.1, 70.3], [60, 60.2, 60.1], {"sign": 1}, lr=1e-5
    )
    assert verdict.word == "not comparable"
    assert "lr 1e-05 (paper: 2e-05)" in verdict.reason


def test_rates_are_chosen_on_validation_of_equally_many():
    paper = made_up.make_paper({"sign": -1}, rates=(2e-5, 1e-3))

    def write(layers, lr, scores):
        return made_up.make_runs(paper, "rte", {**layers, "lr": lr}, scores)

    both = [
        write(LAST, 1e-3, [75, 76, 77]),
        write(LAST, 2e-5, [60, 61, 62]),
        write(ALL, 1e-3, [50, 51, 52]),
        write(ALL, 2e-5, [80, 81, 82]),
    ]
    [verdict] = made_up.judge(paper, *both).values()
    assert verdict.value == pytest.approx(-5)
    [verdict] = made_up.judge(paper, *both[:2], both[3]).values()
    # Both have 2e-5, but it is not the best of the first side.
    assert verdict.word == "inconclusive" and math.isnan(verdict.value)
    assert verdict.reason == "2 and 1 rates were tried in the groups on rte"
    worse = write(LAST, 5e-4, [40, 41, 42])
    [verdict] = made_up.judge(paper, worse, *both[1:2], both[3]).values()
    assert verdict.value == pytest.approx(-20)  # the best of both is there


def test_holms_correction_counts_the_claims_of_the_paper():
    scores = [77.5, 78.5, 79.5, 80.5, 81.5]
    alone = judge_one(scores, [80, 81, 82, 83, 84], {"sign": -1})
    assert alone.word == "agrees" and 0.01 < alone.p < 0.05
    paper = made_up.make_paper(*[{"sign": -1}] * 5)
    many = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", LAST, scores),
        made_up.make_runs(paper, "rte", ALL, [80, 81, 82, 83, 84]),
    )
    assert {v.word for v in many.values()} == {"inconclusive"}
    assert "Holm" in many["claim_1"].reason


def test_of_most_tasks_one_may_differ():
    tasks = ("rte", "mrpc", "cola")
    lower = {"rte": 70, "mrpc": 70, "cola": 90}

    def judge(over):
        paper = made_up.make_paper({"tasks": tasks, "sign": -1, "over": over})
        groups = []
        for task, middle in lower.items():
            scores = [middle - 0.1, middle, middle + 0.1]
            groups.append(made_up.make_runs(paper, task, LAST, scores))
            groups.append(made_up.make_runs(paper, task, ALL, [80, 80.1, 80.2]))
        return made_up.judge(paper, *groups)["claim_1"]

    assert judge("most").word == "agrees"
    assert judge("each").word == "contradicts"
    assert "cola" in judge("each").reason


def test_equal_scores_of_all_seeds_conclude_nothing():
    verdict = judge_one([70] * 3, [80] * 3, {"sign": -1})
    assert verdict.word == "inconclusive"


def test_a_claim_that_nobody_ran_is_named():
    paper = made_up.make_paper(
        {"sign": -1, "first": ({"trainable_layers": "4"},)}
    )
    [verdict] = made_up.judge(
        paper, made_up.make_runs(paper, "rte", ALL, [80, 81, 82])
    ).values()
    assert (verdict.word, verdict.study) == ("inconclusive", "")


def test_a_group_compared_with_itself_concludes_nothing():
    claim = {"sign": -1, "second": ({"trainable_layers": "2"},)}
    paper = made_up.make_paper(claim)
    [verdict] = made_up.judge(
        paper, made_up.make_runs(paper, "rte", LAST, [70, 71, 72])
    ).values()
    assert (verdict.word, verdict.value) == ("inconclusive", 0)


def test_what_one_side_is_asked_for_the_other_has_as_in_the_paper():
    """The rate is the claim's: 1e-3 must not stand in for the usual one."""
    claim = {
        "sign": -1,
        "first": ({"trainable_layers": "2", "lr": 1e-3},),
        "second": ({"trainable_layers": "all"},),
    }
    paper = made_up.make_paper(claim)
    high = {"lr": 1e-3}
    runs = [
        made_up.make_runs(paper, "rte", {**LAST, **high}, [70, 71, 72]),
        made_up.make_runs(paper, "rte", {**ALL, **high}, [10, 11, 12, 13]),
    ]
    [verdict] = made_up.judge(paper, *runs).values()
    assert verdict.reason.startswith("no runs with ")
    [verdict] = made_up.judge(
        paper, *runs, made_up.make_runs(paper, "rte", ALL, [80, 81, 82])
    ).values()
    assert verdict.value == pytest.approx(-10)


# === Settings that neither the claim nor the paper fixes ===


def test_several_values_of_a_setting_are_not_chosen_from():
    paper = made_up.make_paper({"sign": -1}, varied=("max_epochs",))
    runs = {
        (epochs, name): made_up.make_runs(
            paper,
            "rte",
            {**group, "max_epochs": epochs},
            [score, score + 0.1, score + 0.3],
        )
        for epochs in (10, 3)
        for name, group, score in (("all", ALL, 80.0), ("last", LAST, 75.0))
    }
    verdict = made_up.judge(paper, *runs.values())["claim_1"]
    assert verdict.word == "inconclusive"
    assert verdict.reason.startswith(
        "runs with max_epochs 10 and 3, of which the claim names none"
    )
    # Only one is of both groups.
    del runs[10, "last"]
    verdict = made_up.judge(paper, *runs.values())["claim_1"]
    assert verdict.value == pytest.approx(-5.0)
    del runs[3, "all"]
    verdict = made_up.judge(paper, *runs.values())["claim_1"]
    assert verdict.reason.startswith("the groups have max_epochs 3 and 10")


def test_a_setting_that_one_side_alone_has_has_the_paper_s_value():
    usual = {"head_lr": 1e-3, "phase_one_epochs": 1}
    paper = made_up.make_paper({"sign": -1}, varied=tuple(usual))

    def run(group, score, **settings):
        return made_up.make_runs(
            paper, "rte", {**group, "lr": 1e-4, **settings}, [score] * 3
        )

    base = run(ALL, 80.0)
    paper.settings.update(usual)
    verdict = made_up.judge(
        paper,
        base,
        run(LAST, 70.0, head_lr=1e-3, phase_one_epochs=2),
        run(LAST, 99.0, head_lr=1e-4, phase_one_epochs=2),
        run(LAST, 99.0, head_lr=1e-4, phase_one_epochs=5),
    )["claim_1"]
    assert verdict.value == pytest.approx(-10.0)
