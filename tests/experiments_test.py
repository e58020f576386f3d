"""The grids of experiments/ stand for the runs that they should."""

import collections
import dataclasses
import glob
import json
import os
import re
import shlex

import pytest

from tests.support import commands, cs224n_runs, run_files, stacking_data
from tests.sweeps import fakes
from tf_transfer import experiment as experiment_lib
from tf_transfer.config import command_line
from tf_transfer.data import glue as glue_data
from tf_transfer.reports import claims, reading
from tf_transfer.reports.run_frame import CACHING
from tf_transfer.stacking import heads as stacking_heads
from tf_transfer.sweeps import grid as grid_lib, states
from tf_transfer.tweets import experiment as tweets


@pytest.mark.parametrize("name, runs", [("grid", 60), ("grid_mpnet", 9)])
def test_each_live_run_of_the_prefix_cache_has_two_cached_ones(
    name, runs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    path = os.path.join(commands.ROOT, f"experiments/prefix_cache/{name}.json")
    grid = grid_lib.read_grid(path)
    groups = collections.defaultdict(list)
    for run in grid_lib.expand(path, grid, str(tmp_path)):
        key = dict(run.directory.key)
        pass_of_run = key.pop("frozen_prefix"), key.pop("precision")
        for option in CACHING:
            key.pop(option, None)
        groups[json.dumps(key, sort_keys=True)].append(pass_of_run)
    assert 3 * len(groups) == runs
    for passes in groups.values():
        assert sorted(passes) == [
            ("cached", "float32"),
            ("cached", "mixed_bfloat16"),
            ("live", "float32"),
        ]


# === Grids ===

GRIDS = sorted(
    os.path.relpath(path, commands.ROOT)
    for path in glob.glob(os.path.join(commands.ROOT, "experiments/*/*.json"))
    if "experiment" in json.load(open(path))
)


# Elsa's grids differ in the encoder, and have most runs.
LARGE = ("bert_large", "further", "roberta_base", "roberta_large")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.slow]
            * name.endswith(tuple(f"/{x}.json" for x in LARGE)),
        )
        for name in GRIDS
    ],
)
def test_a_grid_stands_for_runs_that_could_be_started(
    name, tmp_path, monkeypatch
):
    path = os.path.join(commands.ROOT, name)
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    runs = {}  # of those that differ in rate and seed alone, one is named
    for run in grid_lib.expand(name, grid_lib.read_grid(path), str(tmp_path)):
        axes = {**run.axes, "lr": "", "seed": ""}
        runs[str(sorted(axes.items()))] = run
    for run in runs.values():
        assert run.directory.key


def key_of(run):
    """The key of a planned run, as the record of the finished run has it."""
    if run.settings.is_sparse:
        return run.directory.key
    return reading.complete_key(
        run.directory.key, dataclasses.asdict(run.settings)
    )


RATES = [
    (f"{prefix}{task}", task)
    for prefix in ("", "embedded_")
    for task in ("ner", "text", "pairs")
]


