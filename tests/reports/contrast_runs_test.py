"""Which runs a claim is judged by, and which are not comparable with it."""

import math

import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tests.reports.made_up import (
    ALL,
    judge_near,
    judge_one,
    LAST,
    OTHER,
    write_near,
)
from tf_transfer.reports import contrast, page, run_frame as runs_lib, verdicts

# === What is not comparable ===


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
        {"sign": -1}, [70, 70.1, 70.3], [80, 80.1, 80.2], **changes
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


@pytest.mark.parametrize("task", ["qqp", "mnli", "qnli"])
def test_an_encoder_that_has_seen_the_data_is_not_comparable(task):
    verdict = judge_one(
        {"sign": -1, "tasks": (task,)},
        [70, 70.1, 70.3],
        [80, 80.1, 80.2],
        task,
        model="minilm",
    )
    assert f"minilm has seen {task} before" in verdict.reason


def test_a_group_that_did_not_train_is_not_comparable():
    paper = made_up.make_paper(
        {"sign": -1}, {"sign": -1, "may_fail": ("first",)}
    )
    majorities = {"majorities": {"accuracy": 0.527}}
    judged = made_up.judge(
        paper,
        made_up.make_runs(paper, "rte", LAST, [52.7, 52.7, 52.8], **majorities),
        made_up.make_runs(paper, "rte", ALL, [80, 80.1, 80.2], **majorities),
    )
    assert judged["claim_1"].word == "not comparable"
    assert (
        "not shown to be above the majority baseline"
        in judged["claim_1"].reason
    )
    assert judged["claim_2"].word == "agrees"  # there it is the claim


@pytest.mark.parametrize(
    "measure, word", [("last_score", "not comparable"), ("score", "agrees")]
)
def test_a_group_that_lost_again_what_it_had_learned_is_not_comparable(
    measure, word
):
    """Its selected epochs are above the baseline, its last ones are not."""
    paper = made_up.make_paper({"sign": -1, "measure": (measure, measure)})
    runs = [
        replace(record, test=selected + record.seed / 1000)
        for group, last, selected in ((LAST, 52.7, 0.7), (ALL, 80, 0.8))
        for record in made_up.make_runs(
            paper,
            "rte",
            group,
            [last, last, last],
            majorities={"accuracy": 0.527},
        )
    ]
    [verdict] = made_up.judge(paper, runs).values()
    assert verdict.word == word


def test_a_single_run_may_show_that_its_group_did_not_train():
    verdict = judge_one(
        {"sign": -1}, [52.7], [80], majorities={"accuracy": 0.527}
    )
    assert (verdict.word, verdict.reason) == (
        "not comparable",
        f"last_2 at 2e-05 is {verdicts.FAILED} on rte",
    )


def test_groups_that_were_scored_on_different_texts_are_not_comparable():
    paper = made_up.make_paper({"sign": -1})
    runs = [
        replace(record, texts=texts)
        for group, m, texts in ((LAST, 70, "a"), (ALL, 80, "b"))
        for record in made_up.make_runs(paper, "rte", group, [m, m + 0.1, m])
    ]
    [verdict] = made_up.judge(paper, runs).values()
    assert verdict.word == "not comparable"
    assert "scored on different texts" in verdict.reason


# === On this encoder and data ===


@pytest.mark.parametrize("model", [OTHER, "bert_base_en_uncased"])
def test_a_task_without_one_of_the_groups_is_not_counted(model):
    """The mean over last 4 and last 2 is not that of last 2."""
    claim = {
        "tasks": ("rte", "mrpc"),
        "first": (LAST, {"trainable_layers": "4"}),
        "sign": -1,
    }
    paper = made_up.make_paper(claim)
    runs = write_near(paper, {"rte": (70, 80), "mrpc": (60, 80)}, model=model)
    [verdict] = made_up.judge(paper, runs).values()
    assert math.isnan(verdict.value)
    assert page.describe_value(verdict) == ""
    lacks = "no runs with trainable_layers=4 on rte, and 1 more"
    assert lacks in (
        verdict.reason,
        verdict.local.removeprefix("no result: "),
    )
    runs += made_up.make_runs(
        paper,
        "mrpc",
        {"trainable_layers": "4", "model": model},
        [75, 75.1, 75.2],
    )
    [verdict] = made_up.judge(paper, runs).values()
    assert verdict.value == pytest.approx((-20 - 4.9) / 2)
    assert verdict.tasks == ("mrpc",)


@pytest.mark.parametrize(
    "over, words",
    [
        ("each", "the opposite is shown: 2 of 3 lower, not last_2 on cola"),
        ("most", "shown: 2 of 3 lower, not last_2 on cola"),
        ("mean", "lower"),
    ],
)
def test_each_of_several_is_not_reported_by_the_mean(over, words):
    tasks = {"rte": (60, 80), "mrpc": (60, 80), "cola": (85, 80)}
    claim = {"tasks": tuple(tasks), "over": over, "sign": -1}
    assert judge_near(claim, tasks).local == words


# === Which runs ===


