"""The groups of a claim: settings, rates, times, the majority baseline."""

import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tf_transfer.reports import run_frame as runs_lib, run_groups

LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
FASTER = {"measure": ("seconds", "seconds"), "relative": True, "sign": -1}


# === Settings ===


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


@pytest.mark.parametrize(
    "model, found", [("tiny", "frozen"), ("mpnet", "trained")]
)
def test_a_new_pooler_trains_where_the_paper_freezes_it(model, found):
    paper = made_up.make_paper({"sign": 1})
    runs = []
    for pooler in ("frozen", "trained"):
        settings = {"trainable_layers": "0", "pooler": pooler, "model": model}
        runs += made_up.make_runs(paper, "rte", settings, [70, 71])
    groups = run_groups.list_groups(runs_lib.runs_frame(runs, ["pooler"]))
    wanted = {"trainable_layers": "0", "pooler": "frozen"}
    [group] = run_groups.find_groups(groups, paper, [wanted])
    assert group.settings["pooler"] == found


def test_a_setting_of_one_group_has_the_papers_value_in_the_other():
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
    del runs[10, "last"], runs[3, "all"]
    verdict = made_up.judge(paper, *runs.values())["claim_1"]
    assert verdict.reason.startswith("runs with max_epochs 10 and 3")


def test_a_setting_that_only_one_group_has_has_the_papers_value():
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


def test_a_group_that_lacks_a_setting_does_not_have_the_paper_s_value():
    """Runs of everything at once have no epochs of the head."""
    claim = {"first": ({"pooling": "cls"},), "second": (), "sign": 1}
    paper = made_up.make_paper(claim, varied=("pooling", "train", "head"))
    paper.settings.update({"train": "head_first", "head": 20})
    runs = [
        made_up.make_runs(
            paper, "rte", {"pooling": "cls", "train": train, "head": head}, [70]
        )
        for train, head in (("head_first", 200), ("all", None))
    ]
    del runs[1][0].key["head"]
    [found] = run_groups.list_groups(made_up.frame(runs[0], paper.varied))
    members = run_groups.list_groups(made_up.frame(sum(runs, []), paper.varied))
    [group] = run_groups.find_groups(members, paper, claim["first"])
    assert group.settings == found.settings


# === Rates ===


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
    assert verdict.value == pytest.approx(-20)  # at the rate that both have
    [verdict] = made_up.judge(paper, both[0], both[3]).values()
    assert verdict.value == pytest.approx(-5)  # one rate each
    more = write(LAST, 5e-4, [90, 91, 92])
    [verdict] = made_up.judge(paper, *both, more).values()
    assert verdict.value == pytest.approx(-5)  # the paper's rates alone


# === Times ===


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
    assert "0 runs in a group on rte" in judged.reason


def judge_times(two, all_, starts, claim=FASTER):
    """Runs of both sides that start at given times."""
    paper = made_up.make_paper(claim)
    runs = [
        made_up.make_record(
            paper, "rte", group, seed, 80, seconds=second, started=start
        )
        for group, seconds, of_side in (
            (LAST, two, starts[0]),
            (ALL, all_, starts[1]),
        )
        for seed, (second, start) in enumerate(zip(seconds, of_side))
    ]
    [verdict] = made_up.judge(paper, runs).values()
    return verdict


def test_sides_that_were_timed_one_after_another_are_not_compared():
    day, night = (0, 100, 200), (50_000, 50_100, 50_200)
    found = judge_times([98, 98.1, 97.9], [100, 100.1, 99.9], (day, night))
    assert found.word == "inconclusive"
    assert "not known to have been timed in turn" in found.reason
    assert found.value == pytest.approx(-2, abs=0.1)  # a figure all the same
    unknown = (None,) * 3
    found = judge_times([50, 51, 52], [100, 101, 102], (unknown, unknown))
    assert found.word == "inconclusive"


def test_sides_that_were_timed_in_turn_are_compared_as_a_ratio():
    starts = (0, 200, 400), (100, 300, 500)
    found = judge_times([49, 50, 51], [99, 100, 101.5], starts)
    assert found.word == "agrees"
    assert found.value == pytest.approx(-50, abs=1)
    assert found.value - found.low < found.high - found.value  # a ratio's


# === The majority baseline ===


@pytest.mark.parametrize(
    "score, majority, texts, failed",
    [
        (94.3, 94.0, 300, True),  # one example more
        (94.3, 94.0, 300_000, False),
        (99.0, 94.0, 300, False),
        (57.0, 52.7, 277, True),
        (65.0, 52.7, 277, False),
        (52.0, 52.7, 277_000, True),
    ],
)
def test_an_example_above_the_majority_baseline_is_not_shown_to_be_above_it(
    score, majority, texts, failed
):
    runs = runs_lib.runs_frame(
        made_up.make_runs(
            made_up.make_paper(),
            "rte",
            ALL,
            [score - 0.1, score, score + 0.1],
            majorities={"accuracy": majority / 100},
            sizes={"train": 1000, "test": texts},
        )
    )
    assert run_groups.did_not_train(runs) == failed


def test_runs_without_epochs_are_judged_by_their_score():
    runs = made_up.make_runs(made_up.make_paper(), "rte", ALL, [80, 80.2, 80.4])
    frame = runs_lib.runs_frame([replace(run, epochs=[]) for run in runs])
    assert not run_groups.did_not_train(frame, "last_score")


def test_the_lead_over_the_majority_baseline_is_paired_where_it_is_stored():
    runs = made_up.make_runs(
        made_up.make_paper(),
        "rte",
        ALL,
        [95.2, 95.3, 95.4],
        majorities={"accuracy": 0.94},
        sizes={"train": 1000, "test": 300},
    )
    assert run_groups.did_not_train(runs_lib.runs_frame(runs))
    paired = [replace(run, lead_error=0.4) for run in runs]
    assert not run_groups.did_not_train(runs_lib.runs_frame(paired))
