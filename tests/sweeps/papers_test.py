"""The one command of a paper has the runs that its claims need."""

import collections
import contextlib
import itertools

import numpy as np
import pytest

from tests.support import commands, planned_runs
from tf_transfer.reports import claims
from tf_transfer.sweeps import rehearsal

LEAST = 3  # seeds of a group
# A claim about time compares groups whose runs were timed in turn: their mean
# starts are no further apart than this share of the whole.
APART = 1 / 3
TIMES = ("seconds", "seconds_per_epoch", "score_within", "interpolated_score")


@pytest.fixture(
    scope="module",
    params=[
        # 5,900 runs are planned for seconds; those of others are found alike
        pytest.param(name, marks=pytest.mark.slow if name == "freezing" else ())
        for name in planned_runs.PAPERS
    ],
)
def paper(request):
    """A paper, the reasons why claims are undecidable, and the planned runs.

    A run is (task, encoder, key, number in the order of the sweep).
    """
    with contextlib.chdir(commands.ROOT):
        planned = planned_runs.plan_runs(request.param)
    runs = [
        (
            run.settings.task_name,
            "" if run.settings.is_sparse else run.settings.model,
            rehearsal.list_settings(run),
            number,
        )
        for number, run in enumerate(planned)
    ]
    undecidable = planned_runs.read_undecidable(request.param)
    return planned_runs.read_paper(request.param), undecidable, runs


def resolve(value, model):
    """A setting of a claim, of which an encoder decides the number."""
    blocks = 24 if "large" in model else 12
    if isinstance(value, str) and value.startswith("L/"):
        return str(-(-blocks // int(value[2:])))
    if value == "last 2":
        return f"{blocks - 1}-{blocks}"
    return value


def find_runs(paper, runs, claim, task, group):
    """Seeds and numbers of the runs of a group of a claim, by their rate.

    A baseline has no seed, and one run is enough.
    """
    task, _, preset = task.partition(" with ")
    preset = preset or claim.encoder or paper.encoder_of.get(task, "")
    preset = preset or paper.encoders[0]
    claimed = {**claim.both, **group}
    wanted = {**paper.settings_on(preset), **claimed}
    if "lr" not in claimed:
        wanted["lr"] = paper.rates or wanted["lr"]
    if group.get("head") == "ensemble":  # joined from members, by the report
        wanted.update(head="densenet", adaptation="stack_and_finetune")
        claimed = {}
    found = collections.defaultdict(dict)
    for name, model, key, number in runs:
        if (
            name == task
            and model in ("", preset)
            and set(claimed) <= set(key)
            and all(
                claims.is_same(key[n], resolve(value, preset))
                for n, value in wanted.items()
                if n in key
            )
        ):
            found[key.get("lr")][key.get("seed")] = number
    return {
        lr: seeds
        for lr, seeds in found.items()
        if len(seeds) >= LEAST or None in seeds or "features" in claimed
    }


def is_decidable(paper, runs, claim):
    """Whether all groups have runs, those without a rate at equally many."""
    for task in claim.tasks:
        rates = []
        for group in (*claim.first, *claim.second):
            found = find_runs(paper, runs, claim, task, group)
            if not found:
                return False
            if "lr" not in {**claim.both, **group} and None not in found:
                rates.append(len(found))
        if len(set(rates)) > 1 and "features" not in str(claim.second):
            return False
    return True


def test_each_claim_is_decided_by_the_paper_s_command(paper):
    """Except those whose file says why they are not."""
    paper, undecidable, runs = paper
    decided = {
        claim.id: is_decidable(paper, runs, claim) for claim in paper.claims
    }
    assert {name for name, is_so in decided.items() if not is_so} == set(
        undecidable
    )
    assert all(undecidable.values())


def test_what_a_claim_on_time_compares_is_timed_in_turn(paper):
    paper, _, runs = paper
    for claim in paper.claims:
        if not set(claim.measure) & set(TIMES):
            continue
        pairs = itertools.product(claim.first, claim.second)
        if claim.paired:
            pairs = zip(claim.first, claim.second)
        for (first, second), task in itertools.product(pairs, claim.tasks):
            groups = [
                list(seeds.values())
                for group in (first, second)
                for seeds in find_runs(paper, runs, claim, task, group).values()
            ]
            starts = [number for group in groups for number in group]
            means = [np.mean(group) for group in groups]
            assert np.ptp(means) <= APART * np.ptp(starts), (claim.id, task)


def test_the_runs_of_a_paper_are_listed_once(paper):
    _, _, runs = paper
    assert len(
        {str((*run[:2], sorted(run[2].items()))) for run in runs}
    ) == len(runs)
