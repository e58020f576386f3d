"""A rehearsal: the runs of each paper's grids, with made-up results.

Every claim has to have a word, whichever way the results are.
"""

import collections
import os
import zlib

import pytest

from tests import experiments_test
from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, contrast, runs as runs_lib
from tf_transfer.sweeps import grid as grid_lib, plan

FOLDER = os.path.join(commands.ROOT, "experiments")
# Joined from members by another command, or ours on another encoder.
ELSEWHERE = ("ensemble_accuracy", "ensemble_f1", *experiments_test.EMBEDDED)
METRICS = (
    *("accuracy", "f1", "f1_hart", "token_f1", "matthews", "pearson"),
    *("sentiment_accuracy", "paraphrase_accuracy", "similarity_pearson"),
    *("overall", "spearman"),
)


def expand(experiment, folder):
    """The planned runs of a paper in the order of its sweep."""
    runs = [
        run
        for name in experiments_test.PAPERS_GRIDS[experiment]
        for run in grid_lib.expand(
            name,
            grid_lib.read(os.path.join(FOLDER, experiment, f"{name}.json")),
            folder,
        )
    ]
    # In rounds, so that what is compared is timed in turn.
    return sorted(plan.order(runs), key=lambda run: run.settings.seed)


def draw(text, sign=1):
    """A number between -1 and 1 that belongs to a text."""
    return sign * (zlib.crc32(text.encode()) / 2**31 - 1)


def make_record(paper, experiment, run, number, sign):
    """The record of a finished run; those of one group differ by little."""
    settings, key = run.settings, experiments_test.key_of(run)
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
        path=f"{number} {run.name}",
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


@pytest.mark.parametrize("experiment", experiments_test.PAPERS_GRIDS)
def test_every_claim_has_its_word_after_the_paper_s_runs(
    experiment, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    experiments_test._write_data(tmp_path)
    paper = claims.read(claims.find_file(FOLDER, experiment))
    planned = expand(experiment, str(tmp_path))
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
    assert undecided - expected == {*ELSEWHERE} & words.keys()