@pytest.mark.parametrize("name, task", RATES)
def test_every_head_of_stacking_has_the_same_rates_the_base_s_among_them(
    name, task, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    folder = os.path.join(commands.ROOT, "experiments")
    paper = claims.read_paper(claims.find_file(folder, "stacking"))
    path = os.path.join(folder, "stacking", f"{name}.json")
    tried = collections.defaultdict(set)
    for run in grid_lib.expand(name, grid_lib.read_grid(path), str(tmp_path)):
        settings = run.settings
        assert settings.task == task
        # Small studies have one size, and for pairs another rate of the head.
        is_usual = name.startswith("embedded") or (
            settings.head_lr == paper.settings["head_lr"]
            and settings.max_train_examples == 0
            and "phase_one_gap" not in run.axes
        )
        is_tuned = settings.adaptation != "stack_only"
        if is_usual and is_tuned and settings.lr in paper.rates:
            model = settings.head, settings.adaptation, settings.pairs
            tried[model].add((settings.lr, settings.seed))
    assert {head for head, *_ in tried} == set(stacking_heads.HEADS[task])
    bases = {pairs for head, _, pairs in tried if head == "dense"}
    assert bases == ({"cross", "sbert"} if task == "pairs" else {"cross"})
    [runs] = {frozenset(runs) for runs in tried.values()}
    rates = {rate for rate, _ in runs}
    assert {seed for _, seed in runs} == {0, 1, 2}
    if name.startswith("embedded"):
        assert rates == ({2e-5} if task == "pairs" else {2e-5, 5e-5})
    else:
        assert rates == set(paper.rates)


def test_few_sentences_train_for_as_many_steps_as_more(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    path = os.path.join(commands.ROOT, "experiments/stacking/limited.json")
    steps = collections.defaultdict(set)
    grid = grid_lib.read_grid(path)
    for run in grid_lib.expand("limited", grid, str(tmp_path)):
        settings = run.settings
        size = settings.max_train_examples
        an_epoch = -(-size // settings.batch_size)
        for phase in settings.phases:
            epochs = settings.max_epochs
            if phase == "head":
                epochs = settings.phase_one_epochs
            steps[phase, settings.head].add((size, an_epoch * epochs))
    sizes = {size for size, _ in steps["all", "dense"]}
    assert {300, 1000, 3000} <= sizes
    for (phase, _), counts in steps.items():
        assert {size for size, _ in counts} == sizes
        expected = {"head": 93, "all": 285}[phase] * 32 / settings.batch_size
        for _, count in counts:
            # Of 300 sentences the last batch is short.
            assert count == pytest.approx(expected, rel=0.1)


def count_filling(row, keys, paper):
    """How many settings are those of a published row, and else the paper's."""
    row_settings = dict(row["settings"])
    if row_settings.get("load_blocks") == "last 2":
        row_settings["load_blocks"] = "11-12"
    wanted = {**paper.settings, **row_settings}
    return sum(
        set(row_settings) <= set(key)
        and all(
            claims.is_same(key[n], v) for n, v in wanted.items() if n in key
        )
        for key in keys
    )


def test_every_row_that_hart_publishes_is_in_his_grid(tmp_path, monkeypatch):
    """Ten runs of each with an encoder, one in ten folds of the others."""
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    folder = os.path.join(commands.ROOT, "experiments")
    paper = claims.read_paper(claims.find_file(folder, "tweets"))
    path = os.path.join(folder, "tweets", "grid.json")
    keys = [
        key_of(run)
        for run in grid_lib.expand(
            path, grid_lib.read_grid(path), str(tmp_path)
        )
    ]
    published = claims.read_published(folder, "tweets")
    for row in published["table_1"] + published["table_2"]:
        runs = 1 if "features" in row["settings"] else 10
        assert count_filling(row, keys, paper) == runs, row["settings"]


SHARED_FLAGS = "flags/tweets/hart.flags"  # that the other files include


def test_every_row_that_hart_publishes_has_a_file_of_flags(monkeypatch):
    monkeypatch.chdir(commands.ROOT)
    paper = claims.read_paper("experiments/tweets/claims.toml")
    keys = []
    for path in {*glob.glob("flags/tweets/*.flags")} - {SHARED_FLAGS}:
        settings = command_line.parse(
            tweets.Settings, [f"--flagfile={path}"]
        ).resolve()
        assert settings.test_ids == "tweets/hart_test_ids.txt"
        assert settings.row_order == "tweets/hart_order.txt"
        keys.append(settings.hashed())
    published = claims.read_published("experiments", "tweets")
    for row in published["table_1"] + published["table_2"]:
        assert count_filling(row, keys, paper) == 1, row["settings"]


@pytest.mark.parametrize("paper", ["glue", "multitask", "stacking", "tweets"])
def test_the_command_of_a_flag_file_finds_its_run_finished_after_the_sweep(
    paper, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    swept = {
        run.identity: run
        for name in GRIDS
        if name.startswith(f"experiments/{paper}/")
        for run in grid_lib.expand_all(
            os.path.join(commands.ROOT, name), "runs"
        )
    }
    experiment_class = experiment_lib.load(paper)
    for path in sorted(glob.glob(f"flags/{paper}/*.flags")):
        with open(path) as file:
            command = re.search(r"^#   python -m \S+ (.*)$", file.read(), re.M)
        if command is None:  # a file that others include
            continue
        words = shlex.split(command[1])
        settings = command_line.parse(experiment_class.Settings, words)
        own = grid_lib.Planned(experiment_class(settings), tuple(words), {})
        run = swept.get(own.identity)
        assert run is not None, path
        fakes.finish(
            run,
            phases=[run_files.phase(run.settings.max_epochs)],
            stop_reason="max_epochs",
        )
        assert states.RunStates("runs", [own]).result(own), path


def _write_data(folder):
    """Files such as the grids ask for, with other content; and `flags`."""
    os.symlink(os.path.join(commands.ROOT, "flags"), "flags")
    os.symlink(glue_data.SAMPLE, "glue")
    _write_tweets(folder / "tweets")
    for name in ("cs224n", "conll2003", "yahoo_answers"):
        (folder / name).mkdir()
    stacking_data.write_conll(folder / "conll2003")
    stacking_data.write_yahoo(folder / "yahoo_answers")
    cs224n_runs.write_all(folder / "cs224n")


def _write_tweets(folder):
    """Files such as the grids on tweets ask for, with other content."""
    folder.mkdir()
    rows = [f"{n},text {n},{n % 2}" for n in range(40)]
    (folder / "train.csv").write_text("id,text,target\n" + "\n".join(rows))
    (folder / "hart_order.txt").write_text("\n".join(map(str, range(40))))
    (folder / "hart_test_ids.txt").write_text("1\n2\n3\n4\n")


def test_the_paper_s_grid_is_the_paper_s_settings(tmp_path, monkeypatch):
    """Section 3.2: eight tasks, five approaches, both rates; and a seed."""
    monkeypatch.chdir(commands.ROOT)
    name = "experiments/glue/grid.json"
    runs = grid_lib.expand(name, grid_lib.read_grid(name), str(tmp_path))
    assert len(runs) == 8 * 5 * 2 * 3
    assert len({run.settings.task for run in runs}) == 8
    assert {run.settings.lr for run in runs} == {2e-5, 1e-3}
    for run in runs:
        settings = run.settings
        assert settings.model == "bert_base_en_uncased"
        assert (settings.batch_size, settings.max_epochs) == (1, 30)
        assert (settings.validation_fraction, settings.patience) == (0.1, 2)
        assert settings.frozen_prefix == "live"


def test_the_grid_of_methods_gives_each_method_equally_many_rates(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _write_data(tmp_path)
    name = os.path.join(commands.ROOT, "experiments/methods/embedded.json")
    grid = grid_lib.read_grid(name)
    tried = collections.defaultdict(list)
    for run in grid_lib.expand(name, grid, str(tmp_path)):
        settings = run.settings
        where = settings.task, settings.approach, settings.runs_cached
        tried[where].append((settings.lr, settings.seed))
    everywhere = {"fine_tuning", "all_lora8", "all_bias", "all_norm"}
    last_2 = {"last_2", "last_2_lora8", "last_2_bias", "last_2_norm"}
    few_texts = everywhere | last_2 | {"last_4", "last_1", "head"}
    expected = {"sst2": few_texts, "stsb": few_texts}
    expected["cola"] = everywhere | last_2
    for task, approaches in expected.items():
        assert {one for name, one, _ in tried if name == task} == approaches
    for (_, approach, cached), runs in tried.items():
        assert cached == (approach not in everywhere)
        assert len(runs) == 9 == len(set(runs))
        assert len({lr for lr, _ in runs}) == 3
