"""Wang's claims on runs in memory: the right word, and what must not count."""

import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.glue import experiment as glue
from tf_transfer.reports import claims, frames

PAPER = claims.read(
    os.path.join(commands.ROOT, "experiments", "glue", "claims.toml")
)
LARGE = ("mnli", "qqp", "qnli", "sst2")
SMALL = ("cola", "stsb", "mrpc", "rte")
LOSSES = {"all": 0.0, "4": -2.4, "3": -2.5, "2": -2.8, "1": -4.2}
SHARES = {"all": 1.0, "4": 0.65, "3": 0.6, "2": 0.55, "1": 0.5}  # of an epoch


def write(task, layers, score, seconds=None, seeds=3, **changes):
    """Runs around a score, each at its approach's rate."""
    lr = changes.pop("lr", 2e-5 if layers == "all" else 1e-3)
    seconds = seconds or 100 * SHARES[layers]
    return [
        made_up.make_record(
            PAPER,
            task,
            {"trainable_layers": layers, "lr": lr},
            seed,
            [score + 0.1 * seed] * 3
            if not isinstance(score, list)
            else [part + 0.1 * seed for part in score],
            seconds=seconds + 0.1 * seed,
            **changes,
        )
        for seed in range(seeds)
    ]


def write_tasks(tasks, losses=LOSSES, **changes):
    """Runs of every approach on some tasks."""
    return [
        record
        for task in tasks
        for layers, loss in losses.items()
        for record in write(task, layers, 80 + loss, **changes)
    ]


def judge(*groups):
    return made_up.judge(PAPER, *groups)


# === The file ===


def test_the_settings_are_those_of_the_experiment():
    ours = glue.Settings(task="rte").resolve()
    known = {**ours.hashed(), "max_epochs": ours.max_epochs}
    for name, value in PAPER.settings.items():
        assert claims.is_same(getattr(ours, name), value), name
    # What a machine may change, and what the claims name.
    free = {"strategy", "cpu_devices", "jit_compile", "deterministic"}
    free |= {"task", "seed", "trainable_layers"}
    assert set(known) - set(PAPER.settings) == free
    assert PAPER.encoders == (ours.model,)


def test_both_rates_are_the_papers_and_defaults():
    resolved = {
        glue.Settings(task="rte", trainable_layers=layers).resolve().lr
        for layers in ("all", "4")
    }
    assert resolved == set(PAPER.rates) == set(PAPER.settings["lr"])


def test_every_claim_has_runs_that_it_agrees_on():
    """With the published numbers put into runs, nothing is contradicted."""
    large = {"all": 0.0, "4": -0.2, "3": -0.5, "2": -1.7, "1": -2.2}
    found = judge(
        write_tasks(SMALL),
        write_tasks(LARGE, large),
        [  # at the other rates
            record
            for task in (*LARGE, *SMALL)
            for layers in LOSSES
            for record in write(
                task,
                layers,
                30 if layers == "all" else 52,
                lr=1e-3 if layers == "all" else 2e-5,
            )
        ],
    )
    words = {
        claim: verdict.word
        for claim, verdict in found.items()
        if not claim.startswith(("fixed_", "budget", "gain", "time_"))
        and not verdict.claim.reading_of
    }
    assert len(words) == 14
    assert words.pop("more_epochs") != "agrees"  # all ran three
    # The paper's own losses of 2.36 to 4.25 are not "very similar".
    assert words.pop("score_small_similar") == "contradicts"
    assert set(words.values()) == {"agrees"}, words


# === Evidence ===


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_on_one_task_conclude_nothing(seeds):
    found = judge(
        *(
            write("rte", layers, 80 + d, seeds=seeds)
            for layers, d in LOSSES.items()
        )
    )
    assert {v.word for v in found.values()} == {"inconclusive"}