def test_a_claim_on_an_encoder_is_judged_by_its_runs():
    paper = made_up.make_paper(
        {"sign": -1, "encoder": "bert_base_en_uncased"},
        {"sign": -1, "encoder": "bert_large_en_uncased"},
        {"sign": -1},
        encoders=("bert_base_en_uncased", "bert_large_en_uncased"),
    )

    def judge(model):
        return [
            (verdict.word, verdict.reason)
            for verdict in made_up.judge(
                paper,
                *(
                    made_up.make_runs(
                        paper, "rte", {**group, "model": model}, scores
                    )
                    for group, scores in (
                        (LAST, [70, 70.1, 70.2]),
                        (ALL, [80, 80.1, 80.2]),
                    )
                ),
            ).values()
        ]

    none = ("inconclusive", "no runs of its encoder")
    agrees = ("agrees", "the sign")
    assert judge("bert_base_en_uncased") == [agrees, none, agrees]
    assert judge("bert_large_en_uncased") == [none, agrees, agrees]
    other, nothing, _ = judge(OTHER)  # the first stands for encoders of ours
    assert other[0] == "not comparable" and nothing == none


def test_runs_of_another_encoder_change_no_verdict():
    """Neither what is missing nor Holm's correction."""
    paper = made_up.make_paper(
        {"sign": -1},
        {"sign": -1, "tasks": ("cola",)},
        {"sign": -1, "tasks": ("mrpc",)},
    )
    runs = {
        OTHER: made_up.write_near(paper, {"rte": (79.8, 80), "mrpc": (70, 80)}),
        "mpnet": made_up.write_near(
            paper, {"rte": (79.7, 80), "cola": (70, 80)}, model="mpnet"
        ),
    }

    def judge(records):
        frame = runs_lib.runs_frame(records)
        letters = dict(zip(frame.study, frame.model))
        return [
            (one.encoder, letters.get(one.study), one.claim.id, one.reason)
            + (one.local, one.p if one.study else None)
            for one in made_up.judge_runs(frame, paper)
        ]

    together = judge([*runs[OTHER], *runs["mpnet"]])
    assert len(together) == 6
    assert sorted(map(str, together)) == sorted(
        str(one) for records in runs.values() for one in judge(records)
    )


def test_a_task_without_runs_is_missing():
    verdict = judge_one(
        {"sign": -1, "tasks": ("rte", "mrpc", "cola")},
        [70, 70.1, 70.2],
        [80, 80.1, 80.2],
    )
    assert (verdict.word, verdict.reason) == (
        "inconclusive",
        "no runs on mrpc, and 1 more",
    )
    assert verdict.tasks == ("rte",) and verdict.study
    assert verdict.value == pytest.approx(-10)
    nothing = judge_one({"sign": -1, "tasks": ("mrpc",)}, [70, 71], [80, 81])
    assert (nothing.study, nothing.reason) == ("", "no runs on mrpc")
    assert nothing.runs == 0 and math.isnan(nothing.value)


@pytest.mark.parametrize(
    "task, data, has_seen",
    [
        ("pairs", "MRPC files", False),
        ("pairs", "other files", True),
        ("paraphrase", "MRPC files", True),
        ("rte", "rte files", False),
    ],
)
def test_pairs_of_mrpc_are_new_to_every_encoder(task, data, has_seen):
    paper = made_up.make_paper({"sign": -1, "tasks": (task,)})
    runs = [
        replace(record, key={**record.key, "data_identity": data})
        for group, m in ((LAST, 70), (ALL, 80))
        for record in made_up.make_runs(
            paper, task, {**group, "model": OTHER}, [m, m + 0.1, m + 0.2]
        )
    ]
    [verdict] = made_up.judge(paper, runs).values()
    [test] = contrast.test_claims(runs_lib.runs_frame(runs), paper)
    seen = f"{OTHER} has seen {task} before"
    assert (seen in test.differences) == has_seen
    assert verdict.word == "not comparable"


def test_what_a_measure_looks_at_may_have_been_seen():
    paper = made_up.make_paper({"sign": -1, "uses": ("qqp", "sst2")})
    runs = [
        record
        for group, m in ((LAST, 70), (ALL, 80))
        for record in made_up.make_runs(
            paper, "rte", {**group, "model": OTHER}, [m, m + 0.1, m + 0.2]
        )
    ]
    [test] = contrast.test_claims(runs_lib.runs_frame(runs), paper)
    assert f"{OTHER} has seen qqp before" in test.differences
    assert len(test.differences) == len({*test.differences})
    assert not any("sst2" in clause for clause in test.differences)


def test_a_baseline_without_luck_has_runs_enough():
    claim = {"first": ({"features": "tfidf"},), "sign": -1}
    paper = made_up.make_paper(claim, varied=("features",))
    baseline = [
        made_up.make_record(
            paper,
            "rte",
            {"features": "tfidf"},
            0,
            60.0,
            blocks=0,
            approach="tfidf",
        )
    ]
    whole = made_up.make_runs(paper, "rte", ALL, [80, 80.1, 80.2])
    [verdict] = made_up.judge(paper, baseline, whole).values()
    assert verdict.runs == 3
    assert "run in a group" not in verdict.reason + verdict.local


def test_a_run_without_a_value_decides_nothing():
    paper = made_up.make_paper({"sign": -1})
    last, whole = (
        made_up.make_runs(paper, "rte", group, [m, m + 0.1, m + 0.2, m - 0.1])
        for group, m in ((LAST, 70), (ALL, 80))
    )
    last[3] = replace(last[3], test=None, metrics={})
    [verdict] = made_up.judge(paper, last, whole).values()
    assert verdict.word == "inconclusive"
    assert verdict.reason == "not all runs have a value on rte"


def test_every_group_without_runs_is_named():
    depths = tuple({"trainable_layers": k} for k in ("4", "1", "3"))
    verdict = judge_one({"sign": -1, "first": (LAST, *depths)}, [70], [80])
    lacks = "no runs with trainable_layers=4 on rte, and 2 more"
    assert verdict.reason == lacks
