"""Elsa's claims on runs in memory."""

import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.freezing import experiment as freezing
from tf_transfer.reports import claims, frames

PAPER = claims.read(
    os.path.join(commands.ROOT, "experiments", "freezing", "claims.toml")
)
JUDGED = ("sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")


def write(task, trials, lr=2e-5, untrained="", **changes):
    """Runs by number of trained blocks, each a list of scores.

    What full models leave `untrained` is in their key alone, where it is set.
    """
    records = []
    for blocks, scores in trials.items():
        settings = {"trainable_layers": str(blocks), "lr": lr}
        settings["untrained"] = untrained
        for seed, score in enumerate(scores):
            record = made_up.make_record(
                PAPER, task, settings, seed, score, **changes
            )
            if not (untrained and blocks == "all"):
                del record["key"]["untrained"]
            records.append(record)
    return records


def around(score):
    return [score - 0.2, score, score + 0.3]


def judge(*groups):
    return made_up.judge(PAPER, *groups)


def judge_tasks(curve, tasks=JUDGED, **other):
    """Verdicts on the same means on every task but those of `other`."""
    return judge(
        *(
            write(
                task,
                {n: around(s) for n, s in other.get(task, curve).items()},
            )
            for task in tasks
        )
    )


# === The file ===


@pytest.mark.parametrize("model", PAPER.encoders)
def test_the_settings_are_those_of_the_experiment(model):
    ours = freezing.Settings(task="rte", model=model, lr=1e-5).resolve()
    settings = PAPER.settings_on(model)
    known = {**ours.hashed(), "max_epochs": ours.max_epochs}
    for name, value in settings.items():
        assert claims.is_same(getattr(ours, name), value), name
    free = {"strategy", "cpu_devices", "jit_compile", "deterministic"}
    free |= {"task", "seed", "trainable_layers"}
    assert set(known) - set(settings) == free
    assert settings["lr"] == freezing.rates_of(ours)


def test_each_encoder_has_its_claims():
    kinds = {}
    for claim in PAPER.claims:
        kinds.setdefault(claim.encoder, set()).add(claim.id.split("_")[0])
        assert "cola" not in claim.tasks or not claim.id.startswith(
            ("enough", "fewest")
        )
    assert kinds.pop("") == {"none"}  # of all encoders together
    assert set(kinds) == set(PAPER.encoders)
    assert kinds.pop("bert_base_en_uncased") - {"choices"} == {
        *("none", "fourth", "enough", "fewest", "outlier", "half"),
        *("first", "diminishing", "all", "sst2"),
    }
    assert len({frozenset(names) for names in kinds.values()}) == 1


def test_the_tasks_that_the_paper_names_for_all_encoders_come_first():
    named = {"cola", "sst2", "mrpc", "stsb"}
    for claim in PAPER.claims:
        is_first = not claim.reading_of
        if claim.encoder != "bert_base_en_uncased" and claim.encoder:
            assert (set(claim.tasks) <= named) == is_first, claim.id


# === Evidence and logic ===


def test_a_fourth_is_claimed_of_most_tasks():
    curve = {"all": 80, "3": 78}
    verdicts = judge_tasks(curve, rte={"all": 80, "3": 60})
    assert verdicts["fourth_bert_base_without_cola"].word == "agrees"
    assert verdicts["enough_bert_base"].word == "contradicts"
    assert "6 of 7 higher, not rte" in verdicts["enough_bert_base"].reason
    low = {"all": 80, "3": 60}
    assert (
        judge_tasks(low)["fourth_bert_base_without_cola"].word == "contradicts"
    )


def test_numbers_that_were_not_tried_decide_nothing():
    """80 with all of 12, 50 with none: 1 to 3 may or may not be enough."""
    verdicts = judge_tasks({"all": 80, "0": 50})
    for claim in (
        "fourth_bert_base_without_cola",
        "enough_bert_base",
        "fewest_bert_base",
    ):
        assert verdicts[claim].word == "inconclusive"
        assert verdicts[claim].reason.startswith("no runs with ")


