"""Each paper's one command decides each of its claims.

The runs that `python -m tf_transfer.sweep experiments/<paper>` plans have
made-up results, in the order of the sweep. For one claim after the other, what
it compares is as it says, or is not.
"""

import dataclasses

import pytest
from msgspec.structs import replace

from tests.reports import made_up
from tests.support import commands, planned_runs
from tf_transfer.comparison.run_record import Pass
from tf_transfer.reports import (
    contrast,
    run_frame as runs_lib,
    run_groups,
    verdicts,
)
from tf_transfer.sweeps import rehearsal

SCORES = ("score", "last_score", "score_within", "interpolated_score")
LUCK = (-0.00003, 0.00001, 0.00002)  # of the seeds, a share of the value
# Joined from the predictions of three runs when a report reads them.
ENSEMBLES = ("ensemble_accuracy", "ensemble_f1")


def set_measure(record, measure, value):
    """A run whose measure, or that of each of its folds, has a value."""
    share = value / 100
    if measure in (*SCORES, record.metric):
        record = replace(
            record,
            metrics={**record.metrics, record.metric: share},
            validation=share,
            test=share,
            epochs=[
                replace(epoch, validation=share, test=share)
                for epoch in record.epochs
            ],
        )
    elif measure.startswith("pass:"):
        _, task, metric = measure.split(":")
        passes = [Pass("another", {metric: 0.5})]
        passes.append(Pass(task, {metric: 0.5 + share}))
        record = replace(record, passes=passes)
    elif measure in ("seconds", "seconds_per_epoch", "epochs_run"):
        record = replace(record, **{measure: value})
    else:
        metrics = {**record.metrics, measure: share}
        record = replace(record, metrics=metrics)
    if record.folds and measure in record.folds[0]:
        lucks = [
            LUCK[(ord(record.approach[0]) + number) % 3]
            for number, _ in enumerate(record.folds)
        ]
        folds = [
            {**fold, measure: share + luck}
            for fold, luck in zip(record.folds, lucks)
        ]
        record = replace(record, folds=folds)
    return record


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
    records = {record.path: record for record in records}
    for found in compared:
        values = find_values(claim, is_so)
        # What is compared with comes last: a group may be both.
        for group, measure, value in zip(found, claim.measure, values):
            for number, path in enumerate(group.runs.path):
                one = value * (1 + LUCK[number % 3])
                name = measure
                if measure == "deviation":  # from the group's median
                    one, name = 70 + (one - 60) * (-1) ** number, "score"
                records[path] = set_measure(records[path], name, one)
    return [*records.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", planned_runs.PAPERS)
def test_every_claim_is_decided_by_its_paper_s_one_command(name, monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    paper = planned_runs.read_paper(name)
    undecidable = {*planned_runs.read_undecidable(name), *ENSEMBLES}
    records = [
        rehearsal.make_record(paper, run, number)
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
