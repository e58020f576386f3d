"""Each paper's one command decides each of its claims.

The runs that `python -m tf_transfer.sweep experiments/<paper>` plans have
made-up results, in the order of the sweep. For one claim after the other, what
it compares is as it says, or is not.
"""

import copy
import dataclasses
import json

import pytest

from tests.reports import made_up
from tests.support import commands, planned_runs
from tf_transfer.data import glue
from tf_transfer.reports import (
    contrast,
    run_frame as runs_lib,
    run_groups,
    verdicts,
)

METRICS = {
    "tweets": ("accuracy", "f1", "f1_hart"),
    "stacking": ("accuracy", "f1", "token_f1"),
    "multitask": (
        "overall",
        "sentiment_accuracy",
        "paraphrase_accuracy",
        "similarity_pearson",
    ),
}
SCORES = ("score", "last_score", "score_within", "interpolated_score")
EPOCHS = 10
LUCK = (-0.00003, 0.00001, 0.00002)  # of the seeds, a share of the value
# Joined from the predictions of three runs when a report reads them.
ENSEMBLES = ("ensemble_accuracy", "ensemble_f1")


def make_record(paper, run, number):
    """The record of a planned run: 40 points and 100 s after each epoch.

    What a claim compares scores some 70, so that its rate is the best.
    """
    settings, name = run.settings, run.experiment.name
    task = planned_runs.task_of(run)
    metrics = METRICS.get(name) or (glue.TASKS[task].metric,)
    model = "" if settings.is_sparse else settings.model
    key = {"data_identity": task, "model_identity": model}
    key = {**planned_runs.key_of(run), **key, "module": name}
    sizes = dict(paper.sizes.get(task, {}))
    if whole := sizes.pop("train_and_validation", 0):
        sizes["validation"] = round(whole * settings.validation_fraction)
        sizes["train"] = whole - sizes["validation"]
    if size := getattr(settings, "max_train_examples", 0):
        sizes["train"] = size
    folds = getattr(settings, "folds", 0) if settings.is_sparse else 0
    blocks = 0
    if model:
        blocks = 24 if "large" in model else 12
    record = {
        "path": f"{name}/{number}",
        "experiment": name,
        "task": task,
        "data": settings.data,
        "model": model,
        "blocks": blocks,
        "metric": metrics[0],
        "approach": settings.approach,
        "cached": False,
        "lr": float(settings.lr or 0),
        "seed": settings.seed,
        "sizes": sizes,
        "max_epochs": settings.max_epochs,
        "key": json.loads(json.dumps(key, default=str)),
        "timing_environment": {"machine": "here", "mixed": False},
        "started": 1000.0 * number,
        "epochs": [
            {"validation": 0.4, "test": 0.4, "seconds": 100.0 * (epoch + 1)}
            for epoch in range(EPOCHS)
        ],
        "passes": [],
        "folds": [dict.fromkeys(metrics, 0.4) for _ in range(folds)] or None,
        "validation": 0.4,
        "test": 0.4,
        "metrics": dict.fromkeys(metrics, 0.4),
        "majorities": {},
        "one_answer": False,
        "epochs_run": EPOCHS,
        "stop_reason": "patience" if settings.patience else "max_epochs",
        "seconds": 1000.0,
        "seconds_per_epoch": 100.0,
        "prefix_seconds": None,
        "prefix_build_seconds": None,
        "memory": None,
        "trainable_parameters": 1,
        "total_parameters": 1,
    }
    return record


def set_measure(record, measure, value):
    """Gives a run, or each of its folds, the value of a measure."""
    if measure in (*SCORES, record["metric"]):
        record["metrics"][record["metric"]] = value / 100
        record["validation"] = record["test"] = value / 100
        for epoch in record["epochs"]:
            epoch["validation"] = epoch["test"] = value / 100
    elif measure.startswith("pass:"):
        _, task, metric = measure.split(":")
        record["passes"] = [
            {"task": "another", "validation": {metric: 0.5}},
            {"task": task, "validation": {metric: 0.5 + value / 100}},
        ]
    elif measure in ("seconds", "seconds_per_epoch", "epochs_run"):
        record[measure] = value
    else:
        record["metrics"][measure] = value / 100
    for number, fold in enumerate(record["folds"] or ()):
        if measure in fold:
            luck = LUCK[(ord(record["approach"][0]) + number) % 3]
            fold[measure] = value / 100 + luck


def find_values(claim, is_so):
    """Measures of the groups of a claim that hold it, or refute it."""
    second = 70.0 if claim.second else 0.0
    if claim.kind == "equal":
        first = second if is_so else second + 5 * claim.margin
        return first, second
    size = claim.published or 6 * claim.direction
    size = size if is_so else -size
    if claim.relative:
        return second * claim.factor * (1 + size / 100), second
    return second * claim.factor + size, second


def find_compared(runs, paper, claim):
    """The groups that a claim compares, of each pair and task."""
    for _, members in runs_lib.studies(runs):
        tasks = run_groups.split_tasks(members)
        for name in claim.tasks:
            task, _, encoder = name.partition(" with ")
            if encoder and encoder not in set(members.model):
                continue
            for pair in contrast._pairs(claim):
                wanted = [{**claim.both, **group} for group in pair]
                try:
                    yield run_groups.find_groups(tasks[task], paper, wanted)
                except (run_groups.NotFound, KeyError):
                    continue  # another study has them


def hold(records, compared, claim, is_so):
    """The records with what a claim compares as it says, or not."""
    records = {record["path"]: record for record in records}
    for found in compared:
        for group in found:
            for path in group.runs.path:
                records[path] = copy.deepcopy(records[path])
    for found in compared:
        values = find_values(claim, is_so)
        # What is compared with comes last: a group may be both.
        for group, measure, value in zip(found, claim.measure, values):
            for number, path in enumerate(group.runs.path):
                one = value * (1 + LUCK[number % 3])
                name = measure
                if measure == "deviation":  # from the group's median
                    one, name = 70 + (one - 60) * (-1) ** number, "score"
                set_measure(records[path], name, one)
    return [*records.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", planned_runs.PAPERS)
def test_every_claim_is_decided_by_its_paper_s_one_command(name, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    paper = planned_runs.read_paper(name)
    undecidable = {*planned_runs.read_undecidable(name), *ENSEMBLES}
    records = [
        make_record(paper, run, number)
        for number, run in enumerate(planned_runs.plan_runs(name))
    ]
    runs = runs_lib.runs_frame(records, paper.varied)
    wrong = []
    for claim in paper.claims:
        compared = [*find_compared(runs, paper, claim)]
        words = {True: verdicts.AGREES, False: verdicts.CONTRADICTS}
        for is_so, word in words.items():
            one = dataclasses.replace(paper, claims=(claim,))
            results = runs_lib.runs_frame(
                hold(records, compared, claim, is_so), paper.varied
            )
            judged = made_up.judge_runs(results, one)
            if word not in {verdict.word for verdict in judged}:
                reasons = [f"{v.word}: {v.reason}" for v in judged]
                wrong.append((claim.id, word, reasons))
    assert {name for name, *_ in wrong} == {
        claim.id for claim in paper.claims if claim.id in undecidable
    }, wrong
