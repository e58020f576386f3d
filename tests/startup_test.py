"""Commands that train nothing load no large library, so they answer at once.

All run in one process, in this order: the first that loads one is named.
"""

import json
import shutil

from tests import cache_test
from tests.support import commands, cs224n_runs, run_files, stacking_data
from tf_transfer.data import glue as glue_data
from tf_transfer.feature_cache import store as store_lib

FINISHED = {
    "task": "rte",
    "approach": "fine_tuning",
    "metric": "accuracy",
    "validation": {"accuracy": 0.5},
    "test": {"accuracy": 0.5},
    "best_epoch": 1,
    "train_seconds": 1.0,
    "seconds_per_epoch": None,
    "trainable_parameters": 1,
    "total_parameters": 2,
    "phases": [run_files.phase(1)],
}
PROGRAM = """
import contextlib
import functools
import importlib
import io
import json
import os
import sys

from tests.support import commands, forks
from tests.sweeps import fakes
from tf_transfer import experiment
from tf_transfer.__main__ import settings_of
from tf_transfer.sweeps import grid as grid_lib

LARGE = {*forks.LARGE, "torch"}

def call(module, *words):
    command = importlib.import_module(f"tf_transfer.{module}")
    main = getattr(command, "main", None)
    if module in experiment.EXPERIMENTS:
        cls = experiment.load(module)
        main = main or functools.partial(commands.execute, cls)
    if module in ("report", "sweep"):  # take an argument besides their flags
        main = functools.partial(main, [module, *words[:1]])
        words = words[1:]
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = commands.call(main, settings_of(module), *words)
    return code, output.getvalue()

folder = sys.argv[1]
grid, out = os.path.join(folder, "grid.json"), os.path.join(folder, "runs")
for run in grid_lib.expand(grid, grid_lib.read_grid(grid), out):
    fakes.finish(run, **json.loads(sys.argv[2]))
for words in json.load(open(os.path.join(folder, "commands.json"))):
    code, output = call(*words)
    loaded = sorted(LARGE & set(sys.modules))
    print("RESULT" + json.dumps([words, code, output, loaded]))
"""


def write_broken_files(folder):
    """Files whose last line is wrong: command, what is its --data, file."""
    shutil.copytree(glue_data.SAMPLE, folder / "glue")
    for name in ("cs224n", "conll"):
        (folder / name).mkdir()
    cs224n_runs.write_all(folder / "cs224n")
    stacking_data.write_conll(folder / "conll")
    (folder / "mine.csv").write_text("text,target\ngood,1\nbad,0\n")
    for words, data, name in (
        ("glue --task=rte", "glue", "glue/RTE/dev.tsv"),
        ("multitask", "cs224n", "cs224n/sts-dev.csv"),
        ("stacking --task=ner", "conll", "conll/eng.testb"),
        ("tweets", "mine.csv", "mine.csv"),
    ):
        path = folder / name
        path.write_text(path.read_text().rstrip("\n") + "\nbroken\n")
        yield words, folder / data, path


def test_commands_that_train_nothing_load_no_large_library(tmp_path):
    grid = {
        "experiment": "glue",
        "flags": {"data": "sample", "frozen_prefix": "cached"},
        "axes": {
            "model": ["tiny", "bert_base_en_uncased"],
            "trainable_layers": ["all", 1],
        },
    }
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    wrong = {**grid, "experiment": "wrong"}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    cache_test.entry(store_lib.Store(f"{tmp_path}/cache"), "some")
    sweep, out = ["sweep", f"{tmp_path}/grid.json"], f"--out={tmp_path}/runs"
    cache = ["cache", f"--cache_dir={tmp_path}/cache"]
    glue = ["glue", "--data=sample"]
    expected = [
        (["sweep"], 2, "Give one grid file"),
        (["sweep", f"{tmp_path}/wrong.json"], 2, "freezing, glue"),
        ([*sweep, out, "--only=seed=7"], 2, "no run of"),
        ([*sweep, out, "--dry_run"], 0, "4 runs, 0 of them pending"),
        (cache, 0, "float16"),
        ([*cache, "--check"], 0, "3 texts"),
        (["predict"], 2, "--run"),
        (["report", "nowhere"], 2, "no such folder"),
        ([*glue, out], 0, "Already done"),
        ([*glue, out, "--lr=0"], 2, "--lr=0"),
        ([*glue, out, "--task=stsb", "--data=nowhere"], 2, "no such folder"),
        (["freezing", "--lr=0"], 2, "--lr=0"),
        (["multitask", "--data=nowhere"], 2, "nowhere"),
        (["stacking", "--task=ner", "--data=nowhere"], 2, "nowhere"),
        (["tweets", "--model=tiny"], 2, "--data"),
    ]
    for words, data, path in write_broken_files(tmp_path / "broken"):
        line = len(path.read_text().splitlines())
        words = [*words.split(), "--model=tiny", f"--data={data}"]
        expected.append((words, 2, f"{path}, line {line}"))
    mine = tmp_path / "mine.csv"
    mine.write_text("text;label\ngood;a\nbad;b\n")
    columns = [f"--data={mine}", "--text_column=text", "--label_column=lable"]
    for words in (
        ["train", "--max_epochs=1"],
        ["search", "--budget=30s"],
        ["freezing"],
        ["glue"],
    ):
        words += ["--model=tiny", out, *columns]
        expected.append((words, 2, "Is 'label' meant"))
    (tmp_path / "commands.json").write_text(
        json.dumps([words for words, _, _ in expected])
    )
    results = commands.results_of(PROGRAM, str(tmp_path), json.dumps(FINISHED))
    for (words, code, text), result in zip(expected, results, strict=True):
        assert result[:2] == [words, code], result
        assert text in result[2]
        assert not result[3], words