def test_a_task_that_is_missing_leaves_a_fourth_open():
    verdicts = judge_tasks({"all": 80, "3": 78}, tasks=JUDGED[:-1])
    assert verdicts["fourth_bert_base_without_cola"].word == "inconclusive"
    assert verdicts["fourth_bert_base_without_cola"].reason == "no runs on rte"


def test_a_fourth_is_judged_with_cola_first_and_without():
    """The introduction leaves no task out; Operating Points leaves CoLA out."""
    curve = {"all": 80, "3": 78}
    low = {task: {"all": 80, "3": 60} for task in ("sst2", "mrpc", "stsb")}
    verdicts = judge_tasks(
        curve, (*JUDGED, "cola"), cola={"all": 60, "3": 10}, **low
    )
    first, other = (
        verdicts[f"fourth_bert_base{name}"] for name in ("", "_without_cola")
    )
    assert first.word == "contradicts"
    assert first.reason.startswith("4 of 8 higher, not cola")
    assert other.word == "agrees"
    assert other.reason.startswith("4 of 7 higher")
    assert other.claim.reading_of == first.claim.id


def write_encoders(scores):
    """Full models at 80, and those of `scores` with nothing trained."""
    records = []
    for model, score in scores.items():
        own = [
            record
            for task in ("cola", "sst2", "mrpc", "stsb")
            for record in write(
                task,
                {"all": around(80), "0": around(score)},
                model=model,
                max_epochs=PAPER.settings_on(model)["max_epochs"],
            )
        ]
        dropout = PAPER.settings_on(model)["pooler_dropout"]
        for record in own:
            record["path"] += model
            record["key"] |= {"model_identity": model}
            record["key"]["pooler_dropout"] = dropout
        records += own
    return records


def test_the_mean_of_all_encoders_is_one_claim():
    """Each encoder alone is far from 64 %; the paper's figure is their mean."""
    scores = dict(zip(PAPER.encoders, (64, 42, 62, 36.8)))
    verdict = judge(write_encoders(scores))["none_share"]
    assert verdict.word == "agrees"
    assert verdict.value == pytest.approx(-36, abs=0.2)
    scores.pop("roberta_large_en")
    verdict = judge(write_encoders(scores))["none_share"]
    assert verdict.word == "inconclusive"
    assert verdict.reason == "no runs on cola with roberta_large_en, and 3 more"


def test_cola_does_not_count_for_a_fourth():
    joined = judge_tasks(
        {"all": 80, "3": 78}, (*JUDGED, "cola"), cola={"all": 60, "3": 10}
    )
    alone = judge_tasks({"all": 80, "3": 78})
    assert (
        joined["fourth_bert_base_without_cola"]
        == alone["fourth_bert_base_without_cola"]
    )


def test_plain_means_above_that_of_training_all_are_no_finding():
    """Many numbers a little above, none of them by more than luck."""
    trials = {"all": [78, 80, 82]}
    trials |= {n: [78.3, 80.3, 82.3] for n in "6543"}
    verdicts = judge(*(write(task, trials) for task in (*JUDGED, "cola")))
    verdict = verdicts["all_is_not_best_bert_base"]
    assert verdict.word == "inconclusive" and verdict.value > 0
    assert verdict.reason.startswith("nothing is shown; 32 of 32 higher")
    one = judge(
        *(write(task, trials) for task in JUDGED),
        write("cola", {**trials, "6": [89.9, 90, 90.1], "all": around(80)}),
    )["all_is_not_best_bert_base"]
    assert one.word == "agrees" and one.reason == "32 of 32 higher"


def test_one_failed_trial_makes_no_difference_significant():
    trials = {"all": [80, 81, 79, 0], "6": [79, 80, 78, 79]}
    verdicts = judge(*(write(task, trials) for task in (*JUDGED, "cola")))
    verdict = verdicts["half_bert_base"]
    assert verdict.value > 20 and verdict.word != "agrees"


