"""A rehearsal: the runs of each paper's command, with made-up results.

Every claim has to have a word, whichever way the results are.
"""

import collections
import zlib

import pytest

from tests.reports import made_up
from tests.support import commands, planned_runs
from tf_transfer.reports import contrast, runs as runs_lib

# Joined from their members by another command.
ENSEMBLES = ("ensemble_accuracy", "ensemble_f1")
METRICS = (
    *("accuracy", "f1", "f1_hart", "token_f1", "matthews", "pearson"),
    *("sentiment_accuracy", "paraphrase_accuracy", "similarity_pearson"),
    *("overall", "spearman"),
)


def draw(text, sign=1):
    """A number between -1 and 1 that belongs to a text."""
    return sign * (zlib.crc32(text.encode()) / 2**31 - 1)


def make_record(paper, experiment, run, number, sign):
    """The record of a finished run; those of one group differ by little."""
    settings, key = run.settings, planned_runs.key_of(run)
    what = {n: v for n, v in key.items() if n not in ("seed", "task")}
    name, seed = str(sorted(what.items(), key=str)), int(settings.seed)
    luck = 0.02 * draw(f"{name} {seed}") * 10 ** draw(name)
    score = 70 + 10 * draw(name, sign) + luck
    seconds = 1000 if key.get("trainable_layers") == "all" else 700
    seconds *= 1 + draw(name, 0.03 * sign) + 0.01 * luck
    curve = [score + draw(f"{name} {n}", 5 * sign) for n in range(5)] + [score]
    folds = [
        dict.fromkeys(METRICS, (score + draw(f"{name} {fold}")) / 100)
        for fold in range(key.get("folds", 0))
    ]
    passes = [
        {
            "task": task,
            "validation": dict.fromkeys(
                METRICS,
                (draw(f"{name} {task}", 10 * sign) + turn * luck) / 100,
            ),
        }
        for turn in (1, 2)
        for task in ("sentiment", "similarity")
    ]
    record = made_up.make_record(
        paper,
        settings.task,
        {"lr": float(settings.lr)},
        seed,
        curve,
        seconds,
        path=f"{number} {run.label}",
        experiment=experiment,
        model=settings.model,
        max_epochs=settings.max_epochs,
        approach=settings.approach,
        cached=settings.runs_cached,
        started=1000.0 * number,
        metric="overall" if experiment == "multitask" else "accuracy",
        metrics=dict.fromkeys(METRICS, score / 100),
        folds=folds or None,
        passes=passes,
        validation=score / 100,
        epochs_run=6 + draw(name, 5 * sign) + luck,
        blocks=0 if settings.is_sparse else 12,
    )
    identity = {"data_identity": f"{settings.task} {bool(folds)}"}
    size = key.get("max_train_examples")
    if size:
        record["sizes"] = {**record["sizes"], "train": size}
    record["key"] = {**key, **identity, "model_identity": settings.model}
    return record


@pytest.mark.parametrize("experiment", planned_runs.PAPERS)
def test_every_claim_has_its_word_after_the_paper_s_runs(
    experiment, monkeypatch
):
    monkeypatch.chdir(commands.ROOT)
    paper = planned_runs.read_paper(experiment)
    planned = planned_runs.plan_runs(experiment)
    words = collections.defaultdict(set)
    for sign in (1, -1):
        records = [
            make_record(paper, experiment, run, number, sign)
            for number, run in enumerate(planned)
        ]
        runs = runs_lib.runs_frame(records, paper.varied)
        for verdict in contrast.judge(runs, paper):
            words[verdict.claim.id].add(verdict.word)
    undecided = {
        name
        for name, of_claim in words.items()
        if not of_claim & {contrast.AGREES, contrast.CONTRADICTS}
    }
    # Ten seeds may not decide how far they vary.
    expected = {c.id for c in paper.claims if "deviation" in c.measure}
    expected |= {*ENSEMBLES, *planned_runs.read_undecidable(experiment)}
    assert undecided <= expected
