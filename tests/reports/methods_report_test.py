"""The study of methods: its approaches, claims and grids."""

import dataclasses
import itertools
import os

import pytest

from tests.support import commands
from tf_transfer.methods import experiment as methods
from tf_transfer.reports import (
    advice,
    claims,
    reading,
    runs as runs_lib,
    study as study_lib,
)
from tf_transfer.sweeps import grid as grid_lib

FOLDER = os.path.join(commands.ROOT, "experiments")
# Score, seconds and parameters of each; full training everywhere first.
MADE_UP = {
    ("full", "all", "live"): (90.0, 100.0, 22_000_000),
    ("lora", "all", "live"): (89.5, 80.0, 74_000),
    ("lora", "2", "cached"): (88.0, 10.0, 25_000),
    ("bias", "2", "cached"): (80.0, 12.0, 9_000),
}


def record(method, layers, prefix, seed):
    score, seconds, parameters = MADE_UP[method, layers, prefix]
    settings = methods.Settings(
        method=method,
        trainable_layers=layers,
        frozen_prefix=prefix,
        task="sst2",
        model="minilm",
        seed=seed,
    ).resolve()
    score = (score + 0.1 * seed) / 100
    cached = prefix == "cached"
    times = {
        "processor": "x",
        "devices": ["CPU"],
        "threads": 2,
        "concurrent_runs": 1,
        "replicas": 1,
    }
    return {
        "path": f"{settings.approach}/{prefix}/{seed}",
        "experiment": "methods",
        "task": "sst2",
        "metric": "accuracy",
        "approach": settings.approach,
        "cached": cached,
        "lr": settings.lr,
        "seed": seed,
        "key": {
            "module": "methods",
            **reading.complete_key(
                settings.hashed(), dataclasses.asdict(settings)
            ),
            "model_identity": "m",
            "data_identity": "d",
        },
        "max_epochs": 20,
        "model": "minilm",
        "data": "x",
        "parts": {},
        "blocks": 6,
        "timing_environment": {**times, "mixed": False},
        "commit": None,
        "versions": {},
        "sizes": {"train": 900, "validation": 100, "test": 100},
        "epochs": [
            {"validation": score * share, "test": score, "seconds": at}
            for share, at in ((0.95, seconds / 2), (1.0, seconds))
        ],
        "passes": [],
        "phases": [],
        "curve": [],
        "folds": None,
        "validation": score,
        "test": score,
        "metrics": {"accuracy": score},
        "majorities": {"accuracy": 0.5},
        "one_answer": False,
        "epochs_run": 2,
        "started": 100.0 * seed,
        "best_epoch": 2,
        "stop_reason": "patience",
        "warnings": [],
        "seconds": seconds,
        "seconds_per_epoch": seconds / 2,
        "prefix_seconds": 1.0 if cached else None,
        "prefix_build_seconds": 5.0 if cached else None,
        "checkpoint_bytes": 12 * parameters,
        "trainable_parameters": parameters,
        "total_parameters": 22_700_000,
        "memory": 2**30,
    }


@pytest.fixture(scope="module")
def study():
    records = [
        record(*which, seed)
        for which, seed in itertools.product(MADE_UP, (0, 1, 2))
    ]
    summary = {"runs": records, "made": {}}
    [found] = study_lib.collect(summary, FOLDER)
    return found


def test_all_methods_are_in_one_study_against_training_everything(study):
    assert {row.name for row in study.rows} == {
        "everything",
        "all lora8",
        "last 2 lora8 (cached)",
        "last 2 bias (cached)",
    }
    assert [row.is_reference for row in study.rows].count(True) == 1
    gains = {row.name: row.difference.value for row in study.rows}
    assert gains["all lora8"] == pytest.approx(-0.5)


def test_another_alpha_is_another_row_and_never_a_choice():
    """Else LoRA would have the best of two, and training everything of one."""
    records = [
        record(*which, seed)
        for which, seed in itertools.product(MADE_UP, (0, 1, 2))
    ]
    for seed in (0, 1, 2):
        better = record("lora", "all", "live", seed)
        better |= {"path": f"alpha/{seed}", "test": 0.99, "validation": 0.99}
        better["key"]["lora_alpha"] = 64.0
        records.append(better)
    runs = advice.label_runs(runs_lib.runs_frame(records))
    found = advice.list_approaches(runs)
    named = [x.name for x in found if x.first.approach == "all_lora8"]
    assert named == ["all lora8, lora_alpha 16", "all lora8, lora_alpha 64"]


@pytest.mark.parametrize(
    "approach, words",
    [
        ("fine_tuning_keep4", "everything, keep4"),
        ("all_lora8_keep4", "all lora8 keep4"),
        ("head", "the output layer alone"),
    ],
)
def test_shortened_encoders_and_probes_have_names(approach, words):
    assert advice.name_approach(approach) == words


def test_the_claims_ask_for_what_the_grids_have_and_their_settings_are_ours():
    paper = claims.read(claims.find_file(FOLDER, "methods"))
    ours = {}
    for method in ("lora", "full"):
        settings = methods.Settings(method=method).resolve()
        ours |= dataclasses.asdict(settings)
    for name, value in paper.settings.items():
        if name != "lr":
            assert ours[name] == value, name
    known = {*runs_lib.VARIED, *paper.varied}
    for claim in paper.claims:
        for group in (claim.both, *claim.first, *claim.second):
            assert set(group) <= known, claim.id
        assert claim.direction or claim.kind == "equal", claim.id


@pytest.mark.parametrize(
    "name, blocks",
    [
        ("embedded", [4, 2, 1]),
        ("embedded_tweets", [4, 2, 1]),
        ("embedded_cola", [2]),
    ],
)
def test_a_grid_gives_each_method_equally_many_rates(name, blocks, tmp_path):
    path = os.path.join(FOLDER, "methods", f"{name}.json")
    grid = grid_lib.read(path)
    grid["flags"] = {"model": "minilm", "data": "sample"}
    rates = {}
    for run in grid_lib.expand(path, grid, str(tmp_path)):
        settings = run.settings
        what = settings.approach, settings.head, settings.runs_cached
        where = settings.task, *what
        rates.setdefault(where, []).append((settings.lr, settings.seed))
    # Everywhere, and some blocks from the cache; where there are more than two,
    # full in the last 2 live, too, and two probes.
    others = 3 * int(len(blocks) > 1)
    tasks = {task for task, *_ in rates}
    assert len(rates) == len(tasks) * (4 * (1 + len(blocks)) + others)
    for (_, approach, *_), tried in rates.items():
        # Everything, which all else is held against, has more seeds.
        seeds = 6 if others and approach == "fine_tuning" else 3
        assert len(tried) == 4 * seeds == len(set(tried))
        assert len({lr for lr, _ in tried}) == 4
