"""Run records in memory, with the scores that a test asks for.

A case is a paper with a claim, and runs with known scores:

    paper = make_paper({"published": -2.0, "tasks": ("rte",)})
    two = make_runs(paper, "rte", {"trainable_layers": "2"}, [77, 78, 79])
    all = make_runs(paper, "rte", {"trainable_layers": "all"}, [80, 81, 80])
    judge(paper, two, all)["claim_1"].word

What else a record says is changed by its name, such as `seconds=10.0`,
`started=0.0`, `majorities={"accuracy": 0.5}`, `weights="another encoder"`.
"""

import pandas as pd
from msgspec.structs import replace

from tf_transfer.comparison.run_record import Environment, Epoch, RunRecord
from tf_transfer.reports import (
    approaches,
    claims,
    contrast,
    run_frame as runs_lib,
    study,
    verdicts,
)

ENVIRONMENT = Environment(
    processor="a processor",
    devices=["/device:CPU:0"],
    threads=2,
    concurrent_runs=1,
    replicas=1,
    mixed=False,
)
LAST, ALL = {"trainable_layers": "2"}, {"trainable_layers": "all"}
OTHER = "minilm"  # no paper's encoder
NEAR = (-0.1, 0.0, 0.1)


def make_record(
    paper, task, settings, seed, score, seconds=100.0, weights="", **changes
):
    """The record of a run at a paper's settings, data sizes and encoder.

    Args:
        paper: `claims.Paper`.
        task: such as `rte`.
        settings: what differs from the paper's.
        seed: of the run.
        score: in points, after every epoch, or a list of them.
        seconds: of an epoch.
        weights: their identity, if it is not that of the encoder's name.
        changes: what else of the record differs.
    """
    sizes = dict(paper.sizes.get(task, {"train": 1000, "test": 100}))
    whole = sizes.pop("train_and_validation", None)
    if whole:
        sizes |= {"validation": whole // 10, "train": whole - whole // 10}
    settings = {**paper.settings, **settings}
    scores = score if isinstance(score, list) else [score] * 3
    layers = str(settings.get("trainable_layers", "all"))
    model = settings.pop("model", paper.encoders[0])
    max_epochs = settings.pop("max_epochs", 3)
    record = RunRecord(
        path=f"{task}/{sorted(map(str, settings.items()))}/{model}/{seed}",
        experiment="glue",
        task=task,
        data="folder",
        model=model,
        blocks=12,
        parts={
            "embeddings": 500,
            "pooler": 20,
            **{f"block {number}": 100 for number in range(1, 13)},
        },
        metric="accuracy",
        approach="fine_tuning" if layers == "all" else f"last_{layers}",
        cached=settings.get("frozen_prefix") == "cached",
        lr=float(settings.get("lr", 2e-5)),
        seed=seed,
        sizes=sizes,
        max_epochs=max_epochs,
        key={
            "module": "glue",
            "task": task,
            "seed": seed,
            "data_identity": f"{task} files",
            "model_identity": weights or model,
            "lr": 2e-5,
            **settings,
        },
        timing_environment=ENVIRONMENT,
        commit=None,
        versions={},
        started=1000.0 * seed,
        epochs=[
            Epoch(points / 100, points / 100, seconds * number)
            for number, points in enumerate(scores, 1)
        ],
        passes=[],
        folds=None,
        validation=scores[-1] / 100,
        test=scores[-1] / 100,
        metrics={"accuracy": scores[-1] / 100},
        majorities={},
        one_answer=False,
        epochs_run=len(scores),
        stop_reason="patience",
        seconds=seconds * len(scores),
        seconds_per_epoch=seconds,
        trace_seconds=1.0,
        prefix_seconds=0.0,
        prefix_build_seconds=0.0,
        memory=1000,
        trainable_parameters=1000,
        total_parameters=1000,
    )
    return replace(record, **changes)


def make_runs(paper, task, settings, scores, **changes):
    """A record for each score, with the seeds 0, 1, ..."""
    return [
        make_record(paper, task, settings, seed, score, **changes)
        for seed, score in enumerate(scores)
    ]


def time_runs(paper, settings, seconds, starts, machines):
    """Runs on rte whose epochs take `seconds`, one on each of some machines."""
    return [
        make_record(
            paper,
            "rte",
            settings,
            seed,
            80,
            seconds=second,
            started=start,
            timing_environment=replace(ENVIRONMENT, machine=machine),
        )
        for seed, (second, start, machine) in enumerate(
            zip(seconds, starts, machines, strict=True)
        )
    ]


def judge(paper, *groups):
    """Verdicts by the claim's id, of records of one study."""
    records = [record for group in groups for record in group]
    runs = runs_lib.runs_frame(records, paper.varied)
    return {v.claim.id: v for v in judge_runs(runs, paper)}


def judge_runs(runs, paper):
    """The verdicts on a paper's claims by a frame of runs."""
    return verdicts.conclude(contrast.test_claims(runs, paper))


def make_paper(*entries, **changes):
    """A paper with some claims, each a dict; all of them on `rte`."""
    defaults = {
        "text": "A claim.",
        "source": "page 1",
        "tasks": ("rte",),
        "first": ({"trainable_layers": "2"},),
        "second": ({"trainable_layers": "all"},),
    }
    made = [
        claims.Claim(**{"id": f"claim_{number}", **defaults, **entry})
        for number, entry in enumerate(entries, 1)
    ]
    return claims.Paper(
        **{
            "name": "A paper",
            "settings": {
                "batch_size": 1,
                "max_epochs": 30,
                "patience": 2,
                "frozen_prefix": "live",
                "lr": 2e-5,
                "method": "full",
            },
            "encoders": ("bert_base_en_uncased",),
            "sizes": {
                "rte": {"train_and_validation": 2490, "test": 277},
                "mrpc": {"train_and_validation": 3668, "test": 408},
                "cola": {"train_and_validation": 8551, "test": 1043},
            },
            "varied": (),
            "rates": (),
            "claims": tuple(made),
            "notes": (),
            "origins": {"batch_size": "paper", "lr": "paper"},
            **changes,
        }
    )


def judge_one(claim, last, all_, task="rte", majorities=None, **changes):
    """The verdict on a claim, of scores of last 2 and of fine-tuning."""
    paper = make_paper(claim)
    return judge(
        paper,
        *(
            make_runs(
                paper,
                task,
                {**group, **changes},
                scores,
                majorities=majorities or {},
            )
            for group, scores in ((LAST, last), (ALL, all_))
        ),
    )["claim_1"]


def write_near(paper, middles, model=OTHER, **changes):
    """Three runs of last 2 and of everything around a middle, by task."""
    return [
        run
        for task, (first, second) in middles.items()
        for group, middle in ((LAST, first), (ALL, second))
        for run in make_runs(
            paper,
            task,
            {**group, "model": model},
            [middle + step for step in NEAR],
            **changes,
        )
    ]


def judge_near(claim, middles, **options):
    paper = make_paper(claim)
    [verdict] = judge(paper, write_near(paper, middles, **options)).values()
    return verdict


def collect(paper, *groups, published=None, **options):
    """The largest study of some records, without verdicts."""
    runs = runs_lib.runs_frame(
        [record for group in groups for record in group], paper.varied
    )
    return study.Study(
        runs.record.iloc[0].experiment,
        "A",
        approaches.label_runs(dict(runs_lib.studies(runs))["A"]),
        paper,
        published or {},
        **options,
    )


def frame(records, varied=()) -> pd.DataFrame:
    """See `run_frame.runs_frame`."""
    return runs_lib.runs_frame(records, varied)