def test_one_task_of_four_is_not_enough():
    found = judge(write_tasks(["rte"]))
    verdict = found["score_small_last_4"]
    assert verdict.word == "inconclusive"
    assert verdict.reason == "no runs on cola, and 2 more"
    assert verdict.value == pytest.approx(-2.4)


def test_runs_that_the_limit_cut_off_say_nothing_of_time():
    records = write_tasks(SMALL, stop_reason="max_epochs")
    verdict = judge(records)["time_small_last_2"]
    assert verdict.word == "inconclusive"
    assert "limit of epochs" in verdict.reason
    stopped = judge(write_tasks(SMALL))["time_small_last_2"]
    assert stopped.word == "agrees"
    assert stopped.value == pytest.approx(-45, abs=0.1)


def test_three_epochs_for_all_are_not_the_papers_thirty():
    """A ratio of epochs, guaranteed by the limit, is no saving of time."""
    found = judge(write_tasks(SMALL, max_epochs=3, stop_reason="max_epochs"))
    for claim in ("time_small_last_4", "time_small_last_1", "epoch"):
        assert found[claim].word == "not comparable"
        assert "max_epochs 3 (paper: 30)" in found[claim].reason


def test_a_difference_that_noise_covers_is_not_an_effect():
    records = [
        made_up.make_record(
            PAPER,
            task,
            {"trainable_layers": layers, "lr": lr},
            seed,
            score,
        )
        for task in SMALL
        for layers, lr, scores in (
            ("all", 2e-5, (70, 80, 90)),
            ("4", 1e-3, (67, 78, 88)),
        )
        for seed, score in enumerate(scores)
    ]
    verdict = judge(records)["score_small_last_4"]
    assert verdict.word == "inconclusive"
    assert verdict.low < 0 < verdict.high


# === Which runs count ===


def test_wnli_and_a_cut_sst2_are_in_no_average():
    sizes = {"train": 540, "validation": 60, "test": 872}
    alone = judge(write_tasks(SMALL))
    wide = {"all": 0.0, "4": -30.0}
    joined = judge(
        write_tasks(SMALL),
        write_tasks(["wnli"], wide),
        write_tasks(["sst2"], wide, sizes=sizes),
    )
    assert joined["score_small_last_4"] == alone["score_small_last_4"]
    assert joined["fixed_start"].word != "agrees"
    cut = judge(
        write_tasks(LARGE[:3]),
        write_tasks(["sst2"], sizes=sizes),
    )["score_large_last_2"]
    assert cut.word == "not comparable"
    assert "600 examples in train and validation (official" in cut.reason


def test_each_approach_is_averaged_over_the_same_tasks():
    """A task without one of the approaches leaves its claim open."""
    records = write_tasks(SMALL)
    some = [
        r
        for r in records
        if not (r["task"] == "rte" and r["approach"] == "last_4")
    ]
    found = judge(some)
    assert found["score_small_last_4"].word == "inconclusive"
    assert "on rte" in found["score_small_last_4"].reason
    assert found["score_small_last_3"].word == "agrees"


def test_the_better_rate_is_chosen_on_validation():
    records = [
        *write_tasks(SMALL),
        *(
            record
            for task in SMALL
            for layers in LOSSES
            for record in write(
                task,
                layers,
                95,  # on test; validation says otherwise
                lr=1e-3 if layers == "all" else 2e-5,
                validation=0.5,
            )
        ),
    ]
    assert judge(records)["score_small_last_4"].value == pytest.approx(-2.4)


# === Logic ===


def judge_epochs(shares):
    records = [
        record
        for task in (*LARGE, *SMALL)
        for layers, share in shares.items()
        for record in write(task, layers, 80, 100 * share)
    ]
    return judge(records)["epoch"]


