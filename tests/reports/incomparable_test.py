"""Reports on runs that are not all that a claim asks for."""

import math

import pytest

from tests.reports import made_up
from tf_transfer.reports import brief, page

LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
OTHER = "minilm"  # no paper's encoder
NEAR = (-0.1, 0.0, 0.1)


def write(paper, middles, model=OTHER, **changes):
    """Three runs of last 2 and of everything around a middle, by task."""
    return [
        run
        for task, (first, second) in middles.items()
        for group, middle in ((LAST, first), (ALL, second))
        for run in made_up.make_runs(
            paper,
            task,
            {**group, "model": model},
            [middle + step for step in NEAR],
            **changes,
        )
    ]


def judge_one(claim, middles, **options):
    paper = made_up.make_paper(claim)
    [verdict] = made_up.judge(paper, write(paper, middles, **options)).values()
    return verdict


def test_the_tasks_of_a_value_are_named_where_the_claim_has_more():
    claim = {"tasks": ("rte", "mrpc", "cola"), "sign": -1}
    verdict = judge_one(claim, {"rte": (70, 80), "cola": (60, 80)})
    assert verdict.value == pytest.approx(-15)
    assert page.describe_ours(verdict).endswith("n = 3, on rte and cola only")
    assert brief.neutral_word(verdict) == "lower"
    whole = judge_one({"sign": -1}, {"rte": (70, 80)})
    assert page.describe_ours(whole).endswith("n = 3")


@pytest.mark.parametrize("model", [OTHER, "bert_base_en_uncased"])
def test_a_task_without_one_of_the_sides_counts_for_nothing(model):
    """The mean over last 4 and last 2 is not that of last 2."""
    claim = {
        "tasks": ("rte", "mrpc"),
        "first": (LAST, {"trainable_layers": "4"}),
        "sign": -1,
    }
    paper = made_up.make_paper(claim)
    runs = write(paper, {"rte": (70, 80), "mrpc": (60, 80)}, model=model)
    [verdict] = made_up.judge(paper, runs).values()
    assert math.isnan(verdict.value) and not brief.is_reported(verdict)
    assert page.describe_ours(verdict) == ""
    lacks = "no runs with trainable_layers=4 on rte"
    assert verdict.problem == lacks
    if model != OTHER:
        assert verdict.reason == f"{lacks}, and 1 more"
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
        ("each", "the opposite is shown: 2 of 3 lower, not cola"),
        ("most", "shown: 2 of 3 lower, not cola"),
        ("mean", "lower"),
    ],
)
def test_each_of_several_is_not_told_by_the_mean(over, words):
    tasks = {"rte": (60, 80), "mrpc": (60, 80), "cola": (85, 80)}
    claim = {"tasks": tuple(tasks), "over": over, "sign": -1}
    assert brief.neutral_word(judge_one(claim, tasks)) == words


def test_times_that_the_limit_cut_off_are_not_told():
    claim = {"measure": ("seconds", "seconds"), "sign": -1}
    options = {"seconds": 50.0, "stop_reason": "max_epochs"}
    verdict = judge_one(claim, {"rte": (70, 80)}, **options)
    assert not brief.is_reported(verdict)
    assert "came before the stopping point" in verdict.problem
    assert brief.neutral_word(verdict) == "not reported"


def test_that_a_side_did_not_train_is_reported_first():
    claim = {"tasks": ("rte", "mrpc"), "uses": ("sst2", "qqp", "mnli", "qnli")}
    tasks = {"rte": (70, 80), "mrpc": (70, 80)}
    verdict = judge_one(
        {**claim, "sign": -1}, tasks, majorities={"accuracy": 0.75}
    )
    assert verdict.reason.startswith(
        "last_2 at 2e-05 is not shown to be above the majority baseline on rte"
    )
    assert (
        brief.neutral_word(verdict)
        == "not shown to be above the majority baseline"
    )


def test_parts_in_which_nothing_varies_prove_nothing():
    claim = {"tasks": ("rte", "mrpc"), "over": "each", "sign": -1}
    paper = made_up.make_paper(claim)
    alike = [
        made_up.make_runs(paper, "rte", group, [score] * 3)
        for group, score in ((LAST, 70), (ALL, 80))
    ]
    varied = write(paper, {"mrpc": (70, 80)}, model=paper.encoders[0])
    [verdict] = made_up.judge(paper, *alike, varied).values()
    assert verdict.word == "inconclusive"
    assert verdict.reason == "nothing is shown; 2 of 2 lower"


def test_a_side_has_one_value_of_what_the_paper_does_not_name():
    """Ranks 8 and 1 of LoRA are not six seeds of one method."""
    lora = {"method": "lora", "trainable_layers": "all"}
    paper = made_up.make_paper(
        {"first": (lora,), "second": ({**ALL, "method": "full"},), "sign": -1}
    )
    runs = [
        made_up.make_runs(paper, "rte", settings, scores)
        for settings, scores in (
            ({**lora, "lora_rank": 8}, [70, 70.1, 70.2, 70.3]),
            ({**lora, "lora_rank": 1}, [40, 40.1, 40.2]),
            ({**ALL, "method": "full"}, [80, 80.1, 80.2]),
        )
    ]
    [verdict] = made_up.judge(paper, *runs).values()
    assert "lora_rank 1 and 8, of which the claim names" in verdict.reason
