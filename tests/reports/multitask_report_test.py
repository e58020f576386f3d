"""Claims on three tasks at once, on runs with known scores."""

import itertools
import os

import pytest

from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, study as study_lib

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


def collect(*groups):
    records = [record for group in groups for record in group]
    return study_lib.collect({"runs": records}, FOLDER)


def judged(study):
    return {verdict.claim.id: verdict for verdict in study.verdicts}


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