def test_epoch_shares_of_approaches_are_not_averaged():
    close = judge_epochs({"all": 1, "4": 0.7, "3": 0.6, "2": 0.5, "1": 0.44})
    assert close.word == "agrees"
    far = judge_epochs({"all": 1, "4": 0.88, "3": 0.6, "2": 0.5, "1": 0.44})
    assert far.word == "agrees in sign"
    assert "last_4 on cola" in far.reason and "last_1" not in far.reason
    slower = judge_epochs({"all": 1, "4": 1.2, "3": 0.6, "2": 0.5, "1": 0.1})
    assert slower.word == "contradicts"


def write_curves(task, behind):
    """Fine-tuning, and the last blocks so many points behind it."""
    curve = [70.0, 75.0, 80.0, 80.0, 80.0]
    groups = [write(task, "all", curve, 100)]
    for layers, by in behind.items():
        scores = [value - by for value in curve]
        groups.append(write(task, layers, scores, 99))
    return [record for group in groups for record in group]


def test_ahead_at_every_fixed_time_survives_one_tie():
    behind = {"4": 9.0, "3": 9.0, "2": 9.0, "1": 9.0}

    def judge_with(by):
        return judge(
            *(write_curves(task, behind) for task in SMALL[:3]),
            write_curves("rte", {**behind, "4": by}),
        )["fixed_small"]

    assert judge_with(9.0).word == "agrees"
    tie = judge_with(0.0)
    assert (
        tie.word == "inconclusive"
        and "45 of 48 lower, not last_4 on rte at 1.1" in tie.reason
    )
    lost = judge_with(-9.0)
    assert lost.word == "contradicts"
    assert "not last_4 on rte at 1.1 epochs" in lost.reason


def test_before_an_epoch_is_over_there_is_no_score():
    slow = [
        *write_curves("rte", {"3": 9.0, "2": 9.0, "1": 9.0}),
        *write("rte", "4", [60.0] * 5, 400),
    ]
    rest = {"4": 9.0, "3": 9.0, "2": 9.0, "1": 9.0}
    found = judge(slow, *(write_curves(task, rest) for task in SMALL[:3]))
    assert found["fixed_small"].word == "inconclusive"


def test_twenty_hours_are_a_multiple_of_a_fine_tuning_epoch():
    """At 1.82 epochs one of fine-tuning is over, and two of the last 4."""
    records = [
        *write("mnli", "all", [80.0, 84.0, 84.0], 100),
        *write("mnli", "4", [80.0, 81.2, 84.0], 65),
    ]
    found = judge(records)
    assert found["budget"].value == pytest.approx(1.2)
    assert found["budget"].word == "agrees"
    steps = {n: found[f"fixed_mnli_{n}_by_validation"] for n in (50000, 100000)}
    assert steps[50000].value == pytest.approx(0)
    assert steps[100000].value == pytest.approx(0)  # three epochs


def test_a_collapsed_side_is_the_claim_or_spoils_it():
    """Fine-tuning at 1e-3 may answer the commonest label alone."""
    records = [
        record
        for task in (*LARGE, *SMALL)
        for lr, score in ((2e-5, 80), (1e-3, 30))
        for record in write(
            task,
            "all",
            score,
            lr=lr,
            majorities={"accuracy": 0.302},
        )
    ]
    assert judge(records)["fine_tuning_at_1e-3"].word == "agrees"
    failed = write_tasks(
        SMALL, majorities={"accuracy": 0.79}
    )  # all but fine-tuning are below
    verdict = judge(failed)["score_small_last_4"]
    assert (
        verdict.word == "not comparable"
        and "not shown to be above the majority baseline" in verdict.reason
    )


@pytest.mark.parametrize("task", ["qqp", "mnli", "qnli"])
def test_minilm_is_not_judged_on_what_it_has_seen(task):
    records = write_tasks(LARGE)
    for record in records:
        record["model"] = "minilm"
    verdict = judge(records)["score_large_last_2"]
    assert verdict.word == "not comparable"
    runs = frames.runs_frame(records)
    assert f"minilm has seen {task} before" in verdict.reason or (
        task == "qnli" and "more" in verdict.reason
    )
    assert set(runs.model) == {"minilm"}