def test_the_majority_baseline_counts_for_nothing():
    curve = {"all": 80, "3": 78}
    records = [
        record
        for task in JUDGED
        for record in write(
            task,
            {n: around(s) for n, s in curve.items()},
            majorities={"accuracy": 0.785 if task == "mrpc" else 0.5},
        )
    ]
    verdict = judge(records)["fourth_bert_base_without_cola"]
    assert verdict.word == "not comparable"
    assert (
        "last_3 at 2e-05 is not shown to be above the majority baseline on mrpc"
        in verdict.reason
    )


def test_minilm_is_told_for_what_it_is():
    records = [
        record
        for task in JUDGED
        for record in write(task, {"all": around(80), "2": around(78)})
    ]
    for record in records:
        record |= {"model": "minilm", "blocks": 6}
    verdicts = judge(records)
    verdict = verdicts["fourth_bert_base_without_cola"]  # 2 of 6, rounded up
    assert verdict.word == "not comparable" and verdict.value > 0
    assert "minilm has seen qqp before" in verdict.reason
    assert verdicts["fourth_roberta_base"].word == "inconclusive"


def test_subsets_and_other_settings_are_not_comparable():
    sizes = {"train": 500, "test": 872}
    records = [
        record
        for task in JUDGED
        for record in write(
            task,
            {"all": around(80), "3": around(78)},
            sizes=sizes,
            max_epochs=1,
        )
    ]
    verdict = judge(records)["fourth_bert_base_without_cola"]
    assert verdict.word == "not comparable"
    assert "500 examples in train and validation" in verdict.reason


@pytest.mark.parametrize(
    ("model", "epochs", "is_the_papers"),
    [
        ("bert_base_en_uncased", 3, True),
        ("bert_base_en_uncased", 10, False),
        ("roberta_base_en", 3, False),
        ("roberta_base_en", 10, True),
    ],
)
def test_each_family_has_its_number_of_epochs(model, epochs, is_the_papers):
    records = write("rte", {"all": around(80)}, max_epochs=epochs)
    for record in records:
        record["model"] = model
        dropout = PAPER.settings_on(model)["pooler_dropout"]
        record["key"]["pooler_dropout"] = dropout
    verdicts = claims.list_differences(frames.runs_frame(records), PAPER)
    assert (not verdicts) == is_the_papers
    assert is_the_papers or f"max_epochs {epochs}" in verdicts[0]


def test_rates_are_not_pooled():
    trials = {"all": around(80), "3": around(60)}
    better = {"all": around(80), "3": around(79)}
    verdicts = judge(
        *(write(task, trials, lr=1e-5) for task in JUDGED),
        *(write(task, better, lr=5e-5) for task in JUDGED),
    )
    verdict = verdicts["fourth_bert_base_without_cola"]
    assert verdict.word == "inconclusive"
    assert "lr 1e-05 and 5e-05, of which the claim names" in verdict.reason


def test_a_full_model_has_one_of_the_authors_values():
    """As committed, the authors' full models train no bias and no norm."""
    full = {n: around(s) for n, s in {"all": 80, "3": 78}.items()}
    for others, word in (({}, "agrees"), ({"all": [60]}, "inconclusive")):
        verdict = judge(
            *(write(task, full, untrained="bias,norm") for task in JUDGED),
            *(write(task, others) for task in JUDGED),
        )["fourth_bert_base_without_cola"]
        assert verdict.word == word
    assert "untrained bias,norm and none" in verdict.reason


def test_both_readings_are_the_paper_s():
    for untrained, is_the_papers in (
        ("", True),
        ("bias,norm", True),
        ("bias", False),
    ):
        records = write("rte", {"all": around(80)}, untrained=untrained)
        verdicts = claims.list_differences(frames.runs_frame(records), PAPER)
        assert (not verdicts) == is_the_papers
